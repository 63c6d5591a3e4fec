//! The scalar functions of the language.
//!
//! One table, [`Function::of`], from the binder's names to bodies. Functions see values and an
//! [`Environment`], nothing else: no plan, no rows. `coalesce`, `range` inside `UNWIND` and whatever must not
//! evaluate all its arguments is the evaluator's work; their plain forms are here.

mod convergent;
mod convert;
mod files;
mod graph;
mod list;
mod math;
mod spatial;
mod string;
mod temporal;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use isomer_data::{ConvergentOwner, Direction, FileAbout, FileId};
use isomer_plan::function::Function as Builtin;
use isomer_value::{Map, Node, NodeId, Relationship, TypeId, Value, jiff};
use regex::Regex;

use crate::error::{ExecError, Result, shown};

pub(crate) use convert::float_text;
pub(crate) use graph::node_value;
pub(crate) use list::IntegerRange;
pub(crate) use spatial::point_distance;
pub(crate) use temporal::arithmetic as temporal_arithmetic;

/// What functions and operators may ask of the transaction and the machine.
pub trait Environment {
    /// Names of a node's labels, sorted. `DeletedEntityAccess` where the node is gone.
    fn node_labels(&self, node: NodeId) -> Result<Vec<Arc<str>>>;
    /// All properties of a node.
    fn node_properties(&self, node: NodeId) -> Result<Map>;
    /// One property of a node; null where it has none of this name.
    fn node_property(&self, node: NodeId, name: &str) -> Result<Value>;
    /// All properties of a relationship.
    fn relationship_properties(&self, relationship: &Relationship) -> Result<Map>;
    /// One property of a relationship; null where it has none of this name.
    fn relationship_property(&self, relationship: &Relationship, name: &str) -> Result<Value>;
    /// The name of a relationship type.
    fn type_name(&self, id: TypeId) -> Result<Arc<str>>;
    /// Now: one instant for the whole statement.
    fn statement_time(&self) -> jiff::Timestamp;
    /// Now: one instant for the whole transaction.
    fn transaction_time(&self) -> jiff::Timestamp;
    /// Now, each time anew.
    fn real_time(&self) -> jiff::Timestamp;
    /// The session's time zone.
    fn time_zone(&self) -> jiff::tz::TimeZone;
    /// 64 random bits.
    fn random(&self) -> u64;
    /// The compiled form of a regular expression that must match whole strings, kept for the next call.
    fn regex(&self, pattern: &str) -> Result<Arc<Regex>>;
    /// How many relationships a node has: `types` empty means all, `direction` as `OUTGOING`, `INCOMING` or `BOTH`.
    fn degree(&self, node: NodeId, types: &[Arc<str>], direction: Direction) -> Result<u64>;
    /// The value under a key of a bucket; null where there is none.
    fn bucket_get(&self, bucket: &str, key: &Value) -> Result<Value>;
    /// What stands under a path; nothing where nothing does.
    fn file_about(&self, path: &str) -> Result<Option<FileAbout>>;
    /// A part of a file: at most `length` bytes from `offset` on.
    fn file_part(&self, file: FileId, offset: u64, length: u64) -> Result<Vec<u8>>;
    /// The convergent field at a path of a node or relationship, looked at as said; null where there is none.
    fn look_into(&self, owner: ConvergentOwner, path: &[&str], look: Look<'_>) -> Result<Value>;
    /// Refuses a value of about `bytes` bytes where the query's memory limit does not allow it.
    fn allow_bytes(&self, bytes: usize) -> Result<()>;
}

/// What is asked of a convergent field.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// What kind it is.
    Kind,
    /// Its value.
    Value,
    /// Whether the set has this element.
    Contains(&'a Value),
    /// How many elements or fields it has.
    Size,
    /// At most so many elements of the set behind this one (null: from the first).
    Page(&'a Value, usize),
}

/// The body of a function. The number of arguments was checked when the call was bound.
pub(crate) type Body = fn(&[Value], &dyn Environment) -> Result<Value>;

/// A function as the table holds it.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    /// Whether a null argument makes the result null without a call.
    pub(crate) strict: bool,
    /// What it does.
    pub(crate) body: Body,
}

impl Function {
    /// The body of a built-in function.
    pub(crate) fn of(builtin: Builtin) -> Result<Self> {
        [
            string::find,
            list::find,
            math::find,
            convert::find,
            graph::find,
            files::find,
            convergent::find,
            temporal::find,
            spatial::find,
        ]
        .iter()
        .find_map(|find| find(builtin))
        .ok_or_else(|| {
            ExecError::Unsupported(format!(
                "the function {}() is not available in this version",
                builtin.name()
            ))
        })
    }

    /// Calls the function.
    pub(crate) fn call(&self, args: &[Value], env: &dyn Environment) -> Result<Value> {
        if self.strict && args.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        (self.body)(args, env)
    }
}

/// `value.name` of a temporal value or point; none for other values.
pub(crate) fn field_of(value: &Value, name: &str) -> Option<Result<Value>> {
    temporal::field(value, name).or_else(|| spatial::field(value, name))
}

/// A function that maps null to null.
const fn strict(body: Body) -> Option<Function> {
    Some(Function { strict: true, body })
}

/// A function that looks at null itself.
const fn lenient(body: Body) -> Option<Function> {
    Some(Function {
        strict: false,
        body,
    })
}

/// The error of an argument of the wrong type.
fn wrong(function: &str, expected: &str, got: &Value) -> ExecError {
    ExecError::type_error(format!("{function}() takes {expected}, not {}", shown(got)))
}

fn text<'a>(function: &str, value: &'a Value) -> Result<&'a Arc<str>> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(function, "a string", other)),
    }
}

fn integer(function: &str, value: &Value) -> Result<i64> {
    match value {
        Value::Int(i) => Ok(*i),
        other => Err(wrong(function, "an integer", other)),
    }
}

fn number(function: &str, value: &Value) -> Result<f64> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Float(f) => Ok(*f),
        other => Err(wrong(function, "a number", other)),
    }
}

fn node<'a>(function: &str, value: &'a Value) -> Result<&'a Node> {
    match value {
        Value::Node(node) => Ok(node),
        other => Err(wrong(function, "a node", other)),
    }
}

fn string(text: impl Into<Arc<str>>) -> Value {
    Value::String(text.into())
}

fn list(items: Vec<Value>) -> Value {
    Value::List(Arc::new(items))
}
