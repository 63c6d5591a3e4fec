//! Differential tests: random queries over random graphs, run by the database in several modes and by the
//! interpreter; all must agree.
//!
//! Rows are compared as bags; if the last clause orders them, in that order, with equal rows in any order. If
//! the result depends on what the language leaves open, the database's result must be one that the
//! interpreter can produce.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use isomer_cypher::ast::Statement;
use isomer_db::{ErrorKind, Phase};
use isomer_oracle::graph::Graph;
use isomer_oracle::logic::same_group;
use isomer_oracle::notation::literal;
use isomer_oracle::{Answer, Datum, Fault, Map, Ordered, Variation};

use super::queries::{self, RandomQuery};
use super::subject::{MODES, Mode, Outcome, Subject};
use crate::random::Random;

/// Queries per graph.
const QUERIES_PER_GRAPH: usize = 60;
/// Row orders tried before two results count as different.
const ORDERS: u64 = 60;
/// Parts of a run, each with a separate seed.
const PARTS: u64 = 16;
/// Stack size: unoptimised frames exceed a thread's default.
const STACK_BYTES: usize = 64 << 20;
/// One in this many graphs is stored on disk, too.
const DURABLE: u64 = 25;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of queries.
    pub tried: usize,
    /// Queries with the same result in every mode.
    pub agreed: usize,
    /// Of these, errors in every mode.
    pub errors: usize,
    /// Of these, with at least one row.
    pub with_rows: usize,
    /// Of these, that write.
    pub wrote: usize,
    /// Queries whose result depends on what the language leaves open, and is one of the allowed ones.
    pub open: usize,
    /// The same, but with too many allowed results to enumerate.
    pub undecided: usize,
    /// Queries rejected before they ran.
    pub refused: usize,
    /// Queries skipped because of too many rows.
    pub too_large: usize,
    /// Queries whose writes were kept for later ones.
    pub kept: usize,
    /// Differences, each with all that is needed to reproduce it.
    pub differences: Vec<String>,
}

/// Verdict on one query.
#[derive(Debug)]
enum Verdict {
    Agreed { error: bool, rows: bool },
    Undefined,
    Undecided,
    Refused,
    TooLarge,
    Different(String),
}

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Queries.
    pub queries: usize,
    /// Differences.
    pub differences: usize,
    /// Time.
    pub until: Option<Instant>,
    /// Only this part, counted from 1.
    pub part: Option<u64>,
}

/// Compares until a limit is reached, on as many threads as there are cores. The tested queries depend on the
/// seed alone.
pub fn compare(seed: u64, bounds: Bounds) -> Result<Tally> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let share = Bounds {
        queries: bounds.queries.div_ceil(PARTS as usize),
        ..bounds
    };
    let next = AtomicU64::new(0);
    let found = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut whole = Tally::default();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let enough = found.load(Ordering::Relaxed) >= bounds.differences as u64;
            if part >= PARTS || enough {
                return Ok(whole);
            }
            if bounds.part.is_some_and(|only| only != part + 1) {
                continue;
            }
            let tally = compare_part(seed.wrapping_mul(PARTS).wrapping_add(part), share)?;
            println!(
                "part {} of {PARTS}: {} queries, {} differences",
                part + 1,
                tally.tried,
                tally.differences.len()
            );
            for difference in &tally.differences {
                println!("part {}: {difference}\n", part + 1);
            }
            let more = tally.differences.len() as u64;
            found.fetch_add(more, Ordering::Relaxed);
            whole.add(tally);
        }
    };
    let parts: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .filter_map(|_| {
                let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
                builder.spawn_scoped(scope, work).ok()
            })
            .collect();
        let panicked = |_| Err(anyhow::anyhow!("a thread of the comparison panicked"));
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(panicked));
        joined.collect()
    });
    std::panic::set_hook(hook);
    let mut whole = Tally::default();
    for part in parts {
        whole.add(part?);
    }
    Ok(whole)
}

fn compare_part(seed: u64, bounds: Bounds) -> Result<Tally> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let over = |tally: &Tally| {
        tally.tried >= bounds.queries
            || tally.differences.len() >= bounds.differences
            || bounds.until.is_some_and(|until| Instant::now() >= until)
    };
    while !over(&tally) {
        on_one_graph(&mut random, &mut tally, &over)?;
    }
    Ok(tally)
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.agreed += other.agreed;
        self.errors += other.errors;
        self.with_rows += other.with_rows;
        self.wrote += other.wrote;
        self.open += other.open;
        self.undecided += other.undecided;
        self.refused += other.refused;
        self.too_large += other.too_large;
        self.kept += other.kept;
        self.differences.extend(other.differences);
    }
}

fn on_one_graph(
    random: &mut Random,
    tally: &mut Tally,
    over: &dyn Fn(&Tally) -> bool,
) -> Result<()> {
    let graph = queries::graph::graph(random);
    let schema = queries::graph::schema(random);
    let mut world = World::open(graph, schema)?;
    if random.once_in(DURABLE) {
        let durable = Subject::open(Mode::Durable, &world.graph, &world.schema)?;
        world.subjects.push(durable);
    }
    for _ in 0..QUERIES_PER_GRAPH {
        if over(tally) {
            break;
        }
        let made = queries::query(random);
        tally.tried += 1;
        match world.judge(&made) {
            Verdict::Agreed { error, rows } => {
                tally.agreed += 1;
                tally.errors += usize::from(error);
                tally.with_rows += usize::from(rows);
                tally.wrote += usize::from(made.writes && !error);
                if made.writes && !error && random.once_in(3) {
                    tally.kept += 1;
                    if let Err(what) = world.keep(&made) {
                        tally.differences.push(format!("{what:#}"));
                        return Ok(());
                    }
                }
            }
            Verdict::Undefined => tally.open += 1,
            Verdict::Undecided => tally.undecided += 1,
            Verdict::Refused => tally.refused += 1,
            Verdict::TooLarge => tally.too_large += 1,
            Verdict::Different(what) => {
                let report = super::shrink::report(&made, &world.graph, &world.schema, &what);
                let history = world.history.join("\n    ");
                tally
                    .differences
                    .push(format!("{report}\n  after {history}"));
                // A panic may have left a broken state.
                world = World::open(world.graph.clone(), world.schema.clone())?;
            }
        }
    }
    Ok(())
}

/// The difference between the results of a query on a graph, if any.
pub(super) fn difference(made: &RandomQuery, graph: &Graph, schema: &[String]) -> Option<String> {
    let world = World::open(graph.clone(), schema.to_vec()).ok()?;
    match world.judge(made) {
        Verdict::Different(what) => Some(what),
        _ => None,
    }
}

/// Whether the interpreter reproduces the database's result of a query on a graph; `None` if it does not support the
/// query.
pub(super) fn cross_check(
    text: &str,
    graph: &Graph,
    outcome: &Outcome,
) -> Option<Result<(), String>> {
    let statement = isomer_cypher::parse(text).ok()?;
    let made = RandomQuery {
        text: text.to_owned(),
        risky: true,
        writes: true,
    };
    let mut expected = Expected::new(&statement, graph);
    if let Err(Fault::Unknown(_) | Fault::TooLarge | Fault::LeftOpen(_)) =
        expected.outcome(Variation::default())
    {
        return None;
    }
    match judge_one(&made, &mut expected, outcome) {
        Verdict::Different(what) => Some(Err(what)),
        Verdict::Refused => None,
        _ => Some(Ok(())),
    }
}

/// The same graph in every mode.
struct World {
    graph: Graph,
    schema: Vec<String>,
    subjects: Vec<Subject>,
    /// The queries that built the graph, including the writes of earlier queries.
    history: Vec<String>,
}

impl World {
    fn open(graph: Graph, schema: Vec<String>) -> Result<Self> {
        let subjects = MODES
            .iter()
            .map(|mode| Subject::open(*mode, &graph, &schema))
            .collect::<Result<_>>()?;
        let history = graph.to_cypher().into_iter().collect();
        Ok(Self {
            graph,
            schema,
            subjects,
            history,
        })
    }

    /// Commits what a query writes, in every mode.
    fn keep(&mut self, made: &RandomQuery) -> Result<()> {
        self.history.push(made.text.clone());
        let statement = isomer_cypher::parse(&made.text)?;
        let mut expected = Expected::new(&statement, &self.graph);
        let Ok((_, after)) = expected.outcome(Variation::default()) else {
            bail!("{} cannot be run again", made.text);
        };
        for subject in &self.subjects {
            let kept = match subject.run(&made.text, true, true)? {
                Outcome::Rows { graph, .. } => graph,
                // A mode whose memory does not suffice takes over the result.
                Outcome::Error { .. } if subject.mode == Mode::Small => {
                    subject.run_with_memory(&made.text)?
                }
                Outcome::Error { message, .. } => {
                    bail!("{:?}: {message}\n{}", subject.mode, made.text)
                }
            };
            ensure!(
                kept.is_some_and(|kept| kept.shape() == after.shape()),
                "{:?} keeps another graph than it showed for\n  {}",
                subject.mode,
                self.history.join("\n  ")
            );
        }
        self.graph = after;
        Ok(())
    }

    fn judge(&self, made: &RandomQuery) -> Verdict {
        let statement = match isomer_cypher::parse(&made.text) {
            Ok(statement) => statement,
            Err(error) if made.risky => {
                let _ = error;
                return Verdict::Refused;
            }
            Err(error) => {
                return Verdict::Different(format!("it is not parsed: {}", error.message));
            }
        };
        let mut expected = Expected::new(&statement, &self.graph);
        let first = expected.outcome(Variation::default());
        if let Err(Fault::TooLarge) = first {
            return Verdict::TooLarge;
        }
        if let Err(Fault::LeftOpen(_)) = first {
            return Verdict::Undefined;
        }
        if let Err(Fault::Unknown(what)) = &first {
            if made.risky {
                return Verdict::TooLarge;
            }
            return Verdict::Different(format!("the interpreter does not know {what}"));
        }
        let mut verdict = Verdict::Agreed {
            error: first.is_err(),
            rows: first
                .as_ref()
                .is_ok_and(|(answer, _)| !answer.rows.is_empty()),
        };
        for subject in &self.subjects {
            let run = catch_unwind(AssertUnwindSafe(|| {
                subject.run(&made.text, made.writes, false)
            }));
            let actual = match run {
                Ok(Ok(actual)) => actual,
                Ok(Err(error)) => {
                    return Verdict::Different(format!("{:?}: {error:#}", subject.mode));
                }
                Err(panic) => {
                    let message = crate::tck::suite::message(panic.as_ref());
                    return Verdict::Different(format!("{:?}: panic: {message}", subject.mode));
                }
            };
            if let Outcome::Error {
                kind: ErrorKind::Limit,
                ..
            } = actual
                && subject.mode == Mode::Small
            {
                continue;
            }
            match judge_one(made, &mut expected, &actual) {
                Verdict::Agreed { .. } => {}
                Verdict::Different(what) => {
                    return Verdict::Different(format!("{:?}: {what}", subject.mode));
                }
                other => verdict = other,
            }
        }
        verdict
    }
}

type Run = Result<(Answer, Graph), Fault>;

/// The interpreter's result under each variation.
struct Expected<'q> {
    statement: &'q Statement,
    graph: &'q Graph,
    parameters: Map,
    runs: BTreeMap<(u64, bool, bool), Run>,
}

impl<'q> Expected<'q> {
    fn new(statement: &'q Statement, graph: &'q Graph) -> Self {
        Self {
            statement,
            graph,
            parameters: Map::new(),
            runs: BTreeMap::new(),
        }
    }

    fn outcome(&mut self, variation: Variation) -> Run {
        let run = self
            .runs
            .entry((variation.order, variation.eager, variation.late))
            .or_insert_with(|| {
                isomer_oracle::run(self.statement, self.graph, &self.parameters, variation)
            });
        run.clone()
    }
}

fn judge_one(made: &RandomQuery, expected: &mut Expected<'_>, actual: &Outcome) -> Verdict {
    if let Outcome::Error {
        kind: ErrorKind::Internal | ErrorKind::Corrupt,
        message,
        ..
    } = actual
    {
        return Verdict::Different(format!("the database's own fault: {message}"));
    }
    let first = expected.outcome(Variation::default());
    if agrees(&first, actual, false) {
        return Verdict::Agreed {
            error: false,
            rows: false,
        };
    }
    // Rejected before it ran: right if a wrong type was inserted that no row needed.
    if let Outcome::Error {
        phase: Some(Phase::Prepare),
        ..
    } = actual
        && made.risky
    {
        return Verdict::Refused;
    }
    // A predicate may be evaluated for rows that another clause would have dropped.
    if let Outcome::Error {
        phase: Some(Phase::Run),
        ..
    } = actual
        && made.risky
    {
        return Verdict::Undefined;
    }
    if let Outcome::Error {
        kind: ErrorKind::Unsupported,
        ..
    } = actual
    {
        return Verdict::Refused;
    }
    // Nor does an error occur for rows that were not requested, or for which a predicate was not evaluated.
    if let Outcome::Rows { .. } = actual
        && made.risky
        && (matches!(first, Err(Fault::Predicate(_)))
            || first.is_err() && made.text.contains("LIMIT"))
    {
        return Verdict::Undefined;
    }
    let mut seen = vec![first.clone()];
    let mut varied = false;
    for order in 0..ORDERS {
        for (eager, late) in [(false, false), (true, false), (false, true)] {
            let other = expected.outcome(Variation { order, eager, late });
            if agrees(&other, actual, false) || agrees(&other, actual, true) && order > 0 && varied
            {
                return Verdict::Undefined;
            }
            if !same(&seen[0], &other) {
                varied = true;
                seen.push(other);
            }
        }
        if order > 8 && !varied {
            break;
        }
    }
    if varied && seen.iter().any(|other| agrees(other, actual, true)) {
        return Verdict::Undefined;
    }
    let differing = seen.len() > 1 && !seen.iter().all(|other| same_but_lists(&seen[0], other));
    if differing {
        return Verdict::Undecided;
    }
    Verdict::Different(describe(&first, actual))
}

/// Whether two runs of the interpreter have the same result.
fn same(a: &Run, b: &Run) -> bool {
    match (a, b) {
        (Ok((a, left)), Ok((b, right))) => {
            shown_rows(a, left, false) == shown_rows(b, right, false)
                && left.shape() == right.shape()
        }
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

fn same_but_lists(a: &Run, b: &Run) -> bool {
    match (a, b) {
        (Ok((a, left)), Ok((b, right))) => {
            shown_rows(a, left, true) == shown_rows(b, right, true) && left.shape() == right.shape()
        }
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

/// Whether the database has the interpreter's result; `loose`: lists in any order.
fn agrees(expected: &Run, actual: &Outcome, loose: bool) -> bool {
    match (expected, actual) {
        (Err(Fault::Raised(_) | Fault::Predicate(_)), Outcome::Error { .. }) => true,
        (
            Ok((answer, after)),
            Outcome::Rows {
                columns,
                rows,
                graph,
            },
        ) => {
            if let Some(graph) = graph
                && graph.shape() != after.shape()
            {
                return false;
            }
            if !rows.is_empty() && *columns != answer.columns {
                return false;
            }
            let own = graph.as_ref();
            match &answer.ordered {
                Some(ordered) => agrees_in_order(ordered, after, rows, own, loose),
                None => shown_rows(answer, after, loose) == bag(rows, own, loose),
            }
        }
        _ => false,
    }
}

/// Each row is at the position that the order requires, in any order among equal rows.
fn agrees_in_order(
    ordered: &Ordered,
    after: &Graph,
    rows: &[Vec<Datum>],
    own: Option<&Graph>,
    loose: bool,
) -> bool {
    if rows.len() != ordered.to - ordered.from {
        return false;
    }
    let mut at = ordered.from;
    while at < ordered.to {
        let key = &ordered.rows[at].0;
        let tied = |place: &usize| same_group(&ordered.rows[*place].0, key);
        let first = (0..=at).rev().take_while(tied).last().unwrap_or(at);
        let behind = (at..ordered.rows.len())
            .take_while(tied)
            .last()
            .unwrap_or(at)
            + 1;
        let end = behind.min(ordered.to);
        let mut candidates: Vec<String> = ordered.rows[first..behind]
            .iter()
            .map(|(_, row)| show(row, Some(after), loose))
            .collect();
        for row in &rows[at - ordered.from..end - ordered.from] {
            let shown = show(row, own, loose);
            match candidates.iter().position(|one| *one == shown) {
                Some(found) => {
                    candidates.swap_remove(found);
                }
                None => return false,
            }
        }
        at = end;
    }
    true
}

fn shown_rows(answer: &Answer, after: &Graph, loose: bool) -> Vec<String> {
    bag(&answer.rows, Some(after), loose)
}

fn bag(rows: &[Vec<Datum>], graph: Option<&Graph>, loose: bool) -> Vec<String> {
    let mut shown: Vec<String> = rows.iter().map(|row| show(row, graph, loose)).collect();
    shown.sort();
    shown
}

fn show(row: &[Datum], graph: Option<&Graph>, loose: bool) -> String {
    let cells: Vec<String> = row.iter().map(|value| cell(value, graph, loose)).collect();
    cells.join(" | ")
}

/// A value by content: entities by labels, type and properties, floats to ten digits.
fn cell(value: &Datum, graph: Option<&Graph>, loose: bool) -> String {
    let inside = |value: &Datum| cell(value, graph, loose);
    match value {
        Datum::Float(number) if *number == 0.0 => "0e0".into(),
        Datum::Float(number) => format!("{number:.9e}"),
        Datum::List(items) => {
            let mut items: Vec<String> = items.iter().map(inside).collect();
            if loose {
                items.sort();
            }
            format!("[{}]", items.join(", "))
        }
        Datum::Map(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}: {}", inside(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Datum::Node(node) => match (
            &node.content,
            graph.and_then(|graph| graph.nodes.get(&node.id)),
        ) {
            (Some(held), _) | (None, Some(held)) => {
                let labels: Vec<&str> = held.labels.iter().map(String::as_str).collect();
                format!(
                    "({} {})",
                    labels.join(":"),
                    inside(&held.properties.clone().into())
                )
            }
            (None, None) => "a node that is gone".into(),
        },
        Datum::Relationship(one) => {
            match (
                &one.content,
                graph.and_then(|graph| graph.relationships.get(&one.id)),
            ) {
                (Some((name, properties)), _) => {
                    format!("[{name} {}]", inside(&properties.clone().into()))
                }
                (None, Some(held)) => format!(
                    "[{} {}]",
                    held.name,
                    inside(&held.properties.clone().into())
                ),
                (None, None) => "a relationship that is gone".into(),
            }
        }
        Datum::Path(path) => {
            let nodes: Vec<String> = path
                .nodes
                .iter()
                .map(|node| inside(&Datum::Node(node.clone().into())))
                .collect();
            let between: Vec<String> = path
                .relationships
                .iter()
                .map(|one| inside(&Datum::Relationship(one.clone().into())))
                .collect();
            format!("<{} by {}>", nodes.join(" "), between.join(" "))
        }
        other => literal(other),
    }
}

fn describe(expected: &Run, actual: &Outcome) -> String {
    let rows = |rows: &[Vec<Datum>], graph: Option<&Graph>| {
        let shown = bag(rows, graph, false);
        let first: Vec<String> = shown.iter().take(12).cloned().collect();
        format!("{} rows\n      {}", rows.len(), first.join("\n      "))
    };
    let graphs = |graph: &Graph| format!("\n    graph\n      {}", graph.shape().join("\n      "));
    let expected_text = match expected {
        Ok((answer, after)) => {
            let changed = match actual {
                Outcome::Rows {
                    graph: Some(graph), ..
                } if graph.shape() != after.shape() => graphs(after),
                _ => String::new(),
            };
            format!(
                "{:?} {}{changed}",
                answer.columns,
                rows(&answer.rows, Some(after))
            )
        }
        Err(fault) => format!("{fault:?}"),
    };
    let actual_text = match actual {
        Outcome::Rows {
            columns,
            rows: found,
            graph,
        } => {
            let changed = match (graph, expected) {
                (Some(graph), Ok((_, after))) if graph.shape() != after.shape() => graphs(graph),
                _ => String::new(),
            };
            format!("{columns:?} {}{changed}", rows(found, graph.as_ref()))
        }
        Outcome::Error { phase, message, .. } => format!("{phase:?} {message}"),
    };
    format!("\n  expected: {expected_text}\n  found:    {actual_text}")
}
