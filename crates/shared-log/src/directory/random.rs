//! Random numbers: identities, salts and tags.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A random number. It only has to be another one each time, not secret.
pub(super) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(u64::from(std::process::id()));
    hasher.finish()
}
