use super::*;
use crate::{
    Crs, Map, Node, NodeContent, NodeId, Path, Point, RelId, Relationship, RelationshipContent,
    TypeId, Value, ValueError,
};
use std::sync::Arc;

fn message(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn values_are_read_exactly() {
    let cases = [
        (" null ", Value::Null),
        ("true", true.into()),
        ("9223372036854775807", i64::MAX.into()),
        ("-9223372036854775808", i64::MIN.into()),
        ("9007199254740993", 9_007_199_254_740_993_i64.into()),
        ("-0", 0_i64.into()),
        ("-0.0", (-0.0).into()),
        ("1.0", 1.0.into()),
        ("1e2", 100.0.into()),
        ("0.1", 0.1.into()),
        ("1.7976931348623157e308", f64::MAX.into()),
        ("5e-324", 5e-324.into()),
        (
            r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#,
            "a\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{1f600}\u{e9}".into(),
        ),
        (
            "[1,[ ],{ }]",
            vec![1_i64.into(), Value::empty_list(), Map::new().into()].into(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
    let map = parse(r#"{"b":1,"":{"a.b":2},"a":[null]}"#).unwrap();
    let map = map.as_map().unwrap();
    assert_eq!(
        map.names().map(|name| &**name).collect::<Vec<_>>(),
        ["", "a", "b"]
    );
}

#[test]
fn what_would_be_lost_is_refused_by_name() {
    let cases = [
        (
            "9223372036854775808",
            "JSON, line 1, column 1: 9223372036854775808 does not fit into 64 bits",
        ),
        (
            "[-9223372036854775809]",
            "JSON, line 1, column 2: -9223372036854775809 does not fit",
        ),
        (
            "[1,\n 1e400]",
            "JSON, line 2, column 2: 1e400 is too large for a float",
        ),
        ("-1e400", "-1e400 is too large"),
        (
            r#"{"a":1,"b":2,"a":3}"#,
            "JSON, line 1, column 14: the key `a` comes twice",
        ),
        (
            r#"{"a":1,"\u0061":3}"#,
            "JSON, line 1, column 8: the key `a` comes twice",
        ),
        (r#""\ud800""#, "JSON, line 1, column 2: unpaired surrogate"),
        (r#""\udc00""#, "unpaired surrogate"),
        (r#""\ud800\u0041""#, "unpaired surrogate"),
        ("é,", "`é`"),
        ("\u{feff}1", "byte order mark"),
        ("", "the text ends where a value is expected"),
        ("1 2", "line 1, column 3: unexpected text after the value"),
        ("01", "must not start with 0"),
        ("-", "a digit after `-`"),
        ("1.", "a digit after the decimal point"),
        ("1e", "a digit in the exponent"),
        ("+1", "a value is expected, not `+`"),
        ("NaN", "a value is expected, not `N`"),
        ("nullx", "a value is expected, not `n`"),
        ("[1,]", "a value is expected, not `]`"),
        ("{a:1}", "a key in double quotes is expected, not `a`"),
        (r#"{"a" 1}"#, "`:` after the key"),
        (r#"{"a":1,}"#, "a key in double quotes"),
        ("\"a\nb\"", "control character U+000A"),
        (
            "[\"é\", \"a",
            "line 1, column 7: the string that starts here does not end",
        ),
        (r#""\x""#, "after `\\` one of"),
        (r#""\u12g4""#, "four hexadecimal digits"),
        (r#""\u12"#, "four hexadecimal digits"),
        ("\"\\", "after `\\` one of"),
        ("[1", "the text ends where `,` or `]` is expected"),
    ];
    for (text, expected) in cases {
        let message = message(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    let error = parse_bytes(b"[\"\xff\"]").unwrap_err().to_string();
    assert!(
        error.contains("line 1, column 3: the text is not UTF-8"),
        "{error}"
    );
}

#[test]
fn nesting_is_bounded() {
    let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = parse(&nest(128)).unwrap();
    assert_eq!(to_string(&deepest).unwrap(), nest(128));
    for depth in [129, 100_000] {
        let message = message(&nest(depth));
        assert!(
            message.contains("line 1, column 129: arrays and objects are nested deeper than 128"),
            "{message}"
        );
    }
    assert!(message(&"{\"a\":".repeat(100_000)).contains("nested deeper"));
    let wrap = |value, depth| (0..depth).fold(value, |inner, _| Value::from(vec![inner]));
    let mut out = String::new();
    write(&wrap(deepest.clone(), 128), &mut out).unwrap();
    assert_eq!(out, nest(256));
    let too_deep = write(&wrap(deepest, 129), &mut out);
    assert_eq!(too_deep, Err(ValueError::TooDeep { max: 256 }));
    assert_eq!(out.len(), 512, "what was there stays");
}

#[test]
fn values_are_written_in_their_forms() {
    let node = Node {
        id: NodeId(1),
        content: Some(Arc::new(NodeContent {
            labels: vec!["User".into()].into(),
            properties: Map::from_iter([("name", Value::from("Ada"))]),
        })),
    };
    let relationship = Relationship {
        content: Some(Arc::new(RelationshipContent {
            type_name: "KNOWS".into(),
            properties: Map::new(),
        })),
        ..Relationship::new(RelId(2), TypeId(0), NodeId(1), NodeId(3))
    };
    let node_text = r#"{"$node":1,"labels":["User"],"properties":{"name":"Ada"}}"#;
    let rel_text = r#"{"$relationship":2,"type":"KNOWS","source":1,"target":3,"properties":{}}"#;
    let path = Path {
        nodes: vec![node.clone(), Node::new(NodeId(3))],
        relationships: vec![relationship.clone()],
    };
    let cases = [
        (1.0.into(), "1.0".to_owned()),
        (1e16.into(), "1e16".into()),
        ((-0.0).into(), "-0.0".into()),
        (f64::NAN.into(), "\"NaN\"".into()),
        (f64::NEG_INFINITY.into(), "\"-Infinity\"".into()),
        (i64::MIN.into(), "-9223372036854775808".into()),
        (
            "a\"\\\n\u{1}\u{7f}é".into(),
            "\"a\\\"\\\\\\n\\u0001\u{7f}é\"".into(),
        ),
        (vec![0_u8].into(), r#"{"$bytes":"AA=="}"#.into()),
        (b"hello"[..].into(), r#"{"$bytes":"aGVsbG8="}"#.into()),
        (vec![1_i64.into(), Value::Null].into(), "[1,null]".into()),
        (
            Map::from_iter([("b", Value::Int(1)), ("a", Value::Null)]).into(),
            r#"{"a":null,"b":1}"#.into(),
        ),
        (
            Point {
                crs: Crs::Wgs84,
                x: 1.0,
                y: 2.5,
                z: 0.0,
            }
            .into(),
            r#"{"crs":"wgs-84","x":1.0,"y":2.5}"#.into(),
        ),
        (
            jiff::civil::date(1984, 10, 11).at(12, 31, 0, 0).into(),
            "\"1984-10-11T12:31\"".into(),
        ),
        (node.into(), node_text.into()),
        (relationship.into(), rel_text.into()),
        (
            path.into(),
            format!(r#"{{"$path":[{node_text},{rel_text},{{"$node":3}}]}}"#),
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(to_string(&value).unwrap(), expected);
    }
}

#[test]
fn a_reader_shares_names_and_reads_on() {
    let mut reader = JsonReader::new();
    let text = r#"{"name":1} {"name":2}"#;
    let (first, used) = reader.read_prefix(text).unwrap();
    let second = reader.read(&text[used..]).unwrap();
    let name = |value: &Value| value.as_map().unwrap().names().next().unwrap().clone();
    assert!(Arc::ptr_eq(&name(&first), &name(&second)));
    assert_eq!(reader.read("{}"), Ok(Map::new().into()));
}
