//! Random histories through the public API, compared with plain maps after every operation, with and without
//! indexes, on the memory engine and on disk.

use std::{collections::BTreeMap, path::PathBuf};

use isomer_db::{Database, Map, ReadTransaction, Value, WriteTransaction, params};
use isomer_testkit::{
    generate,
    harness::{is_quick, seed},
    model::{Model, Node, Relationship, Side},
    random::Random,
};

const LABELS: [&str; 3] = ["A", "B", "C"];
const TYPES: [&str; 2] = ["T", "U"];
const NAMES: [&str; 4] = ["p", "q", "r.s", ""];

#[test]
fn memory_agrees_with_plain_maps() {
    let steps = if is_quick() { 150 } else { 600 };
    for round in 0..3 {
        Run::new(seed() * 100 + round, None, round != 0).steps(steps);
    }
}

#[test]
fn disk_agrees_with_plain_maps_across_reopening() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let steps = if is_quick() { 100 } else { 400 };
    Run::new(seed() * 100 + 50, Some(folder.path().join("db")), true).steps(steps);
}

struct Run {
    random: Random,
    db: Option<Database>,
    path: Option<PathBuf>,
    model: Model,
    next_uid: u64,
    context: String,
}

impl Run {
    fn new(seed: u64, path: Option<PathBuf>, indexed: bool) -> Self {
        let db = open(path.as_ref());
        if indexed {
            for label in LABELS {
                db.query(&format!("CREATE INDEX i{label} FOR (n:{label}) ON (n.p)"))
                    .expect("the index is new");
            }
            db.query("CREATE INDEX uids FOR (n:A) ON (n.uid)")
                .expect("the index is new");
        }
        let context = format!(
            "seed {seed}, {}",
            if indexed {
                "with indexes"
            } else {
                "without indexes"
            }
        );
        Self {
            random: Random::new(seed),
            db: Some(db),
            path,
            model: Model::default(),
            next_uid: 1,
            context,
        }
    }

    fn steps(mut self, steps: u32) {
        for step in 0..steps {
            self.context = format!(
                "{}, step {step}",
                self.context
                    .split(", step")
                    .next()
                    .expect("there is a first part")
            );
            self.transaction();
            if step % 20 == 0 {
                self.compare_all();
            }
            if self.path.is_some() && self.random.once_in(40) {
                self.db = None;
                self.db = Some(open(self.path.as_ref()));
                self.compare_all();
            }
        }
        self.compare_all();
    }

    /// A small number of statements in one transaction, then a commit or a rollback.
    fn transaction(&mut self) {
        let db = self.db.clone().expect("the database is open");
        let tx = db.begin().expect("a transaction can begin");
        let before = self.model.clone();
        for _ in 0..1 + self.random.below(4) {
            self.write(&tx);
            if self.random.once_in(3) {
                self.observe(&tx);
            }
        }
        if self.random.once_in(5) {
            tx.rollback();
            self.model = before;
        } else {
            tx.commit()
                .unwrap_or_else(|error| panic!("{}: {error}", self.context));
        }
    }

    fn run(&self, tx: &ReadTransaction, text: &str, params: Map) -> Vec<Vec<Value>> {
        let result = tx.query((text, &params));
        let result = result
            .unwrap_or_else(|error| panic!("{}: {text} with {params:?}: {error}", self.context));
        result
            .into_rows()
            .into_iter()
            .map(|row| row.into_values())
            .collect()
    }

    fn some_node(&mut self) -> Option<u64> {
        let count = self.model.nodes.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.model.nodes.keys().nth(at).copied()
    }

    fn some_relationship(&mut self) -> Option<u64> {
        let count = self.model.relationships.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.model.relationships.keys().nth(at).copied()
    }

    /// A small set of values, so that equal ones occur; sometimes any value.
    fn value(&mut self) -> Value {
        match self.random.below(6) {
            0 => Value::Null,
            1 => Value::Int(self.random.below(5) as i64),
            2 => Value::Float(self.random.below(10) as f64 / 2.0),
            3 => Value::from(*self.random.pick(&["", "a", "b", "ab"])),
            4 => Value::Bool(self.random.once_in(2)),
            _ => generate::property(&mut self.random, 2),
        }
    }

    fn properties(&mut self) -> BTreeMap<String, Value> {
        let mut properties = BTreeMap::new();
        for _ in 0..self.random.below(4) {
            let (name, value) = (*self.random.pick(&NAMES), self.value());
            if !value.is_null() {
                properties.insert(name.to_owned(), value);
            }
        }
        properties
    }

    fn write(&mut self, tx: &WriteTransaction) {
        let uid = self.next_uid;
        let node = self.some_node();
        match (self.random.below(11), node) {
            (0..=2, _) | (_, None) => {
                self.next_uid += 1;
                let labels = LABELS
                    .into_iter()
                    .filter(|_| self.random.once_in(2))
                    .collect();
                let node = Node {
                    labels,
                    properties: self.properties(),
                };
                let labels: String = node
                    .labels
                    .iter()
                    .map(|label| format!(":{label}"))
                    .collect();
                self.run(
                    tx,
                    &format!("CREATE (n{labels}) SET n = $map"),
                    params! { "map" => node.stored(uid) },
                );
                self.model.nodes.insert(uid, node);
            }
            (3 | 4, Some(source)) => {
                self.next_uid += 1;
                let target = self.some_node().expect("there is a node");
                let kind = *self.random.pick(&TYPES);
                let weight = self.random.below(3) as i64;
                let params = params! { "a" => source as i64, "b" => target as i64, "u" => uid as i64, "w" => weight };
                self.run(tx, &format!("MATCH (a {{uid: $a}}), (b {{uid: $b}}) CREATE (a)-[:{kind} {{uid: $u, w: $w}}]->(b)"), params);
                self.model.relationships.insert(
                    uid,
                    Relationship {
                        kind,
                        source,
                        target,
                        weight,
                    },
                );
            }
            (5, Some(node)) => {
                let (name, value) = (*self.random.pick(&NAMES), self.value());
                let params = params! { "u" => node as i64, "v" => value.clone() };
                self.run(
                    tx,
                    &format!("MATCH (n {{uid: $u}}) SET n.`{name}` = $v"),
                    params,
                );
                self.node(node).set(name, value);
            }
            (6, Some(node)) => {
                let properties = self.properties();
                let replacement = Node {
                    properties: properties.clone(),
                    ..Node::default()
                };
                let replaces = self.random.once_in(2);
                let sign = if replaces { "=" } else { "+=" };
                let params = params! { "map" => replacement.stored(node), "u" => node as i64 };
                self.run(
                    tx,
                    &format!("MATCH (n {{uid: $u}}) SET n {sign} $map"),
                    params,
                );
                if replaces {
                    self.node(node).properties.clear();
                }
                self.node(node).properties.extend(properties);
            }
            (7, Some(node)) => {
                let label = *self.random.pick(&LABELS);
                let adds = self.random.once_in(2);
                let word = if adds { "SET" } else { "REMOVE" };
                self.run(
                    tx,
                    &format!("MATCH (n {{uid: $u}}) {word} n:{label}"),
                    ints(&[("u", node)]),
                );
                if adds {
                    self.node(node).labels.insert(label);
                } else {
                    self.node(node).labels.remove(label);
                }
            }
            (8, Some(node)) => {
                self.run(
                    tx,
                    "MATCH (n {uid: $u}) DETACH DELETE n",
                    ints(&[("u", node)]),
                );
                self.model.detach_delete(node);
            }
            (9, Some(_)) => {
                let Some(relationship) = self.some_relationship() else {
                    return;
                };
                self.run(
                    tx,
                    "MATCH ()-[r {uid: $u}]->() DELETE r",
                    ints(&[("u", relationship)]),
                );
                self.model.relationships.remove(&relationship);
            }
            (_, Some(node)) => {
                // Fails after it has written: only the statement is rolled back.
                let text = "MATCH (n {uid: $u}) SET n.p = 'undone' CREATE (m:A {uid: -1}) WITH n, m RETURN 1 / (n.uid - $u)";
                let failed = tx.query((text, ints(&[("u", node)])));
                assert!(
                    failed.is_err(),
                    "{}: a division by zero was no error",
                    self.context
                );
            }
        }
    }

    fn node(&mut self, uid: u64) -> &mut Node {
        self.model
            .nodes
            .get_mut(&uid)
            .expect("the node was chosen among those there are")
    }

    /// One query, answered by both sides.
    fn observe(&mut self, tx: &ReadTransaction) {
        let label = *self.random.pick(&LABELS);
        let value = match self.value() {
            Value::Null => Value::Int(2),
            value => value,
        };
        let of =
            |predicate: &str| format!("MATCH (n:{label}) WHERE n.p {predicate} $v RETURN n.uid");
        let params = params! { "v" => value.clone() };
        match self.random.below(6) {
            0 => self.compare(tx, &of("="), params, self.model.equal(label, "p", &value)),
            1 => self.compare(tx, &of("<"), params, self.model.less(label, "p", &value)),
            2 => self.compare(
                tx,
                &of(">="),
                params,
                self.model.greater_or_equal(label, "p", &value),
            ),
            3 => {
                let expected = self
                    .model
                    .nodes
                    .values()
                    .filter(|node| node.labels.contains(label))
                    .count() as u64;
                self.compare(
                    tx,
                    &format!("MATCH (n:{label}) RETURN count(*)"),
                    Map::new(),
                    vec![expected],
                );
            }
            4 => {
                let Some(node) = self.some_node() else { return };
                for (side, left, right) in [
                    (Side::Out, "-", "->"),
                    (Side::In, "<-", "-"),
                    (Side::Both, "-", "-"),
                ] {
                    let kind = *self.random.pick(&TYPES);
                    let text =
                        format!("MATCH (n {{uid: $u}}){left}[r:{kind}]{right}() RETURN count(r)");
                    let expected = self.model.degree(node, side, Some(kind));
                    self.compare(tx, &text, ints(&[("u", node)]), vec![expected]);
                }
            }
            _ => {
                let (Some(from), Some(to)) = (self.some_node(), self.some_node()) else {
                    return;
                };
                let two = "MATCH (n {uid: $u})-->()-->(m) RETURN m.uid";
                self.compare(tx, two, ints(&[("u", from)]), self.model.two_steps(from));
                if from != to {
                    let text = "MATCH (a {uid: $a}), (b {uid: $b}), p = shortestPath((a)-[*]-(b)) RETURN length(p)";
                    let expected = self.model.distance(from, to).into_iter().collect();
                    self.compare(tx, text, ints(&[("a", from), ("b", to)]), expected);
                }
            }
        }
    }

    fn compare(&self, tx: &ReadTransaction, text: &str, params: Map, expected: Vec<u64>) {
        let rows = self.run(tx, text, params.clone());
        let mut found: Vec<i64> = rows.iter().filter_map(|row| row[0].as_int()).collect();
        assert_eq!(
            found.len(),
            rows.len(),
            "{}: {text}: {rows:?}",
            self.context
        );
        found.sort_unstable();
        let expected: Vec<i64> = expected.into_iter().map(|uid| uid as i64).collect();
        assert_eq!(found, expected, "{}: {text} with {params:?}", self.context);
    }

    /// The whole content.
    fn compare_all(&self) {
        let db = self.db.as_ref().expect("the database is open");
        let tx = db.begin_read().expect("a transaction can begin");
        let mut nodes = BTreeMap::new();
        for row in self.run(
            &tx,
            "MATCH (n) RETURN n.uid, labels(n), properties(n)",
            Map::new(),
        ) {
            let [uid, labels, properties] = &row[..] else {
                panic!("three columns were asked for")
            };
            let mut labels: Vec<String> = labels
                .as_list()
                .into_iter()
                .flatten()
                .filter_map(|label| label.as_str().map(str::to_owned))
                .collect();
            labels.sort_unstable();
            nodes.insert(
                uid.as_int().expect("every node has a uid") as u64,
                (labels, properties.clone()),
            );
        }
        let stored = |(uid, node): (&u64, &Node)| {
            let labels: Vec<String> = node
                .labels
                .iter()
                .map(|label| (*label).to_owned())
                .collect();
            (*uid, (labels, Value::from(node.stored(*uid))))
        };
        let expected: BTreeMap<_, _> = self.model.nodes.iter().map(stored).collect();
        assert_eq!(nodes, expected, "{}", self.context);

        let text = "MATCH (a)-[r]->(b) RETURN r.uid, type(r), a.uid, b.uid, r.w ORDER BY r.uid";
        let relationships = self.run(&tx, text, Map::new());
        let stored = |(uid, relationship): (&u64, &Relationship)| {
            let Relationship {
                kind,
                source,
                target,
                weight,
            } = relationship;
            vec![
                Value::Int(*uid as i64),
                Value::from(*kind),
                Value::Int(*source as i64),
                Value::Int(*target as i64),
                Value::Int(*weight),
            ]
        };
        let expected: Vec<Vec<Value>> = self.model.relationships.iter().map(stored).collect();
        assert_eq!(relationships, expected, "{}", self.context);
    }
}

fn open(path: Option<&PathBuf>) -> Database {
    match path {
        Some(path) => Database::open(path).expect("the database opens"),
        None => Database::open_in_memory().expect("memory is always there"),
    }
}

fn ints(pairs: &[(&str, u64)]) -> Map {
    pairs
        .iter()
        .map(|(name, value)| (*name, Value::Int(*value as i64)))
        .collect()
}
