//! The value that everything above speaks in.

use std::sync::Arc;

use crate::{Map, Node, Path, Relationship};

/// One value of any type of the language. Cloning copies at most a pointer and its count.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing known.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit signed integer, exact.
    Int(i64),
    /// An IEEE 754 double; NaN and the infinities included.
    Float(f64),
    /// Unicode text.
    String(Arc<str>),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// Values in order.
    List(Arc<Vec<Value>>),
    /// Names to values.
    Map(Arc<Map>),
    /// A node.
    Node(Arc<Node>),
    /// A relationship.
    Relationship(Arc<Relationship>),
    /// A path.
    Path(Arc<Path>),
}
