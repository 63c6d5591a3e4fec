//! Results as an Arrow IPC stream: columns with types, in batches, for programs that compute with them.
//!
//! The format is written here and not by the crates `arrow-*`: all that is needed of it is a schema and batches of ten kinds of
//! columns, some hundred lines, where those crates bring thirty others and two minutes of one core to each build. What is
//! written follows the columnar format 1.5 (metadata version 5) of <https://arrow.apache.org/docs/format/Columnar.html>, little-endian.
//!
//! [`Kind`] says what a column is, and how kinds that meet in one become one; [`Column`] gathers values; [`schema`], [`batch`] and
//! [`END`] are the messages of a stream.

mod column;
mod flat;
mod kind;
mod message;

pub use column::Column;
pub use kind::Kind;
pub use message::{END, batch, schema};

/// Why a value does not stand in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoesNotFit {
    /// What the value is.
    pub value: &'static str,
    /// What the column holds.
    pub column: String,
}
