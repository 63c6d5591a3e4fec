//! From text to rows: parser, planner, operators and the data layer together.

use std::sync::atomic::{AtomicUsize, Ordering};

use isomer_data::GraphRead;
use isomer_plan::catalog::{FunctionSignature, IndexInfo, PlannerCatalog, ProcedureSignature};
use isomer_value::{LabelId, PropId, TypeId};

use super::*;
use crate::{Counters, ErrorClass, ExecError, Registry, ScalarFunction};

/// The planner's catalog, from a transaction.
struct View<'t>(&'t Transaction, Registry);

impl PlannerCatalog for View<'_> {
    fn schema_version(&self) -> u64 {
        self.0.catalog().schema_version()
    }

    fn label(&self, name: &str) -> Option<LabelId> {
        self.0.catalog().label_id(name)
    }

    fn relationship_type(&self, name: &str) -> Option<TypeId> {
        self.0.catalog().type_id(name)
    }

    fn property(&self, name: &str) -> Option<PropId> {
        self.0.catalog().prop_id(name)
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        self.0.node_count(label).unwrap_or(0)
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64 {
        self.0.relationship_count(rel_type).unwrap_or(0)
    }

    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.0
            .catalog()
            .usable_indexes(label)
            .map(|index| IndexInfo {
                id: index.id,
                name: index.name.clone(),
                paths: index
                    .fields
                    .iter()
                    .map(|field| field.path.0.clone())
                    .collect(),
                unique: index.unique,
                each_element: index.fields.iter().any(|field| field.each),
                distinct_keys: None,
            })
            .collect()
    }

    fn procedure(&self, name: &str) -> Option<Arc<ProcedureSignature>> {
        self.1
            .procedure(name)
            .map(|procedure| procedure.signature().clone())
    }

    fn function(&self, name: &str) -> Option<Arc<FunctionSignature>> {
        let function = self.1.function(name)?;
        Some(function.signature().clone())
    }
}

/// Runs a statement in its own transaction.
fn query(
    store: &DataStore,
    text: &str,
    parameters: &[(&'static str, Value)],
) -> Result<(Vec<Vec<Value>>, Counters)> {
    let mut tx = store.begin(Access::Write)?;
    let outcome = query_in(&mut tx, text, parameters)?;
    tx.commit()?;
    Ok(outcome)
}

fn query_in(
    tx: &mut Transaction,
    text: &str,
    parameters: &[(&'static str, Value)],
) -> Result<(Vec<Vec<Value>>, Counters)> {
    let plan = isomer_plan::prepare(
        text,
        &View(tx, Registry::with_builtins()),
        &isomer_plan::PlanningOptions::default(),
    )
    .unwrap_or_else(|error| panic!("{}", error.render(text)));
    let parameters = parameters.iter().cloned().collect::<Map>();
    let mut execution = Execution::start(plan, &parameters, &ExecutionOptions::default(), tx)?;
    let (mut all, mut rows) = (Vec::new(), ResultRows::new());
    loop {
        let more = execution.next_rows(tx, &mut rows)?;
        all.extend(rows.iter().map(<[Value]>::to_vec));
        if !more {
            return Ok((all, *execution.counters()));
        }
    }
}

fn rows(store: &DataStore, text: &str) -> Vec<Vec<Value>> {
    query(store, text, &[])
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .0
}

/// The single value of the single row.
fn one(store: &DataStore, text: &str) -> Value {
    let mut rows = rows(store, text);
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{text}: {rows:?}");
    rows.remove(0).remove(0)
}

fn raised(store: &DataStore, text: &str) -> (ErrorClass, &'static str) {
    match query(store, text, &[]) {
        Ok(answer) => panic!("{text} gave {answer:?}"),
        Err(error) => error
            .classified()
            .unwrap_or_else(|| panic!("{text}: {error}")),
    }
}

fn values<const N: usize>(items: [i64; N]) -> Value {
    items.map(Value::Int).into_iter().collect()
}

#[test]
fn a_small_graph_is_created_and_asked() {
    let store = open();
    let (_, counters) = query(
        &store,
        "CREATE (a:P {name: 'Ann', age: 30}), (b:P {name: 'Bob', age: 40}), (c:P {name: 'Cid'}),
                (a)-[:KNOWS {since: 1}]->(b), (b)-[:KNOWS {since: 2}]->(c), (a)-[:LIKES]->(c)",
        &[],
    )
    .unwrap();
    assert_eq!(
        (
            counters.nodes_created,
            counters.relationships_created,
            counters.properties_set
        ),
        (3, 3, 7)
    );
    assert_eq!(
        rows(&store, "MATCH (n:P) WHERE n.age > 30 RETURN n.name"),
        [[Value::from("Bob")]]
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (a:P {name: 'Ann'})-[r:KNOWS]->()-[:KNOWS]->(c) RETURN c.name, r.since"
        ),
        [["Cid".into(), Value::Int(1)]]
    );
    assert_eq!(
        one(&store, "MATCH (a)-->(b) RETURN count(*)"),
        Value::Int(3)
    );
    assert_eq!(
        one(&store, "MATCH (a)--(b)--(c) RETURN count(*)"),
        Value::Int(6)
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (a:P) OPTIONAL MATCH (a)-[:LIKES]->(b) RETURN a.name, b.name ORDER BY a.name"
        ),
        [
            ["Ann".into(), "Cid".into()],
            ["Bob".into(), Value::Null],
            ["Cid".into(), Value::Null]
        ]
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (a:P)-[r]->(b) RETURN a.name AS name, count(r) AS c, collect(b.name) AS names ORDER BY c DESC, name"
        ),
        [
            [
                "Ann".into(),
                2.into(),
                ["Bob", "Cid"].map(Value::from).into_iter().collect()
            ],
            [
                "Bob".into(),
                1.into(),
                ["Cid"].map(Value::from).into_iter().collect::<Value>()
            ]
        ]
    );
    assert_eq!(
        one(
            &store,
            "MATCH p = shortestPath((a {name: 'Ann'})-[*]->(c {name: 'Cid'})) RETURN length(p)"
        ),
        Value::Int(1)
    );
    assert_eq!(
        one(
            &store,
            "MATCH p = (a {name: 'Ann'})-[:KNOWS*2]->(c) RETURN [n IN nodes(p) | n.name]"
        ),
        ["Ann", "Bob", "Cid"].map(Value::from).into_iter().collect()
    );
    assert_eq!(
        one(&store, "MATCH (a:P) WHERE (a)-[:LIKES]->() RETURN a.name"),
        "Ann".into()
    );
    assert_eq!(
        one(&store, "MATCH (a:P) WHERE NOT (a)-->() RETURN a.name"),
        "Cid".into()
    );
    assert_eq!(
        one(
            &store,
            "MATCH (a {name: 'Ann'}) RETURN size([(a)-->(b) | b.name])"
        ),
        Value::Int(2)
    );
    assert_eq!(
        one(
            &store,
            "MATCH (a:P) WHERE EXISTS { MATCH (a)-[:KNOWS]->(b) WHERE b.age IS NULL } RETURN a.name"
        ),
        "Bob".into()
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (n:P) WITH n ORDER BY n.name SKIP 1 LIMIT 1 RETURN n.name"
        ),
        [["Bob".into()]]
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (n:P) RETURN n.name AS x UNION MATCH (n:P) RETURN n.name AS x"
        )
        .len(),
        3
    );
}

#[test]
fn expressions_follow_three_valued_logic() {
    let store = open();
    for (text, answer) in [
        ("RETURN null AND false", Value::Bool(false)),
        ("RETURN null OR false", Value::Null),
        ("RETURN 1 IN [2, null]", Value::Null),
        ("RETURN [1, 2, 3][-1]", Value::Int(3)),
        ("RETURN [1, 2, 3][0..2]", values([1, 2])),
        ("RETURN {a: {b: [1, 2]}}.a.b[1]", Value::Int(2)),
        (
            "RETURN CASE WHEN null THEN 1 WHEN true THEN 2 END",
            Value::Int(2),
        ),
        (
            "RETURN CASE 3 WHEN 1 THEN 'a' WHEN 3.0 THEN 'b' END",
            "b".into(),
        ),
        (
            "RETURN reduce(s = 0, x IN range(1, 10) | s + x)",
            Value::Int(55),
        ),
        (
            "RETURN [x IN range(1, 6) WHERE x % 2 = 0 | x * x]",
            values([4, 16, 36]),
        ),
        ("RETURN any(x IN [1, null] WHERE x = 2)", Value::Null),
        (
            "RETURN 'abc' =~ 'a.c' AND NOT 'abcd' =~ 'a.c'",
            Value::Bool(true),
        ),
        ("RETURN coalesce(null, 1 + 1, 1 / 0)", Value::Int(2)),
        (
            "RETURN toString(date('2024-02-28') + duration({days: 2}))",
            "2024-03-01".into(),
        ),
        (
            "RETURN duration.between(date('2024-01-01'), date('2024-03-02')).months",
            Value::Int(2),
        ),
        (
            "UNWIND [3, 1, 2] AS x WITH x ORDER BY x RETURN collect(x)",
            values([1, 2, 3]),
        ),
        ("RETURN 1 < 2 < 3", Value::Bool(true)),
        ("RETURN -2 ^ 2", Value::Float(4.0)),
    ] {
        let answer_given = one(&store, text);
        assert_eq!(answer_given, answer, "{text}");
    }
}

#[test]
fn errors_have_the_classes_of_the_language() {
    let store = open();
    for (text, class, detail) in [
        (
            "RETURN 1 / 0",
            ErrorClass::ArithmeticError,
            "DivisionByZero",
        ),
        (
            "RETURN 9223372036854775807 + 1",
            ErrorClass::ArithmeticError,
            "IntegerOverflow",
        ),
        (
            "UNWIND [1, 2] AS x WITH head([x, 'a']) AS y RETURN y[0]",
            ErrorClass::TypeError,
            "InvalidArgumentType",
        ),
        (
            "UNWIND [0, -1] AS x WITH x AS n RETURN range(1, 2, n)",
            ErrorClass::ArgumentError,
            "NumberOutOfRange",
        ),
        (
            "CREATE (n {x: 1}) DELETE n RETURN n.x",
            ErrorClass::EntityNotFound,
            "DeletedEntityAccess",
        ),
    ] {
        assert_eq!(raised(&store, text), (class, detail), "{text}");
    }
    assert_eq!(
        one(&store, "MATCH (n) RETURN count(n)"),
        Value::Int(0),
        "nothing stays of a failed statement"
    );
}

#[test]
fn writes_match_merge_and_delete() {
    let store = open();
    rows(
        &store,
        "UNWIND range(1, 5) AS i MERGE (n:N {k: i % 3}) ON CREATE SET n.c = 1 ON MATCH SET n.c = n.c + 1",
    );
    assert_eq!(
        rows(&store, "MATCH (n:N) RETURN n.k, n.c ORDER BY n.k"),
        [[0, 1], [1, 2], [2, 2]].map(|row| row.map(Value::Int))
    );
    rows(
        &store,
        "MATCH (a:N {k: 0}), (b:N {k: 1}) MERGE (a)-[r:R]->(b) SET r.x = [1, 2], a += {y: 5}, b:Extra REMOVE a.c",
    );
    rows(
        &store,
        "MATCH (a:N {k: 0}), (b:N {k: 1}) MERGE (a)-[:R]->(b)",
    );
    assert_eq!(
        one(&store, "MATCH (:N)-[r:R]->(b:Extra) RETURN count(r)"),
        Value::Int(1)
    );
    assert_eq!(
        one(&store, "MATCH (a:N {k: 0}) RETURN keys(a)"),
        ["k", "y"].map(Value::from).into_iter().collect()
    );
    assert_eq!(
        raised(&store, "MATCH (n:N {k: 0}) DELETE n"),
        (
            ErrorClass::ConstraintVerificationFailed,
            "DeleteConnectedNode"
        )
    );
    let (_, counters) = query(
        &store,
        "MATCH (n:N) OPTIONAL MATCH (n)-[r]-() DELETE n, r",
        &[],
    )
    .unwrap();
    assert_eq!(
        (counters.nodes_deleted, counters.relationships_deleted),
        (3, 1)
    );
    rows(
        &store,
        "CREATE (a:N) FOREACH (i IN [1, 2, 3] | CREATE (a)-[:HAS]->(:Item {i: i}))",
    );
    assert_eq!(
        one(&store, "MATCH (:N)-[:HAS]->(i:Item) RETURN sum(i.i)"),
        Value::Int(6)
    );
}

#[test]
fn properties_that_change_are_counted() {
    let store = open();
    rows(&store, "CREATE (:N {a: 1, b: 2})-[:R {a: 1, b: 2}]->(:M)");
    for (change, counted) in [
        ("SET x += {a: 3, c: 4}", 2),
        ("SET x += {a: null, missing: null, d: 5}", 2),
        ("SET x += {missing: null}", 0),
        ("SET x += null", 0),
        // One is returned; three existed.
        ("SET x = {e: 1, f: null}", 1 + 3),
        ("REMOVE x.e", 1),
    ] {
        for pattern in ["(x:N)", "()-[x:R]->()"] {
            let text = format!("MATCH {pattern} {change}");
            let (_, counters) = query(&store, &text, &[]).unwrap();
            assert_eq!(counters.properties_set, counted, "{text}");
        }
    }
}

#[test]
fn a_write_does_not_see_itself_while_it_reads() {
    let store = open();
    rows(&store, "CREATE (:S), (:S)");
    rows(&store, "MATCH (n:S) CREATE (:S)");
    assert_eq!(one(&store, "MATCH (n:S) RETURN count(*)"), Value::Int(4));
    rows(&store, "MATCH (n:S) SET n:T WITH n MATCH (m:T) CREATE (:T)");
    assert_eq!(
        one(&store, "MATCH (n:T) RETURN count(*)"),
        Value::Int(4 + 16)
    );
}

#[test]
fn keys_and_indexes_find_what_scans_find() {
    let store = open();
    rows(
        &store,
        "UNWIND range(0, 499) AS i CREATE (:U {_key: 'u' + i, age: i % 50, name: 'n' + (i % 7)})",
    );
    let count = |condition: &str| {
        one(
            &store,
            &format!("MATCH (u:U) WHERE {condition} RETURN count(*)"),
        )
    };
    let conditions = [
        "u.age = 7",
        "u.age > 45",
        "u.age >= 10 AND u.age < 12",
        "u.age IN [1, 2, 2, null, 99]",
        "u.name STARTS WITH 'n'",
        "u.name = 'n3' AND u.age = 3",
        "u.age > 'a'",
        "u.age = null",
    ];
    let before: Vec<Value> = conditions.map(count).to_vec();
    assert_eq!(before[0], Value::Int(10));
    rows(&store, "CREATE INDEX FOR (u:U) ON (u.age)");
    rows(&store, "CREATE INDEX FOR (u:U) ON (u.name)");
    assert_eq!(conditions.map(count).to_vec(), before);
    let found = query(
        &store,
        "MATCH (u:U {_key: $k}) RETURN u.age",
        &[("k", "u77".into())],
    )
    .unwrap()
    .0;
    assert_eq!(found, [[Value::Int(27)]]);
    assert_eq!(rows(&store, "SHOW INDEXES").len(), 2);
}

/// Indexes and constraints are shown as DDL spells them.
#[test]
fn schema_is_shown_as_it_is_declared() {
    let store = open();
    rows(&store, "CREATE INDEX t FOR (p:P) ON (p.a.b, p.tags[])");
    for (name, declared) in [
        ("a", "INTEGER"),
        ("b", "FLOAT | LIST<ANY>"),
        ("c", "LOCAL DATETIME"),
    ] {
        let text = format!("CREATE CONSTRAINT {name} FOR (p:P) REQUIRE p.{name} IS :: {declared}");
        rows(&store, &text);
        let shown = format!(
            "SHOW CONSTRAINTS YIELD name, type, propertyType, createStatement \
             WHERE name = '{name}' RETURN type, propertyType, createStatement"
        );
        let statement =
            format!("CREATE CONSTRAINT `{name}` FOR (n:`P`) REQUIRE n.`{name}` IS :: {declared}");
        let expected = ["NODE_PROPERTY_TYPE", declared, statement.as_str()];
        assert_eq!(rows(&store, &shown), [expected.map(Value::from)]);
    }
    let fields = Value::from(vec![Value::from("a.b"), Value::from("tags[]")]);
    assert_eq!(rows(&store, "SHOW INDEXES YIELD properties"), [[fields]]);
    let statement = "CREATE RANGE INDEX `t` FOR (n:`P`) ON (n.`a`.`b`, n.`tags`[])";
    assert_eq!(
        rows(&store, "SHOW INDEXES YIELD createStatement, state, type"),
        [[statement, "ONLINE", "RANGE"].map(Value::from)]
    );
    let counted = "SHOW PROPERTY TYPE CONSTRAINTS YIELD * ORDER BY name DESC LIMIT 2 \
                   WHERE name <> 'b' RETURN collect(name) AS names";
    assert_eq!(rows(&store, counted), [[vec![Value::from("c")].into()]]);
    for (text, count) in [
        ("SHOW UNIQUE CONSTRAINTS", 0),
        ("SHOW VECTOR INDEXES", 0),
        ("SHOW RANGE INDEX", 1),
        ("SHOW INDEXES WHERE label = 'P'", 1),
        (
            "SHOW BUILT IN FUNCTIONS YIELD name WHERE name = 'toUpper'",
            1,
        ),
        (
            "SHOW USER DEFINED FUNCTIONS YIELD name WHERE name = 'toUpper'",
            0,
        ),
        (
            "SHOW FUNCTIONS YIELD name WHERE name = 'apoc.version' RETURN count(*) >= 1 AS found",
            1,
        ),
    ] {
        assert_eq!(rows(&store, text).len(), count, "{text}");
    }
}

/// The spellings of Neo4j's schema statements have the effect of ours.
#[test]
fn schema_statements_have_several_spellings() {
    let store = open();
    for text in [
        "CREATE RANGE INDEX r FOR (n:L) ON (n.r) OPTIONS {indexProvider: 'range-1.0'}",
        "CREATE TEXT INDEX t IF NOT EXISTS FOR (n:L) ON (n.t)",
        "CREATE POINT INDEX p FOR (n:L) ON n.p",
        "CREATE LOOKUP INDEX l IF NOT EXISTS FOR (n) ON EACH labels(n)",
        "CREATE CONSTRAINT u FOR (n:L) REQUIRE n.u IS NODE UNIQUE",
    ] {
        rows(&store, text);
    }
    query(
        &store,
        "CREATE INDEX $name FOR (n:L) ON (n.named)",
        &[("name", "given".into())],
    )
    .unwrap();
    let names = "SHOW INDEXES YIELD name ORDER BY name RETURN collect(name) AS names";
    let expected: Value = ["given", "p", "r", "t", "u"]
        .map(Value::from)
        .into_iter()
        .collect();
    assert_eq!(rows(&store, names), [[expected]]);
    query(&store, "DROP INDEX $name", &[("name", "given".into())]).unwrap();
    let wrong = query(&store, "DROP INDEX $name", &[("name", Value::Int(1))]);
    assert!(wrong.is_err());
    let again = query(&store, "CREATE LOOKUP INDEX FOR (n) ON EACH labels(n)", &[]);
    assert!(again.is_err_and(|error| error.to_string().contains("always indexed")));
}

#[test]
fn profile_reports_each_operator() {
    let store = open();
    people(&store, 10, &[(0, 1)]);
    let mut tx = store.begin(Access::Read).unwrap();
    let text = "PROFILE MATCH (a:Person)-->(b) RETURN b.i";
    let plan = isomer_plan::prepare(
        text,
        &View(&tx, Registry::new()),
        &isomer_plan::PlanningOptions::default(),
    )
    .unwrap();
    let mut execution =
        Execution::start(plan, &Map::new(), &ExecutionOptions::default(), &mut tx).unwrap();
    execution.finish(&mut tx).unwrap();
    let explained = execution.explain();
    assert!(
        explained.contains("rows 1,") && explained.contains(" ms"),
        "{explained}"
    );
    assert!(
        execution
            .profile()
            .unwrap()
            .iter()
            .any(|figures| figures.rows == 1)
    );
}

#[test]
fn a_missing_parameter_is_named() {
    let store = open();
    let error = query(&store, "RETURN $who", &[]).unwrap_err();
    assert!(
        matches!(
            error,
            ExecError::Raised {
                class: ErrorClass::ParameterMissing,
                ..
            }
        ) && error.to_string().contains("who"),
        "{error}"
    );
}

/// Everything that the parser and the planner accept runs on a thread's default stack (2 MiB, as these tests have).
#[test]
fn deep_expressions_and_long_statements_do_not_overflow_the_stack() {
    let store = open();
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!(
            "RETURN {}{middle}{}",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    let texts = [
        nested("[", "1", "]", 120),
        nested("NOT ", "true", "", 310),
        nested("(1 + ", "1", ")", 95),
        nested("CASE WHEN true THEN ", "1", " END", 190),
        nested("coalesce(", "1", ")", 190),
        nested("[x IN ", "[1]", " | x]", 190),
        nested("reduce(s = 0, x IN [1] | ", "1", ")", 190),
        nested("all(x IN [1] WHERE ", "true", ")", 95),
        nested("toString(", "1", ")", 190),
        format!("RETURN 1{}", " + 1".repeat(310)),
        format!(
            "MATCH (a) RETURN {}true{}",
            "EXISTS { MATCH (a) WHERE ".repeat(60),
            " }".repeat(60)
        ),
        format!("{}RETURN x", "WITH 1 AS x ".repeat(1900)),
        format!("{}RETURN 1", "OPTIONAL MATCH (a) ".repeat(1000)),
        format!("{}RETURN 1", "MATCH (a) ".repeat(1900)),
        "CREATE () ".repeat(1900),
    ];
    rows(&store, "CREATE ()");
    for text in texts {
        let answer = query(&store, &text, &[]);
        assert!(answer.is_ok(), "{}: {:?}", &text[..60], answer.err());
    }
}

/// The function `probe()` returns 0, and records the addresses of the stack at which it runs.
struct StackProbe {
    signature: Arc<FunctionSignature>,
    lowest: AtomicUsize,
    highest: AtomicUsize,
}

impl ScalarFunction for StackProbe {
    fn signature(&self) -> &Arc<FunctionSignature> {
        &self.signature
    }

    fn call(&self, _: &[Value]) -> Result<Value> {
        let here = 0_u8;
        let address = std::ptr::from_ref(std::hint::black_box(&here)).addr();
        self.lowest.fetch_min(address, Ordering::Relaxed);
        self.highest.fetch_max(address, Ordering::Relaxed);
        Ok(Value::Int(0))
    }
}

/// 12,000 nested operators fit into the stack of deep plans (256 MiB), and 64 into the default stack of a thread (2
/// MiB).
#[test]
fn an_operator_takes_less_than_22_kib_of_stack() {
    const OPERATORS: usize = 1_000;
    let probe = Arc::new(StackProbe {
        signature: Arc::new(FunctionSignature {
            name: "probe".into(),
            parameters: Vec::new(),
            result: StaticType::Integer,
            deterministic: false,
        }),
        lowest: AtomicUsize::new(usize::MAX),
        highest: AtomicUsize::new(0),
    });
    let mut registry = Registry::new();
    registry.add_function(probe.clone());
    let options = ExecutionOptions {
        registry: Arc::new(registry.clone()),
        ..ExecutionOptions::default()
    };
    let store = open();
    let mut tx = store.begin(Access::Read).unwrap();
    let steps = "WITH x + probe() AS x ".repeat(OPERATORS);
    let text = format!("WITH 0 AS x {steps}RETURN x");
    let plan = isomer_plan::prepare(
        &text,
        &View(&tx, registry),
        &isomer_plan::PlanningOptions::default(),
    )
    .unwrap();
    let mut execution = Execution::start(plan, &Map::new(), &options, &mut tx).unwrap();
    execution.finish(&mut tx).unwrap();
    let highest = probe.highest.load(Ordering::Relaxed);
    let bytes = highest - probe.lowest.load(Ordering::Relaxed);
    let each = bytes / (OPERATORS - 1);
    assert!((16..22 << 10).contains(&each), "{each} bytes per operator");
}

/// Ids are replaced by whole nodes: in any order, with repetitions, and with several threads reading.
#[test]
fn whole_nodes_come_in_the_order_of_their_rows() {
    let store = open();
    rows(&store, "UNWIND range(0, 2999) AS i CREATE (:P {i: i})");
    let texts = [
        "MATCH (p:P) RETURN p, p.i",
        "MATCH (p:P) WITH p ORDER BY p.i DESC RETURN p, p.i",
        "MATCH (p:P) WITH p ORDER BY p.i % 7, p.i UNWIND [1, 2] AS x RETURN p, p.i",
        "UNWIND [3, 3, 1, 2, 1] AS x MATCH (p:P) WHERE p.i = x RETURN p, p.i",
    ];
    for (text, count) in texts.into_iter().zip([3000, 3000, 6000, 5]) {
        let found = rows(&store, text);
        assert_eq!(found.len(), count, "{text}");
        for row in found {
            let node = row[0].as_node().expect("a node");
            let content = node.content.as_ref().expect("its contents");
            assert_eq!(content.properties.get("i"), Some(&row[1]), "{text}");
        }
    }
}

/// Equal values form one group, in any kind of column: constants, integers, integral floats.
#[test]
fn distinct_and_groups_hold_equal_values_together() {
    let store = open();
    let numbers = "UNWIND [1, 1.0, 10000000000000000, 1.0e16, -0.0, 0, 'a', null, null, 0.5, [1], [1.0]] AS x";
    assert_eq!(
        rows(&store, &format!("{numbers} WITH DISTINCT x RETURN x")).len(),
        7
    );
    assert_eq!(
        rows(&store, &format!("{numbers} RETURN x, count(*)")).len(),
        7
    );
    assert_eq!(
        one(&store, &format!("{numbers} RETURN count(DISTINCT x)")),
        Value::Int(6)
    );
    rows(&store, "CREATE (:C), (:C)");
    assert_eq!(
        rows(
            &store,
            "MATCH (c:C) UNWIND [5, 5.0] AS x WITH DISTINCT x RETURN x"
        )
        .len(),
        1
    );
    assert_eq!(
        rows(
            &store,
            "UNWIND [5, 5.0] AS x MATCH (c:C) WITH DISTINCT x RETURN x"
        )
        .len(),
        1
    );
    assert_eq!(
        rows(
            &store,
            "MATCH (c:C) OPTIONAL MATCH (c)-->(d) RETURN DISTINCT d"
        )
        .len(),
        1
    );
}

/// `IN` over a long list that is the same for every row gives the results of a short one.
#[test]
fn in_answers_alike_for_long_and_short_lists() {
    let store = open();
    let probes = "UNWIND [1, 1.0, 2.5, 'a', null, [1], [null], true, 0.0 / 0.0, -1] AS x";
    for elements in [
        "[1, 'a', [1], 2.5]",
        "[1, null, [1]]",
        "['b', [null]]",
        "[0.0 / 0.0]",
    ] {
        let short = rows(
            &store,
            &format!("WITH {elements} AS l {probes} RETURN x IN l"),
        );
        let long = rows(
            &store,
            &format!(
                "WITH {elements} + ['z', 'y'] + [i IN range(100, 200) | 'k' + i] AS l {probes} RETURN x IN l"
            ),
        );
        assert_eq!(short, long, "{elements}");
    }
}
