//! Dates, times, date-times and durations: the types, and every function of the language on them.

mod duration;
mod zoned_time;

pub use duration::Duration;
pub use zoned_time::ZonedTime;
