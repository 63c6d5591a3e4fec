//! Linux, macOS and other Unix systems.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    time::Duration,
};

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};

pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

pub fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub fn stored_bytes(metadata: &Metadata) -> u64 {
    // `st_blocks` counts units of 512 bytes, independent of the file system's block size.
    metadata.blocks() * 512
}

pub fn free_bytes(path: &Path) -> io::Result<Option<u64>> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
}

pub fn name_count(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.nlink())
}

pub fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(out, offset)
}

pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

pub fn raise_open_files(wanted: u64) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = maximum.map_or(wanted, |most| wanted.min(most));
    if current.is_some_and(|current| current < raised) {
        let more = Rlimit {
            current: Some(raised),
            maximum,
        };
        // If this is refused, the limit stays as it is.
        let _ = setrlimit(Resource::Nofile, more);
    }
    getrlimit(Resource::Nofile).current
}

pub fn cpu_time() -> Option<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

/// Only Linux has a priority per thread: elsewhere this call would slow down the whole process.
#[cfg(target_os = "linux")]
pub fn lower_thread_priority(by: i32) {
    use rustix::process::{getpriority_process, setpriority_process};
    // On failure the thread continues with its priority.
    let _ = getpriority_process(None).and_then(|now| setpriority_process(None, now + by));
}

#[cfg(not(target_os = "linux"))]
pub fn lower_thread_priority(_: i32) {}
