//! The benchmark `language`: what the language costs on top of the storage below it, and what planning costs.
//!
//! **Overhead.** The same records are read in three ways on the same engine in the same run: by the storage's own `get`
//! (a snapshot and one lookup of the record's bytes), by a prepared query, and by a text whose literal differs each time,
//! so that its plan comes from the cache. The ways alternate read by read, each with keys of its own drawn from the same
//! records, so that neither a warmer cache nor a quieter moment favours one; the figure is the difference of the medians.
//!
//! **Planning.** Patterns of ten relationships (a chain, a star, a clique of five nodes) are prepared under texts that were
//! never seen before: parsing, binding, ordering, all of it.

use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use isomer_db::{Database, Prepared, params};
use isomer_value::{NodeId, Value};

use crate::{
    random::Random,
    report::{Case, Report},
};

const NAME: &str = "language";
/// Records at scale 1.
const RECORDS: f64 = 1_000_000.0;
/// Reads in each way.
const READS: usize = 40_000;
/// Reads in each way that are not counted.
const WARM_UP: usize = 4_000;
/// Plans made of each pattern.
const PLANS: usize = 200;

/// Runs every case; the durable database is made in `folder`.
pub fn run(folder: &Path, scale: f64, report: &mut dyn Report) -> Result<()> {
    let records = ((RECORDS * scale) as usize).max(100);
    let reads = READS.min(records * 10);
    let durable = Database::open(folder.join("language"))?;
    let names = ["prepared_point_overhead_us", "cached_text_overhead_us"];
    overhead(&durable, records, reads, names, "durable", report)?;
    durable.close()?;
    let memory = Database::open_in_memory()?;
    let names = [
        "prepared_point_overhead_memory_us",
        "cached_text_overhead_memory_us",
    ];
    overhead(&memory, records, reads, names, "memory", report)?;
    planning(&memory, if records < 10_000 { 5 } else { PLANS }, report)?;
    memory.close()?;
    Ok(())
}

/// Documents of five properties, and the storage's key of each.
struct Documents {
    keys: Vec<String>,
    stored: Vec<Vec<u8>>,
}

impl Documents {
    fn load(db: &Database, count: usize) -> Result<Self> {
        let create = db.prepare(
            "UNWIND $rows AS row CREATE (d:Document) SET d = row RETURN d._key AS key, id(d) AS id",
        )?;
        let store = db.store()?;
        let (mut keys, mut stored) = (Vec::new(), Vec::new());
        for first in (0..count).step_by(5_000) {
            let rows: Vec<Value> = (first..count.min(first + 5_000)).map(document).collect();
            for row in create
                .query(params! { "rows" => Value::from(rows) })?
                .iter()
            {
                keys.push(row.get::<String>("key")?);
                stored.push(store.record_key(NodeId(row.get::<u64>("id")?)));
            }
        }
        ensure!(keys.len() == count, "every document was created");
        Ok(Self { keys, stored })
    }
}

fn document(at: usize) -> Value {
    let mut map = isomer_value::Map::new();
    map.insert("_key", Value::from(format!("d{at:07}")));
    map.insert("name", Value::from(format!("document {at}")));
    map.insert("size", Value::Int(at as i64 * 37 % 1_009));
    map.insert("score", Value::Float(at as f64 / 7.0));
    map.insert("open", Value::Bool(at.is_multiple_of(3)));
    Value::from(map)
}

/// The three ways to read, alternating.
fn overhead(
    db: &Database,
    records: usize,
    reads: usize,
    names: [&'static str; 2],
    engine: &str,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage(&format!("{engine} engine: loading {records} documents"));
    let documents = Documents::load(db, records)?;
    report.stage(&format!(
        "{engine} engine: reading {reads} documents in each way"
    ));
    let prepared = db.prepare("MATCH (d:Document {_key: $key}) RETURN d")?;
    let store = db.store()?;
    let mut random = Random::new(5);
    let warm_up = WARM_UP.min(reads / 2);
    let [mut storage, mut by_plan, mut by_text] =
        std::array::from_fn::<_, 3, _>(|_| Vec::with_capacity(reads));
    for round in 0..warm_up + reads {
        let picks: [usize; 3] = std::array::from_fn(|_| random.below(records));
        let mut times = [Duration::ZERO; 3];
        // Who goes first changes from round to round.
        for turn in 0..3 {
            let way = (turn + round) % 3;
            let at = picks[way];
            times[way] = match way {
                0 => {
                    let start = Instant::now();
                    let bytes = store.engine().snapshot()?.get(&documents.stored[at])?;
                    let time = start.elapsed();
                    ensure!(
                        bytes.is_some(),
                        "the record of {} is stored",
                        documents.keys[at]
                    );
                    time
                }
                1 => by_key(&prepared, &documents.keys[at])?,
                _ => {
                    let text = format!(
                        "MATCH (d:Document {{_key: '{}'}}) RETURN d",
                        documents.keys[at]
                    );
                    let start = Instant::now();
                    let found = db.query(&text, ())?;
                    let time = start.elapsed();
                    ensure!(found.len() == 1, "the document is found");
                    time
                }
            };
        }
        if round >= warm_up {
            storage.push(times[0]);
            by_plan.push(times[1]);
            by_text.push(times[2]);
        }
    }
    let base = spread("storage get", &mut storage, report);
    for (name, times, what) in [
        (names[0], &mut by_plan, "prepared query"),
        (names[1], &mut by_text, "cached text"),
    ] {
        let median = spread(what, times, report);
        report.case(Case {
            bench: NAME,
            case: name.into(),
            value: median - base,
            unit: "us",
            n: reads as u64,
        });
    }
    Ok(())
}

fn by_key(prepared: &Prepared, key: &str) -> Result<Duration> {
    let start = Instant::now();
    let found = prepared.query([("key", key)])?;
    let time = start.elapsed();
    ensure!(found.len() == 1, "the document is found");
    Ok(time)
}

/// Sorts the times, notes how they spread, and gives the median in microseconds.
fn spread(what: &str, times: &mut [Duration], report: &mut dyn Report) -> f64 {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    report.note(&format!(
        "{what}: median {:.2?}, 90% {:.2?}, 99% {:.2?}, n {}",
        at(0.5),
        at(0.9),
        at(0.99),
        times.len()
    ));
    at(0.5).as_secs_f64() * 1e6
}

/// A pattern of ten relationships as text.
type Shape = fn() -> String;

fn chain() -> String {
    (0..10).fold("(n0:Document)".to_owned(), |mut text, at| {
        let label = if at % 3 == 1 { ":Document" } else { "" };
        let _ = write!(text, "-[:LINK]->(n{}{label})", at + 1);
        text
    })
}

fn star() -> String {
    let rays: Vec<String> = (1..=10)
        .map(|at| format!("(n0)-[:LINK]->(n{at}:Document {{size: {at}}})"))
        .collect();
    rays.join(", ")
}

fn clique() -> String {
    let mut edges = Vec::new();
    for a in 0..5 {
        for b in a + 1..5 {
            edges.push(format!("(n{a}:Document)-[:LINK]->(n{b})"));
        }
    }
    edges.join(", ")
}

/// How long it takes to plan patterns of ten relationships.
fn planning(db: &Database, plans: usize, report: &mut dyn Report) -> Result<()> {
    report.stage("planning patterns of ten relationships");
    // Links, so that the planner has something to weigh.
    db.query(
        "MATCH (a:Document) WHERE a.size < 100 MATCH (b:Document {_key: 'd0000000'}) CREATE (a)-[:LINK]->(b)",
        (),
    )
    .context("the links are made")?;
    let shapes: [(&'static str, Shape); 3] = [
        ("plan_chain10_us", chain),
        ("plan_star10_us", star),
        ("plan_clique10_us", clique),
    ];
    for (case, shape) in shapes {
        let mut times = Vec::with_capacity(plans);
        for round in 0..=plans {
            // Another name each time: nothing comes from the cache.
            let text = format!("MATCH {} RETURN count(*) AS c{round}", shape());
            let start = Instant::now();
            db.prepare(&text)?;
            let time = start.elapsed();
            if round > 0 {
                times.push(time);
            }
        }
        let value = spread(case, &mut times, report);
        report.case(Case {
            bench: NAME,
            case: case.into(),
            value,
            unit: "us",
            n: plans as u64,
        });
    }
    Ok(())
}
