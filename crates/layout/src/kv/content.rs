//! Entries of buckets in bytes.

use crate::DataError;

/// The most bytes that an entry has before its value.
pub const ENTRY_HEAD: usize = 9;

/// The type of an entry's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes.
    Bytes = 0,
    /// UTF-8.
    Text = 1,
    /// Any other value, encoded.
    Value = 2,
}

/// A stored entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketEntry<'a> {
    /// The type of its value.
    pub content: Content,
    /// When it expires, in ms.
    pub expires: Option<u64>,
    /// Its value, without the head.
    pub value: &'a [u8],
}

impl<'a> BucketEntry<'a> {
    /// Decodes a stored entry.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] if it is malformed.
    pub fn decode(stored: &'a [u8]) -> Result<Self, DataError> {
        Self::parse(stored).ok_or_else(|| DataError::corrupt("an entry of a bucket is malformed"))
    }

    fn parse(stored: &'a [u8]) -> Option<Self> {
        let (&head, rest) = stored.split_first()?;
        let content = match head >> 1 {
            0 => Content::Bytes,
            1 => Content::Text,
            2 => Content::Value,
            _ => return None,
        };
        let (expires, value) = match head & 1 {
            0 => (None, rest),
            _ => {
                let (time, value) = rest.split_first_chunk::<8>()?;
                (Some(u64::from_be_bytes(*time)), value)
            }
        };
        Some(Self {
            content,
            expires,
            value,
        })
    }

    /// Appends its stored form.
    pub fn encode(self, stored: &mut Vec<u8>) {
        stored.push((self.content as u8) << 1 | u8::from(self.expires.is_some()));
        if let Some(time) = self.expires {
            stored.extend_from_slice(&time.to_be_bytes());
        }
        stored.extend_from_slice(self.value);
    }

    /// Whether it exists at `now`.
    pub fn is_live(self, now: u64) -> bool {
        self.expires.is_none_or(|time| time > now)
    }
}

/// The bytes of an entry.
pub fn encode_entry(content: Content, expires: Option<u64>, value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(ENTRY_HEAD + value.len());
    BucketEntry {
        content,
        expires,
        value,
    }
    .encode(&mut stored);
    stored
}

/// Decodes a stored entry.
pub fn entry_parts(stored: &[u8]) -> Result<(Content, Option<u64>, &[u8]), DataError> {
    let entry = BucketEntry::decode(stored)?;
    Ok((entry.content, entry.expires, entry.value))
}
