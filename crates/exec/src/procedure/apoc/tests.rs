//! Values of the functions against the results that APOC's documentation gives for the same calls.

use isomer_value::{Map, Value};

use super::super::Registry;
use crate::ExecError;

fn call(name: &str, arguments: &[Value]) -> Result<Value, ExecError> {
    let registry = Registry::with_builtins();
    let function = registry.function(name).expect("the function is registered");
    let parameters = &function.signature().parameters;
    let mut all = arguments.to_vec();
    let left_out = parameters.iter().skip(arguments.len());
    all.extend(left_out.map(|one| one.default.clone().expect("the argument is optional")));
    function.call(&all)
}

fn ints(numbers: &[i64]) -> Value {
    numbers.iter().copied().map(Value::Int).collect()
}

fn list(values: Vec<Value>) -> Value {
    values.into()
}

fn texts(all: &[&str]) -> Value {
    all.iter().map(|text| Value::from(*text)).collect()
}

fn check(cases: Vec<(&str, Vec<Value>, Value)>) {
    for (name, arguments, expected) in cases {
        let found = call(name, &arguments);
        let found = found.unwrap_or_else(|error| panic!("{name}({arguments:?}): {error}"));
        assert_eq!(found, expected, "{name}({arguments:?})");
    }
}

#[test]
fn collections() {
    let odd = || ints(&[1, 3, 5, 7, 9]);
    check(vec![
        (
            "apoc.coll.sum",
            vec![ints(&[1, 2, 3, 4, 5])],
            15.0_f64.into(),
        ),
        (
            "apoc.coll.avg",
            vec![ints(&[1, 2, 3, 4, 5])],
            3.0_f64.into(),
        ),
        ("apoc.coll.sumLongs", vec![ints(&[1, 2])], 3_i64.into()),
        ("apoc.coll.min", vec![odd()], 1_i64.into()),
        ("apoc.coll.max", vec![odd()], 9_i64.into()),
        (
            "apoc.coll.toSet",
            vec![ints(&[1, 3, 1, 3, 2, 2, 4])],
            ints(&[1, 3, 2, 4]),
        ),
        ("apoc.coll.contains", vec![odd(), 3_i64.into()], true.into()),
        (
            "apoc.coll.containsAll",
            vec![odd(), ints(&[1, 8])],
            false.into(),
        ),
        ("apoc.coll.indexOf", vec![odd(), 5_i64.into()], 2_i64.into()),
        (
            "apoc.coll.indexOf",
            vec![odd(), 6_i64.into()],
            (-1_i64).into(),
        ),
        ("apoc.coll.sort", vec![ints(&[5, 7, 1, 9, 3])], odd()),
        (
            "apoc.coll.union",
            vec![ints(&[1, 2, 3, 4, 5]), ints(&[3, 4, 5, 6, 7])],
            ints(&[1, 2, 3, 4, 5, 6, 7]),
        ),
        (
            "apoc.coll.unionAll",
            vec![ints(&[1, 2]), ints(&[2])],
            ints(&[1, 2, 2]),
        ),
        (
            "apoc.coll.intersection",
            vec![ints(&[1, 2, 3, 4, 5]), ints(&[3, 4, 5])],
            ints(&[3, 4, 5]),
        ),
        (
            "apoc.coll.subtract",
            vec![ints(&[1, 2, 3, 4, 5, 6, 6]), ints(&[3, 4, 5])],
            ints(&[1, 2, 6]),
        ),
        (
            "apoc.coll.removeAll",
            vec![ints(&[1, 2, 3, 4, 5, 6, 6]), ints(&[3, 4, 5])],
            ints(&[1, 2, 6, 6]),
        ),
        (
            "apoc.coll.disjunction",
            vec![ints(&[1, 2, 3]), ints(&[3, 4])],
            ints(&[1, 2, 4]),
        ),
    ]);
}

#[test]
fn positions_and_counts_in_collections() {
    let odd = || ints(&[1, 3, 5, 7, 9]);
    check(vec![
        (
            "apoc.coll.remove",
            vec![odd(), 1_i64.into(), 2_i64.into()],
            ints(&[1, 7, 9]),
        ),
        (
            "apoc.coll.insert",
            vec![odd(), 3_i64.into(), 11_i64.into()],
            ints(&[1, 3, 5, 11, 7, 9]),
        ),
        (
            "apoc.coll.insertAll",
            vec![odd(), 1_i64.into(), ints(&[0, 0])],
            ints(&[1, 0, 0, 3, 5, 7, 9]),
        ),
        (
            "apoc.coll.set",
            vec![odd(), 2_i64.into(), 0_i64.into()],
            ints(&[1, 3, 0, 7, 9]),
        ),
        (
            "apoc.coll.duplicates",
            vec![ints(&[1, 3, 5, 7, 9, 9])],
            ints(&[9]),
        ),
        (
            "apoc.coll.occurrences",
            vec![ints(&[9, 1, 9]), 9_i64.into()],
            2_i64.into(),
        ),
        (
            "apoc.coll.isEqualCollection",
            vec![ints(&[1, 2, 2]), ints(&[2, 1, 2])],
            true.into(),
        ),
        ("apoc.coll.different", vec![ints(&[1, 3, 3])], false.into()),
        (
            "apoc.coll.dropDuplicateNeighbors",
            vec![ints(&[1, 1, 2, 1])],
            ints(&[1, 2, 1]),
        ),
        (
            "apoc.coll.fill",
            vec!["a".into(), 2_i64.into()],
            texts(&["a", "a"]),
        ),
        ("apoc.coll.reverse", vec![ints(&[1, 2])], ints(&[2, 1])),
        (
            "apoc.coll.pairsMin",
            vec![ints(&[1, 2, 3])],
            vec![ints(&[1, 2]), ints(&[2, 3])].into(),
        ),
        (
            "apoc.coll.zip",
            vec![ints(&[1, 2]), ints(&[3, 4])],
            vec![ints(&[1, 3]), ints(&[2, 4])].into(),
        ),
        ("apoc.coll.toSet", vec![Value::Null], Value::Null),
    ]);
    let nested = list(vec![1_i64.into(), list(vec![2_i64.into(), ints(&[3])])]);
    let once = list(vec![1_i64.into(), 2_i64.into(), ints(&[3])]);
    check(vec![
        ("apoc.coll.flatten", vec![nested.clone()], once),
        (
            "apoc.coll.flatten",
            vec![nested, true.into()],
            ints(&[1, 2, 3]),
        ),
    ]);
    assert!(call("apoc.coll.sum", &[texts(&["a"])]).is_err());
    assert!(call("apoc.coll.fill", &["a".into(), i64::MAX.into()]).is_err());
}

#[test]
fn maps() {
    let map = |entries: &[(&'static str, i64)]| -> Value {
        let entries = entries.iter();
        Map::from_iter(entries.map(|(name, value)| (*name, Value::Int(*value)))).into()
    };
    let pair = |name: &str, value: i64| list(vec![name.into(), value.into()]);
    let nested: Value = Map::from_iter([("a", map(&[("b", 1)]))]).into();
    check(vec![
        (
            "apoc.map.fromPairs",
            vec![vec![pair("a", 1), pair("b", 2)].into()],
            map(&[("a", 1), ("b", 2)]),
        ),
        (
            "apoc.map.fromLists",
            vec![texts(&["a", "b"]), ints(&[1, 2])],
            map(&[("a", 1), ("b", 2)]),
        ),
        (
            "apoc.map.fromValues",
            vec![list(vec!["a".into(), 1_i64.into()])],
            map(&[("a", 1)]),
        ),
        (
            "apoc.map.merge",
            vec![map(&[("a", 1), ("b", 2)]), map(&[("b", 3)])],
            map(&[("a", 1), ("b", 3)]),
        ),
        (
            "apoc.map.mergeList",
            vec![vec![map(&[("a", 1)]), map(&[("b", 2)])].into()],
            map(&[("a", 1), ("b", 2)]),
        ),
        (
            "apoc.map.setKey",
            vec![map(&[("a", 1)]), "b".into(), 2_i64.into()],
            map(&[("a", 1), ("b", 2)]),
        ),
        (
            "apoc.map.removeKey",
            vec![map(&[("a", 1), ("b", 2)]), "a".into()],
            map(&[("b", 2)]),
        ),
        (
            "apoc.map.removeKeys",
            vec![map(&[("a", 1), ("b", 2)]), texts(&["a", "b"])],
            map(&[]),
        ),
        (
            "apoc.map.submap",
            vec![map(&[("a", 1), ("b", 2)]), texts(&["a"])],
            map(&[("a", 1)]),
        ),
        (
            "apoc.map.mget",
            vec![map(&[("a", 1), ("b", 2)]), texts(&["b", "a"])],
            ints(&[2, 1]),
        ),
        (
            "apoc.map.get",
            vec![map(&[("a", 1)]), "b".into(), 7_i64.into()],
            7_i64.into(),
        ),
        (
            "apoc.map.get",
            vec![map(&[]), "b".into(), Value::Null, false.into()],
            Value::Null,
        ),
        (
            "apoc.map.values",
            vec![map(&[("a", 1)]), texts(&["a", "b"]), true.into()],
            list(vec![1_i64.into(), Value::Null]),
        ),
        ("apoc.map.flatten", vec![nested], map(&[("a.b", 1)])),
        (
            "apoc.map.clean",
            vec![
                map(&[("a", 1), ("b", 2), ("c", 3)]),
                texts(&["a"]),
                ints(&[2]),
            ],
            map(&[("c", 3)]),
        ),
    ]);
    assert!(call("apoc.map.get", &[map(&[]), "b".into()]).is_err());
    assert!(call("apoc.map.fromLists", &[texts(&["a"]), ints(&[])]).is_err());
}

#[test]
fn texts_are_changed() {
    check(vec![
        (
            "apoc.text.join",
            vec![texts(&["Hello", "World"]), " ".into()],
            "Hello World".into(),
        ),
        ("apoc.text.capitalize", vec!["neo4j".into()], "Neo4j".into()),
        (
            "apoc.text.capitalizeAll",
            vec!["graph database".into()],
            "Graph Database".into(),
        ),
        (
            "apoc.text.decapitalize",
            vec!["Graph Database".into()],
            "graph Database".into(),
        ),
        (
            "apoc.text.camelCase",
            vec!["FOO_BAR".into()],
            "fooBar".into(),
        ),
        (
            "apoc.text.upperCamelCase",
            vec!["foo-bar".into()],
            "FooBar".into(),
        ),
        (
            "apoc.text.snakeCase",
            vec!["test Snake Case".into()],
            "test-snake-case".into(),
        ),
        (
            "apoc.text.toUpperCase",
            vec!["test upper case".into()],
            "TEST_UPPER_CASE".into(),
        ),
        ("apoc.text.swapCase", vec!["Neo4j".into()], "nEO4J".into()),
        (
            "apoc.text.lpad",
            vec!["Neo4j".into(), 10_i64.into(), "-".into()],
            "-----Neo4j".into(),
        ),
        (
            "apoc.text.rpad",
            vec!["Neo4j".into(), 10_i64.into(), "-".into()],
            "Neo4j-----".into(),
        ),
    ]);
}

#[test]
fn texts_are_compared_and_encoded() {
    check(vec![
        ("apoc.text.slug", vec!["a-b  c".into()], "a-b-c".into()),
        (
            "apoc.text.clean",
            vec!["Hello World!".into()],
            "helloworld".into(),
        ),
        (
            "apoc.text.compareCleaned",
            vec!["Neo4j".into(), "neo-4-j".into()],
            true.into(),
        ),
        (
            "apoc.text.indexOf",
            vec!["Hello World!".into(), "World".into()],
            6_i64.into(),
        ),
        (
            "apoc.text.indexesOf",
            vec!["ababa".into(), "a".into()],
            ints(&[0, 2, 4]),
        ),
        (
            "apoc.text.charAt",
            vec!["Neo4j".into(), 3_i64.into()],
            52_i64.into(),
        ),
        ("apoc.text.code", vec![65_i64.into()], "A".into()),
        ("apoc.text.hexValue", vec![6_i64.into()], "0006".into()),
        (
            "apoc.text.repeat",
            vec!["ab".into(), 2_i64.into()],
            "abab".into(),
        ),
        ("apoc.text.byteCount", vec!["Neo4j".into()], 5_i64.into()),
        ("apoc.text.bytes", vec!["é".into()], ints(&[-61, -87])),
        (
            "apoc.text.urlencode",
            vec!["a b&é".into()],
            "a+b%26%C3%A9".into(),
        ),
        (
            "apoc.text.urldecode",
            vec!["a+b%26%C3%A9".into()],
            "a b&é".into(),
        ),
        (
            "apoc.text.base64Encode",
            vec!["neo4j".into()],
            "bmVvNGo=".into(),
        ),
        (
            "apoc.text.base64Decode",
            vec!["bmVvNGo=".into()],
            "neo4j".into(),
        ),
        (
            "apoc.text.distance",
            vec!["Levenshtein".into(), "Levenstein".into()],
            1_i64.into(),
        ),
        (
            "apoc.text.levenshteinSimilarity",
            vec!["Levenshtein".into(), "Levenstein".into()],
            0.909_090_909_090_909_1.into(),
        ),
        (
            "apoc.text.hammingDistance",
            vec!["first".into(), "third".into()],
            5_i64.into(),
        ),
        ("apoc.text.join", vec![Value::Null, "".into()], Value::Null),
    ]);
}

#[cfg(feature = "regex")]
#[test]
fn texts_are_matched() {
    let link = "abc <link xxx1>yyy1</link> def";
    let groups: Value = vec![texts(&["<link xxx1>yyy1</link>", "xxx1", "yyy1"])].into();
    check(vec![
        (
            "apoc.text.split",
            vec!["Hello World".into(), " ".into()],
            texts(&["Hello", "World"]),
        ),
        (
            "apoc.text.split",
            vec!["a,b,,".into(), ",".into()],
            texts(&["a", "b"]),
        ),
        (
            "apoc.text.split",
            vec!["a,b,c".into(), ",".into(), 2_i64.into()],
            texts(&["a", "b,c"]),
        ),
        (
            "apoc.text.replace",
            vec!["Hello World!".into(), "[^a-zA-Z]".into(), "".into()],
            "HelloWorld".into(),
        ),
        (
            "apoc.text.replace",
            vec!["ab".into(), "(a)(b)".into(), "$2$1x".into()],
            "bax".into(),
        ),
        (
            "apoc.text.regexGroups",
            vec![link.into(), "<link (\\w+)>(\\w+)</link>".into()],
            groups,
        ),
    ]);
    assert!(call("apoc.text.split", &["a".into(), "(".into()]).is_err());
}

#[test]
fn values_are_converted() {
    let map: Value = Map::from_iter([("a", ints(&[42]))]).into();
    check(vec![
        (
            "apoc.convert.toJson",
            vec![map.clone()],
            "{\"a\":[42]}".into(),
        ),
        ("apoc.convert.fromJsonMap", vec!["{\"a\":[42]}".into()], map),
        (
            "apoc.convert.fromJsonList",
            vec!["{\"a\":[42]}".into(), "$.a".into()],
            ints(&[42]),
        ),
        ("apoc.convert.toList", vec![1_i64.into()], ints(&[1])),
        ("apoc.convert.toSet", vec![ints(&[1, 1])], ints(&[1])),
    ]);
    assert!(call("apoc.convert.fromJsonMap", &["{".into()]).is_err());
}

#[test]
fn times_have_formats() {
    let zoned = "2019-09-19T12:34:56.789Z";
    check(vec![
        (
            "apoc.date.format",
            vec![
                1_462_451_280_i64.into(),
                "s".into(),
                "yyyy-MM-dd HH:mm:ss".into(),
            ],
            "2016-05-05 12:28:00".into(),
        ),
        (
            "apoc.date.format",
            vec![0_i64.into(), "ms".into(), "EEE, d MMMM yyyy h:mm a".into()],
            "Thu, 1 January 1970 12:00 AM".into(),
        ),
        (
            "apoc.date.parse",
            vec!["2015-03-25 03:15:59".into(), "s".into()],
            1_427_253_359_i64.into(),
        ),
        (
            "apoc.date.parse",
            vec![
                "25 Mar 2015 PM 3".into(),
                "h".into(),
                "dd MMM yyyy a h".into(),
            ],
            396_471_i64.into(),
        ),
        (
            "apoc.date.convert",
            vec![1_i64.into(), "d".into(), "h".into()],
            24_i64.into(),
        ),
        (
            "apoc.date.add",
            vec![0_i64.into(), "s".into(), 1_i64.into(), "m".into()],
            60_i64.into(),
        ),
        (
            "apoc.date.field",
            vec![86_400_000_i64.into(), "d".into()],
            2_i64.into(),
        ),
        (
            "apoc.date.toISO8601",
            vec![1_000_i64.into()],
            "1970-01-01T00:00:01.000Z".into(),
        ),
        (
            "apoc.date.fromISO8601",
            vec!["1970-01-01T00:00:01.000Z".into()],
            1_000_i64.into(),
        ),
        (
            "apoc.date.convertFormat",
            vec![
                zoned.into(),
                "iso_zoned_date_time".into(),
                "yyyy/MM/dd".into(),
            ],
            "2019/09/19".into(),
        ),
        (
            "apoc.date.convertFormat",
            vec!["2019-09-19".into(), "iso_date".into(), "dd.MM.yy".into()],
            "19.09.19".into(),
        ),
        (
            "apoc.date.convertFormat",
            vec![
                zoned.into(),
                "iso_zoned_date_time".into(),
                "iso_offset_date_time".into(),
            ],
            zoned.into(),
        ),
    ]);
    assert!(
        call(
            "apoc.date.format",
            &[0_i64.into(), "ms".into(), "QQ".into()]
        )
        .is_err()
    );
    assert!(call("apoc.date.parse", &["2015-13-25 03:15:59".into()]).is_err());
}

#[test]
fn a_predicate_that_holds_fails_with_its_message() {
    let args = |predicate: bool| -> Vec<Value> {
        let parameters: Value = vec![Value::from("Ann"), 3_i64.into()].into();
        vec![predicate.into(), "%s has %d, 100%%".into(), parameters]
    };
    let name = "apoc.util.validatePredicate";
    assert_eq!(
        call(name, &args(false)).expect("it does not hold"),
        true.into()
    );
    let error = call(name, &args(true)).expect_err("it holds");
    assert_eq!(error.to_string(), "Ann has 3, 100%");
}

#[test]
fn null_as_a_list() {
    let one = || ints(&[1]);
    let null = || Value::Null;
    check(vec![
        (
            "apoc.coll.contains",
            vec![null(), 1_i64.into()],
            false.into(),
        ),
        ("apoc.coll.containsAll", vec![null(), one()], false.into()),
        ("apoc.coll.containsAll", vec![one(), null()], false.into()),
        (
            "apoc.coll.indexOf",
            vec![null(), 1_i64.into()],
            Value::Int(-1),
        ),
        ("apoc.coll.sort", vec![null()], ints(&[])),
        ("apoc.coll.duplicates", vec![null()], ints(&[])),
        ("apoc.coll.union", vec![null(), one()], one()),
        ("apoc.coll.union", vec![one(), null()], one()),
        ("apoc.coll.unionAll", vec![null(), one()], one()),
        ("apoc.coll.disjunction", vec![one(), null()], one()),
        ("apoc.coll.intersection", vec![one(), null()], ints(&[])),
        ("apoc.coll.subtract", vec![null(), one()], null()),
        ("apoc.coll.zip", vec![one(), null()], null()),
        ("apoc.coll.zip", vec![one(), ints(&[])], ints(&[])),
        (
            "apoc.coll.isEqualCollection",
            vec![null(), null()],
            true.into(),
        ),
        (
            "apoc.coll.isEqualCollection",
            vec![null(), one()],
            false.into(),
        ),
        ("apoc.coll.set", vec![one(), 0_i64.into(), null()], one()),
        ("apoc.coll.insert", vec![one(), 0_i64.into(), null()], one()),
        ("apoc.coll.stdev", vec![ints(&[10, 12, 23])], Value::Int(7)),
        ("apoc.date.parse", vec![" ".into()], null()),
    ]);
}

#[test]
fn work_that_no_timeout_ends_is_refused() {
    let refused = |name: &str, arguments: &[Value]| {
        let error = call(name, arguments).expect_err("it is refused");
        error.to_string()
    };
    let long = |count: usize| Value::from("ab ".repeat(count));
    let distance = refused("apoc.text.distance", &[long(10_000), long(10_000)]);
    assert!(
        distance.contains("texts of 30000 and 30000 bytes"),
        "{distance}"
    );
    let slug = refused("apoc.text.slug", &[long(10_000), long(10_000)]);
    assert!(slug.contains("900000000 bytes"), "{slug}");
    let texts: Value = (0..10_000).map(Value::Int).collect();
    let joined = refused("apoc.text.join", &[texts, long(10_000)]);
    assert!(joined.contains("300000000 bytes"), "{joined}");
    let pattern = Value::from("d".repeat(70_000));
    let dated = refused("apoc.date.format", &[0_i64.into(), "ms".into(), pattern]);
    assert!(dated.contains("is repeated 70000 times"), "{dated}");
}
