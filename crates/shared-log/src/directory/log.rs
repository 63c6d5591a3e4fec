//! The shared log in a directory.

use std::{path::Path, sync::atomic::AtomicBool, time::Duration};

use isomer_vfs::Disk;

use super::{
    appending::Appending,
    file_system::{check_file_system, check_system, io_error},
    following::Following,
    frame::MAX_RECORD_BYTES,
    options::{DirectoryMode, DirectoryOptions},
    processes::LogProcess,
};
use crate::{Append, LogError, LogId, Position, SharedLog};

/// A shared log in a directory. Each process that uses it opens it once, and any number of processes do.
///
/// A record is visible to all processes when its append has returned, and survives the end of any process from then on;
/// it survives a loss of power when [`SharedLog::sync`] has returned. [`SharedLog::end`] reads shared memory, without a
/// system call.
#[derive(Debug)]
pub struct DirectoryLog {
    id: LogId,
    grace: Duration,
    access: Access,
}

#[derive(Debug)]
enum Access {
    Shared(Box<Appending>),
    ReadOnly(Following),
}

impl DirectoryLog {
    /// Refuses a folder, which exists, where no process could open a log: on a network file system, and on a system
    /// without shared memory. Nothing is opened or written.
    ///
    /// # Errors
    /// `Refused`, with the reason.
    pub fn check_folder(disk: &dyn Disk, folder: &Path) -> Result<(), LogError> {
        check_system()?;
        check_file_system(disk, folder).map_err(LogError::Refused)
    }

    /// Opens the log in `folder`.
    ///
    /// # Errors
    /// `Refused` on a network file system, for another version of the format, where memory cannot be shared, without
    /// access rights, and in read-only mode if the log does not exist. `Unavailable` if another process does not finish
    /// opening it in time. `Damaged` if a file is missing or does not match its checksum.
    pub fn open(folder: &Path, options: &DirectoryOptions) -> Result<Self, LogError> {
        let disk = &options.disk;
        if options.mode == DirectoryMode::Shared {
            let made = disk.make_folder(folder);
            made.map_err(|error| io_error(folder, &error))?;
        }
        check_file_system(&**disk, folder).map_err(LogError::Refused)?;
        let (manifest, access) = match options.mode {
            DirectoryMode::Shared => {
                let (manifest, appending) = Appending::open(folder, options)?;
                (manifest, Access::Shared(Box::new(appending)))
            }
            DirectoryMode::ReadOnly => {
                let following = Following::open(folder, options)?;
                (following.manifest()?, Access::ReadOnly(following))
            }
        };
        Ok(Self {
            id: manifest.id,
            grace: manifest.grace,
            access,
        })
    }

    /// The processes that have the log open for appending, as far as they can be seen from here, at most 1,015; none in
    /// read-only mode. A process that has it open twice is there twice. For people: nothing depends on it. Costs a look
    /// into `/proc` for each process.
    pub fn processes(&self) -> Vec<LogProcess> {
        match &self.access {
            Access::Shared(appending) => appending.processes(),
            Access::ReadOnly(_) => Vec::new(),
        }
    }

    /// Says, for [`DirectoryLog::processes`], that the user of this log has applied the records below `position`. One
    /// store to shared memory; does nothing in read-only mode.
    pub fn note_applied(&self, position: Position) {
        if let Access::Shared(appending) = &self.access {
            appending.note_applied(position);
        }
    }

    /// A number that users of the log raise when they have made another file durable that all processes should read: a
    /// manifest. One load of shared memory.
    ///
    /// It does not go back while any process has the log open, and the first process that opens the log sets it to 0:
    /// after opening, read the manifest once, and then whenever this number is above that of the manifest that was read
    /// last. A process that was killed between its manifest and [`DirectoryLog::raise_manifest_number`] did not raise
    /// it: its successor does. 0 in read-only mode, and if the page is damaged.
    pub fn manifest_number(&self) -> u64 {
        match &self.access {
            Access::Shared(appending) => appending.manifest_number(),
            Access::ReadOnly(_) => 0,
        }
    }

    /// Raises that number to at least `number`, and wakes those that wait for it in all processes.
    ///
    /// # Errors
    /// `Refused` in read-only mode, and for 2^48 and more.
    pub fn raise_manifest_number(&self, number: u64) -> Result<(), LogError> {
        self.appending()?.raise_manifest_number(number)
    }

    /// Waits until that number is above `seen`, at most for `time`, and returns it. Takes no processor time; in
    /// read-only mode it waits for all of `time`.
    pub fn wait_manifest_number(&self, seen: u64, time: Duration) -> u64 {
        match &self.access {
            Access::Shared(appending) => appending.wait_manifest_number(seen, time),
            Access::ReadOnly(_) => {
                std::thread::sleep(time);
                0
            }
        }
    }

    fn appending(&self) -> Result<&Appending, LogError> {
        match &self.access {
            Access::Shared(appending) => Ok(appending),
            Access::ReadOnly(_) => Err(LogError::Refused("it was opened read-only".into())),
        }
    }
}

impl SharedLog for DirectoryLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        let (bytes, max) = (record.len(), MAX_RECORD_BYTES);
        if bytes > max {
            return Err(LogError::TooLarge { bytes, max });
        }
        self.appending()?.append(at, record)
    }

    fn reserve(&self, time: Duration) -> Result<(), LogError> {
        self.appending()?.reserve(time)
    }

    fn release(&self) {
        if let Access::Shared(appending) = &self.access {
            appending.release();
        }
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.read(from, max_bytes),
            Access::ReadOnly(following) => following.read(from, max_bytes),
        }
    }

    fn end(&self) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.end(),
            Access::ReadOnly(following) => following.end(),
        }
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.appending()?.sync(upto)
    }

    fn durable(&self) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.durable(),
            Access::ReadOnly(following) => following.durable(),
        }
    }

    fn first(&self) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => Ok(appending.load_consistent()?.first),
            Access::ReadOnly(following) => Ok(following.manifest()?.first),
        }
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.appending()?.trim(below)
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.wait(seen, time, stop),
            Access::ReadOnly(following) => following.wait(seen, time, stop),
        }
    }

    fn wake(&self) {
        // A reader looks at its flag every few milliseconds.
        if let Access::Shared(appending) = &self.access {
            appending.wake();
        }
    }

    fn max_record_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn id(&self) -> LogId {
        self.id
    }

    fn grace(&self) -> Duration {
        self.grace
    }

    fn syncs(&self) -> u64 {
        match &self.access {
            Access::Shared(appending) => appending.syncs(),
            Access::ReadOnly(_) => 0,
        }
    }
}
