//! One test per family of functions, and the environment that tests give them.

use std::sync::Arc;

use isomer_data::{ConvergentOwner, Direction, FileId, FileMetadata};
use isomer_plan::function::Function as Builtin;
use isomer_value::{
    DatabaseId, Element, Map, Node, NodeId, Path, RelId, Relationship, TypeId, Value,
    jiff::{self, tz::TimeZone},
};

use super::{Environment, FieldQuery, Function};
use crate::error::{ErrorClass, ExecError, Result};
use crate::pattern::Regex;

/// A graph of one node with labels `A` and `B` and a property `x = 1`, and the clock stopped.
pub(crate) struct Stub;

impl Environment for Stub {
    fn node_labels(&self, _: NodeId) -> Result<Vec<Arc<str>>> {
        Ok(vec!["A".into(), "B".into()])
    }

    fn node_properties(&self, _: NodeId) -> Result<Map> {
        Ok(Map::from_iter([("x", Value::Int(1))]))
    }

    fn node_property(&self, node: NodeId, name: &str) -> Result<Value> {
        Ok(self
            .node_properties(node)?
            .get(name)
            .cloned()
            .unwrap_or_default())
    }

    fn relationship_properties(&self, _: &Relationship) -> Result<Map> {
        Ok(Map::new())
    }

    fn relationship_property(&self, _: &Relationship, _: &str) -> Result<Value> {
        Ok(Value::Null)
    }

    fn type_name(&self, _: TypeId) -> Result<Arc<str>> {
        Ok("KNOWS".into())
    }

    fn database(&self) -> DatabaseId {
        DatabaseId(*b"0123456789abcdef")
    }

    fn converted(
        &self,
        ids: &Arc<Vec<Value>>,
        _: Element,
        convert: &dyn Fn(&[Value]) -> Value,
    ) -> Result<Value> {
        Ok(convert(ids))
    }

    fn statement_time(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_000_000_000).expect("a time that fits")
    }

    fn transaction_time(&self) -> jiff::Timestamp {
        self.statement_time()
    }

    fn real_time(&self) -> jiff::Timestamp {
        self.statement_time()
    }

    fn time_zone(&self) -> TimeZone {
        TimeZone::UTC
    }

    fn random(&self) -> u64 {
        u64::MAX
    }

    fn regex(&self, pattern: &str) -> Result<Arc<Regex>> {
        Ok(Arc::new(
            Regex::new(&format!("^(?:{pattern})$")).expect("a pattern that compiles"),
        ))
    }

    fn degree(&self, _: NodeId, types: &[Arc<str>], _: Direction) -> Result<u64> {
        Ok(10 - types.len() as u64)
    }

    fn bucket_get(&self, bucket: &str, key: &Value) -> Result<Value> {
        Ok(if bucket == "b" {
            key.clone()
        } else {
            Value::Null
        })
    }

    fn file_metadata(&self, _: &str) -> Result<Option<FileMetadata>> {
        Ok(None)
    }

    fn file_part(&self, _: FileId, _: u64, _: u64) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn query_field(&self, _: ConvergentOwner, _: &[&str], query: FieldQuery<'_>) -> Result<Value> {
        Ok(match query {
            FieldQuery::Size => Value::Int(7),
            FieldQuery::Contains(value) => Value::Bool(*value == Value::Int(1)),
            _ => Value::Null,
        })
    }

    fn project_graph(&self, _: &[Value]) -> Result<Value> {
        Err(ExecError::Unsupported("no graphs".into()))
    }
    fn allow_bytes(&self, bytes: usize) -> Result<()> {
        if bytes > 1 << 20 {
            Err(ExecError::limit("1 MiB", "ask for less"))
        } else {
            Ok(())
        }
    }
}

fn call(name: &str, args: &[Value]) -> Result<Value> {
    let builtin = Builtin::by_name(name).unwrap_or_else(|| panic!("{name} is not a function"));
    Function::of(builtin)?.call(args, &Stub)
}

fn ok(name: &str, args: &[Value]) -> Value {
    call(name, args).unwrap_or_else(|error| panic!("{name}({args:?}): {error}"))
}

fn class(name: &str, args: &[Value]) -> (ErrorClass, &'static str) {
    match call(name, args) {
        Ok(value) => panic!("{name}({args:?}) gave {value:?}"),
        Err(error) => error
            .classified()
            .unwrap_or_else(|| panic!("{name}({args:?}): {error}")),
    }
}

fn list(items: &[&str]) -> Value {
    items.iter().map(|item| Value::from(*item)).collect()
}

const WRONG_TYPE: (ErrorClass, &str) = (ErrorClass::TypeError, "InvalidArgumentValue");
const OUT_OF_RANGE: (ErrorClass, &str) = (ErrorClass::ArgumentError, "NumberOutOfRange");

/// A row in the table of functions is not enough.
#[test]
fn every_function_has_code() {
    for builtin in Builtin::ALL.iter().chain(Builtin::INTERNAL) {
        assert!(Function::of(*builtin).is_ok(), "{}", builtin.name());
    }
}

#[test]
fn strings() {
    let s = |text: &str| Value::from(text);
    assert_eq!(ok("substring", &[s("héllo"), 1.into(), 3.into()]), s("éll"));
    assert_eq!(ok("substring", &[s("héllo"), 2.into()]), s("llo"));
    assert_eq!(ok("substring", &[s("abc"), 7.into(), 1.into()]), s(""));
    assert_eq!(class("substring", &[s("abc"), (-1).into()]), OUT_OF_RANGE);
    assert_eq!(ok("left", &[s("日本語"), 2.into()]), s("日本"));
    assert_eq!(ok("right", &[s("日本語"), 2.into()]), s("本語"));
    assert_eq!(ok("right", &[s("ab"), 9.into()]), s("ab"));
    assert_eq!(ok("trim", &[s(" \t a b\n")]), s("a b"));
    assert_eq!(ok("btrim", &[s("xxaxx"), s("x")]), s("a"));
    assert_eq!(
        (ok("ltrim", &[s(" a ")]), ok("rtrim", &[s(" a ")])),
        (s("a "), s(" a"))
    );
    assert_eq!(ok("replace", &[s("banana"), s("an"), s("AN")]), s("bANANa"));
    assert_eq!(ok("split", &[s("one1two"), s("1")]), list(&["one", "two"]));
    assert_eq!(
        ok("split", &[s("a,b;c"), list(&[",", ";"])]),
        list(&["a", "b", "c"])
    );
    assert_eq!(ok("split", &[s("ab"), s("")]), list(&["a", "b"]));
    assert_eq!(
        (ok("toUpper", &[s("ß")]), ok("toLower", &[s("ÀB")])),
        (s("SS"), s("àb"))
    );
    assert_eq!(ok("reverse", &[s("raksO")]), s("Oskar"));
    assert_eq!(ok("size", &[s("日本")]), Value::Int(2));
    assert_eq!(ok("replace", &[Value::Null, s("a"), s("b")]), Value::Null);
    assert_eq!(class("trim", &[1.into()]), WRONG_TYPE);
    let long = s(&"a".repeat(10_000));
    assert!(matches!(
        call("replace", &[long.clone(), s("a"), long]),
        Err(ExecError::Limit { .. })
    ));
}

#[test]
fn lists() {
    let numbers: Value = [1, 2, 3].map(Value::Int).into_iter().collect();
    assert_eq!(
        (
            ok("head", std::slice::from_ref(&numbers)),
            ok("last", std::slice::from_ref(&numbers))
        ),
        (1.into(), 3.into())
    );
    assert_eq!(ok("tail", &[Value::empty_list()]), Value::empty_list());
    assert_eq!(ok("head", &[Value::empty_list()]), Value::Null);
    assert_eq!(
        ok("range", &[0.into(), 10.into(), 3.into()]),
        [0, 3, 6, 9].map(Value::Int).into_iter().collect()
    );
    assert_eq!(
        ok("range", &[3.into(), 1.into(), (-1).into()]),
        [3, 2, 1].map(Value::Int).into_iter().collect()
    );
    assert_eq!(ok("range", &[3.into(), 1.into()]), Value::empty_list());
    assert_eq!(
        ok("range", &[i64::MAX.into(), i64::MAX.into()]),
        [Value::Int(i64::MAX)].into_iter().collect()
    );
    assert_eq!(
        class("range", &[1.into(), 2.into(), 0.into()]),
        OUT_OF_RANGE
    );
    assert_eq!(
        class("range", &[1.into(), "a".into()]),
        (ErrorClass::ArgumentError, "InvalidArgumentType")
    );
    assert!(matches!(
        call("range", &[i64::MIN.into(), i64::MAX.into()]),
        Err(ExecError::Limit { .. })
    ));
    assert_eq!(
        ok("coalesce", &[Value::Null, 2.into(), 3.into()]),
        Value::Int(2)
    );
    assert_eq!(ok("nullIf", &[4.into(), 4.0.into()]), Value::Null);
    assert_eq!(ok("isEmpty", &[Value::empty_list()]), Value::Bool(true));
    assert_eq!(ok("size", &[numbers]), Value::Int(3));
    assert_eq!(class("size", &[1.into()]), WRONG_TYPE);
}

#[test]
fn numbers() {
    assert_eq!(ok("abs", &[(-1).into()]), Value::Int(1));
    assert_eq!(
        class("abs", &[i64::MIN.into()]),
        (ErrorClass::ArithmeticError, "IntegerOverflow")
    );
    assert_eq!(ok("ceil", &[1.2.into()]), Value::Float(2.0));
    for (x, rounded) in [
        (2.5, 3.0),
        (-2.5, -2.0),
        (0.499_999_999_999_999_94, 0.0),
        (-0.4, 0.0),
        (1e300, 1e300),
    ] {
        assert_eq!(ok("round", &[x.into()]), Value::Float(rounded), "{x}");
    }
    assert_eq!(ok("round", &[1.005.into(), 2.into()]), Value::Float(1.01));
    assert_eq!(
        ok("round", &[(-1.55).into(), 1.into(), "DOWN".into()]),
        Value::Float(-1.5)
    );
    assert_eq!(
        ok("round", &[2.5.into(), 0.into(), "HALF_EVEN".into()]),
        Value::Float(2.0)
    );
    assert_eq!(
        (ok("sign", &[(-7).into()]), ok("sign", &[0.0.into()])),
        (Value::Int(-1), Value::Int(0))
    );
    assert_eq!(ok("sqrt", &[12.96.into()]), Value::Float(3.6));
    assert_eq!(ok("atan2", &[0.into(), 1.into()]), Value::Float(0.0));
    let Value::Float(random) = ok("rand", &[]) else {
        panic!("rand() is a float")
    };
    assert!((0.0..1.0).contains(&random), "{random}");
    assert_eq!(class("sqrt", &["4".into()]), WRONG_TYPE);
}

#[test]
fn conversions() {
    assert_eq!(ok("toInteger", &["1.7".into()]), Value::Int(1));
    assert_eq!(
        ok("toInteger", &["9223372036854775807".into()]),
        Value::Int(i64::MAX)
    );
    // Truncated after the decimal point; a result out of range is an error for any source type.
    for (text, expected) in [
        ("9007199254740993.9", 9_007_199_254_740_993),
        ("1234567890123456789.0", 1_234_567_890_123_456_789),
        ("-9223372036854775808.999", i64::MIN),
        ("9223372036854775807.999", i64::MAX),
        ("1234567890123456789e-3", 1_234_567_890_123_456),
        ("12.5e1", 125),
        ("0.5e-400", 0),
        ("0e999999999999999999999", 0),
        ("-0.9", 0),
        ("+7", 7),
    ] {
        assert_eq!(
            ok("toInteger", &[text.into()]),
            Value::Int(expected),
            "{text}"
        );
    }
    for text in [
        "9223372036854775808",
        "-9223372036854775809",
        "1e19",
        "9223372036854775808.0",
        "1e999999999999",
    ] {
        assert_eq!(
            class("toInteger", &[text.into()]),
            class("toInteger", &[1e30.into()]),
            "{text}"
        );
        assert_eq!(ok("toIntegerOrNull", &[text.into()]), Value::Null);
        assert_eq!(
            ok("toIntegerList", &[vec![Value::from(text)].into()]),
            vec![Value::Null].into()
        );
    }
    for text in [
        "", "-", ".", "1.2.3", "1e", "e1", "0x10", "1_000", "NaN", "Infinity",
    ] {
        assert_eq!(ok("toInteger", &[text.into()]), Value::Null, "{text}");
    }
    assert_eq!(
        class("toFloat", &["1e400".into()]),
        class("toInteger", &[1e30.into()])
    );
    assert_eq!(ok("toFloatOrNull", &["-1e400".into()]), Value::Null);
    assert_eq!(
        ok("toFloat", &["Infinity".into()]),
        Value::Float(f64::INFINITY)
    );
    assert_eq!(ok("toInteger", &["foo".into()]), Value::Null);
    assert_eq!(ok("toInteger", &["inf".into()]), Value::Null);
    assert_eq!(ok("toInteger", &[82.9.into()]), Value::Int(82));
    assert_eq!(
        class("toInteger", &[1e30.into()]),
        (ErrorClass::ArithmeticError, "IntegerOverflow")
    );
    assert_eq!(class("toInteger", &[Value::empty_list()]), WRONG_TYPE);
    assert_eq!(ok("toFloat", &["5e3".into()]), Value::Float(5000.0));
    assert_eq!(class("toFloat", &[true.into()]), WRONG_TYPE);
    assert_eq!(ok("toBoolean", &["TRUE".into()]), Value::Bool(true));
    assert_eq!(ok("toBoolean", &["".into()]), Value::Null);
    assert_eq!(class("toBoolean", &[1.0.into()]), WRONG_TYPE);
    assert_eq!(ok("toString", &[1.0.into()]), "1.0".into());
    assert_eq!(ok("toString", &[(-42).into()]), "-42".into());
    assert_eq!(class("toString", &[Value::empty_list()]), WRONG_TYPE);
    assert_eq!(ok("toIntegerOrNull", &[Value::empty_list()]), Value::Null);
    let mixed: Value = [Value::from("1"), "x".into(), Value::Null]
        .into_iter()
        .collect();
    assert_eq!(
        ok("toIntegerList", &[mixed]),
        [Value::Int(1), Value::Null, Value::Null]
            .into_iter()
            .collect()
    );
    let Value::String(uuid) = ok("randomUUID", &[]) else {
        panic!("a UUID is a string")
    };
    assert_eq!(&*uuid, "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

#[test]
fn entities() {
    let node = Value::from(Node::new(NodeId(7)));
    let rel = Relationship::new(RelId(3), TypeId(1), NodeId(7), NodeId(8));
    let path = Value::from(Path {
        nodes: vec![Node::new(NodeId(7)), Node::new(NodeId(8))],
        relationships: vec![rel.clone()],
    });
    let rel = Value::from(rel);
    assert_eq!(ok("id", std::slice::from_ref(&node)), Value::Int(7));
    assert_eq!(ok("labels", std::slice::from_ref(&node)), list(&["A", "B"]));
    assert_eq!(ok("keys", std::slice::from_ref(&node)), list(&["x"]));
    assert_eq!(ok("type", std::slice::from_ref(&rel)), "KNOWS".into());
    assert_eq!(ok("startNode", std::slice::from_ref(&rel)), node);
    assert_eq!(ok("length", std::slice::from_ref(&path)), Value::Int(1));
    assert_eq!(
        ok("nodes", std::slice::from_ref(&path)),
        [node.clone(), Node::new(NodeId(8)).into()]
            .into_iter()
            .collect()
    );
    assert_eq!(
        ok("relationships", std::slice::from_ref(&path)),
        [rel.clone()].into_iter().collect()
    );
    assert_eq!(
        ok("degree", &[node.clone(), "KNOWS".into(), "out".into()]),
        Value::Int(9)
    );
    assert_eq!(ok("kv.get", &["b".into(), "k".into()]), "k".into());
    assert_eq!(
        ok("kv.exists", &["none".into(), "k".into()]),
        Value::Bool(false)
    );
    let key = |parts: &[Value]| ok("kv.key", &[parts.iter().cloned().collect()]);
    let sorted = [
        key(&[true.into()]),
        key(&[(-3).into(), "z".into()]),
        key(&[2.into()]),
        key(&[2.into(), "a".into()]),
        key(&[2.5.into()]),
        key(&[10.into()]),
    ];
    let bytes = |key: &Value| match key {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    assert!(sorted.is_sorted_by(|a, b| bytes(a) < bytes(b)));
    assert!(bytes(&sorted[3]).starts_with(&bytes(&sorted[2])));
    assert_eq!(ok("kv.key", &[2.into()]), sorted[2]);
    assert_eq!(
        ok("kv.keyParts", std::slice::from_ref(&sorted[3])),
        [2.into(), "a".into()].into_iter().collect()
    );
    let text = String::from_utf8(bytes(&key(&["ada".into()]))).unwrap();
    assert_eq!(ok("kv.keyParts", &[text.as_str().into()]), list(&["ada"]));
    assert_eq!(ok("kv.keyParts", &[Value::Null]), Value::Null);
    for (function, wrong) in [
        ("type", node),
        ("labels", rel.clone()),
        ("length", rel),
        ("keys", 1.into()),
        ("kv.keyParts", "no such key".into()),
        ("kv.keyParts", 1.into()),
    ] {
        assert_eq!(class(function, &[wrong]), WRONG_TYPE, "{function}");
    }
    assert_eq!(ok("properties", &[Value::Null]), Value::Null);
}

#[test]
fn points() {
    let point = |entries: &[(&'static str, f64)]| {
        ok(
            "point",
            &[entries
                .iter()
                .map(|(name, x)| (*name, Value::Float(*x)))
                .collect::<Map>()
                .into()],
        )
    };
    assert_eq!(
        ok(
            "distance",
            &[
                point(&[("x", 0.0), ("y", 0.0)]),
                point(&[("x", 3.0), ("y", 4.0)])
            ]
        ),
        Value::Float(5.0)
    );
    let (paris, london) = (
        point(&[("longitude", 2.35), ("latitude", 48.85)]),
        point(&[("longitude", -0.13), ("latitude", 51.51)]),
    );
    let Value::Float(metres) = ok("point.distance", &[paris.clone(), london]) else {
        panic!("a distance is a float")
    };
    assert!((343_000.0..345_000.0).contains(&metres), "{metres}");
    assert_eq!(
        ok("distance", &[paris, point(&[("x", 0.0), ("y", 0.0)])]),
        Value::Null
    );
    let far = Map::from_iter([("longitude", Value::Int(200)), ("latitude", Value::Int(0))]);
    assert_eq!(class("point", &[far.into()]), OUT_OF_RANGE);
    // A null coordinate makes the point unknown: a height that is null is different from a missing one.
    for (name, others) in [
        ("x", &[("y", 2.0)][..]),
        ("z", &[("x", 1.0), ("y", 2.0)]),
        ("height", &[("longitude", 1.0), ("latitude", 2.0)]),
        ("k", &[("x", 1.0), ("y", 2.0)]),
        ("crs", &[("x", 1.0), ("y", 2.0)]),
    ] {
        let mut map: Map = others
            .iter()
            .map(|(name, value)| (*name, Value::Float(*value)))
            .collect();
        map.insert(name, Value::Null);
        assert_eq!(ok("point", &[map.into()]), Value::Null, "{name}");
    }
}
