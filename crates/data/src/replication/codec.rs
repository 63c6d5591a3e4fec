//! Building blocks of the encodings of replication.

use crate::{
    DataError,
    keyspace::{push_id, take_id},
};

pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_id(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_id(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

pub(crate) fn take_text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(bytes)?.to_vec()).ok()
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_id(bytes)?).ok()
}

pub(crate) fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// A count of items of at least one byte each, so that a wrong count reserves no memory.
pub(crate) fn take_count(bytes: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(take_id(bytes)?).ok()?;
    (count <= bytes.len()).then_some(count)
}

pub(crate) fn malformed(what: &str) -> DataError {
    DataError::corrupt(format!("{what} is malformed (replication)"))
}
