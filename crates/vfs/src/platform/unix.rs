//! Linux, macOS and other Unix systems.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64},
    time::Duration,
};

use crate::shared_page::Ring;
use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
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

/// Time since the machine started, suspension included. Linux has a separate clock for that; the monotonic clock of
/// macOS counts suspension too. On other systems it may not.
pub fn boot_time() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Gives all of the first `bytes` of `file` a place on the disk, where the file system can (Linux), and changes none.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn allocate(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// A file in memory, shared with other processes.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, and is reached as atomics, or through `WriteMapping`.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

#[allow(unsafe_code)]
impl Mapping {
    /// Maps the first `bytes` of `file`, a multiple of 8, for reading and writing.
    pub fn new(file: &File, bytes: usize) -> io::Result<Self> {
        Self::part(file, 0, bytes)
    }

    /// Maps the `bytes` at `offset`, a multiple of the processor's page.
    fn part(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an unused address, so that no memory of the process changes.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.start.cast::<AtomicU64>();
        // SAFETY: the mapping is aligned to a page, is that long, lives as long as `self`, and every value is valid.
        // Other processes change it through atomics only.
        unsafe { std::slice::from_raw_parts(words.as_ptr(), self.bytes / 8) }
    }

    /// The word `at` as the two halves that a bell is made of. The caller reaches it as a bell only.
    pub fn ring(&self, at: usize) -> &Ring {
        assert!(at < self.bytes / 8, "a bell is in the page");
        // SAFETY: it is within the mapping and aligned to 8 bytes; otherwise as above.
        unsafe { self.start.cast::<Ring>().add(at).as_ref() }
    }
}

#[allow(unsafe_code)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from a mapping that is dropped. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A part of a file in memory that is written to and never read.
#[derive(Debug)]
pub struct WriteMapping {
    mapping: Mapping,
    /// Where the part begins in the mapping, which begins at a page.
    start: usize,
}

impl WriteMapping {
    /// Copies `bytes` to the place `at` of the part.
    #[allow(unsafe_code)]
    pub fn write(&mut self, bytes: &[u8], at: usize) {
        let start = self.start.checked_add(at);
        let end = start.and_then(|start| start.checked_add(bytes.len()));
        let (Some(start), Some(end)) = (start, end) else {
            panic!("the bytes are within memory");
        };
        assert!(
            end <= self.mapping.bytes,
            "the bytes are within the mapping"
        );
        // SAFETY: the target is within the mapping, which lives as long as `self`, and only this call reaches it, with
        // `self` borrowed exclusively; so `bytes` are elsewhere. Other processes, and other mappings of this file, are
        // other memory as far as this program knows, and read any bytes.
        unsafe {
            let target = self.mapping.start.add(start);
            target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }
}

/// File systems that overwrite in place, by the number that `statfs` returns: ext2 to ext4, and tmpfs. A store to a
/// place that is allocated cannot fail there for want of space. One that copies on write (Btrfs, ZFS, XFS after a
/// reflink) may need space for any store, and the system ends a process whose store finds none.
#[cfg(any(target_os = "linux", target_os = "android"))]
const OVERWRITES: [u64; 2] = [0xef53, 0x0102_1994];

/// A multiple of the processor's page on each of them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LARGEST_PAGE_BYTES: u64 = 64 << 10;

/// Maps the `bytes` at `offset` of `file`, which is that long, and gives each of them a place on the disk. `None` if a
/// store to them could fail later.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn map_for_writing(file: &File, offset: u64, bytes: usize) -> io::Result<Option<WriteMapping>> {
    use rustix::{
        fs::{FallocateFlags, fallocate, fstatfs},
        io::Errno,
    };
    let kind = fstatfs(file)?.f_type as u64 & 0xffff_ffff;
    if !OVERWRITES.contains(&kind) || bytes == 0 {
        return Ok(None);
    }
    match fallocate(file, FallocateFlags::empty(), offset, bytes as u64) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let start = (offset % LARGEST_PAGE_BYTES) as usize;
    let mapping = Mapping::part(file, offset - start as u64, start + bytes)?;
    Ok(Some(WriteMapping { mapping, start }))
}

/// Only of Linux it is known that a sync of the file covers what was written to its mapping.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn map_for_writing(_: &File, _: u64, _: usize) -> io::Result<Option<WriteMapping>> {
    Ok(None)
}

/// Waits until `word` differs from `seen`, or for `time`. It may wake spuriously.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn wait_for_change(word: &AtomicU32, seen: u32, time: Duration) {
    use rustix::thread::futex;
    let timeout = futex::Timespec::try_from(time).ok();
    // Interruptions, time-outs and changed words are all reasons to look again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, timeout.as_ref());
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn wait_for_change(_: &AtomicU32, _: u32, time: Duration) {
    std::thread::sleep(time.min(crate::Bell::INTERVAL));
}

/// Wakes at most `count` of the threads that wait for a change of the word; returns how many.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    use rustix::thread::futex;
    let count = count.min(i32::MAX as u32);
    futex::wake(word, futex::Flags::empty(), count).unwrap_or(0)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn wake(_: &AtomicU32, _: u32) -> usize {
    0
}

/// File systems of Linux whose locks or mapped memory need not agree between the machines, or processes, that have them
/// mounted, by the number that `statfs` returns.
#[cfg(any(target_os = "linux", target_os = "android"))]
const REMOTE: [(u64, &str); 17] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "vboxsf"),
];

#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn remote_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(remote_kind(rustix::fs::statfs(path)?.f_type as u64))
}

/// The name of a remote file system with the number that `statfs` returns.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn remote_kind(number: u64) -> Option<&'static str> {
    // It is signed on some processors.
    let number = number & 0xffff_ffff;
    let found = REMOTE.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

#[cfg(target_vendor = "apple")]
pub fn remote_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    /// `MNT_LOCAL`: the file system is stored on this machine.
    const LOCAL: u32 = 0x1000;
    let is_local = rustix::fs::statfs(path)?.f_flags & LOCAL != 0;
    Ok((!is_local).then_some("a network file system"))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub fn remote_file_system(_: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Whether processes can share memory through this library.
pub const SHARES_MEMORY: bool = true;

/// When the process `pid` started, in ticks since the machine did; `None` if there is none. Read from `/proc`, so that
/// it is 0 for every running process where that does not exist.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn process_start(pid: u32) -> Option<u64> {
    let text = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(_) if Path::new("/proc/self/stat").exists() => return None,
        Err(_) => return Some(0),
    };
    // The name of the program is in parentheses, and may contain spaces: the 22nd field is the 20th after it.
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn process_start(pid: u32) -> Option<u64> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    match rustix::process::test_kill_process(pid) {
        Err(rustix::io::Errno::SRCH) => None,
        _ => Some(0),
    }
}

/// Identifies the numbering of processes that this process sees: a container has its own.
pub fn process_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Changes when the machine starts again; empty if unknown.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Whether the system distributes the connections of an address among the processes that listen on it.
pub const SHARES_ADDRESSES: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
pub fn listen_with_others(address: SocketAddr, waiting: i32) -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, waiting)?;
    Ok(socket.into())
}

#[cfg(not(target_os = "linux"))]
pub fn listen_with_others(_: SocketAddr, _: i32) -> io::Result<TcpListener> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    /// The numbers are those of `statfs(2)`.
    #[test]
    fn remote_file_systems_are_recognised() {
        for (number, name) in [
            (0x6969, Some("NFS")),
            (0x6573_5546, Some("FUSE")),
            (0xffff_ffff_ff53_4d42, Some("CIFS")),
            (0xef53, None),      // ext4
            (0x0102_1994, None), // tmpfs
        ] {
            assert_eq!(remote_kind(number), name);
        }
        assert_eq!(remote_file_system(Path::new("/proc")).ok(), Some(None));
    }
}
