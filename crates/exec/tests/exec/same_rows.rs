//! For any planner estimates, the result equals that of a naive search.
//!
//! Random patterns over a small random graph are planned under random statistics, so that every way of ordering,
//! seeking and joining is used, and each result is compared with that of a backtracking search without a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use isomer_data::{Access, DataStore, DataStoreOptions, GraphRead, Transaction};
use isomer_exec::{Execution, ExecutionOptions, ResultRows};
use isomer_plan::catalog::{FunctionSignature, IndexInfo, PlannerCatalog, ProcedureSignature};
use isomer_storage::MemoryEngine;
use isomer_value::{LabelId, Map, PropId, TypeId, Value};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, Views};

const NODES: usize = 7;
const QUERIES: u64 = 400;

/// A linear congruential generator: the same numbers on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
}

#[derive(Debug)]
struct Graph {
    /// Labels (A, B) and `x` of each node; its position is its `_key` in B and its property `i`.
    nodes: Vec<([bool; 2], i64)>,
    /// (source, target, type); its position is its property `j`.
    relationships: Vec<(usize, usize, usize)>,
}

impl Graph {
    fn random(dice: &mut Dice) -> Self {
        let nodes = (0..NODES)
            .map(|_| ([dice.chance(60), dice.chance(50)], dice.roll(3) as i64))
            .collect();
        let relationships = (0..11)
            .map(|_| (dice.roll(NODES), dice.roll(NODES), dice.roll(2)))
            .collect();
        Self {
            nodes,
            relationships,
        }
    }

    fn statement(&self) -> String {
        let mut parts = Vec::new();
        for (at, (labels, x)) in self.nodes.iter().enumerate() {
            let names: String = ["A", "B"]
                .iter()
                .zip(labels)
                .filter(|(_, has)| **has)
                .map(|(name, _)| format!(":{name}"))
                .collect();
            let key = if labels[0] || labels[1] {
                format!(", _key: {at}")
            } else {
                String::new()
            };
            parts.push(format!("(n{at}{names} {{i: {at}, x: {x}{key}}})"));
        }
        for (at, (source, target, kind)) in self.relationships.iter().enumerate() {
            parts.push(format!(
                "(n{source})-[:{} {{j: {at}}}]->(n{target})",
                ["R", "S"][*kind]
            ));
        }
        format!("CREATE {}", parts.join(", "))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LinkDirection {
    Out,
    In,
    Both,
}

#[derive(Debug)]
struct NodePattern {
    variable: usize,
    label: Option<usize>,
    x: Option<i64>,
}

#[derive(Debug)]
struct LinkPattern {
    kind: Option<usize>,
    way: LinkDirection,
    walk: Option<(usize, usize)>,
    /// The index of a link of the clause before, whose relationship is used again.
    again: Option<usize>,
}

#[derive(Debug)]
struct Path {
    nodes: Vec<NodePattern>,
    links: Vec<LinkPattern>,
}

#[derive(Debug)]
enum Condition {
    SameX(usize, usize),
    Differ(usize, usize),
    LessX(usize, i64),
    KeyIs(usize, usize),
    XIn(usize, Vec<i64>),
    /// `(a)-[:kind]->(b)`, to any node if `b` is absent, or its negation.
    Linked(usize, usize, Option<usize>, bool),
}

#[derive(Debug)]
struct Clause {
    optional: bool,
    paths: Vec<Path>,
    conditions: Vec<Condition>,
}

/// Bindings: a node per variable, the relationships of each link in order of the text.
#[derive(Clone, Debug)]
struct Row {
    nodes: Vec<Option<usize>>,
    links: Vec<Option<Vec<usize>>>,
}

const VARIABLES: usize = 5;

fn random_clause(dice: &mut Dice, optional: bool, before: &[Clause]) -> Clause {
    let mut paths = Vec::new();
    let links_before = before
        .iter()
        .flat_map(|clause| &clause.paths)
        .flat_map(|path| &path.links);
    let mut reusable: Vec<usize> = (0..)
        .zip(links_before)
        .filter(|(_, link)| link.walk.is_none())
        .map(|(number, _)| number)
        .collect();
    for _ in 0..=dice.roll(2) {
        let length = dice.roll(3);
        let nodes = (0..=length)
            .map(|_| NodePattern {
                variable: dice.roll(VARIABLES),
                label: dice.chance(40).then(|| dice.roll(2)),
                x: dice.chance(15).then(|| dice.roll(3) as i64),
            })
            .collect();
        let links = (0..length)
            .map(|_| {
                let again = (!reusable.is_empty() && dice.chance(30)).then(|| reusable.remove(0));
                LinkPattern {
                    kind: dice.chance(50).then(|| dice.roll(2)),
                    way: [LinkDirection::Out, LinkDirection::In, LinkDirection::Both][dice.roll(3)],
                    walk: (again.is_none() && dice.chance(20))
                        .then(|| (dice.roll(2), 1 + dice.roll(3))),
                    again,
                }
            })
            .collect();
        paths.push(Path { nodes, links });
    }
    let used: Vec<usize> = paths
        .iter()
        .flat_map(|path: &Path| path.nodes.iter().map(|node| node.variable))
        .collect();
    let mut conditions = Vec::new();
    while dice.chance(45) {
        let (a, b) = (used[dice.roll(used.len())], used[dice.roll(used.len())]);
        conditions.push(match dice.roll(6) {
            0 => Condition::SameX(a, b),
            1 => Condition::Differ(a, b),
            2 => Condition::LessX(a, dice.roll(4) as i64),
            3 => Condition::KeyIs(a, dice.roll(NODES)),
            4 => Condition::Linked(
                a,
                dice.roll(2),
                dice.chance(50).then_some(b),
                dice.chance(50),
            ),
            _ => Condition::XIn(a, vec![dice.roll(3) as i64, dice.roll(3) as i64]),
        });
    }
    Clause {
        optional,
        paths,
        conditions,
    }
}

fn text(clauses: &[Clause]) -> String {
    let mut out = String::new();
    let mut link_count = 0;
    for clause in clauses {
        out.push_str(if clause.optional {
            "OPTIONAL MATCH "
        } else {
            "MATCH "
        });
        for (at, path) in clause.paths.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            for (step, node) in path.nodes.iter().enumerate() {
                if step > 0 {
                    let link = &path.links[step - 1];
                    let kind = link
                        .kind
                        .map(|kind| format!(":{}", ["R", "S"][kind]))
                        .unwrap_or_default();
                    let walk = link
                        .walk
                        .map(|(min, max)| format!("*{min}..{max}"))
                        .unwrap_or_default();
                    let (before, after) = match link.way {
                        LinkDirection::Out => ("-", "->"),
                        LinkDirection::In => ("<-", "-"),
                        LinkDirection::Both => ("-", "-"),
                    };
                    let name = link.again.unwrap_or(link_count);
                    let _ = write!(out, "{before}[r{name}{kind}{walk}]{after}");
                    link_count += 1;
                }
                let label = node
                    .label
                    .map(|label| format!(":{}", ["A", "B"][label]))
                    .unwrap_or_default();
                let x = node.x.map(|x| format!(" {{x: {x}}}")).unwrap_or_default();
                let _ = write!(out, "(v{}{label}{x})", node.variable);
            }
        }
        for (at, condition) in clause.conditions.iter().enumerate() {
            out.push_str(if at == 0 { " WHERE " } else { " AND " });
            let _ = match condition {
                Condition::SameX(a, b) => write!(out, "v{a}.x = v{b}.x"),
                Condition::Differ(a, b) => write!(out, "v{a} <> v{b}"),
                Condition::LessX(a, x) => write!(out, "v{a}.x < {x}"),
                Condition::KeyIs(a, key) => write!(out, "v{a}._key = {key}"),
                Condition::XIn(a, list) => write!(out, "v{a}.x IN {list:?}"),
                Condition::Linked(a, kind, b, linked) => {
                    let not = if *linked { "" } else { "NOT " };
                    let end = b.map(|b| format!("v{b}")).unwrap_or_default();
                    write!(out, "{not}(v{a})-[:{}]->({end})", ["R", "S"][*kind])
                }
            };
        }
        out.push(' ');
    }
    out
}

/// The rows of a clause for one input row, by exhaustive search.
fn search(graph: &Graph, clause: &Clause, row: &Row) -> Vec<Row> {
    let mut found = Vec::new();
    place(
        graph,
        clause,
        0,
        0,
        row.clone(),
        &mut BTreeSet::new(),
        &mut found,
    );
    found
}

fn fits(graph: &Graph, pattern: &NodePattern, node: usize, row: &Row) -> bool {
    row.nodes[pattern.variable].is_none_or(|bound| bound == node)
        && pattern.label.is_none_or(|label| graph.nodes[node].0[label])
        && pattern.x.is_none_or(|x| graph.nodes[node].1 == x)
}

fn place(
    graph: &Graph,
    clause: &Clause,
    path: usize,
    step: usize,
    row: Row,
    used: &mut BTreeSet<usize>,
    found: &mut Vec<Row>,
) {
    let Some(pattern) = clause.paths.get(path) else {
        if clause
            .conditions
            .iter()
            .all(|condition| holds(graph, condition, &row))
        {
            found.push(row);
        }
        return;
    };
    if step == 0 {
        for node in 0..NODES {
            if fits(graph, &pattern.nodes[0], node, &row) {
                let mut next = row.clone();
                next.nodes[pattern.nodes[0].variable] = Some(node);
                place(graph, clause, path, 1, next, used, found);
            }
        }
        return;
    }
    if step > pattern.links.len() {
        return place(graph, clause, path + 1, 0, row, used, found);
    }
    let at = row.nodes[pattern.nodes[step - 1].variable].expect("placed before");
    let (min, max) = pattern.links[step - 1].walk.unwrap_or((1, 1));
    walk(
        graph,
        clause,
        (path, step),
        (min, max),
        at,
        Vec::new(),
        &row,
        used,
        found,
    );
}

#[expect(
    clippy::too_many_arguments,
    reason = "a naive search carries all it knows"
)]
fn walk(
    graph: &Graph,
    clause: &Clause,
    (path, step): (usize, usize),
    (min, max): (usize, usize),
    at: usize,
    steps: Vec<usize>,
    row: &Row,
    used: &mut BTreeSet<usize>,
    found: &mut Vec<Row>,
) {
    let pattern = &clause.paths[path];
    if steps.len() >= min && fits(graph, &pattern.nodes[step], at, row) {
        let mut next = row.clone();
        next.nodes[pattern.nodes[step].variable] = Some(at);
        next.links.push(Some(steps.clone()));
        place(graph, clause, path, step + 1, next, used, found);
    }
    if steps.len() == max {
        return;
    }
    let link = &pattern.links[step - 1];
    for (number, (source, target, kind)) in graph.relationships.iter().enumerate() {
        let again = link
            .again
            .is_none_or(|before| row.links[before].as_deref() == Some(&[number]));
        if !again || used.contains(&number) || link.kind.is_some_and(|wanted| wanted != *kind) {
            continue;
        }
        let mut ends = Vec::new();
        if link.way != LinkDirection::In && *source == at {
            ends.push(*target);
        }
        if link.way != LinkDirection::Out
            && *target == at
            && !(link.way == LinkDirection::Both && source == target)
        {
            ends.push(*source);
        }
        for end in ends {
            used.insert(number);
            let mut longer = steps.clone();
            longer.push(number);
            walk(
                graph,
                clause,
                (path, step),
                (min, max),
                end,
                longer,
                row,
                used,
                found,
            );
            used.remove(&number);
        }
    }
}

fn holds(graph: &Graph, condition: &Condition, row: &Row) -> bool {
    let node = |variable: &usize| row.nodes[*variable].expect("bound by its clause");
    let x = |variable: &usize| graph.nodes[node(variable)].1;
    match condition {
        Condition::SameX(a, b) => x(a) == x(b),
        Condition::Differ(a, b) => node(a) != node(b),
        Condition::LessX(a, bound) => x(a) < *bound,
        Condition::KeyIs(a, key) => {
            node(a) == *key && (graph.nodes[*key].0[0] || graph.nodes[*key].0[1])
        }
        Condition::XIn(a, list) => list.contains(&x(a)),
        Condition::Linked(a, kind, b, linked) => {
            let fits = |(source, target, its_kind): &(usize, usize, usize)| {
                *source == node(a) && its_kind == kind && b.is_none_or(|b| *target == node(&b))
            };
            graph.relationships.iter().any(fits) == *linked
        }
    }
}

fn expected(graph: &Graph, clauses: &[Clause]) -> Vec<Row> {
    let mut rows = vec![Row {
        nodes: vec![None; VARIABLES],
        links: Vec::new(),
    }];
    for clause in clauses {
        let link_count: usize = clause.paths.iter().map(|path| path.links.len()).sum();
        rows = rows
            .iter()
            .flat_map(|row| {
                let mut found = search(graph, clause, row);
                if found.is_empty() && clause.optional {
                    let mut alone = row.clone();
                    alone.links.extend(std::iter::repeat_n(None, link_count));
                    found.push(alone);
                }
                found
            })
            .collect();
    }
    rows
}

fn shown(row: &Row, variables: &BTreeSet<usize>, links: &[(usize, bool)]) -> String {
    let number =
        |number: Option<usize>| number.map_or("null".to_owned(), |number| number.to_string());
    let mut parts: Vec<String> = variables
        .iter()
        .map(|variable| number(row.nodes[*variable]))
        .collect();
    for (name, is_walk) in links {
        parts.push(match (&row.links[*name], is_walk) {
            (None, _) => "null".to_owned(),
            (Some(steps), true) => format!("{steps:?}"),
            (Some(steps), false) => steps[0].to_string(),
        });
    }
    parts.join(" ")
}

/// The catalog of a transaction, with counts made up from a seed.
struct Guessing {
    catalog: Arc<isomer_data::Catalog>,
    seed: u64,
}

impl Guessing {
    fn guess(&self, about: u64) -> u64 {
        [0, 1, 3, 20, 1_000, 1_000_000]
            [Dice(self.seed.wrapping_mul(31).wrapping_add(about)).roll(6)]
    }
}

impl PlannerCatalog for Guessing {
    fn schema_version(&self) -> u64 {
        self.catalog.schema_version()
    }

    fn label(&self, name: &str) -> Option<LabelId> {
        self.catalog.label_id(name)
    }

    fn relationship_type(&self, name: &str) -> Option<TypeId> {
        self.catalog.type_id(name)
    }

    fn property(&self, name: &str) -> Option<PropId> {
        self.catalog.prop_id(name)
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        self.guess(label.map_or(7, |label| 100 + u64::from(label.0)))
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64 {
        self.guess(rel_type.map_or(8, |rel_type| 200 + u64::from(rel_type.0)))
    }

    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.catalog
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
                each_element: false,
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

fn run(transaction: &mut Transaction, query: &str, seed: u64) -> Vec<String> {
    run_over(transaction, None, query, seed)
}

/// Runs a query, from read views if there are any.
fn run_over(
    transaction: &mut Transaction,
    views: Option<&Arc<Views>>,
    query: &str,
    seed: u64,
) -> Vec<String> {
    let catalog = Guessing {
        catalog: transaction.catalog(),
        seed,
    };
    let options = isomer_plan::PlanningOptions {
        plain: seed % 4 == 3,
        group_always: seed % 4 == 1,
        ..isomer_plan::PlanningOptions::default()
    };
    let plan = isomer_plan::prepare(query, &catalog, &options)
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let options = ExecutionOptions {
        views: views.cloned(),
        workers: if seed % 4 == 1 { 3 } else { 1 },
        parallel_rows: 0,
        ..ExecutionOptions::default()
    };
    let mut execution =
        Execution::start(plan.clone(), &Map::new(), &options, transaction).expect("started");
    let mut rows = ResultRows::new();
    let mut found = Vec::new();
    loop {
        let more = execution
            .next_rows(transaction, &mut rows)
            .unwrap_or_else(|error| {
                panic!("{query}: {error}\n{}", isomer_plan::explain::text(&plan))
            });
        found.extend(
            rows.iter()
                .map(|row| row.iter().map(show_value).collect::<Vec<_>>().join(" ")),
        );
        if !more {
            break;
        }
    }
    found.sort();
    found
}

fn show_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::List(items) => format!(
            "[{}]",
            items.iter().map(show_value).collect::<Vec<_>>().join(", ")
        ),
        other => format!("{other:?}"),
    }
}

#[test]
fn any_plan_gives_the_rows_of_a_naive_search() {
    let mut dice = Dice(20_261_121);
    let mut with_rows = 0;
    for round in 0..QUERIES / 20 {
        let graph = Graph::random(&mut dice);
        let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
            .expect("a store");
        let views = Views::open(&store, ViewOptions::default()).expect("views");
        let types = {
            let tx = store.begin(Access::Write).expect("a transaction");
            ["R", "S"].map(|name| tx.name_ids().intern_type(name).expect("a type"))
        };
        let make_views = || {
            for side in [AdjacencySide::Out, AdjacencySide::In] {
                for type_id in types {
                    let made = views.make(&ViewKind::Adjacency(type_id, side));
                    made.expect("a view");
                }
            }
        };
        // Everything in the views' bases, or everything in their deltas.
        if round % 2 == 0 {
            make_views();
        }
        for statement in [
            graph.statement(),
            "CREATE INDEX FOR (n:A) ON (n.x)".to_owned(),
        ] {
            let mut transaction = store.begin(Access::Write).expect("a transaction");
            run(&mut transaction, &statement, 0);
            transaction.commit().expect("committed");
        }
        make_views();
        let mut transaction = store.begin(Access::Read).expect("a transaction");
        for _ in 0..20 {
            with_rows += u64::from(check(&mut dice, &graph, &mut transaction, &views, round));
        }
    }
    assert!(
        with_rows > QUERIES / 3,
        "only {with_rows} of {QUERIES} queries had rows"
    );
}

/// Runs one random query in all ways; returns whether it has rows.
fn check(
    dice: &mut Dice,
    graph: &Graph,
    transaction: &mut Transaction,
    views: &Arc<Views>,
    round: u64,
) -> bool {
    let mut clauses = vec![random_clause(dice, false, &[])];
    if dice.chance(60) {
        let optional = dice.chance(40);
        let next = random_clause(dice, optional, &clauses);
        clauses.push(next);
    }
    let pattern = text(&clauses);
    let paths = || clauses.iter().flat_map(|clause| &clause.paths);
    let variables: BTreeSet<usize> = paths()
        .flat_map(|path| path.nodes.iter().map(|node| node.variable))
        .collect();
    // Each link by the number of the relationship variable it has, and whether that is a list.
    let links: Vec<(usize, bool)> = paths()
        .flat_map(|path| &path.links)
        .enumerate()
        .map(|(at, link)| (link.again.unwrap_or(at), link.walk.is_some()))
        .collect();
    let mut columns: Vec<String> = variables
        .iter()
        .map(|variable| format!("v{variable}.i"))
        .collect();
    columns.extend(links.iter().enumerate().map(|(at, (name, walk))| {
        if *walk {
            format!("[r IN r{name} | r.j] AS c{at}")
        } else {
            format!("r{name}.j AS c{at}")
        }
    }));
    let rows = expected(graph, &clauses);
    let mut wanted: Vec<String> = rows
        .iter()
        .map(|row| shown(row, &variables, &links))
        .collect();
    wanted.sort();
    let first = variables.iter().next().expect("a path has a node");
    let mut starts: Vec<String> = rows
        .iter()
        .map(|row| row.nodes[*first].map_or("null".into(), |at| at.to_string()))
        .collect();
    starts.sort();
    starts.dedup();
    // Per value of the last node's `x` the number of rows and the sum of the first node's `i`.
    let last = variables.iter().next_back().expect("a path has a node");
    let mut sums: BTreeMap<Option<i64>, (usize, usize)> = BTreeMap::new();
    for row in &rows {
        let x = row.nodes[*last].map(|at| graph.nodes[at].1);
        let group = sums.entry(x).or_default();
        group.0 += 1;
        group.1 += row.nodes[*first].unwrap_or(0);
    }
    let mut groups: Vec<String> = sums
        .iter()
        .map(|(x, (count, sum))| {
            let x = x.map_or("null".into(), |x| x.to_string());
            format!("{x} {count} {sum}")
        })
        .collect();
    groups.sort();
    for (seed, views) in (0..6).map(|way| (way % 4, (way < 4).then_some(views))) {
        let seed = round * 100 + seed;
        let query = format!("{pattern}RETURN v{last}.x, count(*), sum(v{first}.i)");
        assert_eq!(
            run_over(transaction, views, &query, seed),
            groups,
            "{query} (statistics {seed})\n{graph:?}"
        );
        let query = format!("{pattern}RETURN {}", columns.join(", "));
        assert_eq!(
            run_over(transaction, views, &query, seed),
            wanted,
            "{query} (statistics {seed})\n{graph:?}"
        );
        let query = format!("{pattern}RETURN count(*)");
        assert_eq!(
            run_over(transaction, views, &query, seed),
            [wanted.len().to_string()],
            "{query} (statistics {seed})\n{graph:?}"
        );
        let query = format!("{pattern}RETURN count(DISTINCT v{first}.i)");
        let known = starts.iter().filter(|start| *start != "null").count();
        assert_eq!(
            run_over(transaction, views, &query, seed),
            [known.to_string()],
            "{query} (statistics {seed})\n{graph:?}"
        );
        let query = format!("{pattern}RETURN DISTINCT v{first}.i");
        assert_eq!(
            run_over(transaction, views, &query, seed),
            starts,
            "{query} (statistics {seed})\n{graph:?}"
        );
    }
    !wanted.is_empty()
}

/// `3 = 3.0`, for every access path.
#[test]
fn a_whole_number_finds_its_key_however_it_is_written() {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    run(
        &mut transaction,
        "CREATE (:B {_key: 3}), (:B {_key: '3'}), (:B {_key: 10000000000000000})",
        0,
    );
    for (key, count) in [
        ("3", 1),
        ("3.0", 1),
        ("'3'", 1),
        ("1e16", 1),
        ("3.5", 0),
        ("null", 0),
        ("true", 0),
        ("[3]", 0),
    ] {
        for query in [
            format!("MATCH (b:B {{_key: {key}}}) RETURN 1"),
            format!("MATCH (b:B) WHERE b._key IN [{key}] RETURN 1"),
            format!("UNWIND [{key}] AS k MATCH (b:B {{_key: k}}) RETURN 1"),
            format!("MATCH (b) WHERE b._key = {key} RETURN 1"),
        ] {
            assert_eq!(run(&mut transaction, &query, 1).len(), count, "{query}");
        }
    }
}

/// Nothing is found along a type that no relationship ever had.
#[test]
fn walks_along_unknown_types_end_where_they_start() {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    run(&mut transaction, "CREATE (:A)-[:R]->(:B)", 0);
    for (query, count) in [
        ("MATCH (a)-[:NONE*]->(b) RETURN DISTINCT b", 0),
        ("MATCH (a)-[:NONE*0..2]->(b) RETURN DISTINCT id(b)", 2),
        ("MATCH (a) WHERE (a)-[:NONE*]->(a) RETURN 1", 0),
        ("MATCH (a) WHERE NOT (a)-[:NONE]->() RETURN 1", 2),
        ("MATCH (a), (b) WHERE (a)-[:NONE*0..1]-(b) RETURN 1", 2),
    ] {
        assert_eq!(run(&mut transaction, query, 1).len(), count, "{query}");
    }
}

/// Read views give the results of the rows, with changes since the views' bases, committed or not.
#[test]
fn views_give_the_same_rows_as_the_store() {
    let mut dice = Dice(4_711);
    let mut queries: Vec<String> = [
        "MATCH (n:A) RETURN n.x, count(*)",
        "MATCH (n:B) RETURN n.x AS x, count(n), count(*)",
        "MATCH (n:A) RETURN n.m.y, count(*)",
        "MATCH (n:A) RETURN n.none, count(*)",
        "MATCH (n:A) RETURN n.mixed, count(*)",
        "MATCH (n:A)-[:R]->(m) WHERE n.x < 2 RETURN m.x, count(*), sum(n.i), max(m.i), count(DISTINCT n.x)",
        "MATCH (n) RETURN count(n.x), min(n.i)",
        "MATCH (n)-[r]-(m) RETURN m, count(r)",
        "MATCH (a)-[:R*1..2]->(n) WHERE n <> a RETURN DISTINCT a.i, n.i",
        "MATCH (a)-[:R*0..3]-(n) RETURN DISTINCT a.i, n.i",
        "MATCH (a)<-[*..2]-(n) RETURN DISTINCT id(a), id(n)",
        "MATCH (a), (b), p = shortestPath((a)-[:R*]->(b)) WHERE a <> b RETURN a.i, b.i, length(p)",
        "MATCH (a), (b), p = shortestPath((a)-[:R|S*..3]-(b)) WHERE a <> b RETURN a.i, b.i, length(p)",
        "MATCH (a), (b), p = allShortestPaths((a)-[*]-(b)) WHERE a <> b RETURN [r IN relationships(p) | r.j]",
        "MATCH (a), (b), p = allShortestPaths((a)<-[:R*]-(b)) WHERE a <> b RETURN [n IN nodes(p) | n.i]",
        "MATCH (a:A)-[:R]->(b) MATCH (b)<-[:R]-(c) MATCH (c)-[:R]->(d) RETURN d.x, count(*)",
        "MATCH (a:A)-[:R]-(b)-[:R]-(c) RETURN c.i, count(*)",
        "MATCH (a:A)-[:R]-(b)-[:R|S]->(c) RETURN count(*), sum(a.i)",
        "MATCH (a)-[:R]->(b)-[:S]->(c)<-[:R]-(d) RETURN count(*)",
        "MATCH (a:A)-[:R]->(b) MATCH (b)<-[:R]-(c) MATCH (c)-[:R]->(d) RETURN d._key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 3",
        "MATCH (a:A)-[:R]->(b) MATCH (b)<-[:R]-(c) MATCH (c)-[:R]->(d:A) RETURN d._key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 2",
        "MATCH (a:B)-[:R]->(b) MATCH (b)<-[:R]-(c:B) RETURN c._key AS key, count(*) AS n ORDER BY n, key DESC LIMIT 2",
        "MATCH (a)-[:R]->(b) MATCH (b)<-[:R]-(c) MATCH (c)-[:R|S]->(d) RETURN d._key AS key, count(*)",
        "MATCH (a)-[:R]->(b) MATCH (b)<-[:R]-(c:A) RETURN c._key AS key, count(*)",
        "MATCH (a)-[:R]->(b) RETURN b, count(*)",
        "MATCH (a)-[:R*1..3]-(n) RETURN DISTINCT a.i, n.i",
        "MATCH (a)-[:R|S*..2]-(n) RETURN DISTINCT id(a), id(n)",
        "MATCH (a)-[*1..1]-(n) RETURN DISTINCT id(a), id(n)",
        "MATCH (a)-[:S*1..4]-(n:A) RETURN DISTINCT a.i, n.i",
        "MATCH (a)-[:R]->(b)-[:R]->(c)-[:R]->(a) RETURN count(*)",
        "MATCH (a)-[:R]->(b)-[:R]-(c), (a)-[:R]-(c) RETURN a.i, c.i, count(*)",
        "MATCH (a)-[:R]->(b) MATCH (b)-[:R]->(c) MATCH (c)-[:R|S]->(a) RETURN a.i, b.i, c.i",
        "MATCH (a:A), (b:B) MATCH (a)-[:R]-(b) RETURN a.i, b.i",
        "MATCH (a:A), (b) MATCH (b)<-[:S]-(a) RETURN a.i, b.i",
        "MATCH (a), (b) WHERE (a)-[:R]->(b) AND NOT (b)-->(a) RETURN a.i, b.i",
        "UNWIND [1, 1, 2] AS i MATCH (a {i: i})-[:R]->()<-[:R]-(b) RETURN DISTINCT b.i",
        "UNWIND [3, 4] AS i MATCH (a {i: i})-[:R]-(m)-[:R]-(b) WHERE b <> a RETURN DISTINCT i, b.i",
        "MATCH (a)-[:R]->() RETURN count(DISTINCT a)",
        "MATCH (a:A) OPTIONAL MATCH (a)-[:R]->(b) RETURN DISTINCT b.i",
        "MATCH (a:A) OPTIONAL MATCH (a)-[:R]->()-[:R]-(b) RETURN DISTINCT b.i",
        "MATCH (a:A) OPTIONAL MATCH (a)-[:R]->()<-[:R]-(b) RETURN DISTINCT a.i, b.i",
        "MATCH (a:A)-[:R]->(b)-[:S]->(c) RETURN DISTINCT c.i",
        "MATCH (a) RETURN a.i, COUNT { MATCH (a)-[:R]->()-[:R]->(b) RETURN DISTINCT b } AS n",
        "MATCH (a) RETURN a.i, COUNT { MATCH (a)-[:R]->(b) RETURN DISTINCT b } AS n",
        "MATCH (a:B)-[:R|S]->()-[:S|R]-(c) RETURN count(DISTINCT c), min(c.i)",
        "MATCH (a) WHERE EXISTS { (a)-[:R]->()-[:R]->(:B) } RETURN a.i",
        "MATCH (a)-[:R]->(b) MATCH (b)<-[:R]-(c:A) WHERE c.i < 20 RETURN c._key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 2",
    ]
    .map(str::to_owned)
    .into();
    for (left, right) in [("-", "->"), ("<-", "-"), ("-", "-")] {
        queries.push(format!(
            "MATCH (a:A), (b) MATCH (a){left}[:R]{right}(b) RETURN a.i, b.i"
        ));
        for (left_too, right_too) in [("-", "->"), ("<-", "-"), ("-", "-")] {
            for (first, second) in [("R", "R"), ("R", "S"), ("R|S", "R"), ("", ""), ("", "S")] {
                let types = |names: &str| match names {
                    "" => String::new(),
                    names => format!("[:{names}]"),
                };
                let (first, second) = (types(first), types(second));
                queries.push(format!(
                    "MATCH (){left}{first}{right}(){left_too}{second}{right_too}() RETURN count(*)"
                ));
                if first != second {
                    continue;
                }
                let pattern = format!("{left}{first}{right}(){left_too}{second}{right_too}");
                queries.push(format!("MATCH (:A){pattern}(b) RETURN DISTINCT b.i"));
                queries.push(format!(
                    "MATCH (a:A){pattern}(b) WHERE a <> b RETURN DISTINCT a.i, id(b)"
                ));
            }
        }
    }
    for round in 0..4 {
        let graph = Graph::random(&mut dice);
        let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
            .expect("a store");
        let views = Views::open(&store, ViewOptions::default()).expect("views");
        let mut transaction = store.begin(Access::Write).expect("a transaction");
        run(&mut transaction, &graph.statement(), 0);
        run(
            &mut transaction,
            "MATCH (n) WHERE n.i % 2 = 0 SET n.m = {y: n.x}, n.mixed = n.i",
            0,
        );
        transaction.commit().expect("committed");
        let catalog = store.catalog();
        let prop = |name: &str| catalog.prop_id(name).expect("a property");
        for label in ["A", "B"].iter().filter_map(|name| catalog.label_id(name)) {
            for path in [
                vec![prop("x")],
                vec![prop("m"), prop("i")],
                vec![prop("_key")],
            ] {
                let made = views.make(&ViewKind::Column(label, path.into()));
                made.expect("a view");
            }
        }
        for type_id in ["R", "S"].iter().filter_map(|name| catalog.type_id(name)) {
            for side in [AdjacencySide::Out, AdjacencySide::In] {
                let made = views.make(&ViewKind::Adjacency(type_id, side));
                made.expect("a view");
            }
        }
        let changes = [
            "CREATE (:A:B {i: 20, x: 5, mixed: 1.0})-[:R {j: 50}]->(:A {i: 21, x: 1, mixed: 'one'})",
            "MATCH (a:A) WITH a ORDER BY a.i LIMIT 2 CREATE (a)-[:R {j: 90}]->(:C {_key: a._key, i: 22}), (a)-[:R {j: 91}]->(:A {_key: 'new' + a._key})",
            "MATCH (a {i: 20}), (b) WHERE b.i < 3 CREATE (b)-[:R {j: 60 + b.i}]->(a), (a)-[:S {j: 70 + b.i}]->(b), (a)-[:R {j: 80 + b.i}]->(a)",
            "MATCH (n) WHERE n.i % 3 = 0 SET n.x = n.x + 1, n.m = {y: [1]}",
            "MATCH ()-[r]->() WHERE r.j % 4 = 1 DELETE r",
            "MATCH (n:A) WHERE n.i = 1 REMOVE n:A, n.x",
            "MATCH (n {i: 2}) DETACH DELETE n",
        ];
        let check = |transaction: &mut Transaction, stage: usize| {
            for query in &queries {
                let expected = run_over(transaction, None, query, 3);
                for seed in [0, 1, 6] {
                    assert_eq!(
                        run_over(transaction, Some(&views), query, seed),
                        expected,
                        "{query} (round {round}, stage {stage}, statistics {seed})\n{graph:?}"
                    );
                }
            }
        };
        for (stage, change) in changes.iter().enumerate() {
            let mut transaction = store.begin(Access::Write).expect("a transaction");
            run(&mut transaction, change, 0);
            if stage % 3 == 1 {
                check(&mut transaction, 100 + stage);
            }
            transaction.commit().expect("committed");
            let mut transaction = store.begin(Access::Read).expect("a transaction");
            check(&mut transaction, stage);
        }
        // Nested values that are not maps are read from the rows; these are not.
        let mut transaction = store.begin(Access::Read).expect("a transaction");
        for (query, operator) in [
            (queries[0].as_str(), "CountByColumn"),
            (queries[8].as_str(), "VarExpand"),
            (queries[11].as_str(), "ShortestPath"),
            (queries[15].as_str(), "Expand"),
            (
                "MATCH (a)-[:R]->(b) MATCH (b)<-[:R]-(c:A) WHERE c.i < 20 RETURN c._key AS key, count(*) AS n ORDER BY n DESC, key LIMIT 2",
                "GroupByKey count(*) by c._key",
            ),
            (
                "MATCH (a)-[:R*1..3]-(n) RETURN DISTINCT a.i, n.i",
                "VarExpand",
            ),
            (
                "MATCH (a)-[:R]->(b) MATCH (b)-[:R]->(c) MATCH (c)-[:R|S]->(a) RETURN a.i, b.i, c.i",
                "ExpandInto",
            ),
            (
                "MATCH (:A)-[:R]->()-[:R]->(b) RETURN DISTINCT b.i",
                "Expand",
            ),
            ("MATCH ()-[:R]->()-[:R]->() RETURN count(*)", "CountPaths"),
        ] {
            let from_view = |line: &str| line.starts_with(operator) && line.contains("from a view");
            let plans: Vec<String> = (0..12)
                .map(|seed| profile(&mut transaction, &views, query, seed))
                .collect();
            let found = plans.iter().any(|plan| plan.lines().any(from_view));
            assert!(found, "{query}\n{}", plans[0]);
        }
    }
}

/// The plan of a query with its profile.
fn profile(transaction: &mut Transaction, views: &Arc<Views>, query: &str, seed: u64) -> String {
    let catalog = Guessing {
        catalog: transaction.catalog(),
        seed,
    };
    let text = format!("PROFILE {query}");
    let plan = isomer_plan::prepare(&text, &catalog, &isomer_plan::PlanningOptions::default())
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let options = ExecutionOptions {
        views: Some(views.clone()),
        ..ExecutionOptions::default()
    };
    let mut execution =
        Execution::start(plan, &Map::new(), &options, transaction).expect("started");
    execution.finish(transaction).expect("finished");
    execution.explain()
}
