//! Dates, times, date-times and durations: the types, and every function of the language on them.

mod duration;
pub(crate) mod parts;
mod zoned_time;

pub use duration::Duration;
pub use zoned_time::ZonedTime;
