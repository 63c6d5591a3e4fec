//! Results as an Arrow IPC stream: typed columns in batches, for analytical clients.
//!
//! The format is implemented here instead of using the crates `arrow-*`: only a schema and batches of ten kinds of
//! columns are needed, a few hundred lines, while those crates add thirty others and two minutes of one core to each
//! build. The output follows the columnar format 1.5 (metadata version 5) of
//! <https://arrow.apache.org/docs/format/Columnar.html>, little-endian.
//!
//! [`Kind`] is the type of a column, and how different types in one column are joined; [`Column`] collects values;
//! [`schema`], [`batch`] and [`END`] are the messages of a stream.

mod column;
mod flat;
mod kind;
mod message;

pub use column::Column;
pub use kind::Kind;
pub use message::{END, batch, schema};

/// A value does not fit the type of its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// Type of the value.
    pub value: &'static str,
    /// Type of the column.
    pub column: String,
}
