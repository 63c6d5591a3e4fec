//! Buckets, as they are stored: definitions, typed keys, entries.
//!
//! The stored value of a map's entry is one byte (bit 0: it expires; bits 1 and 2: 0 bytes, 1 text, 2 a typed value),
//! the time in ms (`u64`, big endian) if it expires, then the value.

pub mod content;
pub mod key;
pub mod options;
