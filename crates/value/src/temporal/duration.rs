//! Amounts of time.

/// An amount of time in four parts, none of which becomes another by itself: a month has no fixed number of days,
/// nor a day of seconds.
///
/// `nanos` is 0 to 999,999,999 and counts forward from `seconds`, also where that is negative: -0.5 s is
/// `seconds: -1, nanos: 500_000_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    /// Months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds past `seconds`.
    pub nanos: i32,
}
