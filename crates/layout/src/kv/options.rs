//! Definitions of buckets: their kinds, options and limits.

use isomer_value::limits::MAX_KEY_BYTES;

use crate::DataError;

/// Longest key of a map.
pub const MAX_BUCKET_KEY_BYTES: usize = MAX_KEY_BYTES;

/// Longest key, and longest value, where both are in one stored key: in multi-value and reversible buckets.
pub const MAX_PAIR_PART_BYTES: usize = 16 * 1024;

/// Longest value of a map that is not reversible.
pub const MAX_BUCKET_VALUE_BYTES: usize = 16 << 20;

/// The number of values that a bucket holds under a key. Closed: a third kind would need its own methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BucketKind {
    /// One value.
    #[default]
    Map,
    /// Several values, each once, sorted by their bytes.
    Multi,
}

/// The options of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketOptions {
    /// The number of values under a key.
    pub kind: BucketKind,
    /// Whether the keys of a value can be looked up; maps only.
    pub reversible: bool,
}

impl BucketOptions {
    /// A bucket of a kind. Only a [`BucketKind::Map`] can be reversible; creating another such bucket is `Invalid`.
    pub const fn new(kind: BucketKind, reversible: bool) -> Self {
        Self { kind, reversible }
    }

    /// One value a key, and the keys of a value can be looked up.
    pub const fn reversible() -> Self {
        Self {
            kind: BucketKind::Map,
            reversible: true,
        }
    }

    /// Several values a key.
    pub const fn multi_value() -> Self {
        Self {
            kind: BucketKind::Multi,
            reversible: false,
        }
    }
}

/// The definition of a bucket as it is stored: kind, then whether reversible.
pub fn encode_options(options: BucketOptions) -> [u8; 2] {
    let kind = match options.kind {
        BucketKind::Map => 0,
        BucketKind::Multi => 1,
    };
    [kind, u8::from(options.reversible)]
}

/// Decodes what [`encode_options`] returns.
///
/// # Errors
///
/// [`DataError::Corrupt`] if the bytes are of no bucket.
pub fn decode_options(bytes: &[u8]) -> Result<BucketOptions, DataError> {
    let (kind, reversible) = match bytes {
        [0, 0] => (BucketKind::Map, false),
        [0, 1] => (BucketKind::Map, true),
        [1, 0] => (BucketKind::Multi, false),
        _ => {
            return Err(DataError::corrupt(
                "the definition of a bucket is malformed",
            ));
        }
    };
    Ok(BucketOptions { kind, reversible })
}
