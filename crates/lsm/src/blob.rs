//! Blob files (key-value separation): files of large values that tables refer to, so that compactions do not
//! copy them.
//!
//! ```text
//! file       blocks (see `table/sealed.rs`), one per value, from the front to the end
//! reference  number of the file: varint, offset: varint, bytes of the block: varint, bytes of the value:
//! varint
//! ```
//!
//! Every table records how many bytes of which blob file it refers to. A file that no table refers to is
//! removed after the last reader of the levels that did; the live values of one that is mostly garbage are
//! rewritten when the tables that refer to it are compacted, which is then scheduled earlier.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use isomer_storage::StorageError;
use isomer_vfs::{Disk, Seal};

use crate::{
    codec::{Reader, put_varint},
    table::sealed::{Handle, Pace, SealedFile, SealedWriter},
};

/// Location of a value in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRef {
    /// Number of the file.
    pub file: u64,
    pub(crate) handle: Handle,
    /// Bytes of the value.
    pub value_bytes: u64,
}

impl BlobRef {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file);
        put_varint(out, self.handle.offset);
        put_varint(out, u64::from(self.handle.len));
        put_varint(out, self.value_bytes);
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let reference = Self {
            file: reader.varint()?,
            handle: Handle {
                offset: reader.varint()?,
                len: u32::try_from(reader.varint()?).ok()?,
            },
            value_bytes: reader.varint()?,
        };
        reader.is_done().then_some(reference)
    }
}

/// A blob file.
#[derive(Debug)]
pub(crate) struct BlobFile {
    pub(crate) number: u64,
    pub(crate) file: SealedFile,
}

impl BlobFile {
    pub(crate) fn open(
        disk: &dyn Disk,
        path: PathBuf,
        number: u64,
        identity: u128,
        len: u64,
        seal: Seal,
    ) -> Result<Self, StorageError> {
        let file = SealedFile::open(disk, path, identity, seal)?;
        if file.len() != len {
            return Err(file.damaged(
                file.len(),
                "the file does not have the length that was written",
            ));
        }
        Ok(Self { number, file })
    }

    pub(crate) fn read(&self, reference: &BlobRef) -> Result<Arc<[u8]>, StorageError> {
        let value = self.file.read(reference.handle)?;
        if value.len() as u64 != reference.value_bytes {
            return Err(self.file.damaged(
                reference.handle.offset,
                "a value does not have the length that its reference says",
            ));
        }
        Ok(value)
    }
}

/// The blob files of one state of the levels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs {
    pub(crate) files: HashMap<u64, Arc<BlobFile>>,
}

impl Blobs {
    pub(crate) fn read(&self, reference: &BlobRef) -> Result<Arc<[u8]>, StorageError> {
        match self.files.get(&reference.file) {
            Some(file) => file.read(reference),
            None => Err(StorageError::Corrupt(format!(
                "blob file {} is referred to but missing; restore the database from a backup",
                reference.file
            ))),
        }
    }
}

/// Writes a blob file.
pub(crate) struct BlobWriter {
    pub(crate) number: u64,
    pub(crate) identity: u128,
    writer: SealedWriter,
}

impl BlobWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        number: u64,
        identity: u128,
        seal: Seal,
        compress: bool,
        pace: Option<Pace>,
    ) -> Result<Self, StorageError> {
        let writer = SealedWriter::create(disk, path, identity, seal, compress, pace)?;
        Ok(Self {
            number,
            identity,
            writer,
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.writer.len()
    }

    pub(crate) fn put(&mut self, value: &[u8]) -> Result<BlobRef, StorageError> {
        let handle = self.writer.put(value)?;
        Ok(BlobRef {
            file: self.number,
            handle,
            value_bytes: value.len() as u64,
        })
    }

    /// Makes the file durable; returns its length.
    pub(crate) fn finish(self) -> Result<u64, StorageError> {
        Ok(self.writer.finish()?.1)
    }
}
