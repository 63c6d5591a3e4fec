//! Paths below properties, over records of different shapes: one record has a map where another one has a number, a
//! string, a list or nothing. The expected result is the interpreter's, with and without indexes, planner rules and
//! read views.

use anyhow::{Context, Result, bail};
use isomer_oracle::calendar::Date;
use isomer_oracle::graph::{Graph, Node};
use isomer_oracle::notation::literal;
use isomer_oracle::{Datum, Map};

use super::differential::cross_check;
use super::subject::{MODES, Outcome, Subject};
use crate::random::Random;

/// Queries per graph.
const QUERIES_PER_GRAPH: usize = 60;
const NAMES: [&str; 3] = ["k", "l", "year"];

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Queries tried.
    pub tried: usize,
    /// Queries with the same result in every mode.
    pub agreed: usize,
    /// Of these, with rows.
    pub with_rows: usize,
    /// Of these, errors.
    pub errors: usize,
    /// Queries that the interpreter does not support, or whose result the language leaves open.
    pub left_out: usize,
}

/// Tries `count` queries.
pub fn compare(count: usize, seed: u64) -> Result<Tally> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    while tally.tried < count {
        let graph = graph(&mut random);
        let schema = schema(&mut random);
        let subjects = MODES
            .iter()
            .map(|mode| Subject::open(*mode, &graph, &schema))
            .collect::<Result<Vec<_>>>()?;
        for _ in 0..QUERIES_PER_GRAPH {
            let text = query(&mut random);
            tally.tried += 1;
            on_one_query(&text, &graph, &subjects, &mut tally).with_context(|| {
                let made = graph.to_cypher().unwrap_or_default();
                format!("{text}\nafter\n{}\n{made}", schema.join("\n"))
            })?;
        }
    }
    Ok(tally)
}

fn on_one_query(text: &str, graph: &Graph, subjects: &[Subject], tally: &mut Tally) -> Result<()> {
    let mut known = false;
    for subject in subjects {
        let outcome = subject.run(text, true, false)?;
        match cross_check(text, graph, &outcome) {
            None => continue,
            Some(Ok(())) => {}
            Some(Err(what)) => bail!("{:?}: {what}", subject.mode),
        }
        if !known {
            known = true;
            match &outcome {
                Outcome::Rows { rows, .. } => tally.with_rows += usize::from(!rows.is_empty()),
                Outcome::Error { .. } => tally.errors += 1,
            }
        }
    }
    match known {
        true => tally.agreed += 1,
        false => tally.left_out += 1,
    }
    Ok(())
}

fn graph(random: &mut Random) -> Graph {
    let mut graph = Graph::default();
    for i in 0..3 + random.below(8) {
        let mut properties = Map::new();
        properties.insert("i".into(), Datum::Int(i as i64));
        if !random.once_in(4) {
            properties.insert("x".into(), Datum::Int(random.below(3) as i64));
        }
        if !random.once_in(6) {
            properties.insert("m".into(), document(random, 3));
        }
        graph.add_node(Node {
            labels: ["D".to_owned()].into(),
            properties,
        });
    }
    graph
}

/// A value of any kind.
fn document(random: &mut Random, depth: usize) -> Datum {
    if depth > 0 && !random.once_in(3) {
        let mut map = Map::new();
        for name in NAMES {
            if !random.once_in(3) {
                map.insert(name.into(), document(random, depth - 1));
            }
        }
        return Datum::from(map);
    }
    match random.below(9) {
        0 => Datum::from("plain"),
        1 => Datum::Bool(true),
        2 => Datum::Float(1.5),
        3 => Datum::from(vec![Datum::Int(1), Datum::from("a")]),
        4 if depth > 0 => Datum::from(vec![document(random, depth - 1)]),
        5 => Date::of(2020, 2, 3).map_or(Datum::Null, Datum::Date),
        _ => Datum::Int(random.below(3) as i64),
    }
}

fn schema(random: &mut Random) -> Vec<String> {
    let all = [
        "CREATE INDEX FOR (d:D) ON (d.m.k)",
        "CREATE INDEX FOR (d:D) ON (d.m.k.l)",
        "CREATE INDEX FOR (d:D) ON (d.x, d.m.k)",
        "CREATE INDEX FOR (d:D) ON (d.m.year)",
        "CREATE INDEX FOR (d:D) ON (d.m.l, d.m.k)",
        "CREATE INDEX FOR (d:D) ON (d.m.l[])",
        "CREATE INDEX FOR (d:D) ON (d.m)",
    ];
    let some = all.into_iter().filter(|_| random.once_in(2));
    some.map(str::to_owned).collect()
}

fn path(random: &mut Random) -> String {
    let mut text = String::from(if random.once_in(3) { "d['m']" } else { "d.m" });
    for _ in 0..1 + random.below(3) {
        match random.below(12) {
            0 => text.push_str("['k']"),
            1 => text.push_str("[0]"),
            _ => {
                text.push('.');
                text.push_str(NAMES[random.below(3) as usize]);
            }
        }
    }
    text
}

fn constant(random: &mut Random) -> String {
    match random.below(8) {
        0 => "'plain'".into(),
        1 => "1.5".into(),
        2 => "null".into(),
        3 => "true".into(),
        4 => "2020".into(),
        _ => literal(&Datum::Int(random.below(3) as i64)),
    }
}

fn predicate(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.once_in(2) {
        let (left, right) = (predicate(random, depth - 1), predicate(random, depth - 1));
        return match random.below(3) {
            0 => format!("({left} OR {right})"),
            1 => format!("({left} AND {right})"),
            _ => format!("NOT ({left})"),
        };
    }
    let path = path(random);
    match random.below(10) {
        0 => format!("{path} IS NULL"),
        1 => format!("{path} IS NOT NULL"),
        2 => format!("{path} IN [{}, {}]", constant(random), constant(random)),
        3 => format!("{path} STARTS WITH 'pl'"),
        4 => format!("d.x = {}", random.below(3)),
        _ => {
            let comparison = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
            format!("{path} {comparison} {}", constant(random))
        }
    }
}

fn query(random: &mut Random) -> String {
    let filter = predicate(random, 2);
    let (one, other) = (path(random), path(random));
    let order = random.pick(&["", " DESC"]);
    match random.below(12) {
        0 | 1 => format!("MATCH (d:D) WHERE {filter} RETURN d.i"),
        2 => format!("MATCH (d:D) WHERE {filter} RETURN count(*) AS c"),
        3 => format!("MATCH (d:D) RETURN d.i, {one} AS v ORDER BY {one}{order}, d.i{order}"),
        4 => format!("MATCH (d:D) RETURN {one} AS v ORDER BY v{order} LIMIT 2"),
        5 => format!("MATCH (d:D) RETURN {one} AS v, count(*) AS c"),
        6 => format!("MATCH (d:D) RETURN min({one}) AS a, max({other}) AS b, count({one}) AS c"),
        7 => format!("MATCH (d:D) RETURN d.m AS m, {one} AS v, count(*) AS c"),
        8 => format!("MATCH (d:D) WHERE {filter} SET d.y = {one}, d.z = {other}"),
        9 => format!("MATCH (d:D), (e:D) WHERE {one} = e.m.k AND {filter} RETURN count(*) AS c"),
        10 => format!("MATCH (d:D) WITH d, {one} AS v WHERE v IS NOT NULL RETURN d.i, v"),
        _ => format!("MATCH (d:D) RETURN [x IN [d] WHERE x.m.k.l = 1 | x.i] AS l, {one} AS v"),
    }
}
