//! Windows. Only type-checked: no test has run there.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::windows::fs::FileExt,
    path::Path,
    time::Duration,
};

pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub fn private_folder() -> DirBuilder {
    DirBuilder::new()
}

/// Windows has no call that syncs a folder, and refuses to open one as a file. NTFS writes changes of names to its own
/// log, in order.
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// The standard library does not report allocated bytes here.
pub fn stored_bytes(metadata: &Metadata) -> u64 {
    metadata.len()
}

/// Unknown: the standard library has no call for it.
pub fn free_bytes(_: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

pub fn name_count(file: &File) -> io::Result<u64> {
    Ok(winapi_util::file::information(file)?.number_of_links())
}

/// Unlike on Unix it moves the file's cursor, which this crate never uses.
pub fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(out, offset)
}

/// As [`read_at`]; Windows fills a gap after the end with zeros, too.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// A process may open as many files as its memory allows.
pub fn raise_open_files(_: u64) -> Option<u64> {
    None
}

/// Unknown: the standard library has no call for it.
pub fn cpu_time() -> Option<Duration> {
    None
}

/// Windows has priorities per thread, but the standard library has no call for them.
pub fn lower_thread_priority(_: i32) {}
