//! Indexes over the nodes of a label, or the relationships of a type.
//!
//! An entry is (index, values, record). Nulls are not indexed: a record has entries only where all fields of the index
//! have a value. A field over list elements gives one entry per distinct element; several such fields, one per
//! combination.

mod fields;
mod handles;
pub(crate) mod holders;
mod seek;

pub use handles::{Indexes, IndexesMut};

pub(crate) use fields::RequiredEntries;
pub(crate) use seek::value_range;
