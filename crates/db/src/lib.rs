//! The public Rust API: databases, transactions, queries and errors by kind.

mod de;
mod error;
mod parameters;
mod ser;

pub use de::from_value;
pub use error::{Error, ErrorKind, Phase, QueryError, Result};
pub use parameters::IntoParameters;
pub use ser::{to_map, to_value};

pub use isomer_value::{Map, Node, Path, Relationship, Value, jiff, json};
