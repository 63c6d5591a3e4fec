//! The limits that all codecs and parsers of values share.

/// Maximum nesting of lists and maps in one value: a scalar has depth 0, `[]` 1, `[[]]` 2.
pub const MAX_NESTING: usize = 128;

/// Maximum length of an encoded key in bytes; for a composite key the caller checks the total.
pub const MAX_KEY_BYTES: usize = 32 * 1024;
