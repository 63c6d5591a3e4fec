//! Files of blocks: each block compressed if that saves space, encrypted and bound to its position, and with a
//! checksum.
//!
//! ```text
//! block      sealed( body, how: u8 ), XXH3-64 of the sealed bytes: u64
//!            how 0: body is the payload; how 1: body is the payload's length: u32, then the payload as LZ4 block;
//!            how 2: body is the payload's length: u32, the length of its columns (see `columns`): u32, these as LZ4 block
//! ```
//!
//! The checksum's seed is the block's offset xor the file's identity, so that a block that was moved is
//! detected without a key as well.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{StorageError, io_error};
use isomer_vfs::{Disk, DiskFile, OpenMode, Seal, SealedPosition};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::columns;
use crate::codec::corrupt;

/// Bytes of a block in addition to its payload, without encryption.
const FRAME_BYTES: usize = 9;
const SUM_BYTES: usize = 8;
/// Bytes that are buffered before they are written.
const WRITE_BYTES: usize = 512 << 10;
/// Bytes written between two syncs, so that the last one does not have to write everything.
const SYNC_BYTES: usize = 8 << 20;
/// Maximum length of a block: one value, its key, and the overhead of compression and encryption.
const MAX_BLOCK_BYTES: usize = 160 << 20;
/// After this many consecutive blocks that did not compress, only every `SAMPLE_EVERY`th is tried.
const GIVE_UP_AFTER: u32 = 4;
const SAMPLE_EVERY: u32 = 16;

/// Location of a block in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Called by background work with the bytes it read or wrote; blocks to limit the rate.
pub type Pace = Arc<dyn Fn(usize) + Send + Sync>;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn sum_seed(identity: u128, offset: u64) -> u64 {
    (identity as u64) ^ ((identity >> 64) as u64) ^ offset
}

/// A file that is written sequentially.
pub(crate) struct SealedWriter {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    identity: u128,
    seal: Seal,
    compress: bool,
    buffer: Vec<u8>,
    /// Buffer for a block by columns.
    columns: Vec<u8>,
    /// Offset of `buffer` in the file.
    written: u64,
    unsynced: usize,
    misses: u32,
    pace: Option<Pace>,
}

impl SealedWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        identity: u128,
        seal: Seal,
        compress: bool,
        pace: Option<Pace>,
    ) -> Result<Self, StorageError> {
        let file = disk
            .open(&path, OpenMode::Create)
            .map_err(|error| io_error("making", &path, &error))?;
        Ok(Self {
            file,
            path,
            identity,
            seal,
            compress,
            buffer: Vec::with_capacity(WRITE_BYTES + (16 << 10)),
            columns: Vec::new(),
            written: 0,
            unsynced: 0,
            misses: 0,
            pace,
        })
    }

    /// Bytes of the file so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends a block of entries: by columns if that is smallest.
    pub(crate) fn put_entries(&mut self, payload: &[u8]) -> Result<Handle, StorageError> {
        let from = self.buffer.len();
        let packed = self.put_columns(payload);
        self.seal_block(payload, from, packed)
    }

    /// Appends a block.
    pub(crate) fn put(&mut self, payload: &[u8]) -> Result<Handle, StorageError> {
        self.seal_block(payload, self.buffer.len(), false)
    }

    /// Seals the bytes of the buffer after `from` if they contain the payload, otherwise appends it first.
    fn seal_block(
        &mut self,
        payload: &[u8],
        from: usize,
        packed: bool,
    ) -> Result<Handle, StorageError> {
        let offset = self.written + from as u64;
        if !packed && !self.put_compressed(payload) {
            self.buffer.extend_from_slice(payload);
            self.buffer.push(0);
        }
        let place = SealedPosition {
            file: self.identity,
            at: offset,
        };
        self.seal.seal(place, &mut self.buffer, from);
        let sum = xxh3_64_with_seed(&self.buffer[from..], sum_seed(self.identity, offset));
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        let len = self.buffer.len() - from;
        assert!(len <= MAX_BLOCK_BYTES, "values are at most 64 MiB");
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(Handle {
            offset,
            len: len as u32,
        })
    }

    /// Appends the payload by columns if that saves at least a third, which is more than LZ4 alone achieves for
    /// numbers.
    fn put_columns(&mut self, payload: &[u8]) -> bool {
        self.columns.clear();
        if !self.compress || !columns::pack(payload, &mut self.columns) {
            return false;
        }
        let from = self.buffer.len();
        for len in [payload.len(), self.columns.len()] {
            self.buffer.extend_from_slice(&(len as u32).to_le_bytes());
        }
        let most = lz4_flex::block::get_maximum_output_size(self.columns.len());
        self.buffer.resize(from + 8 + most, 0);
        let len = lz4_flex::block::compress_into(&self.columns, &mut self.buffer[from + 8..]);
        match len {
            Ok(len) if 8 + len <= payload.len() - payload.len() / 3 => {
                self.buffer.truncate(from + 8 + len);
                self.buffer.push(2);
                true
            }
            _ => {
                self.buffer.truncate(from);
                false
            }
        }
    }

    /// Appends the payload as LZ4 if that saves at least an eighth.
    fn put_compressed(&mut self, payload: &[u8]) -> bool {
        if !self.compress || payload.len() < 64 {
            return false;
        }
        if self.misses >= GIVE_UP_AFTER {
            self.misses += 1;
            if !self.misses.is_multiple_of(SAMPLE_EVERY) {
                return false;
            }
        }
        let from = self.buffer.len();
        self.buffer
            .extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let most = lz4_flex::block::get_maximum_output_size(payload.len());
        self.buffer.resize(from + 4 + most, 0);
        let len = lz4_flex::block::compress_into(payload, &mut self.buffer[from + 4..]);
        match len {
            Ok(len) if 4 + len <= payload.len() - payload.len() / 8 => {
                self.buffer.truncate(from + 4 + len);
                self.buffer.push(1);
                self.misses = 0;
                true
            }
            _ => {
                self.buffer.truncate(from);
                self.misses += u32::from(self.misses < GIVE_UP_AFTER);
                false
            }
        }
    }

    /// Appends bytes without a frame.
    pub(crate) fn put_plain(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn write_out(&mut self) -> Result<(), StorageError> {
        let fail = |error| io_error("writing", &self.path, &error);
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(fail)?;
        self.written += self.buffer.len() as u64;
        self.unsynced += self.buffer.len();
        if let Some(pace) = &self.pace {
            pace(self.buffer.len());
        }
        self.buffer.clear();
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync().map_err(fail)?;
        }
        Ok(())
    }

    /// Writes the rest and makes the file durable; its name is durable once the folder was synced.
    pub(crate) fn finish(mut self) -> Result<(Arc<dyn DiskFile>, u64), StorageError> {
        self.write_out()?;
        self.file
            .sync()
            .map_err(|error| io_error("syncing", &self.path, &error))?;
        Ok((self.file, self.written))
    }
}

/// Decompresses LZ4 to `len` bytes; `None` if the data is invalid.
fn decompressed(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // LZ4 compresses at most 255 bytes into one.
    if len > MAX_BLOCK_BYTES || len / 255 > packed.len() {
        return None;
    }
    let mut bytes = vec![0; len];
    let count = lz4_flex::block::decompress_into(packed, &mut bytes).ok()?;
    (count == len).then_some(bytes)
}

/// A complete file.
#[derive(Debug)]
pub(crate) struct SealedFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    identity: u128,
    seal: Seal,
    len: u64,
}

impl SealedFile {
    pub(crate) fn open(
        disk: &dyn Disk,
        path: PathBuf,
        identity: u128,
        seal: Seal,
    ) -> Result<Self, StorageError> {
        let file = disk
            .open(&path, OpenMode::Read)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => corrupt(&path, 0, "the file is missing"),
                _ => io_error("opening", &path, &error),
            })?;
        let len = file
            .len()
            .map_err(|error| io_error("opening", &path, &error))?;
        Ok(Self {
            file,
            path,
            identity,
            seal,
            len,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub(crate) fn handle(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn identity(&self) -> u128 {
        self.identity
    }

    pub(crate) fn damaged(&self, offset: u64, what: &str) -> StorageError {
        corrupt(&self.path, offset, what)
    }

    /// Reads raw bytes of the file into `out`.
    pub(crate) fn read_plain(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_exact_at(out, offset).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                self.damaged(offset, "the file ends here")
            } else {
                io_error("reading", &self.path, &error)
            }
        })
    }

    pub(super) fn check(&self, handle: Handle) -> Result<(), StorageError> {
        let end = handle.offset.checked_add(u64::from(handle.len));
        if end.is_none_or(|end| end > self.len)
            || (handle.len as usize) < FRAME_BYTES + self.seal.overhead()
            || handle.len as usize > MAX_BLOCK_BYTES
        {
            return Err(self.damaged(handle.offset, "a block lies outside of the file"));
        }
        Ok(())
    }

    /// The payload of a block.
    pub(crate) fn read(&self, handle: Handle) -> Result<Arc<[u8]>, StorageError> {
        self.check(handle)?;
        SCRATCH.with_borrow_mut(|scratch| {
            // Kept for the next call, but not after a large value.
            if scratch.capacity() > 1 << 20 {
                *scratch = Vec::new();
            }
            let len = handle.len as usize;
            if scratch.len() < len {
                scratch.resize(len, 0);
            }
            if !self.seal.encrypts() {
                let stored = &mut scratch[..len];
                self.read_plain(handle.offset, stored)?;
                return self.payload(handle, self.sound(handle, stored)?);
            }
            scratch.truncate(len);
            self.read_plain(handle.offset, scratch)?;
            self.unseal(handle, scratch)
        })
    }

    /// The payload of a block whose bytes were read already.
    pub(crate) fn open_block(
        &self,
        handle: Handle,
        stored: &[u8],
    ) -> Result<Arc<[u8]>, StorageError> {
        if self.seal.encrypts() {
            return self.unseal(handle, &mut stored.to_vec());
        }
        self.check(handle)?;
        let body = self.sound(handle, stored)?;
        self.payload(handle, body)
    }

    /// Length of the payload of a block whose bytes were read already, if it is stored uncompressed at their
    /// beginning.
    pub(crate) fn plain_payload(
        &self,
        handle: Handle,
        stored: &[u8],
    ) -> Result<Option<usize>, StorageError> {
        if self.seal.encrypts() || stored.len() < FRAME_BYTES {
            return Ok(None);
        }
        let how = stored.len() - FRAME_BYTES;
        if stored[how] != 0 {
            return Ok(None);
        }
        self.check(handle)?;
        self.sound(handle, stored)?;
        Ok(Some(how))
    }

    fn unseal(&self, handle: Handle, stored: &mut Vec<u8>) -> Result<Arc<[u8]>, StorageError> {
        let sound = self.sound(handle, stored)?.len();
        stored.truncate(sound);
        let place = SealedPosition {
            file: self.identity,
            at: handle.offset,
        };
        self.seal
            .open(place, stored, 0)
            .map_err(|error| self.damaged(handle.offset, &error.to_string()))?;
        self.payload(handle, stored)
    }

    /// The sealed bytes, without the checksum, which matches.
    fn sound<'a>(&self, handle: Handle, stored: &'a [u8]) -> Result<&'a [u8], StorageError> {
        let damaged = || self.damaged(handle.offset, "a block does not match its checksum");
        let (sealed, sum) = stored.split_last_chunk::<SUM_BYTES>().ok_or_else(damaged)?;
        let expected = xxh3_64_with_seed(sealed, sum_seed(self.identity, handle.offset));
        if u64::from_le_bytes(*sum) != expected {
            return Err(damaged());
        }
        Ok(sealed)
    }

    fn payload(&self, handle: Handle, body: &[u8]) -> Result<Arc<[u8]>, StorageError> {
        let damaged = || self.damaged(handle.offset, "a block cannot be unpacked");
        match body.split_last().ok_or_else(damaged)? {
            (0, payload) => Ok(payload.into()),
            (1, packed) => {
                let (len, packed) = packed.split_first_chunk::<4>().ok_or_else(damaged)?;
                let len = u32::from_le_bytes(*len) as usize;
                let payload = decompressed(packed, len).ok_or_else(damaged)?;
                Ok(payload.into())
            }
            (2, packed) => {
                let (len, packed) = packed.split_first_chunk::<4>().ok_or_else(damaged)?;
                let (by_columns, packed) = packed.split_first_chunk::<4>().ok_or_else(damaged)?;
                let by_columns = decompressed(packed, u32::from_le_bytes(*by_columns) as usize);
                let len = u32::from_le_bytes(*len) as usize;
                // An entry takes three bytes and its key; each byte of a column represents at least one of a
                // key.
                let by_columns = by_columns
                    .filter(|columns| len <= columns.len().saturating_mul(4))
                    .ok_or_else(damaged)?;
                let payload = columns::unpack(&by_columns, len).map_err(|_| damaged())?;
                Ok(payload.into())
            }
            _ => Err(damaged()),
        }
    }
}
