//! The limits that all codecs and parsers of values share.

use crate::ValueError;

/// Maximum nesting of lists and maps in one value: a scalar has depth 0, `[]` 1, `[[]]` 2.
pub const MAX_NESTING: usize = 128;

/// Maximum length of an encoded key in bytes; for a composite key the caller checks the total.
pub const MAX_KEY_BYTES: usize = 32 * 1024;

/// The levels that are left within a list or map; an error if none is, of at most [`MAX_NESTING`].
pub(crate) fn deeper(depth_left: usize) -> Result<usize, ValueError> {
    depth_left
        .checked_sub(1)
        .ok_or(ValueError::TooDeep { max: MAX_NESTING })
}
