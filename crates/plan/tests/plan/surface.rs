//! What a plan reports about itself: columns, parameters, class, notices, EXPLAIN as a value.

use isomer_plan::catalog::{MockCatalog, PlannerCatalog};
use isomer_plan::physical::{PlanBody, StatementClass, StatementMode};
use isomer_plan::{Plan, PlanningOptions, explain, prepare};
use isomer_value::Value;
use std::sync::Arc;

fn plan(text: &str) -> Arc<Plan> {
    let catalog = MockCatalog::new()
        .with_label("User", 1_000)
        .with_type("FRIEND", 5_000);
    prepare(text, &catalog, &PlanningOptions::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn columns(text: &str) -> Vec<String> {
    plan(text)
        .columns
        .iter()
        .map(|column| column.to_string())
        .collect()
}

#[test]
fn columns_are_named_as_written() {
    assert_eq!(
        columns("MATCH (n) RETURN n.a  , count( * ) AS c, 1+2"),
        ["n.a", "c", "1+2"]
    );
    assert_eq!(columns("MATCH (b)-[r]->(a) RETURN *"), ["a", "b", "r"]);
    assert_eq!(
        columns("MATCH (n:User {_key: 1}) RETURN n.name, toUpper(n.x)"),
        ["n.name", "toUpper(n.x)"]
    );
    assert!(columns("CREATE (n)").is_empty());
    assert_eq!(
        columns("RETURN 1 AS a, 2 AS b UNION RETURN 3 AS b, 4 AS a"),
        ["a", "b"]
    );
}

#[test]
fn parameters_are_listed_once_in_order_of_use() {
    let plan = plan("MATCH (n {a: $x}) WHERE n.b > $y AND n.c = $x RETURN n LIMIT $z");
    let names: Vec<&str> = plan.parameters.iter().map(|name| &**name).collect();
    assert_eq!(names, ["x", "y", "z"]);
}

#[test]
fn the_class_covers_all_effects_of_a_statement() {
    let class = |text: &str| plan(text).class;
    assert_eq!(class("MATCH (n) RETURN n"), StatementClass::Read);
    assert_eq!(
        class("MATCH (n:User {_key: 1}) RETURN n"),
        StatementClass::Read
    );
    assert_eq!(class("MATCH (n) SET n.a = 1"), StatementClass::Write);
    assert_eq!(
        class("UNWIND [1] AS x CALL { WITH x CREATE (:A {x: x}) } RETURN x"),
        StatementClass::Write
    );
    assert_eq!(
        class("EXPLAIN MATCH (n) DETACH DELETE n"),
        StatementClass::Write
    );
    assert_eq!(
        class("CREATE INDEX FOR (u:User) ON (u.age)"),
        StatementClass::Schema
    );
    assert_eq!(class("SHOW QUERIES"), StatementClass::Admin);
    assert_eq!(class("SHOW INDEXES"), StatementClass::Read);
}

#[test]
fn lookups_by_key_need_no_pipeline() {
    let is_point = |text: &str| matches!(plan(text).body, PlanBody::PointRead(_));
    assert!(is_point("MATCH (u:User {_key: $k}) RETURN u"));
    assert!(is_point(
        "MATCH (u:User) WHERE u._key = 7 RETURN u.a AS a, u.b + 1"
    ));
    assert!(!is_point("MATCH (u:User {_key: $k, a: 1}) RETURN u"));
    assert!(!is_point("MATCH (u:User {_key: $k}) RETURN count(u)"));
    assert!(!is_point("MATCH (u:User {_key: $k})-->(f) RETURN u"));
    assert!(!is_point("MATCH (u:User) WHERE u._key = u.name RETURN u"));
    assert!(!is_point(
        "MATCH (u:User {_key: $k}) RETURN size([(u)-->(f) | f])"
    ));
    let options = PlanningOptions {
        no_point_reads: true,
        ..PlanningOptions::default()
    };
    let catalog = MockCatalog::new();
    let piped = prepare("MATCH (u:User {_key: $k}) RETURN u", &catalog, &options).expect("a plan");
    assert!(matches!(piped.body, PlanBody::Pipeline(_)));
}

#[test]
fn modes_and_versions_are_kept() {
    assert_eq!(
        plan("EXPLAIN MATCH (n) RETURN n").mode,
        StatementMode::Explain
    );
    assert_eq!(
        plan("PROFILE MATCH (n) RETURN n").mode,
        StatementMode::Profile
    );
    assert_eq!(plan("MATCH (n) RETURN n").mode, StatementMode::Run);
    assert_eq!(
        plan("MATCH (n) RETURN n").schema_version,
        MockCatalog::new().schema_version()
    );
}

#[test]
fn explain_as_a_value_holds_the_tree() {
    let plan = plan("MATCH (u:User)-[:FRIEND]->(f) WHERE f.age > 3 RETURN f.name LIMIT 5");
    let Value::Map(top) = explain::value(&plan) else {
        panic!("a map")
    };
    let Some(Value::String(class)) = top.get("class") else {
        panic!("a class")
    };
    assert_eq!(&**class, "read");
    let mut names = Vec::new();
    let mut at = top.get("plan").cloned();
    while let Some(Value::Map(operator)) = at {
        if let Some(Value::String(name)) = operator.get("operator") {
            names.push(name.to_string());
        }
        at = match operator.get("inputs") {
            Some(Value::List(inputs)) => inputs.first().cloned(),
            _ => None,
        };
    }
    assert_eq!(names.first().map(String::as_str), Some("ProduceResult"));
    assert_eq!(names.last().map(String::as_str), Some("Argument"));
    assert!(names.iter().any(|name| name == "Limit"), "{names:?}");
}

/// A rewrite (here the one that counts rows before it multiplies them) disconnects operators: they are in neither
/// rendering, and do not affect those that are.
#[test]
fn a_rewritten_plan_keeps_its_leaves_as_a_value() {
    let plan =
        plan("MATCH (a:User {city: 'Oslo'})-[:FRIEND]->(b)-[:FRIEND]->(c) RETURN a.name, count(*)");
    let tree = explain::value(&plan)
        .as_map()
        .and_then(|map| map.get("plan"))
        .cloned();
    let mut chain = Vec::new();
    let mut at = tree;
    while let Some(Value::Map(operator)) = at {
        let text = |name: &str| {
            operator
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        chain.push(
            format!("{} {}", text("operator"), text("details"))
                .trim_end()
                .to_owned(),
        );
        at = operator
            .get("inputs")
            .and_then(Value::as_list)
            .and_then(|inputs| inputs.first())
            .cloned();
    }
    let text = explain::text(&plan);
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.rsplit_once("  ~")?.0))
        .collect();
    assert_eq!(chain, lines);
    assert_eq!(chain[chain.len() - 2..], ["LabelScan a:User", "Argument"]);
    assert!(
        plan.operators.len() > lines.len(),
        "the rewrite leaves operators behind:\n{text}"
    );
}

/// A chain of operators that is longer than values may be nested has a JSON text nonetheless.
#[test]
fn a_long_chain_has_a_json_text() {
    let steps: String = (0..300)
        .map(|step| format!("WITH n LIMIT {} ", step + 1))
        .collect();
    let plan = plan(&format!("MATCH (n:User) {steps} RETURN n"));
    let text = explain::json(&plan);
    let lines = explain::text(&plan).lines().count();
    assert!(lines > 300, "{lines}");
    assert_eq!(text.matches("\"operator\":").count(), lines);
    assert_eq!(
        text.matches(['{', '[']).count(),
        text.matches(['}', ']']).count()
    );
    // Where both exist they are equal.
    let short = self::plan("MATCH (n:User) WHERE (n)-->(:Genre) RETURN n.name LIMIT 5");
    let read = isomer_value::json::parse(&explain::json(&short)).expect("JSON");
    assert_eq!(read, explain::value(&short));
    let read = isomer_value::json::parse(&explain::json(&self::plan(
        "MATCH (u:User {_key: $k}) RETURN u",
    )))
    .expect("JSON");
    let root = read
        .as_map()
        .and_then(|map| map.get("plan"))
        .and_then(Value::as_map)
        .expect("a plan");
    assert_eq!(root.get("operator"), Some(&"PointRead".into()));
    assert_eq!(root.get("details"), Some(&"u:User {_key: $k} -> u".into()));
}

#[test]
fn the_same_text_gives_the_same_plan() {
    let text = "MATCH (a:User)-[r]->(b)-[:FRIEND*1..2]-(c), (d:User) WHERE a.x = d.y OPTIONAL MATCH (c)-->(e) RETURN a, e ORDER BY a.z";
    let first = explain::text(&plan(text));
    for _ in 0..20 {
        assert_eq!(explain::text(&plan(text)), first);
    }
}

#[test]
fn unknown_types_give_a_notice_instead_of_an_error() {
    for (text, span) in [
        ("MATCH ()-[r:FRIND]->() RETURN r", (12, 17)),
        ("MATCH ()-[:FRIEND|FRIND]->() RETURN 1", (18, 23)),
        ("MATCH ()-[r:FRIND*1..3]->() RETURN r", (12, 17)),
        ("MATCH (a) WHERE (a)-[:FRIND]->() RETURN a", (22, 27)),
    ] {
        let notices = plan(text).notices.clone();
        let codes: Vec<_> = notices.iter().map(|one| one.code).collect();
        assert_eq!(codes, ["UnknownType"], "{text}");
        assert!(notices[0].message.contains("`FRIEND`"), "{text}");
        assert_eq!(notices[0].span, Some(span), "{text}");
    }
    // An annotation may have no entries.
    for text in [
        "MERGE (:User)-[:NEW]->(:User)",
        "CREATE (:User)-[:NEW]->(:User)",
    ] {
        assert!(plan(text).notices.is_empty(), "{text}");
    }
}

#[test]
fn an_outline_shows_no_constants() {
    let plan = plan(
        "MATCH (a:User)-[:FRIEND*1..2]->(b) WHERE a.n <> 7654321 AND b.n IN [1.5, 'it\\'s secret'] AND b.d > date('2026-11-24') \
         RETURN b.n + 4321 AS n, 'a secret of O\\'Brien' LIMIT 77",
    );
    let outline = explain::outline(&plan);
    for value in ["7654321", "1.5", "secret", "Brien", "2026", "4321"] {
        assert!(!outline.contains(value), "{value} in {outline}");
    }
    assert!(outline.contains("a.n <> ?"), "{outline}");
    assert!(outline.contains("Limit ?"), "{outline}");
    // Everything else is as in the text.
    let lines = explain::text(&plan).lines().count();
    assert_eq!(outline.lines().count(), lines);
    assert!(
        outline.contains("FRIEND") && outline.contains("~"),
        "{outline}"
    );
}

#[test]
fn unknown_labels_give_a_notice_instead_of_an_error() {
    let plan = plan("MATCH (n:Usr) RETURN n");
    assert_eq!(plan.notices.len(), 1);
    assert_eq!(plan.notices[0].code, "UnknownLabel");
    assert!(
        plan.notices[0].message.contains("`User`"),
        "{}",
        plan.notices[0].message
    );
    assert_eq!(plan.notices[0].span, Some((9, 12)));
}
