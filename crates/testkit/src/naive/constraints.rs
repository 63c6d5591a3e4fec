//! Constraints are checked at the end of a statement: random statements of several clauses under random constraints. A
//! model runs each on a plain graph and checks the constraints on the final state only; the database must accept and
//! refuse the same statements, and have the same graph afterwards.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use isomer_db::{
    Database, Query, SchemaError, WriteTransaction, internals::DatabaseInternals as _,
};
use isomer_oracle::graph::{Graph, Node, Relationship};
use isomer_oracle::logic::same_group;
use isomer_oracle::notation::literal;
use isomer_oracle::{Datum, Fault, Map, Variation};

use super::subject::{Mode, graph_of};
use crate::random::Random;

/// Statements per graph.
const STATEMENTS_PER_GRAPH: usize = 30;
/// Orders of rows that the model tries.
const ORDERS: u64 = 12;
const LABELS: [&str; 2] = ["L", "M"];
const PROPERTIES: [&str; 3] = ["a", "b", "c"];
/// Modes of running a statement: with every planner rule, with none, with parameters, with views.
const MODES: [Mode; 4] = [Mode::Indexed, Mode::NoRules, Mode::Prepared, Mode::Views];

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Statements tried.
    pub tried: usize,
    /// Accepted by all.
    pub accepted: usize,
    /// Of these, statements that would have violated a constraint if each clause had been checked separately.
    pub mended: usize,
    /// Refused by all because of a constraint.
    pub refused: usize,
    /// Errors for another reason.
    pub errors: usize,
    /// Skipped: the outcome depends on the order of rows, or the model does not support the statement.
    pub left_out: usize,
}

/// The records that the constraints of a graph are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    Nodes,
    Relationships,
}

impl Records {
    /// The pattern of a record: `(n:L {…})`, `()-[n:L {…}]->()`.
    fn pattern(self, record: &str) -> String {
        match self {
            Self::Nodes => format!("({record})"),
            Self::Relationships => format!("()-[{record}]->()"),
        }
    }
}

/// A constraint on the nodes of a label, or the relationships of a type of the same name.
#[derive(Clone, Debug)]
enum Rule {
    Required(&'static str),
    Integer(&'static str),
    Bounds(&'static str),
    Unique(Vec<&'static str>),
    Key(Vec<&'static str>),
}

#[derive(Clone, Debug)]
struct Constraint {
    name: String,
    records: Records,
    label: &'static str,
    rule: Rule,
}

impl Constraint {
    fn random(number: usize, records: Records, random: &mut Random) -> Self {
        let property = |random: &mut Random| *random.pick(&PROPERTIES);
        let several = |random: &mut Random| {
            let all = PROPERTIES.iter().copied();
            let some: Vec<_> = all.filter(|_| random.once_in(2)).collect();
            match some.is_empty() {
                true => vec!["a"],
                false => some,
            }
        };
        let rule = match random.below(7) {
            0 => Rule::Required(property(random)),
            1 => Rule::Integer(property(random)),
            2 => Rule::Bounds(property(random)),
            3 | 4 => Rule::Unique(vec![property(random)]),
            5 => Rule::Unique(several(random)),
            _ => Rule::Key(several(random)),
        };
        Self {
            name: format!("rule_{number}"),
            records,
            label: LABELS[random.below(2) as usize],
            rule,
        }
    }

    fn to_cypher(&self) -> String {
        let all = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| format!("n.{name}")).collect();
            format!("({})", names.join(", "))
        };
        let demand = match &self.rule {
            Rule::Required(name) => format!("n.{name} IS NOT NULL"),
            Rule::Integer(name) => format!("n.{name} IS :: INTEGER"),
            Rule::Bounds(name) => format!("0 <= n.{name} < 4"),
            Rule::Unique(names) => format!("{} IS UNIQUE", all(names)),
            Rule::Key(names) => format!("{} IS KEY", all(names)),
        };
        let pattern = self.records.pattern(&format!("n:{}", self.label));
        let name = &self.name;
        format!("CREATE CONSTRAINT {name} FOR {pattern} REQUIRE {demand}")
    }

    fn holds(&self, graph: &Graph) -> bool {
        let records: Vec<&Map> = match self.records {
            Records::Nodes => {
                let carry = |node: &&Node| node.labels.contains(self.label);
                let nodes = graph.nodes.values().filter(carry);
                nodes.map(|node| &node.properties).collect()
            }
            Records::Relationships => {
                let carry = |one: &&Relationship| one.name == self.label;
                let found = graph.relationships.values().filter(carry);
                found.map(|one| &one.properties).collect()
            }
        };
        let values = |properties: &Map, names: &[&str]| -> Option<Vec<Datum>> {
            names
                .iter()
                .map(|name| properties.get(*name).cloned())
                .collect()
        };
        let once = |names: &[&str]| {
            let all: Vec<_> = records
                .iter()
                .filter_map(|record| values(record, names))
                .collect();
            (0..all.len()).all(|at| !all[..at].iter().any(|other| same_group(other, &all[at])))
        };
        let each = |name: &str, fits: &dyn Fn(&Datum) -> bool| {
            let mut found = records.iter().filter_map(|record| record.get(name));
            found.all(fits)
        };
        let present = |names: &[&str]| {
            let mut records = records.iter();
            records.all(|record| values(record, names).is_some())
        };
        match &self.rule {
            Rule::Required(name) => present(&[name]),
            Rule::Integer(name) => each(name, &|value| value.as_int().is_some()),
            Rule::Bounds(name) => each(name, &|value| {
                value.as_int().is_some_and(|int| (0..4).contains(&int))
            }),
            Rule::Unique(names) => once(names),
            Rule::Key(names) => present(names) && once(names),
        }
    }
}

/// The model's outcome of a statement.
enum Expected {
    /// The graph afterwards.
    Graph(Graph),
    /// These constraints are violated at the end.
    Broken(BTreeSet<String>),
    /// An error that is unrelated to constraints.
    Error,
}

/// Tries `count` statements.
pub fn compare(count: usize, seed: u64) -> Result<Tally> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    while tally.tried < count {
        on_one_graph(&mut random, &mut tally)?;
    }
    Ok(tally)
}

fn on_one_graph(random: &mut Random, tally: &mut Tally) -> Result<()> {
    let records = match random.once_in(3) {
        true => Records::Relationships,
        false => Records::Nodes,
    };
    let mut graph = start(records, random);
    let mut rules: Vec<Constraint> = Vec::new();
    for number in 0..1 + random.below(4) as usize {
        let rule = Constraint::random(number, records, random);
        // An equal constraint, or a key over the values of a unique constraint, is refused.
        let same = |own: &Constraint| match (&own.rule, &rule.rule) {
            (Rule::Unique(a) | Rule::Key(a), Rule::Unique(b) | Rule::Key(b)) => a == b,
            (a, b) => format!("{a:?}") == format!("{b:?}"),
        };
        let is_new = !rules.iter().any(|own| own.label == rule.label && same(own));
        if is_new && rule.holds(&graph) {
            rules.push(rule);
        }
    }
    let schema: Vec<String> = rules.iter().map(Constraint::to_cypher).collect();
    let mut history = schema.clone();
    history.extend(graph.to_cypher());
    let subjects = MODES.map(|mode| (mode, mode.builder().open_in_memory()));
    let mut databases = Vec::new();
    for (mode, database) in subjects {
        let database = database?;
        if let Some(text) = graph.to_cypher() {
            database.query(&text)?;
        }
        for statement in &schema {
            database
                .query(statement)
                .with_context(|| history.join("\n"))?;
        }
        if mode != Mode::NoRules {
            let pattern = records.pattern("n:L");
            let index = format!("CREATE INDEX FOR {pattern} ON (n.b)");
            database.query(&index).ok();
        }
        databases.push((mode, database));
    }
    for _ in 0..STATEMENTS_PER_GRAPH {
        let text = match records {
            Records::Nodes => statement(random),
            Records::Relationships => statement_on_relationships(random),
        };
        tally.tried += 1;
        let Some(expected) = expected(&text, &graph, &rules) else {
            tally.left_out += 1;
            continue;
        };
        let keeps = random.once_in(2);
        for (mode, database) in &databases {
            judge(&text, *mode, database, &graph, &expected, keeps)
                .with_context(|| format!("{mode:?}\n{text}\nafter\n{}", history.join("\n")))?;
        }
        match expected {
            Expected::Graph(after) => {
                tally.accepted += 1;
                tally.mended += usize::from(breaks_on_the_way(&text, &graph, &rules));
                if keeps {
                    history.push(text);
                    graph = after;
                }
            }
            Expected::Broken(_) => tally.refused += 1,
            Expected::Error => tally.errors += 1,
        }
    }
    for (mode, database) in &databases {
        let found = database.check().run()?;
        ensure!(
            found.is_empty(),
            "{mode:?}: {}\nafter\n{}",
            found.join("\n"),
            history.join("\n")
        );
    }
    Ok(())
}

/// The model's outcome of a statement; none if it depends on the order of rows.
fn expected(text: &str, graph: &Graph, rules: &[Constraint]) -> Option<Expected> {
    let statement = isomer_cypher::parse(text).ok()?;
    let no_parameters = Map::new();
    let mut found: Option<(String, Expected)> = None;
    for order in 0..ORDERS {
        let variation = Variation {
            order,
            ..Variation::default()
        };
        let outcome = match isomer_oracle::run(&statement, graph, &no_parameters, variation) {
            Ok((_, after)) => {
                let broken = rules.iter().filter(|rule| !rule.holds(&after));
                let broken: BTreeSet<String> = broken.map(|rule| rule.name.clone()).collect();
                match broken.is_empty() {
                    true => (after.shape().join("\n"), Expected::Graph(after)),
                    false => (format!("broken {broken:?}"), Expected::Broken(broken)),
                }
            }
            Err(Fault::Raised(_) | Fault::Predicate(_)) => ("error".into(), Expected::Error),
            Err(Fault::TooLarge | Fault::Unknown(_) | Fault::LeftOpen(_)) => return None,
        };
        match &found {
            None => found = Some(outcome),
            Some((shape, _)) if *shape == outcome.0 => {}
            Some(_) => return None,
        }
    }
    found.map(|(_, expected)| expected)
}

/// Whether a prefix of the statement's clauses violates a constraint that the whole statement satisfies.
fn breaks_on_the_way(text: &str, graph: &Graph, rules: &[Constraint]) -> bool {
    let Ok(mut statement) = isomer_cypher::parse(text) else {
        return false;
    };
    let isomer_cypher::ast::StatementBody::Query(query) = &mut statement.body else {
        return false;
    };
    let clauses = query.branches[0].clauses.clone();
    (1..clauses.len()).any(|count| {
        let mut part = statement.clone();
        if let isomer_cypher::ast::StatementBody::Query(query) = &mut part.body {
            query.branches[0].clauses.truncate(count);
        }
        match isomer_oracle::run(&part, graph, &Map::new(), Variation::default()) {
            Ok((_, after)) => !rules.iter().all(|rule| rule.holds(&after)),
            Err(_) => false,
        }
    })
}

fn judge(
    text: &str,
    mode: Mode,
    database: &Database,
    before: &Graph,
    expected: &Expected,
    keeps: bool,
) -> Result<()> {
    if mode == Mode::Views {
        database.views().wait_ready();
    }
    let transaction = database.begin()?;
    let answer = match mode {
        Mode::Prepared => {
            let (text, parameters) = super::subject::lifted(text);
            let prepared = database.prepare(&text)?;
            transaction
                .query_prepared(&prepared, &parameters)
                .map(|_| ())
        }
        _ => transaction
            .query(Query::new(text).options(&mode.options()))
            .map(|_| ()),
    };
    let after = graph_of(&transaction)?.shape();
    match (expected, answer) {
        (Expected::Graph(expected), Ok(())) => {
            ensure!(
                after == expected.shape(),
                "the graph is\n{}\nwhere this was expected\n{}",
                after.join("\n"),
                expected.shape().join("\n")
            );
            ends(transaction, keeps)?;
        }
        (Expected::Graph(_), Err(error)) => {
            anyhow::bail!("refused, and should be accepted: {error}");
        }
        (Expected::Broken(names), Ok(())) => {
            anyhow::bail!("accepted, and breaks {names:?}");
        }
        (Expected::Error, Ok(())) => anyhow::bail!("accepted, and should be an error"),
        (expected, Err(error)) => {
            if let Expected::Broken(names) = expected {
                let message = error.to_string();
                ensure!(
                    error.schema_error() == Some(SchemaError::Violated)
                        && names.iter().any(|name| message.contains(name.as_str()))
                        && (message.contains("node ") || message.contains("relationship ")),
                    "another error than that {names:?} are broken: {message}"
                );
            }
            ensure!(after == before.shape(), "the statement was not undone");
            // The transaction can continue.
            transaction.query("CREATE (:Other)")?;
            transaction.rollback();
        }
    }
    Ok(())
}

fn ends(transaction: WriteTransaction, keeps: bool) -> Result<()> {
    match keeps {
        true => transaction.commit().map(|_| ())?,
        false => transaction.rollback(),
    }
    Ok(())
}

// ---- graphs and statements

fn start(records: Records, random: &mut Random) -> Graph {
    let mut graph = Graph::default();
    for _ in 0..random.below(5) {
        let mut properties = Map::new();
        for name in PROPERTIES {
            if !random.once_in(4) {
                properties.insert(name.into(), Datum::Int(random.below(4) as i64));
            }
        }
        if records == Records::Relationships {
            let ends = [0, 1].map(|_| graph.add_node(Node::default()));
            graph.add_relationship(Relationship {
                source: ends[0],
                target: *random.pick(&ends),
                name: (*random.pick(&LABELS)).to_owned(),
                properties,
            });
            continue;
        }
        let labels = LABELS.iter().filter(|_| !random.once_in(3));
        let labels = labels.map(|label| (*label).to_owned()).collect();
        graph.add_node(Node { labels, properties });
    }
    graph
}

fn value(random: &mut Random) -> String {
    match random.below(12) {
        0 => "null".into(),
        1 => literal(&Datum::from("x")),
        2 => "-1".into(),
        _ => random.below(5).to_string(),
    }
}

fn map(random: &mut Random) -> String {
    let mut entries = Vec::new();
    for name in PROPERTIES {
        if random.once_in(2) {
            entries.push(format!("{name}: {}", value(random)));
        }
    }
    format!("{{{}}}", entries.join(", "))
}

fn item(variable: &str, random: &mut Random) -> String {
    let name = random.pick(&PROPERTIES);
    let label = random.pick(&LABELS);
    match random.below(12) {
        0 => format!("{variable}:{label}"),
        1 => format!("{variable} = {}", map(random)),
        2 => format!("{variable} += {}", map(random)),
        3 | 4 => format!("{variable}.{name} = {variable}.{name} + 1"),
        5 => format!("{variable}.{name} = 3 - {variable}.{name}"),
        6 => format!(
            "{variable}.{name} = {variable}.{}",
            random.pick(&PROPERTIES)
        ),
        _ => format!("{variable}.{name} = {}", value(random)),
    }
}

fn items(variable: &str, random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let all: Vec<_> = (0..count).map(|_| item(variable, random)).collect();
    all.join(", ")
}

/// The first clause of a statement; it binds `n`.
fn first(random: &mut Random) -> String {
    let label = *random.pick(&LABELS);
    let name = *random.pick(&PROPERTIES);
    let number = random.below(4);
    match random.below(11) {
        0 => format!("CREATE (n:{label} {})", map(random)),
        1 => format!("CREATE (n {})", map(random)),
        2 => format!("MATCH (n:{label})"),
        3 => format!("MATCH (n:{label} {{{name}: {number}}})"),
        4 => format!("MERGE (n:{label} {{{name}: {number}}})"),
        5 => format!(
            "MERGE (n:{label} {{{name}: {number}}}) ON CREATE SET {} ON MATCH SET {}",
            items("n", random),
            items("n", random)
        ),
        6 => format!("UNWIND [0, 1, 2] AS i MERGE (n:{label} {{{name}: i}})"),
        7 => format!("UNWIND [3, 1, 2] AS i CREATE (n:{label} {{{name}: i}})"),
        8 => format!(
            "MATCH (n:{label}), (m:{label}) WHERE n.{name} < m.{name} WITH n, m ORDER BY n.{name}, m.{name} LIMIT 1 SET {}",
            swap(name)
        ),
        9 => format!("MATCH (n:{label}) WITH n ORDER BY n.{name} DESC LIMIT 2"),
        _ => format!("MATCH (n:{label}) WHERE n.{name} >= {number}"),
    }
}

/// Two values are swapped directly; through a third property no constraint would be violated in between.
fn swap(name: &str) -> String {
    format!(
        "n.{name} = n.{name} + m.{name}, m.{name} = n.{name} - m.{name}, n.{name} = n.{name} - m.{name}"
    )
}

/// A clause in the middle; `n` is bound before and after it, `k` is a new variable.
fn next(k: &str, random: &mut Random) -> String {
    let label = *random.pick(&LABELS);
    let name = *random.pick(&PROPERTIES);
    match random.below(14) {
        0..=3 => format!("SET {}", items("n", random)),
        4 => format!("REMOVE n.{name}"),
        5 => format!("REMOVE n:{label}"),
        6 => format!("WITH n CALL {{ WITH n SET {} }}", items("n", random)),
        7 => format!("FOREACH (x IN [1, 2, 3] | SET n.{name} = x)"),
        8 => format!("FOREACH (x IN [3, 4] | CREATE (:{label} {{{name}: x}}))"),
        // A seek while two nodes may have the same value.
        9 => format!(
            "WITH n MATCH ({k}:{label} {{{name}: {}}}) SET {k}.{name} = {k}.{name} + 1",
            random.below(4)
        ),
        10 => format!(
            "WITH DISTINCT n MERGE ({k}:{label} {{{name}: {}}})",
            random.below(4)
        ),
        11 => format!(
            "WITH n MATCH ({k}:{label}) WHERE {k}.{name} = n.{name} SET {}",
            item(k, random)
        ),
        12 => format!(
            "CREATE ({k}:{label} {}) WITH n, {k} SET {}",
            map(random),
            items(k, random)
        ),
        // All rows are read first: earlier clauses may write to what is deleted.
        _ => format!(
            "WITH collect(n) AS all UNWIND all AS n CALL {{ MATCH ({k}:{label} {{{name}: 1}}) DETACH DELETE {k} }}"
        ),
    }
}

/// What a relationship can be set to: it keeps its type.
fn relationship_items(variable: &str, random: &mut Random) -> String {
    loop {
        let items = items(variable, random);
        if !items.contains(&format!("{variable}:")) {
            return items;
        }
    }
}

/// A pattern of a relationship with a value, its ends anything.
fn sought(variable: &str, random: &mut Random) -> String {
    let (label, name) = (random.pick(&LABELS), random.pick(&PROPERTIES));
    let value = random.below(4);
    Records::Relationships.pattern(&format!("{variable}:{label} {{{name}: {value}}}"))
}

/// As [`first`], of a relationship.
fn first_relationship(random: &mut Random) -> String {
    let label = *random.pick(&LABELS);
    let name = *random.pick(&PROPERTIES);
    let any = |variable: &str| Records::Relationships.pattern(&format!("{variable}:{label}"));
    let each = Records::Relationships.pattern(&format!("n:{label} {{{name}: i}}"));
    match random.below(11) {
        0 | 1 => format!("CREATE ()-[n:{label} {}]->()", map(random)),
        2 => format!("MATCH {}", any("n")),
        3 => format!("MATCH {}", sought("n", random)),
        4 => format!("MERGE {}", sought("n", random)),
        5 => format!(
            "MERGE {} ON CREATE SET {} ON MATCH SET {}",
            sought("n", random),
            relationship_items("n", random),
            relationship_items("n", random)
        ),
        6 => format!("UNWIND [0, 1, 2] AS i MERGE {each}"),
        7 => format!("UNWIND [3, 1, 2] AS i CREATE {each}"),
        8 => format!(
            "MATCH {}, {} WHERE n.{name} < m.{name} WITH n, m ORDER BY n.{name}, m.{name} LIMIT 1 SET {}",
            any("n"),
            any("m"),
            swap(name)
        ),
        9 => format!("MATCH {} WITH n ORDER BY n.{name} DESC LIMIT 2", any("n")),
        _ => format!(
            "MATCH {} WHERE n.{name} = {} OR n.b >= {}",
            any("n"),
            random.below(4),
            random.below(4)
        ),
    }
}

/// As [`next`], of a relationship.
fn next_relationship(k: &str, random: &mut Random) -> String {
    let label = *random.pick(&LABELS);
    let name = *random.pick(&PROPERTIES);
    match random.below(12) {
        0..=3 => format!("SET {}", relationship_items("n", random)),
        4 => format!("REMOVE n.{name}"),
        5 => format!(
            "WITH n CALL {{ WITH n SET {} }}",
            relationship_items("n", random)
        ),
        6 => format!("FOREACH (x IN [1, 2, 3] | SET n.{name} = x)"),
        7 => format!("FOREACH (x IN [3, 4] | CREATE ()-[:{label} {{{name}: x}}]->())"),
        // A seek while two relationships may have the same value.
        8 => format!(
            "WITH n MATCH {} SET {k}.{name} = {k}.{name} + 1",
            sought(k, random)
        ),
        9 => format!("WITH DISTINCT n MERGE {}", sought(k, random)),
        10 => format!(
            "CREATE ()-[{k}:{label} {}]->() WITH n, {k} SET {}",
            map(random),
            relationship_items(k, random)
        ),
        _ => format!(
            "WITH collect(n) AS all UNWIND all AS n CALL {{ MATCH {} DELETE {k} }}",
            sought(k, random)
        ),
    }
}

fn statement_on_relationships(random: &mut Random) -> String {
    let mut clauses = vec![first_relationship(random)];
    for number in 0..random.below(4) {
        clauses.push(next_relationship(&format!("k{number}"), random));
    }
    match random.below(6) {
        0 => clauses.push("DELETE n".into()),
        1 => clauses.push("RETURN count(*)".into()),
        _ => {}
    }
    let text = clauses.join(" ");
    let writes = ["CREATE", "MERGE", "SET", "REMOVE", "DELETE", "FOREACH"];
    match writes.iter().any(|word| text.contains(word)) {
        true => text,
        false => format!("{text} SET n.c = 1"),
    }
}

fn statement(random: &mut Random) -> String {
    let mut clauses = vec![first(random)];
    for number in 0..random.below(4) {
        clauses.push(next(&format!("k{number}"), random));
    }
    match random.below(6) {
        0 => clauses.push("DETACH DELETE n".into()),
        1 => clauses.push("RETURN count(*)".into()),
        2 => clauses.push("WITH count(*) AS c MATCH (k:L) RETURN max(k.a)".into()),
        _ => {}
    }
    let mut text = clauses.join(" ");
    // A statement must not end with a reading clause.
    let writes = ["CREATE", "MERGE", "SET", "REMOVE", "DELETE", "FOREACH"];
    if !writes.iter().any(|word| text.contains(word)) {
        text.push_str(" SET n.c = 1");
    }
    text
}
