//! State of a simulated disk: per file and folder the current content, the durable content, and the unsynced
//! changes between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    sync::Arc,
};

/// An inode number; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Inode(pub(super) u64);

/// The object that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirEntry {
    File(Inode),
    Folder(Inode),
}

/// The root folder.
pub(super) const ROOT: Inode = Inode(0);

/// A change of the disk. Applying the same changes in the same order yields the same disk.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A new, empty file without a name.
    NewFile(Inode),
    /// A new, empty folder without a name.
    NewFolder(Inode),
    /// Bytes written to a file.
    Bytes(Inode, FileChange),
    /// Names changed in a folder.
    Names(Inode, FolderChange),
    /// A file's bytes became durable.
    Sync(Inode),
    /// A sync failed: the pending bytes will never become durable, though they can still be read.
    LoseSync(Inode),
    /// A folder's names became durable.
    SyncFolder(Inode),
}

#[derive(Clone, Debug)]
pub(super) enum FileChange {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

impl FileChange {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(content, *offset, bytes),
            Self::SetLen(len) => content.resize(*len, 0),
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// A change of a folder that is atomic.
#[derive(Clone, Debug)]
pub(super) enum FolderChange {
    Put(OsString, DirEntry),
    Remove(OsString),
    Rename(OsString, OsString),
}

type Names = BTreeMap<OsString, DirEntry>;

impl FolderChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Put(name, entry) => {
                names.insert(name.clone(), *entry);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            // The renamed file may itself have been lost.
            Self::Rename(from, to) => {
                if let Some(entry) = names.remove(from) {
                    names.insert(to.clone(), entry);
                }
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<FileChange>,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    now: Names,
    durable: Names,
    pending: Vec<FolderChange>,
}

/// Which unsynced changes are lost with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// All of it.
    Everything,
    /// A random subset of the writes, whole ones; folders lose their newest names.
    Some,
    /// A random subset of the sectors (512 bytes or 4 KiB) of the writes; folders lose their newest names.
    Torn,
}

impl Loss {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Everything, Self::Some, Self::Torn];
}

/// A pseudo-random generator: SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must be above 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with probability `per_mille` / 1000.
    fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// A disk's content.
#[derive(Clone, Debug)]
pub(super) struct State {
    files: BTreeMap<Inode, File>,
    folders: BTreeMap<Inode, Folder>,
    next: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            folders: BTreeMap::from([(ROOT, Folder::default())]),
            next: 1,
        }
    }
}

impl State {
    /// The number of the next file or folder.
    pub(super) fn next_inode(&self) -> Inode {
        Inode(self.next)
    }

    /// The object under a name in a folder.
    pub(super) fn entry(&self, folder: Inode, name: &OsString) -> Option<DirEntry> {
        self.folders.get(&folder)?.now.get(name).copied()
    }

    /// The names in a folder.
    pub(super) fn names(&self, folder: Inode) -> Vec<OsString> {
        self.folders
            .get(&folder)
            .map(|folder| folder.now.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Number of names of a file.
    pub(super) fn name_count(&self, file: Inode) -> u64 {
        let names = self.folders.values().flat_map(|folder| folder.now.values());
        names
            .filter(|entry| **entry == DirEntry::File(file))
            .count() as u64
    }

    /// A file's current bytes.
    pub(super) fn bytes(&self, file: Inode) -> &[u8] {
        self.files.get(&file).map_or(&[], |file| &file.now)
    }

    /// Whether a file or folder has unsynced changes.
    pub(super) fn is_durable(&self, inode: Inode) -> bool {
        let file = self
            .files
            .get(&inode)
            .is_none_or(|file| file.pending.is_empty() && file.now == file.durable);
        let folder = self
            .folders
            .get(&inode)
            .is_none_or(|folder| folder.pending.is_empty());
        file && folder
    }

    /// Total bytes of all files.
    pub(super) fn total_bytes(&self) -> u64 {
        self.files.values().map(|file| file.now.len() as u64).sum()
    }

    /// Flips a bit durably.
    pub(super) fn flip(&mut self, file: Inode, byte: usize, bit: u8) {
        if let Some(file) = self.files.get_mut(&file) {
            for content in [&mut file.now, &mut file.durable] {
                if let Some(byte) = content.get_mut(byte) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::NewFile(inode) => {
                self.files.insert(*inode, File::default());
                self.next = self.next.max(inode.0 + 1);
            }
            Change::NewFolder(inode) => {
                self.folders.insert(*inode, Folder::default());
                self.next = self.next.max(inode.0 + 1);
            }
            Change::Bytes(inode, change) => {
                if let Some(file) = self.files.get_mut(inode) {
                    change.apply(&mut file.now);
                    file.pending.push(change.clone());
                }
            }
            Change::Names(inode, change) => {
                if let Some(folder) = self.folders.get_mut(inode) {
                    change.apply(&mut folder.now);
                    folder.pending.push(change.clone());
                }
            }
            Change::Sync(inode) => {
                if let Some(file) = self.files.get_mut(inode) {
                    for change in file.pending.drain(..) {
                        change.apply(&mut file.durable);
                    }
                }
            }
            Change::LoseSync(inode) => {
                if let Some(file) = self.files.get_mut(inode) {
                    file.pending.clear();
                }
            }
            Change::SyncFolder(inode) => {
                if let Some(folder) = self.folders.get_mut(inode) {
                    for change in folder.pending.drain(..) {
                        change.apply(&mut folder.durable);
                    }
                }
            }
        }
    }

    /// The disk as found after a loss of power at this point.
    pub(super) fn after_power_loss(&self, loss: Loss, chance: &mut Chance) -> Self {
        let kept = [100, 500, 900][chance.below(3) as usize];
        let sector = [512, 4096][chance.below(2) as usize];
        let folders = self.folders.iter().map(|(inode, folder)| {
            // A journal preserves the order of names: the newest ones are lost.
            let count = match loss {
                Loss::Everything => 0,
                Loss::Some | Loss::Torn => chance.below(folder.pending.len() as u64 + 1) as usize,
            };
            let mut names = folder.durable.clone();
            for change in &folder.pending[..count] {
                change.apply(&mut names);
            }
            let found = Folder {
                now: names.clone(),
                durable: names,
                pending: Vec::new(),
            };
            (*inode, found)
        });
        let folders: BTreeMap<Inode, Folder> = folders.collect();
        let reached = reachable_files(&folders);
        let files = self
            .files
            .iter()
            .filter(|(inode, _)| reached.contains(inode))
            .map(|(inode, file)| {
                let bytes = match loss {
                    Loss::Everything => file.durable.clone(),
                    Loss::Some => some_of(file, kept, chance),
                    Loss::Torn => torn(file, kept, sector, chance),
                };
                let found = File {
                    now: bytes.clone(),
                    durable: bytes,
                    pending: Vec::new(),
                };
                (*inode, found)
            })
            .collect();
        let folders = folders
            .into_iter()
            .filter(|(inode, _)| *inode == ROOT || reached.contains(inode))
            .collect();
        Self {
            files,
            folders,
            next: self.next,
        }
    }
}

/// What a name resolves to.
fn reachable_files(folders: &BTreeMap<Inode, Folder>) -> BTreeSet<Inode> {
    let mut reached = BTreeSet::new();
    let mut open = vec![ROOT];
    while let Some(folder) = open.pop() {
        let names = folders
            .get(&folder)
            .into_iter()
            .flat_map(|one| one.now.values());
        for entry in names {
            match entry {
                DirEntry::File(inode) => {
                    reached.insert(*inode);
                }
                DirEntry::Folder(inode) => {
                    if reached.insert(*inode) {
                        open.push(*inode);
                    }
                }
            }
        }
    }
    reached
}

fn some_of(file: &File, kept: u64, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = file.durable.clone();
    for change in &file.pending {
        if chance.happens(kept) {
            change.apply(&mut bytes);
        }
    }
    bytes
}

fn torn(file: &File, kept: u64, sector: usize, chance: &mut Chance) -> Vec<u8> {
    let mut content = file.durable.clone();
    for change in &file.pending {
        match change {
            FileChange::SetLen(_) => {
                if chance.happens(kept) {
                    change.apply(&mut content);
                }
            }
            FileChange::Write { offset, bytes } => {
                // Sectors are aligned to multiples of their size.
                let mut at = 0;
                while at < bytes.len() {
                    let end = (at + sector - (offset + at) % sector).min(bytes.len());
                    if chance.happens(kept) {
                        write(&mut content, offset + at, &bytes[at..end]);
                    }
                    at = end;
                }
            }
        }
    }
    content
}
