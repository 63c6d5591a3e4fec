//! The file below redb, with a checksum for every block of 4 KiB.
//!
//! redb verifies its own page checksums only when it repairs a database, so a flipped bit in a cleanly closed
//! file would be returned as data. Here every block is verified whenever it is read from the file. A damaged
//! block is passed to redb as a page that it must refuse ([`fill_refused`]), and counted, so that no result
//! can depend on it.
//!
//! ```text
//! physical file, all numbers little-endian
//! 0      superblock (4096 bytes)
//!          0  magic "IsomerDB pairs\r\n" (16 bytes)
//!         16  format version: u32 (1)
//!         20  block size: u32 (4096)
//!         24  XXH3-64 of bytes 0..24: u64
//!       2048  1 if closed cleanly, else 0: u64
//!       2056  XXH3-64 of block 0, valid if closed cleanly: u64
//!       2064  XXH3-64 of bytes 2048..2064: u64
//!       3072  a version that was durable when this was written: u64
//!       3080  XXH3-64 of bytes 3072..3080: u64
//! 4096   groups of 513 blocks: one of 512 checksums (u64), then the 512 blocks they belong to
//! ```
//!
//! The checksum of block n is XXH3-64 of its bytes with seed n; 0 means a block that was never written, all
//! zeros. Block 0 holds redb's header, which is rewritten in place and carries redb's own checksums; its
//! checksum is kept in the superblock, for cleanly closed files only.
//!
//! Checksums are kept in memory (8 bytes per block) and written before each sync. After a crash they may be
//! older than their blocks; redb then verifies every page that is in use, and the checksums of the blocks it
//! has read are renewed ([`BlockFile::heal`]).

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_vfs::{Call, DiskFile};
use parking_lot::{Mutex, RwLock};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Newest format that this version reads and writes.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &[u8; 16] = b"IsomerDB pairs\r\n";
const SUMS_PER_GROUP: u64 = 512;
const CLEAN_OFFSET: u64 = 2048;
const DURABLE_OFFSET: u64 = 3072;
/// Offset of redb's flags, and the flag that means "open, or not closed cleanly".
const GOD_BYTE: usize = 9;
const RECOVERY_REQUIRED: u8 = 2;

/// The first failure on this file.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The call.
    pub call: Call,
    /// The error's text.
    pub message: String,
    /// Whether the disk was full.
    pub full: bool,
}

/// A file of checksummed blocks; clones share it.
#[derive(Clone)]
pub struct BlockFile {
    shared: Arc<Shared>,
}

struct Shared {
    file: Arc<dyn DiskFile>,
    /// Logical bytes.
    len: AtomicU64,
    groups: RwLock<Vec<Option<Arc<Mutex<Group>>>>>,
    dirty: Mutex<BTreeSet<usize>>,
    /// Replaces the file if it is opened read-only: the blocks written.
    overlay: Option<Mutex<HashMap<u64, Box<[u8; BLOCK_BYTES]>>>>,
    /// Whether damaged blocks are returned as they are: redb is repairing, and verifies them itself.
    lenient: AtomicBool,
    /// Whether another instance has taken over the file.
    superseded: AtomicBool,
    /// The process that opened the file. A fork of it shares the lock but not the memory: it must not write,
    /// not even to close the file.
    owner: u32,
    damage_count: AtomicU64,
    damaged: Mutex<BTreeSet<u64>>,
    failure: Mutex<Option<Failure>>,
    syncs: AtomicU64,
    bytes_read: AtomicU64,
}

struct Group {
    sums: Box<[u64; SUMS_PER_GROUP as usize]>,
}

/// Content of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Superblock {
    /// A file of this format.
    Valid {
        /// XXH3-64 of block 0, if the file was closed cleanly.
        clean: Option<u64>,
        /// A version that was durable once, if known: the file must contain it.
        durable: Option<u64>,
    },
    /// A file of a newer format.
    Newer(u32),
    /// Not a file of this format.
    Foreign,
    /// A file of this format with a damaged superblock.
    Damaged,
}

/// Writes the superblock of a new file.
pub fn write_superblock(file: &dyn DiskFile) -> io::Result<()> {
    let mut block = [0; BLOCK_BYTES];
    block[..16].copy_from_slice(MAGIC);
    block[16..20].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    block[20..24].copy_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
    let sum = xxh3_64(&block[..24]);
    block[24..32].copy_from_slice(&sum.to_le_bytes());
    block[CLEAN_OFFSET as usize..][..24].copy_from_slice(&clean_record(None));
    file.write_all_at(&block, 0)
}

/// Reads the superblock.
pub fn read_superblock(file: &dyn DiskFile) -> io::Result<Superblock> {
    let mut block = [0; BLOCK_BYTES];
    match file.read_exact_at(&mut block, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Superblock::Foreign);
        }
        other => other?,
    }
    let u32_at = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
    if block[..16] != MAGIC[..] {
        return Ok(Superblock::Foreign);
    }
    if u64_at(24) != xxh3_64(&block[..24]) {
        return Ok(Superblock::Damaged);
    }
    if u32_at(16) != FORMAT_VERSION || u32_at(20) as usize != BLOCK_BYTES {
        return Ok(Superblock::Newer(u32_at(16)));
    }
    let at = CLEAN_OFFSET as usize;
    if u64_at(at + 16) != xxh3_64(&block[at..at + 16]) {
        return Ok(Superblock::Damaged);
    }
    let clean = (u64_at(at) == 1).then(|| u64_at(at + 8));
    // Written without a sync: it may be outdated or torn, and is ignored then.
    let at = DURABLE_OFFSET as usize;
    let durable = (u64_at(at + 8) == xxh3_64(&block[at..at + 8])).then(|| u64_at(at));
    Ok(Superblock::Valid { clean, durable })
}

fn clean_record(clean: Option<u64>) -> [u8; 24] {
    let mut record = [0; 24];
    record[..8].copy_from_slice(&u64::from(clean.is_some()).to_le_bytes());
    record[8..16].copy_from_slice(&clean.unwrap_or(0).to_le_bytes());
    let sum = xxh3_64(&record[..16]);
    record[16..].copy_from_slice(&sum.to_le_bytes());
    record
}

/// Marks the file as in use: the record of a clean shutdown is invalid.
pub fn mark_in_use(file: &dyn DiskFile) -> io::Result<()> {
    file.write_all_at(&clean_record(None), CLEAN_OFFSET)?;
    file.sync()
}

fn block_offset(block: u64) -> u64 {
    let group = block / SUMS_PER_GROUP;
    sums_offset(group as usize) + (1 + block % SUMS_PER_GROUP) * BLOCK_BYTES as u64
}

fn sums_offset(group: usize) -> u64 {
    BLOCK_BYTES as u64 + group as u64 * (SUMS_PER_GROUP + 1) * BLOCK_BYTES as u64
}

fn physical_len(len: u64) -> u64 {
    match len / BLOCK_BYTES as u64 {
        0 => BLOCK_BYTES as u64,
        blocks => block_offset(blocks - 1) + BLOCK_BYTES as u64,
    }
}

/// Logical size of a file of `physical` bytes; a torn last block does not count.
fn logical_len(physical: u64) -> u64 {
    let blocks = (physical / BLOCK_BYTES as u64).saturating_sub(1);
    let (groups, rest) = (blocks / (SUMS_PER_GROUP + 1), blocks % (SUMS_PER_GROUP + 1));
    (groups * SUMS_PER_GROUP + rest.saturating_sub(1)) * BLOCK_BYTES as u64
}

fn checksum(block: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, block).max(1)
}

/// Fills in a redb branch page with one key and two children whose page numbers are out of range: redb
/// reports damage, whereas it would panic on an unknown page type.
fn fill_refused(page: &mut [u8]) {
    page.fill(0);
    if page.len() >= 512 {
        page[0] = 2;
        page[2] = 1;
        page[8..56].fill(0xff);
        // End of the key if keys have lengths, 260; otherwise one of redb's own keys.
        page[56..58].copy_from_slice(&[4, 1]);
    }
}

impl BlockFile {
    /// The blocks of `file`, whose superblock was verified. With `read_only`, writes stay in memory.
    pub fn new(file: Arc<dyn DiskFile>, read_only: bool) -> io::Result<Self> {
        let len = logical_len(file.len()?);
        Ok(Self {
            shared: Arc::new(Shared {
                file,
                len: AtomicU64::new(len),
                groups: RwLock::default(),
                dirty: Mutex::default(),
                overlay: read_only.then(Mutex::default),
                lenient: AtomicBool::new(false),
                superseded: AtomicBool::new(false),
                owner: std::process::id(),
                damage_count: AtomicU64::new(0),
                damaged: Mutex::default(),
                failure: Mutex::default(),
                syncs: AtomicU64::new(0),
                bytes_read: AtomicU64::new(0),
            }),
        })
    }

    /// XXH3-64 of block 0 as it is in the file.
    pub fn header_sum(&self) -> io::Result<u64> {
        let mut block = [0; BLOCK_BYTES];
        self.shared
            .file
            .read_exact_at(&mut block, block_offset(0))?;
        Ok(xxh3_64(&block))
    }

    /// The file.
    pub fn file(&self) -> &dyn DiskFile {
        &*self.shared.file
    }

    /// Records that `version` is durable, so that its loss is never mistaken for an interrupted commit. Not
    /// synced: a note that is written late or never is merely older.
    pub fn note_durable(&self, version: u64) {
        let shared = &self.shared;
        if shared.overlay.is_some() || shared.superseded.load(Ordering::SeqCst) {
            return;
        }
        let mut record = [0; 16];
        record[..8].copy_from_slice(&version.to_le_bytes());
        let sum = xxh3_64(&record[..8]);
        record[8..].copy_from_slice(&sum.to_le_bytes());
        // The commit is valid without this note.
        drop(shared.file.write_all_at(&record, DURABLE_OFFSET));
    }

    /// Returns damaged blocks as they are from now on, because redb verifies them itself, or no longer.
    pub fn set_lenient(&self, lenient: bool) {
        self.shared.lenient.store(lenient, Ordering::SeqCst);
    }

    /// Rejects every call from now on: another instance has taken over the file.
    pub fn supersede(&self) {
        self.shared.superseded.store(true, Ordering::SeqCst);
    }

    /// Number of damaged blocks read so far, with repetitions.
    pub fn damage_count(&self) -> u64 {
        self.shared.damage_count.load(Ordering::SeqCst)
    }

    /// The damaged blocks read so far, ascending.
    pub fn damaged(&self) -> Vec<u64> {
        self.shared.damaged.lock().iter().copied().collect()
    }

    /// Renews the checksums of the damaged blocks: redb has verified those that are in use.
    pub fn heal(&self) -> io::Result<()> {
        let damaged = std::mem::take(&mut *self.shared.damaged.lock());
        for block in damaged {
            let mut bytes = [0; BLOCK_BYTES];
            self.read_block(block, &mut bytes)?;
            self.set_sum(block, checksum(block, &bytes))?;
        }
        Ok(())
    }

    /// The first failure.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.failure.lock().clone()
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// Bytes read from the file so far.
    pub fn bytes_read(&self) -> u64 {
        self.shared.bytes_read.load(Ordering::Relaxed)
    }

    /// Memory of the checksums in bytes.
    pub fn sum_bytes(&self) -> u64 {
        self.shared.groups.read().iter().flatten().count() as u64 * BLOCK_BYTES as u64
    }

    fn is_forked(&self) -> bool {
        self.shared.owner != std::process::id()
    }

    /// Runs one call, and records the first failure.
    fn call<T>(&self, call: Call, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.shared.superseded.load(Ordering::SeqCst) {
            return Err(io::Error::other(
                "the database was reopened after an error: restart the transaction",
            ));
        }
        if self.is_forked() {
            return Err(io::Error::other(format!(
                "the database was opened by process {}, of which this one is a fork: open it after forking, in one of them",
                self.shared.owner
            )));
        }
        run().inspect_err(|error| {
            let full = matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            );
            self.shared.failure.lock().get_or_insert(Failure {
                call,
                message: error.to_string(),
                full,
            });
        })
    }

    fn group(&self, index: usize) -> io::Result<Arc<Mutex<Group>>> {
        if let Some(Some(group)) = self.shared.groups.read().get(index) {
            return Ok(group.clone());
        }
        let mut sums = Box::new([0; SUMS_PER_GROUP as usize]);
        let mut bytes = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self
                .shared
                .file
                .read_at(&mut bytes[filled..], sums_offset(index) + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        for (sum, bytes) in sums.iter_mut().zip(bytes.chunks_exact(8)) {
            *sum = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        let mut groups = self.shared.groups.write();
        if groups.len() <= index {
            groups.resize(index + 1, None);
        }
        Ok(groups[index]
            .get_or_insert_with(|| Arc::new(Mutex::new(Group { sums })))
            .clone())
    }

    fn set_sum(&self, block: u64, sum: u64) -> io::Result<()> {
        let index = (block / SUMS_PER_GROUP) as usize;
        self.group(index)?.lock().sums[(block % SUMS_PER_GROUP) as usize] = sum;
        self.shared.dirty.lock().insert(index);
        Ok(())
    }

    fn flush_sums(&self) -> io::Result<()> {
        if self.shared.overlay.is_some() {
            return Ok(());
        }
        let dirty = std::mem::take(&mut *self.shared.dirty.lock());
        for &index in &dirty {
            let group = self.group(index)?;
            let mut bytes = [0; BLOCK_BYTES];
            for (bytes, sum) in bytes.chunks_exact_mut(8).zip(group.lock().sums.iter()) {
                bytes.copy_from_slice(&sum.to_le_bytes());
            }
            if let Err(error) = self.shared.file.write_all_at(&bytes, sums_offset(index)) {
                self.shared.dirty.lock().extend(dirty);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads one block without verification.
    fn read_block(&self, block: u64, bytes: &mut [u8; BLOCK_BYTES]) -> io::Result<()> {
        if let Some(overlay) = &self.shared.overlay
            && let Some(written) = overlay.lock().get(&block)
        {
            bytes.copy_from_slice(&written[..]);
            return Ok(());
        }
        self.shared
            .bytes_read
            .fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
        match self.shared.file.read_exact_at(bytes, block_offset(block)) {
            // Blocks that exist only in the overlay.
            Err(error)
                if error.kind() == io::ErrorKind::UnexpectedEof
                    && self.shared.overlay.is_some() =>
            {
                bytes.fill(0);
                Ok(())
            }
            other => other,
        }
    }

    /// Whether a block matches its checksum.
    fn is_intact(&self, block: u64, bytes: &[u8]) -> io::Result<bool> {
        if block == 0 {
            return Ok(true);
        }
        let group = self.group((block / SUMS_PER_GROUP) as usize)?;
        let sum = group.lock().sums[(block % SUMS_PER_GROUP) as usize];
        Ok(match sum {
            0 => bytes.iter().all(|&byte| byte == 0),
            sum => checksum(block, bytes) == sum,
        })
    }

    fn note_damage(&self, block: u64) {
        self.shared.damaged.lock().insert(block);
        self.shared.damage_count.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads whole blocks; returns whether all are intact.
    fn read_blocks(&self, first: u64, out: &mut [u8]) -> io::Result<bool> {
        let mut intact = true;
        if self.shared.overlay.is_some() {
            for (block, bytes) in (first..).zip(out.chunks_exact_mut(BLOCK_BYTES)) {
                self.read_block(block, bytes.try_into().expect("a block"))?;
            }
        } else {
            self.shared
                .bytes_read
                .fetch_add(out.len() as u64, Ordering::Relaxed);
            let mut block = first;
            let mut rest = &mut *out;
            while !rest.is_empty() {
                let in_group = (SUMS_PER_GROUP - block % SUMS_PER_GROUP) as usize;
                let (part, more) = rest.split_at_mut((in_group * BLOCK_BYTES).min(rest.len()));
                self.shared.file.read_exact_at(part, block_offset(block))?;
                block += (part.len() / BLOCK_BYTES) as u64;
                rest = more;
            }
        }
        for (block, bytes) in (first..).zip(out.chunks_exact(BLOCK_BYTES)) {
            if !self.is_intact(block, bytes)? {
                self.note_damage(block);
                intact = false;
            }
        }
        Ok(intact)
    }

    fn write_blocks(&self, first: u64, data: &[u8]) -> io::Result<()> {
        if let Some(overlay) = &self.shared.overlay {
            let mut overlay = overlay.lock();
            for (block, bytes) in (first..).zip(data.chunks_exact(BLOCK_BYTES)) {
                overlay.insert(block, Box::new(bytes.try_into().expect("a block")));
            }
        } else {
            let mut block = first;
            let mut rest = data;
            while !rest.is_empty() {
                let in_group = (SUMS_PER_GROUP - block % SUMS_PER_GROUP) as usize;
                let (part, more) = rest.split_at((in_group * BLOCK_BYTES).min(rest.len()));
                self.shared.file.write_all_at(part, block_offset(block))?;
                block += (part.len() / BLOCK_BYTES) as u64;
                rest = more;
            }
        }
        for (block, bytes) in (first..).zip(data.chunks_exact(BLOCK_BYTES)) {
            if block != 0 {
                self.set_sum(block, checksum(block, bytes))?;
            }
        }
        Ok(())
    }

    /// Calls `run` with the whole blocks that cover `offset..offset + len`: number of the first, bytes before `offset`.
    fn cover(offset: u64, len: usize) -> (u64, usize, usize) {
        let first = offset / BLOCK_BYTES as u64;
        let before = (offset % BLOCK_BYTES as u64) as usize;
        (first, before, (before + len).next_multiple_of(BLOCK_BYTES))
    }

    fn read_any(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset
            .checked_add(out.len() as u64)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        if end > self.shared.len.load(Ordering::SeqCst) {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file ends before the data does",
            ));
        }
        let (first, before, covered) = Self::cover(offset, out.len());
        let intact = if before == 0 && covered == out.len() {
            self.read_blocks(first, out)?
        } else {
            let mut blocks = vec![0; covered];
            let intact = self.read_blocks(first, &mut blocks)?;
            out.copy_from_slice(&blocks[before..before + out.len()]);
            intact
        };
        if !intact && !self.shared.lenient.load(Ordering::SeqCst) {
            fill_refused(out);
        }
        Ok(())
    }

    fn write_any(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (first, before, covered) = Self::cover(offset, data.len());
        if before == 0 && covered == data.len() {
            return self.write_blocks(first, data);
        }
        let mut blocks = vec![0; covered];
        for (block, bytes) in (first..).zip(blocks.chunks_exact_mut(BLOCK_BYTES)) {
            if block * (BLOCK_BYTES as u64) < self.shared.len.load(Ordering::SeqCst) {
                self.read_block(block, bytes.try_into().expect("a block"))?;
            }
        }
        blocks[before..before + data.len()].copy_from_slice(data);
        self.write_blocks(first, &blocks)
    }

    fn set_len_any(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(io::Error::other(format!(
                "{len} bytes are not a multiple of the block size"
            )));
        }
        let old_blocks = self.shared.len.load(Ordering::SeqCst) / BLOCK_BYTES as u64;
        let new_blocks = len / BLOCK_BYTES as u64;
        if let Some(overlay) = &self.shared.overlay {
            overlay.lock().retain(|&block, _| block < new_blocks);
        } else {
            self.shared.file.set_len(physical_len(len))?;
        }
        // Truncated bytes must read as zeros afterwards.
        for block in new_blocks..old_blocks {
            let group = (block / SUMS_PER_GROUP) as usize;
            if let Some(overlay) = &self.shared.overlay {
                overlay.lock().insert(block, Box::new([0; BLOCK_BYTES]));
            } else if group as u64 > new_blocks / SUMS_PER_GROUP {
                self.shared.groups.write().truncate(group);
                self.shared.dirty.lock().split_off(&group);
                break;
            }
            self.set_sum(block, 0)?;
        }
        // A group without blocks occupies no space in the file.
        if new_blocks.is_multiple_of(SUMS_PER_GROUP) {
            self.shared
                .dirty
                .lock()
                .remove(&((new_blocks / SUMS_PER_GROUP) as usize));
        }
        self.shared.len.store(len, Ordering::SeqCst);
        Ok(())
    }

    fn sync_any(&self) -> io::Result<()> {
        if self.shared.overlay.is_some() {
            return Ok(());
        }
        self.flush_sums()?;
        self.shared.file.sync()?;
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Records a clean shutdown, if redb's header says so.
    fn close_any(&self) -> io::Result<()> {
        let shared = &self.shared;
        if shared.overlay.is_some()
            || self.is_forked()
            || shared.superseded.load(Ordering::SeqCst)
            || shared.failure.lock().is_some()
        {
            return Ok(());
        }
        self.sync_any()?;
        let mut block = [0; BLOCK_BYTES];
        if shared.len.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        shared.file.read_exact_at(&mut block, block_offset(0))?;
        if block[GOD_BYTE] & RECOVERY_REQUIRED == 0 {
            shared
                .file
                .write_all_at(&clean_record(Some(xxh3_64(&block))), CLEAN_OFFSET)?;
            shared.file.sync()?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for BlockFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("BlockFile")
            .field("len", &self.shared.len)
            .finish_non_exhaustive()
    }
}

impl redb::StorageBackend for BlockFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.shared.len.load(Ordering::SeqCst))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Read, || self.read_any(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::SetLen, || self.set_len_any(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync, || self.sync_any())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(Call::Write, || self.write_any(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.close_any()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use isomer_vfs::{Disk, OpenMode, SimDisk};
    use redb::StorageBackend;

    use super::*;

    fn block_file() -> BlockFile {
        let file = SimDisk::new()
            .open(Path::new("data"), OpenMode::Create)
            .expect("a file");
        write_superblock(&*file).expect("a superblock");
        BlockFile::new(file, false).expect("a block file")
    }

    fn again(blocks: &BlockFile, read_only: bool) -> BlockFile {
        BlockFile::new(blocks.shared.file.clone(), read_only).expect("a block file")
    }

    /// The physical length determines the logical one, at group borders too.
    #[test]
    fn lengths_round_trip() {
        for blocks in [0, 1, 2, 511, 512, 513, 514, 1023, 1024, 1025, 5000] {
            let len = blocks * BLOCK_BYTES as u64;
            assert_eq!(logical_len(physical_len(len)), len, "{blocks} blocks");
        }
    }

    /// Blocks round-trip, across group borders, also through a reopened file.
    #[test]
    fn blocks_come_back() {
        let blocks = block_file();
        blocks.set_len(1030 * BLOCK_BYTES as u64).expect("a length");
        let data: Vec<u8> = (0..1029 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        blocks.write(BLOCK_BYTES as u64, &data).expect("a write");
        blocks.write(0, b"header").expect("a partial write");
        blocks.sync_data().expect("a sync");
        let again = again(&blocks, false);
        let mut read = vec![0; data.len()];
        again.read(BLOCK_BYTES as u64, &mut read).expect("a read");
        assert!(read == data);
        let mut header = [0; 6];
        again.read(0, &mut header).expect("a read");
        assert_eq!(&header, b"header");
        assert_eq!(again.damage_count(), 0);
        assert!(
            again
                .read(1030 * BLOCK_BYTES as u64 - 1, &mut header)
                .is_err()
        );
    }

    /// A flipped bit is returned as a page to refuse, and counted; a healed block is accepted.
    #[test]
    fn a_flipped_bit_is_met() {
        let blocks = block_file();
        blocks.set_len(8 * BLOCK_BYTES as u64).expect("a length");
        blocks
            .write(3 * BLOCK_BYTES as u64, &[7; 2 * BLOCK_BYTES])
            .expect("a write");
        blocks.sync_data().expect("a sync");
        blocks
            .file()
            .write_all_at(&[6], block_offset(4) + 100)
            .expect("a flip");
        let mut read = [1; 2 * BLOCK_BYTES];
        blocks
            .read(3 * BLOCK_BYTES as u64, &mut read)
            .expect("a read");
        assert!(read[..4] == [2, 0, 1, 0] && read[64..].iter().all(|&byte| byte == 0));
        assert_eq!((blocks.damage_count(), blocks.damaged()), (1, vec![4]));
        blocks.set_lenient(true);
        blocks
            .read(3 * BLOCK_BYTES as u64, &mut read)
            .expect("a read");
        assert_eq!((read[0], read[BLOCK_BYTES + 100]), (7, 6));
        blocks.heal().expect("healed");
        blocks.set_lenient(false);
        blocks
            .read(3 * BLOCK_BYTES as u64, &mut read)
            .expect("a read");
        assert_eq!(
            (read[0], read[BLOCK_BYTES + 100], blocks.damaged().len()),
            (7, 6, 0)
        );
    }

    /// Truncated bytes are zero when the file grows again, and count as intact.
    #[test]
    fn a_cut_comes_back_as_zeros() {
        for (from, to) in [(600, 300), (1600, 300), (1024, 512), (513, 512), (20, 0)] {
            for read_only in [false, true] {
                let blocks = block_file();
                blocks.set_len(from * BLOCK_BYTES as u64).expect("a length");
                let data = vec![9; (from as usize - 1) * BLOCK_BYTES];
                blocks.write(BLOCK_BYTES as u64, &data).expect("a write");
                blocks.sync_data().expect("a sync");
                let blocks = again(&blocks, read_only);
                blocks.set_len(to * BLOCK_BYTES as u64).expect("cut");
                blocks.sync_data().expect("a sync");
                blocks.set_len(from * BLOCK_BYTES as u64).expect("grown");
                blocks.sync_data().expect("a sync");
                let mut read = vec![1; (from - to.max(1)) as usize * BLOCK_BYTES];
                blocks
                    .read(to.max(1) * BLOCK_BYTES as u64, &mut read)
                    .expect("a read");
                assert!(read.iter().all(|&byte| byte == 0), "{from} to {to}");
                assert_eq!(blocks.damage_count(), 0, "{from} to {to}");
            }
        }
    }

    /// A fork of the process that opened the file writes nothing, not even on exit.
    #[test]
    fn a_fork_keeps_the_file() {
        let mut blocks = block_file();
        blocks.set_len(8 * BLOCK_BYTES as u64).expect("a length");
        blocks.sync_data().expect("a sync");
        Arc::get_mut(&mut blocks.shared).expect("one owner").owner = std::process::id() + 1;
        for refused in [
            blocks.write(0, b"bytes"),
            blocks.set_len(0),
            blocks.sync_data(),
        ] {
            let error = refused.expect_err("refused").to_string();
            assert!(error.contains("fork"), "{error}");
        }
        *blocks.shared.failure.lock() = None;
        blocks.close().expect("closed");
        assert_eq!(
            read_superblock(blocks.file()).expect("readable"),
            Superblock::Valid {
                clean: None,
                durable: None
            }
        );
    }

    /// Opened read-only, the file is never written.
    #[test]
    fn an_overlay_keeps_the_file() {
        let blocks = block_file();
        blocks.set_len(8 * BLOCK_BYTES as u64).expect("a length");
        blocks
            .write(BLOCK_BYTES as u64, &[7; BLOCK_BYTES])
            .expect("a write");
        blocks.sync_data().expect("a sync");
        let overlay = again(&blocks, true);
        overlay.set_len(16 * BLOCK_BYTES as u64).expect("a length");
        overlay
            .write(BLOCK_BYTES as u64, &[8; BLOCK_BYTES])
            .expect("a write");
        overlay
            .write(12 * BLOCK_BYTES as u64, &[9; BLOCK_BYTES])
            .expect("a write");
        let mut read = [0; BLOCK_BYTES];
        for (block, byte) in [(1, 8), (12, 9), (13, 0)] {
            overlay
                .read(block * BLOCK_BYTES as u64, &mut read)
                .expect("a read");
            assert_eq!(read, [byte; BLOCK_BYTES]);
        }
        blocks.read(BLOCK_BYTES as u64, &mut read).expect("a read");
        assert_eq!((read, overlay.damage_count()), ([7; BLOCK_BYTES], 0));
        assert_eq!(
            blocks.file().len().expect("a length"),
            physical_len(8 * BLOCK_BYTES as u64)
        );
    }
}
