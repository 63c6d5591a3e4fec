//! The benchmark `language`: the overhead of the query language over the storage below it, and the cost of
//! planning.
//!
//! **Overhead.** The same records are read in three ways on the same engine in the same run: by the storage's
//! own `get` (a snapshot and one lookup of the record's bytes), by a prepared query, and by a text with a
//! different literal each time, whose plan comes from the cache. The ways alternate read by read, each with
//! separate keys drawn from the same records, so that neither a warmer cache nor a quieter moment favours
//! one; the metric is the difference of the medians.
//!
//! **Planning.** Patterns of ten relationships (a chain, a star, a clique of five nodes) are prepared with
//! texts that the cache has not seen: parsing, binding and join ordering included.
//!
//! **Plan quality.** Two queries whose best join order depends on statistics run on two databases with the
//! same data, one that plans with statistics and one that plans with counts of nodes and relationships alone
//! (`…_plain_ms`), alternating.

use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use isomer_db::{Database, Prepared, internals::DatabaseInternals as _, params};
use isomer_value::{NodeId, Value};

use crate::{
    random::Random,
    report::{Case, Report},
};

const NAME: &str = "language";
/// Records at scale 1.
const RECORDS: f64 = 1_000_000.0;
/// Reads per way.
const READS: usize = 40_000;
/// Warm-up reads per way.
const WARM_UP: usize = 4_000;
/// Plans per pattern.
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
    quality((records / 5).clamp(500, 50_000), report)?;
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

/// The three ways of reading, alternating.
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
        // The order rotates from round to round.
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
                    let found = db.query(&text)?;
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

/// Sorts the times, notes their distribution, and returns the median in microseconds.
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

/// Measures planning of patterns of ten relationships.
fn planning(db: &Database, plans: usize, report: &mut dyn Report) -> Result<()> {
    report.stage("planning patterns of ten relationships");
    // Relationships, so that the planner has counts to compare.
    db.query("MATCH (a:Document) WHERE a.size < 100 MATCH (b:Document {_key: 'd0000000'}) CREATE (a)-[:LINK]->(b)")
    .context("the links are made")?;
    let shapes: [(&'static str, Shape); 3] = [
        ("plan_chain10_us", chain),
        ("plan_star10_us", star),
        ("plan_clique10_us", clique),
    ];
    for (case, shape) in shapes {
        let mut times = Vec::with_capacity(plans);
        for round in 0..=plans {
            // A new name each time, so that the plan cache misses.
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

/// Per metric of plan quality: name with statistics, name without, query.
const QUALITY: [(&str, &str, &str); 2] = [
    // Nearly all accounts are open, few are of grade 7: without statistics both predicates look equally
    // selective.
    (
        "skewed_values_ms",
        "skewed_values_plain_ms",
        "MATCH (a:Account {state: 'open'})-[:KNOWS]->(b:Account {grade: 7}) RETURN count(*) AS n",
    ),
    // One type connects several pairs of labels: nearly all of its relationships lead to shops, few from
    // shops to cities.
    (
        "mixed_ends_ms",
        "mixed_ends_plain_ms",
        "MATCH (a:Account)-[:IN]->(s:Shop)-[:IN]->(c:City)<-[:OF]-(m:Mayor) WHERE m.name = 'm3' AND a.grade < 500 RETURN count(*) AS n",
    ),
];
const QUALITY_ROUNDS: usize = 15;

/// The same queries, planned with statistics and without.
fn quality(accounts: usize, report: &mut dyn Report) -> Result<()> {
    report.stage("plans with statistics and without");
    let databases = [true, false].map(|statistics| -> Result<Database> {
        let db = Database::builder()
            .plan_statistics(statistics)
            .open_in_memory()?;
        make_bank(&db, accounts as i64)?;
        Ok(db)
    });
    let [with, without] = databases;
    let databases = [with?, without?];
    for (name, plain, query) in QUALITY {
        let prepared = [databases[0].prepare(query)?, databases[1].prepare(query)?];
        let mut times = [Vec::new(), Vec::new()];
        let mut answers = [0i64; 2];
        for round in 0..=QUALITY_ROUNDS {
            for turn in 0..2 {
                let at = (turn + round) % 2;
                let start = Instant::now();
                let found = prepared[at].query(())?;
                let time = start.elapsed();
                answers[at] = found.rows()[0].get::<i64>("n")?;
                if round > 0 {
                    times[at].push(time);
                }
            }
        }
        ensure!(
            answers[0] == answers[1] && answers[0] > 0,
            "both plans of {name} give the same answer: {answers:?}"
        );
        for (case, times) in [name, plain].into_iter().zip(&mut times) {
            let value = spread(case, times, report) / 1e3;
            report.case(Case {
                bench: NAME,
                case: case.into(),
                value,
                unit: "ms",
                n: QUALITY_ROUNDS as u64,
            });
        }
    }
    Ok(())
}

/// Accounts that know each other and are in shops, shops in cities, a mayor for each city.
fn make_bank(db: &Database, accounts: i64) -> Result<()> {
    let shops = (accounts / 50).max(10);
    for (text, count) in [
        (
            "UNWIND range(0, $n - 1) AS i CREATE (:City {_key: i})<-[:OF]-(:Mayor {name: 'm' + toString(i)})",
            10,
        ),
        (
            "UNWIND range(0, $n - 1) AS i MATCH (c:City {_key: i % 10}) CREATE (:Shop {_key: i})-[:IN]->(c)",
            shops,
        ),
        (
            "UNWIND range(0, $n - 1) AS i CREATE (:Account {_key: i, grade: i % 1000, state: CASE i % 100 WHEN 0 THEN 'shut' ELSE 'open' END})",
            accounts,
        ),
        (
            "UNWIND range(0, $n - 1) AS i MATCH (a:Account {_key: i}), (b:Account {_key: (i * 7 + 3) % $n}), (c:Account {_key: (i * 13 + 5) % $n})
             CREATE (a)-[:KNOWS]->(b), (a)-[:KNOWS]->(c)",
            accounts,
        ),
        (
            "UNWIND range(0, $n - 1) AS i MATCH (a:Account {_key: i}), (s:Shop {_key: i % $shops}), (t:Shop {_key: (i * 3) % $shops})
             CREATE (a)-[:IN]->(s), (a)-[:IN]->(t)",
            accounts,
        ),
    ] {
        db.query((text, params! { "n" => count, "shops" => shops }))?;
    }
    Ok(())
}
