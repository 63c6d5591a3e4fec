//! The code of the scalar functions of the language.
//!
//! The table of functions is `isomer_plan::function`. [`Function::of`] maps each of its rows to a body, which is in one
//! of the files here. Bodies see values and an [`Environment`], but neither plan nor rows. `coalesce`, `range` inside
//! `UNWIND` and other functions that must not evaluate all their arguments are handled by the evaluator; their plain
//! forms are here.

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
use isomer_value::{
    Crs, DatabaseId, Duration, Element, Map, Node, NodeId, Point, Relationship, TypeId, Value, jiff,
};

use crate::error::{ExecError, Result, shown};
use crate::pattern::Regex;

pub(crate) use convert::float_text;
pub(crate) use graph::node_value;
pub(crate) use list::IntegerRange;
pub(crate) use spatial::point_distance;
pub(crate) use temporal::arithmetic as temporal_arithmetic;

/// What functions and operators need from the transaction and the machine.
pub trait Environment {
    /// Names of a node's labels, sorted. `DeletedEntityAccess` if the node is deleted.
    fn node_labels(&self, node: NodeId) -> Result<Vec<Arc<str>>>;
    /// All properties of a node.
    fn node_properties(&self, node: NodeId) -> Result<Map>;
    /// One property of a node; null if it is missing.
    fn node_property(&self, node: NodeId, name: &str) -> Result<Value>;
    /// All properties of a relationship.
    fn relationship_properties(&self, relationship: &Relationship) -> Result<Map>;
    /// One property of a relationship; null if it is missing.
    fn relationship_property(&self, relationship: &Relationship, name: &str) -> Result<Value>;
    /// The name of a relationship type.
    fn type_name(&self, id: TypeId) -> Result<Arc<str>>;
    /// The statement's timestamp.
    fn statement_time(&self) -> jiff::Timestamp;
    /// The transaction's timestamp.
    fn transaction_time(&self) -> jiff::Timestamp;
    /// The current time, read at each call.
    fn real_time(&self) -> jiff::Timestamp;
    /// The session's time zone.
    fn time_zone(&self) -> jiff::tz::TimeZone;
    /// 64 random bits.
    fn random(&self) -> u64;
    /// The compiled form of a regular expression that must match whole strings, cached.
    fn regex(&self, pattern: &str) -> Result<Arc<Regex>>;
    /// How many relationships a node has: `types` empty means all, `direction` as `OUTGOING`, `INCOMING` or `BOTH`.
    fn degree(&self, node: NodeId, types: &[Arc<str>], direction: Direction) -> Result<u64>;
    /// The value under a key of a bucket; null if there is none.
    fn bucket_get(&self, bucket: &str, key: &Value) -> Result<Value>;
    /// The file or folder at a path; none if the path does not exist.
    fn file_about(&self, path: &str) -> Result<Option<FileAbout>>;
    /// A part of a file: at most `length` bytes from `offset` on.
    fn file_part(&self, file: FileId, offset: u64, length: u64) -> Result<Vec<u8>>;
    /// The convergent field at a path of a node or relationship, queried with `query`; null if there is none.
    fn query_field(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        query: FieldQuery<'_>,
    ) -> Result<Value>;
    /// The id of the database, which element ids contain.
    fn database(&self) -> DatabaseId;
    /// The result of `convert` for a list of element ids of one kind; cached for the next call with the same list.
    fn converted(
        &self,
        ids: &Arc<Vec<Value>>,
        element: Element,
        convert: &dyn Fn(&[Value]) -> Value,
    ) -> Result<Value>;
    /// Fails if a value of about `bytes` bytes would exceed the query's memory limit.
    fn allow_bytes(&self, bytes: usize) -> Result<()>;
}

/// A query on a convergent field.
#[derive(Clone, Copy, Debug)]
pub enum FieldQuery<'a> {
    /// Its kind.
    Kind,
    /// Its value.
    Value,
    /// Whether the set contains this element.
    Contains(&'a Value),
    /// Number of elements or fields.
    Size,
    /// At most this number of elements of the set after this one (null: from the first).
    Page(&'a Value, usize),
}

/// The body of a function. The binder has checked the number of arguments.
pub(crate) type Body = fn(&[Value], &dyn Environment) -> Result<Value>;

/// An entry of the function table.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    /// Whether a null argument makes the result null without a call.
    pub(crate) strict: bool,
    /// The body.
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

/// Whether some temporal value or point has a component of this name: `n.born.year` may read one, or a map entry.
pub fn is_component(name: &str) -> bool {
    let epoch = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    let point = |crs| {
        let (x, y, z) = (1.0, 1.0, 1.0);
        Value::Point(Arc::new(Point { crs, x, y, z }))
    };
    let samples = [
        Value::from(epoch),
        Value::from(Duration::default()),
        point(Crs::Wgs84Height),
        point(Crs::Cartesian3d),
    ];
    let has =
        |sample: &Value| matches!(field_of(sample, name), Some(Ok(found)) if !found.is_null());
    samples.iter().any(has)
}

/// A function that maps null to null.
const fn strict(body: Body) -> Option<Function> {
    Some(Function { strict: true, body })
}

/// A function that handles null itself.
const fn lenient(body: Body) -> Option<Function> {
    Some(Function {
        strict: false,
        body,
    })
}

/// The error for an argument of the wrong type.
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
