//! Values, their order and equality, ids, and the codecs that turn them into keys, records and JSON.
//!
//! All crates above use [`Value`]s. Invariants: one total order over all values (openCypher's orderability),
//! one three-valued equality, and encoded keys whose byte order is that order.

mod bytes;
mod direction;
mod element_id;
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
pub mod serialize;
pub mod temporal;
mod uuid;
mod value;

pub use jiff;

pub use direction::Direction;
pub use element_id::{DatabaseId, Element, ElementId};
pub use entity::{Labels, Node, NodeContent, Path, Relationship, RelationshipContent};
pub use equality::GroupKey;
pub use error::ValueError;
pub use id::{IndexId, LabelId, NodeId, PropId, RelId, TypeId};
pub use map::Map;
pub use names::{Interner, NameTable, Names};
pub use point::{Crs, Point};
pub use temporal::{Duration, ZonedDateTime, ZonedTime};
pub use uuid::{new_uuid_v7, uuid_v7_of};
pub use value::Value;
