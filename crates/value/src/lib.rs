//! Values, their order and equality, ids, and the codecs that turn them into keys, records and JSON.
//!
//! Everything above speaks in [`Value`]s. What this crate keeps true: one total order over all values
//! (openCypher's orderability), one three-valued equality, and encoded keys whose byte order is that order.

mod bytes;
mod entity;
pub mod equality;
mod error;
mod id;
pub mod json;
pub mod key;
pub mod limits;
mod map;
mod names;
mod number;
pub mod order;
mod point;
pub mod record;
pub mod temporal;
mod uuid;
mod value;

pub use jiff;

pub use entity::{Labels, Node, NodeContent, Path, Relationship, RelationshipContent};
pub use equality::GroupKey;
pub use error::ValueError;
pub use id::{IndexId, LabelId, NodeId, PropId, RelId, TypeId};
pub use map::Map;
pub use names::{Interner, NameTable, Names};
pub use point::{Crs, Point};
pub use temporal::{Duration, ZonedTime};
pub use uuid::{new_uuid_v7, uuid_v7_of};
pub use value::Value;
