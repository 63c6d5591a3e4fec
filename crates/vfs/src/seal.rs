//! Encryption at rest: blocks and records are sealed (encrypted and authenticated) before they are written,
//! and opened when they are read.
//!
//! A [`Seal`] either passes bytes through (no encryption; the writer adds a checksum) or encrypts and
//! authenticates them together with their [`SealedPosition`], so that a block that was moved, replaced by an older one
//! or taken from another file is rejected.
//!
//! Sealed bytes are XChaCha20-Poly1305 (RFC 8439 with the 192-bit nonces of draft-irtf-cfrg-xchacha), written as
//!
//! ```text
//! n bytes    ciphertext, as long as the plain bytes
//! 16 bytes   tag over the ciphertext and the place: file (u128) and position (u64), little-endian
//! 24 bytes   nonce: 16 bytes drawn at random when the seal was made, then a count (u64)
//! u32        number of the data key
//! ```
//!
//! A nonce is used once: the 16 random bytes of two seals collide with probability 2⁻¹²⁸, and each seal
//! counts.
//!
//! Without the feature `encryption`, only the seal that passes bytes through exists.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use thiserror::Error;

use crate::cipher::{Cipher, Zeroizing, random};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

const TAG_BYTES: usize = 16;
pub(crate) const NONCE_BYTES: usize = 24;
const TRAILER_BYTES: usize = TAG_BYTES + NONCE_BYTES + 4;

/// Location that sealed bytes are bound to: the identity of a file, and an offset in it (or a record number).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SealedPosition {
    /// Identity of the file, never reused.
    pub file: u128,
    /// Offset or number of the block or record in it.
    pub at: u64,
}

impl SealedPosition {
    fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..].copy_from_slice(&self.at.to_le_bytes());
        bytes
    }
}

/// The bytes were modified, come from another location, or were sealed with another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("authentication failed: the bytes are damaged, or the key is wrong")]
pub struct Unsealed;

/// A key of 256 bits, wiped when it is dropped.
pub(crate) type Key = Zeroizing<[u8; KEY_BYTES]>;

/// Seals and opens bytes. Cheap to clone; passes bytes through if it has no keys.
#[derive(Clone, Default)]
pub struct Seal {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    /// By key number; the last one seals.
    ciphers: Vec<(u32, Cipher)>,
    nonce_start: [u8; 16],
    sealed: AtomicU64,
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.shared {
            Some(_) => "Seal(encrypted)",
            None => "Seal(plain)",
        })
    }
}

impl Seal {
    /// Passes bytes through.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Encrypts with an ephemeral key, dropped with the last clone: for files that do not outlive the
    /// process.
    pub fn ephemeral() -> std::io::Result<Self> {
        Self::of(&[(0, Zeroizing::new(random()?))])
    }

    /// Encrypts with the last of `keys`, opens with each of them.
    pub(crate) fn of(keys: &[(u32, Key)]) -> std::io::Result<Self> {
        let ciphers = keys
            .iter()
            .map(|(number, key)| Ok((*number, Cipher::new(key)?)));
        Ok(Self {
            shared: Some(Arc::new(Shared {
                ciphers: ciphers.collect::<std::io::Result<_>>()?,
                nonce_start: random()?,
                sealed: AtomicU64::new(0),
            })),
        })
    }

    /// Whether this seal encrypts.
    pub fn encrypts(&self) -> bool {
        self.shared.is_some()
    }

    /// Bytes added by sealing.
    pub fn overhead(&self) -> usize {
        if self.encrypts() { TRAILER_BYTES } else { 0 }
    }

    /// Seals `bytes[from..]` in place. Panics if that is 256 GiB or more.
    #[inline]
    pub fn seal(&self, place: SealedPosition, bytes: &mut Vec<u8>, from: usize) {
        if let Some(shared) = &self.shared {
            shared.seal(place, bytes, from);
        }
    }

    /// Opens `bytes[from..]` in place. After an error the content is unspecified.
    #[inline]
    pub fn open(
        &self,
        place: SealedPosition,
        bytes: &mut Vec<u8>,
        from: usize,
    ) -> Result<(), Unsealed> {
        match &self.shared {
            Some(shared) => shared.open(place, bytes, from),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn seal(&self, place: SealedPosition, bytes: &mut Vec<u8>, from: usize) {
        let (number, cipher) = self.ciphers.last().expect("a seal has a key");
        let count = self.sealed.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; NONCE_BYTES];
        nonce[..16].copy_from_slice(&self.nonce_start);
        nonce[16..].copy_from_slice(&count.to_le_bytes());
        let tag = cipher.seal(&nonce, &place.bytes(), &mut bytes[from..]);
        bytes.extend_from_slice(&tag);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn open(
        &self,
        place: SealedPosition,
        bytes: &mut Vec<u8>,
        from: usize,
    ) -> Result<(), Unsealed> {
        let end = bytes
            .len()
            .checked_sub(TRAILER_BYTES)
            .filter(|end| *end >= from)
            .ok_or(Unsealed)?;
        let (sealed, trailer) = bytes.split_at_mut(end);
        let (tag, rest) = trailer.split_at(TAG_BYTES);
        let (nonce, number) = rest.split_at(NONCE_BYTES);
        let number = u32::from_le_bytes(number.try_into().map_err(|_| Unsealed)?);
        let nonce = nonce.try_into().map_err(|_| Unsealed)?;
        let tag = tag.try_into().map_err(|_| Unsealed)?;
        let (_, cipher) = self
            .ciphers
            .iter()
            .find(|(one, _)| *one == number)
            .ok_or(Unsealed)?;
        cipher.open(nonce, &place.bytes(), tag, &mut sealed[from..])?;
        bytes.truncate(end);
        Ok(())
    }
}

#[cfg(all(test, feature = "encryption"))]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Zeroizing::new([byte; KEY_BYTES])
    }

    const HERE: SealedPosition = SealedPosition { file: 7, at: 4096 };

    #[test]
    fn plain_bytes_stay_as_they_are() {
        let seal = Seal::plain();
        let mut bytes = b"as it is".to_vec();
        seal.seal(HERE, &mut bytes, 3);
        assert_eq!(bytes, b"as it is");
        assert_eq!((seal.overhead(), seal.encrypts()), (0, false));
        assert_eq!(seal.open(HERE, &mut bytes, 3), Ok(()));
    }

    #[test]
    fn sealed_bytes_open_where_they_were_sealed_and_nowhere_else() {
        let seal = Seal::of(&[(1, key(1)), (2, key(2))]).unwrap();
        for len in [0, 1, 15, 16, 4096, 70_000] {
            let text: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut bytes = b"head".to_vec();
            bytes.extend_from_slice(&text);
            seal.seal(HERE, &mut bytes, 4);
            assert_eq!(bytes.len(), 4 + len + seal.overhead());
            assert!(bytes.starts_with(b"head"));
            assert!(len < 15 || bytes[4..4 + len] != text[..], "it is hidden");
            for place in [
                SealedPosition { file: 8, ..HERE },
                SealedPosition { at: 0, ..HERE },
                SealedPosition {
                    file: 7 | 1 << 100,
                    ..HERE
                },
            ] {
                assert_eq!(seal.open(place, &mut bytes.clone(), 4), Err(Unsealed));
            }
            seal.open(HERE, &mut bytes, 4).unwrap();
            assert_eq!(bytes[4..], text);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let seal = Seal::of(&[(1, key(1))]).unwrap();
        let mut whole = b"some text".to_vec();
        seal.seal(HERE, &mut whole, 0);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seal.open(HERE, &mut bytes, 0), Err(Unsealed), "bit {bit}");
        }
        for cut in 0..whole.len() {
            assert_eq!(
                seal.open(HERE, &mut whole[..cut].to_vec(), 0),
                Err(Unsealed)
            );
        }
        assert_eq!(seal.open(HERE, &mut whole.clone(), 1), Err(Unsealed));
    }

    #[test]
    fn older_keys_open_what_they_sealed_and_other_keys_do_not() {
        let old = Seal::of(&[(1, key(1))]).unwrap();
        let new = Seal::of(&[(1, key(1)), (2, key(2))]).unwrap();
        let other = Seal::of(&[(1, key(9))]).unwrap();
        let mut bytes = b"old".to_vec();
        old.seal(HERE, &mut bytes, 0);
        assert_eq!(other.open(HERE, &mut bytes.clone(), 0), Err(Unsealed));
        new.open(HERE, &mut bytes, 0).unwrap();
        assert_eq!(bytes, b"old");
        new.seal(HERE, &mut bytes, 0);
        assert_eq!(old.open(HERE, &mut bytes.clone(), 0), Err(Unsealed));
        new.open(HERE, &mut bytes, 0).unwrap();
        let ephemeral = Seal::ephemeral().unwrap();
        ephemeral.seal(HERE, &mut bytes, 0);
        assert_eq!(
            Seal::ephemeral().unwrap().open(HERE, &mut bytes, 0),
            Err(Unsealed)
        );
    }

    #[test]
    fn nonces_differ_and_debug_reveals_nothing() {
        let seal = Seal::of(&[(1, key(0xab))]).unwrap();
        let mut seen = std::collections::HashSet::new();
        for seal in [
            seal.clone(),
            seal.clone(),
            Seal::of(&[(1, key(0xab))]).unwrap(),
        ] {
            for _ in 0..100 {
                let mut bytes = Vec::new();
                seal.seal(HERE, &mut bytes, 0);
                assert!(seen.insert(bytes[TAG_BYTES..][..NONCE_BYTES].to_vec()));
            }
        }
        assert_eq!(format!("{seal:?}"), "Seal(encrypted)");
    }
}
