//! Ids as views hold them: 32 bits.

/// Largest id of a node or relationship that views hold. (`u32::MAX` itself is reserved.)
pub(crate) const MAX_ID: u64 = u32::MAX as u64 - 1;

/// Narrows an id to the 32 bits that views hold.
pub(crate) fn small(id: u64) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| u64::from(*id) <= MAX_ID)
}
