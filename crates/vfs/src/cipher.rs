//! XChaCha20-Poly1305, random bytes, and wiping keys, by the cryptographic crates.

use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce, aead::AeadInOut};
pub(crate) use zeroize::Zeroize;
pub use zeroize::Zeroizing;

use crate::{Unsealed, seal::KEY_BYTES};

pub(crate) struct Cipher(XChaCha20Poly1305);

impl Cipher {
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> std::io::Result<Self> {
        Ok(Self(XChaCha20Poly1305::new(key.into())))
    }

    /// Encrypts in place and returns the tag.
    pub(crate) fn seal(&self, nonce: &[u8; 24], place: &[u8; 24], bytes: &mut [u8]) -> [u8; 16] {
        let tag = self
            .0
            .encrypt_inout_detached(&XNonce::from(*nonce), place, bytes.into())
            .expect("blocks and records are far below 256 GiB");
        tag.into()
    }

    /// Decrypts in place.
    pub(crate) fn open(
        &self,
        nonce: &[u8; 24],
        place: &[u8; 24],
        tag: &[u8; 16],
        bytes: &mut [u8],
    ) -> Result<(), Unsealed> {
        let (nonce, tag) = (XNonce::from(*nonce), Tag::from(*tag));
        self.0
            .decrypt_inout_detached(&nonce, place, bytes.into(), &tag)
            .map_err(|_| Unsealed)
    }
}

/// Random bytes from the operating system.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
