//! Calls that differ between operating systems. Only this module and the crate `cli` contain code for one of them;
//! `cargo xtask tidy` checks this. `unix` is tested on Linux; `windows` only type-checks.

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    path::Path,
};

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
pub(crate) mod system;

pub(crate) use system::{free_bytes, name_count, read_at, write_at};

/// Makes `options` create files that only their owner can access. Existing files keep their permissions. On Windows
/// a file inherits the permissions of its folder.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    system::private_file(options)
}

/// Options that create folders that only their owner can access. On Windows a folder inherits the permissions of its
/// parent.
pub fn private_folder() -> DirBuilder {
    system::private_folder()
}

/// Syncs a folder of the operating system: makes its names durable. Does nothing on Windows.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    system::sync_folder(folder)
}

/// Bytes that a file occupies on the disk; on Windows its length.
pub fn stored_bytes(metadata: &Metadata) -> u64 {
    system::stored_bytes(metadata)
}

/// The kind of a network file system, or of one that a program provides, if `path` is on one; only Linux and macOS
/// say so. Locks and mapped memory need not work there as on a local disk.
pub fn remote_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    system::remote_file_system(path)
}
