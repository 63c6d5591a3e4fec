//! What [`crate::Seal`] and [`crate::keys`] need of the cryptographic crates, in a build without the feature
//! `encryption`: it has no ciphers, and no keys to wipe.

use std::{
    io,
    ops::{Deref, DerefMut},
};

use crate::{Unsealed, seal::KEY_BYTES};

/// No cipher can be made.
pub(crate) enum Cipher {}

impl Cipher {
    pub(crate) fn new(_: &[u8; KEY_BYTES]) -> io::Result<Self> {
        Err(no_encryption())
    }

    pub(crate) fn seal(&self, _: &[u8; 24], _: &[u8; 24], _: &mut [u8]) -> [u8; 16] {
        match *self {}
    }

    pub(crate) fn open(
        &self,
        _: &[u8; 24],
        _: &[u8; 24],
        _: &[u8; 16],
        _: &mut [u8],
    ) -> Result<(), Unsealed> {
        match *self {}
    }
}

pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    Err(no_encryption())
}

fn no_encryption() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this build has no encryption: build it with the feature `encryption`",
    )
}

/// Takes the place of the wrapper that wipes keys.
#[derive(Clone, Debug)]
pub struct Zeroizing<T>(T);

impl<T> Zeroizing<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Zeroizing<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Zeroizing<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

pub(crate) trait Zeroize {
    fn zeroize(&mut self) {}
}

impl Zeroize for Vec<u8> {}
