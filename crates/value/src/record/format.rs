//! What readers and builders of the format share: the kinds of records, and its errors.

use crate::ValueError;

pub(super) const KIND_NODE: u8 = 1;
pub(super) const KIND_RELATIONSHIP: u8 = 2;

/// The format's name in errors.
pub(super) const WHAT: &str = "record";

pub(super) fn corrupt(at: usize, reason: &'static str) -> ValueError {
    ValueError::Corrupt {
        what: WHAT,
        at,
        reason,
    }
}
