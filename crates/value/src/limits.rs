//! The limits that every codec and parser of values shares.

/// How deep lists and maps may be nested in one value: a scalar has depth 0, `[]` 1, `[[]]` 2.
pub const MAX_NESTING: usize = 128;

/// Longest encoded key in bytes, composite keys counted as a whole by whoever joins them.
pub const MAX_KEY_BYTES: usize = 32 * 1024;
