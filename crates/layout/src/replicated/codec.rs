//! Building blocks of the encodings of replication.

#![allow(missing_docs)] // pairs of functions that write and read

use crate::{
    DataError,
    keyspace::{push_id, take_id},
};

pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_id(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_id(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

pub fn take_text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(bytes)?.to_vec()).ok()
}

pub fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_id(bytes)?).ok()
}

pub fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

/// A count of items of at least one byte each, so that a wrong count reserves no memory.
pub fn take_count(bytes: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(take_id(bytes)?).ok()?;
    (count <= bytes.len()).then_some(count)
}

pub fn malformed(what: &str) -> DataError {
    DataError::corrupt(format!("{what} is malformed (replication)"))
}
