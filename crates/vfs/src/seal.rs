//! Encryption at rest: blocks and records are sealed before they go to a disk, and opened when they come back.
//!
//! A [`Seal`] either passes bytes through (no encryption; whoever writes keeps a checksum of its own) or encrypts and
//! authenticates them together with their [`Place`], so that a block that was moved, swapped with an older one or
//! taken from another file does not open.

use thiserror::Error;

/// Where sealed bytes belong: a file by its identity, and a position in it (or a number of the record).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Identity of the file, never reused.
    pub file: u128,
    /// Offset or number of the block or record in it.
    pub at: u64,
}

/// The bytes are not what was sealed there, or the key is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are not what was sealed there: they are damaged, or the key is another one")]
pub struct Unsealed;

/// Seals and opens bytes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seal {}

impl Seal {
    /// Passes bytes through.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Whether bytes are encrypted.
    pub fn encrypts(&self) -> bool {
        false
    }

    /// By how many bytes sealing lengthens.
    pub fn overhead(&self) -> usize {
        0
    }

    /// Seals `bytes[from..]` in place.
    pub fn seal(&self, _place: Place, _bytes: &mut Vec<u8>, _from: usize) {}

    /// Opens `bytes[from..]` in place.
    pub fn open(&self, _place: Place, _bytes: &mut Vec<u8>, _from: usize) -> Result<(), Unsealed> {
        Ok(())
    }
}
