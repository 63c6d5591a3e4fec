//! The oracle of the differential tests: a reference interpreter of the query language.
//!
//! It evaluates a syntax tree over a graph of maps, directly from the language's definition. It has its own values,
//! order, equality, arithmetic, calendar and notation. Its manifest names one crate of the product, `cypher`, of which
//! it uses the tree: a wrong order of values, a wrong equality or a wrong temporal function of the product makes the
//! two disagree.
//!
//! - [`run`]: a statement over a [`Graph`](graph::Graph), by the [interpreter]
//! - [`Datum`]: values; [`logic`]: their three-valued relations and their total order
//! - [`calendar`] and [`temporal`]: days, clocks, offsets and durations; named time zones are not supported
//! - [`notation`]: values as text of the language

pub mod calendar;
mod fault;
pub mod graph;
#[cfg(test)]
mod independence;
pub mod interpreter;
pub mod logic;
pub mod notation;
mod span;
pub mod temporal;
mod value;

pub use fault::{Fault, Result};
pub use interpreter::{Answer, Ordered, Row, Variation, run};
pub use value::{Datum, Kind, Map, NodeValue, PathValue, PointValue, RelationshipValue};
