//! Optimiser rules do not change results: each query is planned with all of them and with none.
//!
//! Values are of every kind that an order has to place (numbers of both kinds, NaN, text, booleans, lists, dates,
//! nulls), under indexes of one and of several fields; the statistics are invented, so that the rules apply to little
//! data.

use std::sync::Arc;

use isomer_data::{Access, DataStore, DataStoreOptions, GraphRead, Transaction};
use isomer_exec::{Execution, ExecutionOptions, ResultRows};
use isomer_plan::Plan;
use isomer_plan::catalog::{FunctionSignature, IndexInfo, PlannerCatalog, ProcedureSignature};
use isomer_storage::MemoryEngine;
use isomer_value::{LabelId, Map, PropId, TypeId, Value};

/// A catalog that claims that the database is large.
struct Large(Arc<isomer_data::Catalog>);

impl PlannerCatalog for Large {
    fn schema_version(&self) -> u64 {
        self.0.schema_version()
    }
    fn label(&self, name: &str) -> Option<LabelId> {
        self.0.label_id(name)
    }
    fn relationship_type(&self, name: &str) -> Option<TypeId> {
        self.0.type_id(name)
    }
    fn property(&self, name: &str) -> Option<PropId> {
        self.0.prop_id(name)
    }
    fn node_count(&self, _label: Option<LabelId>) -> u64 {
        100_000
    }
    fn relationship_count(&self, _rel_type: Option<TypeId>) -> u64 {
        300_000
    }
    fn is_required(&self, _label: LabelId, path: &[Arc<str>]) -> bool {
        path.len() == 1 && &*path[0] == "i"
    }
    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.0
            .usable_indexes(label)
            .map(|index| IndexInfo {
                id: index.id,
                name: index.name.clone(),
                paths: index
                    .fields
                    .iter()
                    .map(|field| field.path.0.to_vec())
                    .collect(),
                unique: index.unique,
                each_element: index.fields.iter().any(|field| field.each),
                distinct_keys: None,
            })
            .collect()
    }
    fn procedure(&self, _name: &str) -> Option<Arc<ProcedureSignature>> {
        None
    }
    fn function(&self, _name: &str) -> Option<Arc<FunctionSignature>> {
        None
    }
}

fn plan(transaction: &Transaction, query: &str, plain: bool) -> Arc<Plan> {
    let options = isomer_plan::PlanningOptions {
        plain,
        ..isomer_plan::PlanningOptions::default()
    };
    isomer_plan::prepare(query, &Large(transaction.catalog()), &options)
        .unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn run(transaction: &mut Transaction, query: &str, plain: bool) -> Vec<String> {
    let plan = plan(transaction, query, plain);
    let parameters: Map = [("n", Value::Int(3)), ("v", Value::Int(2))]
        .into_iter()
        .collect();
    let mut execution =
        Execution::start(plan, &parameters, &ExecutionOptions::default(), transaction)
            .expect("started");
    let (mut rows, mut found) = (ResultRows::new(), Vec::new());
    loop {
        let more = execution
            .next_rows(transaction, &mut rows)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        found.extend(rows.iter().map(|row| format!("{row:?}")));
        if !more {
            return found;
        }
    }
}

fn store() -> DataStore {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    for statement in [
        "UNWIND range(0, 119) AS i
         WITH i, [i % 7, i / 4.0, 'text' + toString(i % 5), true, false, [i % 3], date({year: 2000 + i % 9}), null, 0.0 / 0.0, -i] AS kinds
         CREATE (:A {i: i, a: kinds[i % 10], b: i % 4, c: CASE WHEN i % 3 = 0 THEN null ELSE i % 5 END})",
        "UNWIND range(0, 29) AS i CREATE (:A:B {i: 200 + i, a: i, b: i % 2, c: i})",
        "MATCH (a:A), (b:B) WHERE a.i % 20 = b.i % 20 CREATE (a)-[:T {w: a.i}]->(b)",
        "MATCH (b:B) WHERE b.i % 3 = 0 CREATE (b)-[:T {w: 0}]->(b), (b)-[:S]->(:C)",
        "CREATE INDEX FOR (n:A) ON (n.a)",
        "CREATE INDEX FOR (n:A) ON (n.b, n.c)",
        "CREATE INDEX FOR (n:A) ON (n.i)",
    ] {
        let mut transaction = store.begin(Access::Write).expect("a transaction");
        run(&mut transaction, statement, true);
        transaction.commit().expect("committed");
    }
    store
}

/// Whether any operator of the plan has this name.
fn uses(plan: &Plan, operator: &str) -> bool {
    isomer_plan::explain::text(plan)
        .lines()
        .any(|line| line.trim_start_matches("| ").starts_with(operator))
}

#[test]
fn an_index_gives_the_order_that_a_sort_gives() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let (mut checked, mut unsorted) = (0, 0);
    for condition in [
        "",
        "WHERE n.a IS NOT NULL",
        "WHERE n.a > 2",
        "WHERE n.a >= 'text1'",
        "WHERE n.a < 20 AND n.b = 1",
        "WHERE n.b = 1",
        "WHERE n.b = $v AND n.c IS NOT NULL",
        "WHERE n.b = 1 AND n.c > 0",
        "WHERE n.b >= 1 AND n.c >= 1",
        "WHERE n.a IN [3, 1, 2, 'text1', null]",
        "WHERE n.a STARTS WITH 'text'",
        "WHERE n.c IS NULL",
        "WHERE n.a = 3 OR n.a = 'text1' OR 2 = n.a OR n.a = null",
        "WHERE n.b = $v OR n.b = 1 OR n.b = 1.0",
        "WHERE EXISTS { (n)-[:T]->(:B) }",
    ] {
        for keys in [
            "n.a", "n.b, n.c", "n.c", "n.b", "n.i", "n.b, n.i", "n.a, n.i",
        ] {
            for direction in ["", " DESC"] {
                for end in [
                    "",
                    " LIMIT 7",
                    " SKIP 2 LIMIT $n",
                    " LIMIT 0",
                    " LIMIT 1000",
                ] {
                    // The keys themselves are returned: ties cannot be distinguished.
                    let order: Vec<String> = keys
                        .split(", ")
                        .map(|key| format!("{key}{direction}"))
                        .collect();
                    let query = format!(
                        "MATCH (n:A) {condition} RETURN {keys} ORDER BY {}{end}",
                        order.join(", ")
                    );
                    let wanted = run(&mut transaction, &query, true);
                    assert_eq!(run(&mut transaction, &query, false), wanted, "{query}");
                    let by_rule = plan(&transaction, &query, false);
                    unsorted += usize::from(!uses(&by_rule, "Sort") && !uses(&by_rule, "Top"));
                    checked += 1;
                }
            }
        }
    }
    assert!(
        unsorted > 150,
        "only {unsorted} of {checked} queries needed no sort"
    );
}

#[test]
fn the_ends_of_an_index_are_the_smallest_and_largest() {
    let store = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let mut by_index = 0;
    for function in ["min", "max"] {
        for key in ["n.a", "n.b", "n.c", "n.i", "n.missing"] {
            for condition in [
                "",
                "WHERE n.a > 2",
                "WHERE n.b = 1 AND n.c > 0",
                "WHERE n.b = 1",
                "WHERE n.i % 2 = 1",
                "WHERE n.a = 'no such'",
                "WHERE n:B",
            ] {
                let query = format!("MATCH (n:A) {condition} RETURN {function}({key}) AS m");
                let wanted = run(&mut transaction, &query, true);
                assert_eq!(run(&mut transaction, &query, false), wanted, "{query}");
                by_index += usize::from(uses(&plan(&transaction, &query, false), "Limit"));
            }
        }
    }
    assert!(by_index > 20, "only {by_index} queries looked at one entry");
}

#[test]
fn kept_numbers_are_those_that_counting_gives() {
    let store = store();
    let queries = [
        "MATCH (n) RETURN count(*) AS c",
        "MATCH (n:A) RETURN count(n) AS c, count(*) AS d, count(DISTINCT n) AS e",
        "MATCH (n:Absent) RETURN count(n) AS c",
        "MATCH ()-[r:T]->() RETURN count(r) AS c",
        "MATCH ()-[r:T]-() RETURN count(r) AS c",
        "MATCH (a)<-[r:T|S|Absent]-(b) RETURN count(*) AS c",
        "MATCH ()-[r:Absent]->() RETURN count(r) AS c",
        "MATCH ()-[r]->() RETURN count(r) AS c",
        "MATCH (a)-[r:T]->() RETURN count(DISTINCT a) AS c",
        "MATCH (n:A:B) RETURN count(n) AS c",
        "MATCH (b:B) WITH count(b) AS c MATCH (n:A) RETURN c, count(n) AS d",
        "MATCH (c:C) RETURN c.x, COUNT { MATCH (n:B) } AS d",
        "MATCH (c:C) CALL { MATCH (n:B) RETURN count(n) AS d } RETURN d",
        "UNWIND [] AS x MATCH (n:B) RETURN count(n) AS c",
        "UNWIND [1, 2] AS x MATCH (n:B) RETURN count(n) AS c",
    ];
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    let mut kept = 0;
    // The second time including the transaction's own changes.
    for changes in [
        None,
        Some("CREATE (a:A:B)-[:T]->(:Absent) WITH a MATCH (n:B {i: 210}) DETACH DELETE n"),
    ] {
        if let Some(changes) = changes {
            run(&mut transaction, changes, true);
        }
        for query in queries {
            let wanted = run(&mut transaction, query, true);
            assert_eq!(run(&mut transaction, query, false), wanted, "{query}");
            kept += usize::from(uses(&plan(&transaction, query, false), "Count"));
        }
    }
    assert!(kept >= 16, "only {kept} counts came from kept numbers");
    // A count in a statement that writes includes earlier writes, and excludes later ones.
    let query =
        "MATCH (b:B) WITH count(b) AS c CREATE (:B) WITH c MATCH (b:B) RETURN c, count(b) AS d";
    assert_eq!(run(&mut transaction, query, false), ["[Int(30), Int(31)]"]);
}

#[test]
fn counting_per_group_of_rows_equals_counting_per_row() {
    let store = store();
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    let mut per_group = 0;
    for query in [
        "MATCH (n:A) RETURN n.i, COUNT { (n)-[:T]->() } AS c ORDER BY n.i",
        "MATCH (n:A) RETURN n.i, COUNT { (n)-[:T]->(m:B) WHERE m.i > n.i } + 1 AS c ORDER BY c, n.i",
        "MATCH (n:B) RETURN n.i, COUNT { (n)--() } - COUNT { (n)<-[:T]-(n) } AS c, [COUNT { (n)-[:S]->() }] AS d ORDER BY n.i",
        "MATCH (n:A) WHERE COUNT { (n)-[:T]->() } > 1 AND n.b = 1 RETURN n.i ORDER BY n.i",
        "MATCH (n:A) WHERE NOT COUNT { (n)-[:T]->(:B {a: n.a}) } = 0 RETURN n.i ORDER BY n.i",
        "MATCH (n:A)-[t:T]->(m) WHERE COUNT { (m)<-[:T]-(o) WHERE o <> n } > 3 RETURN n.i, m.i ORDER BY n.i, m.i",
        "OPTIONAL MATCH (n:Absent) RETURN COUNT { (n)--() } AS c",
        "MATCH (n:B) OPTIONAL MATCH (n)-[:S]->(c) RETURN n.i, COUNT { (c)--() } AS c ORDER BY n.i",
        "MATCH (n:B) RETURN n.i, CASE WHEN n.i > 210 THEN COUNT { (n)-[:T]->() } END AS c ORDER BY n.i",
        "MATCH (n:B) RETURN n.i, COUNT { MATCH (n)-[:T]->(m) RETURN DISTINCT m } AS c ORDER BY n.i",
        "MATCH (n:B) RETURN n.i, COUNT { MATCH (n)-[:T*1..2]->(m) } AS c ORDER BY n.i",
        "MATCH (n:B) RETURN n.i, COUNT { MATCH (c:C) } AS c ORDER BY n.i",
        "MATCH (n:B) CALL (n) { RETURN COUNT { (n)-[:T]->() } AS c } RETURN n.i, c ORDER BY n.i",
        "MATCH (n:B) WITH n, COUNT { (n)<-[:T]-() } AS c CREATE (n)<-[:T]-(:New) RETURN n.i, c, COUNT { (n)<-[:T]-() } AS d ORDER BY n.i",
    ] {
        let wanted = {
            let mark = transaction.savepoint();
            let rows = run(&mut transaction, query, true);
            transaction.rollback_to(mark).expect("undone");
            transaction.release(mark);
            rows
        };
        let mark = transaction.savepoint();
        assert_eq!(run(&mut transaction, query, false), wanted, "{query}");
        transaction.rollback_to(mark).expect("undone");
        transaction.release(mark);
        per_group += usize::from(uses(&plan(&transaction, query, false), "CountApply"));
    }
    assert!(
        per_group >= 9,
        "only {per_group} queries were counted per group of rows"
    );
}
