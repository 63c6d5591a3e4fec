//! The record codec: a node or relationship in bytes; each field can be read without decoding the others.
//!
//! ```text
//! u8      high nibble 1 = node, 2 = relationship;
//!         bits 0-1 width of ids, bits 2-3 width of ends in the directory: 0 = 1 byte, 1 = 2 bytes, 2 = 4 bytes
//! node:          varint number of labels, each label id as varint, ascending
//! relationship:  varint type id, varint source, varint target
//! varint  n, number of properties
//! ids     n property ids, ascending, little-endian
//! ends    n offsets past the end of each value, counted from the first value's start, little-endian
//! values  n encoded values, see `payload`
//! ```

mod builder;
mod decoder;
mod format;
mod payload;
mod record_ref;
mod sealed;

pub use builder::RecordBuilder;
pub use decoder::RecordDecoder;
pub use payload::{AtPath, decode_at_path, decode_value, encode_value};
pub use record_ref::RecordRef;
pub use sealed::RecordSealer;

#[cfg(test)]
mod tests;
