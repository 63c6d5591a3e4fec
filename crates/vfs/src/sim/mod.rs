//! An in-memory disk that simulates a loss of power.
//!
//! It is deterministic: the same calls and the same seed yield the same disk. It does nothing that a real
//! disk may not do: until a file is synced any subset of its writes may be missing; until a folder is synced
//! its newest names may be missing; a failed sync may be followed by a successful one that does not make the
//! earlier writes durable (the behaviour of Linux described in "Can Applications Recover from fsync
//! Failures?", Rebello et al., 2020).
//!
//! To cut the power at every call of a workload without running the workload again each time, record it with
//! [`SimDisk::record`], then use [`Recording::replay`] and [`Replay::forward_to`].

mod state;

use std::{
    collections::HashMap,
    ffi::OsString,
    fmt, fs, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{Disk, DiskFile, FileType, Lock, LockError, LockMode, OpenMode, Upgrade};
pub use state::Loss;
use state::{Chance, Change, DirEntry, FileChange, FolderChange, Inode, ROOT, State};

/// A simulated disk; clones share it.
#[derive(Clone, Default)]
pub struct SimDisk {
    shared: Arc<Mutex<Machine>>,
}

#[derive(Default)]
struct Machine {
    state: State,
    /// Incremented by each loss of power: files and locks from before are invalid.
    life: u64,
    /// Number of changes so far.
    changes: u64,
    power: Power,
    record: Option<Vec<Change>>,
    capacity: Option<u64>,
    /// Number of syncs that still succeed before one fails and drops the pending writes.
    good_syncs: Option<u64>,
    /// Number of writes that are still complete before a short one.
    whole_writes: Option<u64>,
    locks: HashMap<PathBuf, LockHolders>,
    local: Option<LocalFolders>,
}

#[derive(Clone, Copy, Default)]
enum Power {
    #[default]
    On,
    /// Number of changes after which power is lost, at the next call.
    Until {
        changes: u64,
        loss: Loss,
        seed: u64,
    },
    Off,
}

#[derive(Default)]
struct LockHolders {
    readers: u64,
    writer: bool,
}

/// Folders of the operating system for the locks and the shared memory of processes; removed with the disk. They
/// survive a loss of power, as shared memory may that the system has written to a disk.
struct LocalFolders {
    folder: PathBuf,
    /// By the simulated folder.
    numbers: HashMap<PathBuf, usize>,
}

impl LocalFolders {
    fn create() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("isomer-simulated-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        Ok(Self {
            folder,
            numbers: HashMap::new(),
        })
    }

    /// With the same content.
    fn copy(&self) -> io::Result<Self> {
        let mut copy = Self::create()?;
        copy.numbers.clone_from(&self.numbers);
        for number in self.numbers.values() {
            let name = number.to_string();
            fs::create_dir(copy.folder.join(&name))?;
            for entry in fs::read_dir(self.folder.join(&name))? {
                let path = entry?.path();
                let file = path.file_name().unwrap_or_default();
                fs::copy(&path, copy.folder.join(&name).join(file))?;
            }
        }
        Ok(copy)
    }

    fn of(&mut self, simulated: &Path) -> io::Result<PathBuf> {
        let next = self.numbers.len();
        let number = *self.numbers.entry(simulated.to_owned()).or_insert(next);
        let folder = self.folder.join(number.to_string());
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

impl Drop for LocalFolders {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder is harmless.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = self.shared.lock();
        formatter
            .debug_struct("SimDisk")
            .field("changes", &machine.changes)
            .field("life", &machine.life)
            .finish_non_exhaustive()
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(state: State) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Machine {
                state,
                ..Machine::default()
            })),
        }
    }

    /// Number of changes so far: writes, lengths, names, syncs. Reads do not count.
    pub fn changes(&self) -> u64 {
        self.shared.lock().changes
    }

    /// Loses power once `changes` changes were made (see [`SimDisk::changes`]): the next call and all later
    /// ones fail, until [`SimDisk::restart`].
    pub fn cut_power_at(&self, changes: u64, loss: Loss, seed: u64) {
        self.shared.lock().power = Power::Until {
            changes,
            loss,
            seed,
        };
    }

    /// Loses power now and restores it: open files and locks become invalid, and unsynced changes are lost as
    /// `loss` says.
    pub fn cut_power(&self, loss: Loss, seed: u64) {
        let mut machine = self.shared.lock();
        machine.lose_power(loss, seed);
        machine.power = Power::On;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        matches!(self.shared.lock().power, Power::Off)
    }

    /// Restores the power.
    pub fn restart(&self) {
        let mut machine = self.shared.lock();
        machine.lose_power_if_due();
        machine.power = Power::On;
    }

    /// A copy of the disk as it would be found after a loss of power now. This disk keeps running.
    pub fn after_power_loss(&self, loss: Loss, seed: u64) -> Self {
        let machine = self.shared.lock();
        let copy = Self::of(machine.state.after_power_loss(loss, &mut Chance::new(seed)));
        // Without one, shared memory is lost.
        let local = machine.local.as_ref().map(LocalFolders::copy);
        copy.shared.lock().local = local.and_then(Result::ok);
        copy
    }

    /// Limits the total size of all files; writes beyond it fail with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.lock().capacity = bytes;
    }

    /// After `good` more syncs of files, one sync fails and its pending writes never become durable; later
    /// syncs succeed.
    pub fn lose_sync_after(&self, good: u64) {
        self.shared.lock().good_syncs = Some(good);
    }

    /// After `whole` more writes, one write accepts only half of its bytes, and returns the short count.
    pub fn shorten_write_after(&self, whole: u64) {
        self.shared.lock().whole_writes = Some(whole);
    }

    /// Flips a bit of a file, durably.
    pub fn flip(&self, path: &Path, byte: u64, bit: u8) -> io::Result<()> {
        let mut machine = self.shared.lock();
        let inode = machine.file(path)?;
        machine.state.flip(inode, byte as usize, bit);
        Ok(())
    }

    /// Whether a loss of power would lose nothing of a file or folder.
    pub fn is_durable(&self, path: &Path) -> io::Result<bool> {
        let machine = self.shared.lock();
        let (DirEntry::File(inode) | DirEntry::Folder(inode)) = machine.find(path)?;
        Ok(machine.state.is_durable(inode))
    }

    /// Records changes from now on.
    pub fn record(&self) -> Recorder {
        let mut machine = self.shared.lock();
        machine.record = Some(Vec::new());
        Recorder {
            start: machine.state.clone(),
            first: machine.changes,
            disk: self.clone(),
        }
    }

    fn with<T>(
        &self,
        life: Option<u64>,
        run: impl FnOnce(&mut Machine) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = self.shared.lock();
        machine.lose_power_if_due();
        if matches!(machine.power, Power::Off) || life.is_some_and(|life| life != machine.life) {
            return Err(io::Error::other("the power is gone"));
        }
        run(&mut machine)
    }
}

/// A recording in progress.
#[derive(Debug)]
#[must_use = "a recording ends with `finish`"]
pub struct Recorder {
    start: State,
    first: u64,
    disk: SimDisk,
}

impl Recorder {
    /// Ends the recording.
    pub fn finish(self) -> Recording {
        Recording {
            changes: self.disk.shared.lock().record.take().unwrap_or_default(),
            start: self.start,
            first: self.first,
        }
    }
}

/// The recorded changes of a disk since some change.
#[derive(Debug)]
pub struct Recording {
    start: State,
    changes: Vec<Change>,
    first: u64,
}

impl Recording {
    /// Number of the first change.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// One above the number of the last change.
    pub fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// The disk before the first recorded change.
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            recording: self,
            state: self.start.clone(),
            at: 0,
        }
    }
}

/// A recorded disk at some change.
#[derive(Debug)]
pub struct Replay<'a> {
    recording: &'a Recording,
    state: State,
    at: usize,
}

impl Replay<'_> {
    /// Advances to just before the change number `change`, which must not be behind the current one.
    pub fn forward_to(&mut self, change: u64) {
        let target = (change.saturating_sub(self.recording.first) as usize)
            .min(self.recording.changes.len());
        assert!(target >= self.at, "a replay goes forward only");
        for change in &self.recording.changes[self.at..target] {
            self.state.apply(change);
        }
        self.at = target;
    }

    /// The disk as found after a loss of power at this change.
    pub fn after_power_loss(&self, loss: Loss, seed: u64) -> SimDisk {
        SimDisk::of(self.state.after_power_loss(loss, &mut Chance::new(seed)))
    }
}

impl Machine {
    fn lose_power(&mut self, loss: Loss, seed: u64) {
        self.state = self.state.after_power_loss(loss, &mut Chance::new(seed));
        self.life += 1;
        self.locks.clear();
        // A recording cannot cross this call: the disk is replaced.
        self.record = None;
    }

    fn lose_power_if_due(&mut self) {
        if let Power::Until {
            changes,
            loss,
            seed,
        } = self.power
            && self.changes >= changes
        {
            self.lose_power(loss, seed);
            self.power = Power::Off;
        }
    }

    fn change(&mut self, change: Change) {
        self.state.apply(&change);
        self.changes += 1;
        if let Some(record) = &mut self.record {
            record.push(change);
        }
    }

    fn find(&self, path: &Path) -> io::Result<DirEntry> {
        names(path)?
            .iter()
            .try_fold(DirEntry::Folder(ROOT), |at, name| match at {
                DirEntry::File(_) => Err(io::ErrorKind::NotADirectory.into()),
                DirEntry::Folder(folder) => self
                    .state
                    .entry(folder, name)
                    .ok_or_else(|| io::ErrorKind::NotFound.into()),
            })
    }

    fn file(&self, path: &Path) -> io::Result<Inode> {
        match self.find(path)? {
            DirEntry::File(inode) => Ok(inode),
            DirEntry::Folder(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn folder(&self, path: &Path) -> io::Result<Inode> {
        match self.find(path)? {
            DirEntry::Folder(inode) => Ok(inode),
            DirEntry::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The parent folder of a path, and the path's name in it.
    fn place(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        let mut all = names(path)?;
        let name = all.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let folder: PathBuf = all.iter().collect();
        Ok((self.folder(&folder)?, name))
    }

    /// How many of `wanted` additional bytes fit on the disk.
    fn room(&self, wanted: usize) -> usize {
        self.capacity.map_or(wanted, |capacity| {
            let free = capacity.saturating_sub(self.state.total_bytes());
            wanted.min(usize::try_from(free).unwrap_or(usize::MAX))
        })
    }

    fn write(&mut self, inode: Inode, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let len = self.state.bytes(inode).len();
        let end = offset
            .checked_add(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        let fits = len + self.room(end.saturating_sub(len));
        let mut count = bytes.len().min(fits.saturating_sub(offset));
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if due(&mut self.whole_writes) {
            count = count.div_ceil(2);
        }
        let bytes: Arc<[u8]> = bytes[..count].into();
        self.change(Change::Bytes(inode, FileChange::Write { offset, bytes }));
        Ok(count)
    }

    fn set_len(&mut self, inode: Inode, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let more = len.saturating_sub(self.state.bytes(inode).len());
        if self.room(more) < more {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.change(Change::Bytes(inode, FileChange::SetLen(len)));
        Ok(())
    }

    fn sync(&mut self, inode: Inode) -> io::Result<()> {
        if due(&mut self.good_syncs) {
            self.change(Change::LoseSync(inode));
            return Err(io::Error::other("the disk could not write"));
        }
        self.change(Change::Sync(inode));
        Ok(())
    }

    fn open(&mut self, path: &Path, how: OpenMode) -> io::Result<Inode> {
        match (self.file(path), how) {
            (Ok(inode), OpenMode::Create) => {
                self.set_len(inode, 0)?;
                Ok(inode)
            }
            (Err(error), OpenMode::Create) if error.kind() == io::ErrorKind::NotFound => {
                let (folder, name) = self.place(path)?;
                let inode = self.state.next_inode();
                self.change(Change::NewFile(inode));
                self.change(Change::Names(
                    folder,
                    FolderChange::Put(name, DirEntry::File(inode)),
                ));
                Ok(inode)
            }
            (found, _) => found,
        }
    }

    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut at = ROOT;
        for name in names(path)? {
            at = match self.state.entry(at, &name) {
                Some(DirEntry::Folder(folder)) => folder,
                Some(DirEntry::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
                None => {
                    let inode = self.state.next_inode();
                    self.change(Change::NewFolder(inode));
                    self.change(Change::Names(
                        at,
                        FolderChange::Put(name, DirEntry::Folder(inode)),
                    ));
                    inode
                }
            };
        }
        Ok(())
    }

    fn lock(&mut self, path: &Path, mode: LockMode) -> Result<bool, LockError> {
        if let Err(error) = self.file(path) {
            match mode {
                LockMode::Shared if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                LockMode::Shared => return Err(LockError::Io(error)),
                LockMode::Exclusive => {
                    self.open(path, OpenMode::Create).map_err(LockError::Io)?;
                }
            }
        }
        let held = self.locks.entry(path.to_owned()).or_default();
        let free = match mode {
            LockMode::Shared => !held.writer,
            LockMode::Exclusive => !held.writer && held.readers == 0,
        };
        if !free {
            return Err(LockError::Held(Some(std::process::id())));
        }
        match mode {
            LockMode::Shared => held.readers += 1,
            LockMode::Exclusive => held.writer = true,
        }
        Ok(true)
    }
}

/// Counts down; returns whether it reached zero.
fn due(left: &mut Option<u64>) -> bool {
    match left {
        Some(0) => {
            *left = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// The components of a path from the root on. There is no working folder: a relative path starts at the root
/// too.
fn names(path: &Path) -> io::Result<Vec<OsString>> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(Ok(name.to_owned())),
            Component::RootDir | Component::CurDir => None,
            Component::ParentDir | Component::Prefix(_) => {
                Some(Err(io::ErrorKind::InvalidInput.into()))
            }
        })
        .collect()
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.with(None, |machine| {
            Ok(Arc::new(SimFile {
                inode: machine.open(path, how)?,
                life: machine.life,
                writable: how != OpenMode::Read,
                disk: self.clone(),
            }) as Arc<dyn DiskFile>)
        })
    }

    fn kind(&self, path: &Path) -> io::Result<FileType> {
        self.with(None, |machine| {
            Ok(match machine.find(path)? {
                DirEntry::File(_) => FileType::File,
                DirEntry::Folder(_) => FileType::Folder,
            })
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.with(None, |machine| {
            let names = machine.state.names(machine.folder(folder)?);
            Ok(names.into_iter().map(PathBuf::from).collect())
        })
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.with(None, |machine| machine.make_folder(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with(None, |machine| {
            machine.file(from)?;
            let (folder, from) = machine.place(from)?;
            let (other, to) = machine.place(to)?;
            if folder != other {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            if let Some(DirEntry::Folder(_)) = machine.state.entry(folder, &to) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            machine.change(Change::Names(folder, FolderChange::Rename(from, to)));
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with(None, |machine| {
            let inode = machine.file(from)?;
            let (folder, name) = machine.place(to)?;
            if machine.state.entry(folder, &name).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            machine.change(Change::Names(
                folder,
                FolderChange::Put(name, DirEntry::File(inode)),
            ));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.with(None, |machine| {
            machine.file(path)?;
            let (folder, name) = machine.place(path)?;
            machine.change(Change::Names(folder, FolderChange::Remove(name)));
            Ok(())
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.with(None, |machine| {
            let inode = machine.folder(path)?;
            if !machine.state.names(inode).is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let (folder, name) = machine.place(path)?;
            machine.change(Change::Names(folder, FolderChange::Remove(name)));
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.with(None, |machine| {
            let inode = machine.folder(folder)?;
            machine.change(Change::SyncFolder(inode));
            Ok(())
        })
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        let mut life = 0;
        let mut taken = Ok(false);
        self.with(None, |machine| {
            taken = machine.lock(path, mode);
            life = machine.life;
            Ok(())
        })
        .map_err(LockError::Io)?;
        Ok(taken?.then(|| {
            Lock::simulated(SimLock {
                disk: self.clone(),
                path: path.to_owned(),
                mode,
                life,
            })
        }))
    }

    fn local_folder(&self, folder: &Path) -> io::Result<PathBuf> {
        let mut machine = self.shared.lock();
        let local = match &mut machine.local {
            Some(local) => local,
            none => none.insert(LocalFolders::create()?),
        };
        local.of(folder)
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        self.with(None, |machine| {
            Ok(machine
                .capacity
                .map(|capacity| capacity.saturating_sub(machine.state.total_bytes())))
        })
    }
}

/// A lock on a simulated disk.
#[derive(Debug)]
pub(crate) struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    mode: LockMode,
    life: u64,
}

impl SimLock {
    /// See [`crate::Lock::try_upgrade`].
    pub(crate) fn try_upgrade(&mut self) -> Upgrade {
        let mut machine = self.disk.shared.lock();
        if machine.life != self.life {
            return Upgrade::Lost;
        }
        let held = machine.locks.entry(self.path.clone()).or_default();
        match (self.mode, held.readers) {
            (LockMode::Exclusive, _) => Upgrade::Exclusive,
            (LockMode::Shared, 1) => {
                (held.readers, held.writer) = (0, true);
                self.mode = LockMode::Exclusive;
                Upgrade::Exclusive
            }
            (LockMode::Shared, _) => Upgrade::Shared,
        }
    }

    /// See [`crate::Lock::downgrade`].
    pub(crate) fn downgrade(&mut self) {
        let mut machine = self.disk.shared.lock();
        if machine.life == self.life && self.mode == LockMode::Exclusive {
            let held = machine.locks.entry(self.path.clone()).or_default();
            (held.readers, held.writer) = (1, false);
        }
        self.mode = LockMode::Shared;
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut machine = self.disk.shared.lock();
        if machine.life != self.life {
            return;
        }
        if let Some(held) = machine.locks.get_mut(&self.path) {
            match self.mode {
                LockMode::Shared => held.readers -= 1,
                LockMode::Exclusive => held.writer = false,
            }
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Inode,
    life: u64,
    writable: bool,
}

impl SimFile {
    fn with<T>(&self, run: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        self.disk.with(Some(self.life), run)
    }

    fn check_writable(&self) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the file was opened to read",
            ));
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|machine| {
            let bytes = machine.state.bytes(self.inode);
            let start = usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
            let count = out.len().min(bytes.len() - start);
            out[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check_writable()?;
        self.with(|machine| machine.write(self.inode, bytes, offset))
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|machine| Ok(machine.state.bytes(self.inode).len() as u64))
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.len()
    }

    fn name_count(&self) -> io::Result<u64> {
        self.with(|machine| Ok(machine.state.name_count(self.inode)))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.with(|machine| machine.set_len(self.inode, len))
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|machine| machine.sync(self.inode))
    }
}

#[cfg(test)]
mod tests;
