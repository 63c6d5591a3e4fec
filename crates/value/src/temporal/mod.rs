//! Dates, times, date-times and durations: the types, and every function of the language on them.

mod duration;
mod format;
pub(crate) mod parts;
mod zoned_time;

pub use duration::Duration;
pub use format::to_text;
pub use zoned_time::ZonedTime;
