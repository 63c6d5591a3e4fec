//! How a log in a directory is opened.

use std::{sync::Arc, time::Duration};

use isomer_vfs::{Disk, RealDisk};

/// How a log in a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryMode {
    /// For reading and appending. A log that does not exist is created.
    Shared,
    /// For reading. Nothing is written, so that it works for a user without rights to write and on a medium that cannot
    /// be written. Calls that only look take system calls, and waiting is looking every 1 to 20 ms.
    ReadOnly,
}

/// Settings of a process that opens a log in a directory.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// How it is opened.
    pub mode: DirectoryMode,
    /// The grace period of a log that is created; an existing one keeps its own.
    pub grace: Duration,
    /// A segment that is larger is followed by another one.
    pub segment_bytes: u64,
    /// How long an append waits for that of another process, which may be stopped.
    pub patience: Duration,
    /// What this process is, for people: see [`LogProcess`](crate::LogProcess). The first 16 bytes count.
    pub kind: String,
    /// The file system; locks and shared memory are always those of the operating system.
    pub disk: Arc<dyn Disk>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            mode: DirectoryMode::Shared,
            grace: Duration::from_secs(60),
            segment_bytes: 64 << 20,
            patience: Duration::from_secs(5),
            kind: "library".into(),
            disk: Arc::new(RealDisk),
        }
    }
}
