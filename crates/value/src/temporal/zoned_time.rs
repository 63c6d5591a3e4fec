//! Times of day with an offset.

use jiff::{civil, tz::Offset};

/// A local time of day with an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZonedTime {
    /// The local time.
    pub time: civil::Time,
    /// The offset from UTC.
    pub offset: Offset,
}
