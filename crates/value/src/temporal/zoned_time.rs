//! Times of day with an offset.

use jiff::{civil, tz::Offset};

/// A time of day as a clock `offset` from UTC shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZonedTime {
    /// What the clock shows.
    pub time: civil::Time,
    /// How far the clock is ahead of UTC.
    pub offset: Offset,
}
