//! Windows. Only type-checked: no test has run there.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    net::{SocketAddr, TcpListener},
    os::windows::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU32, AtomicU64},
    time::{Duration, Instant},
};

use crate::shared_page::Ring;

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

/// Time since the first call: the performance counter of Windows counts suspension.
pub fn boot_time() -> Duration {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// Called before memory is shared, which is refused.
pub fn allocate(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// The standard library has no call for shared memory.
pub const SHARES_MEMORY: bool = false;

/// There are no mappings, see [`SHARES_MEMORY`].
#[derive(Debug)]
pub enum Mapping {}

impl Mapping {
    pub fn new(_: &File, _: usize) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "processes cannot share memory through this library on Windows",
        ))
    }

    pub fn words(&self) -> &[AtomicU64] {
        match *self {}
    }

    pub fn ring(&self, _: usize) -> &Ring {
        match *self {}
    }
}

/// There are no mappings, see [`Mapping`].
#[derive(Debug)]
pub enum WriteMapping {}

impl WriteMapping {
    pub fn write(&mut self, _: &[u8], _: usize) {
        match *self {}
    }
}

/// Callers write as usual.
pub fn map_for_writing(_: &File, _: u64, _: usize) -> io::Result<Option<WriteMapping>> {
    Ok(None)
}

pub fn wait_for_change(_: &AtomicU32, _: u32, time: Duration) {
    std::thread::sleep(time.min(crate::Bell::INTERVAL));
}

pub fn wake(_: &AtomicU32, _: u32) -> usize {
    0
}

pub fn remote_file_system(_: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Unknown: every process counts as running.
pub fn process_start(_: u32) -> Option<u64> {
    Some(0)
}

pub fn process_namespace() -> u64 {
    0
}

pub fn boot_id() -> String {
    String::new()
}

/// An option of Windows lets another process take over the address.
pub const SHARES_ADDRESSES: bool = false;

pub fn listen_with_others(_: SocketAddr, _: i32) -> io::Result<TcpListener> {
    Err(io::ErrorKind::Unsupported.into())
}
