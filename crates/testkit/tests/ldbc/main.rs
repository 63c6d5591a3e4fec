//! The published queries of LDBC's Social Network Benchmark, unchanged, on generated data: each answer is compared with
//! an independent computation, row by row and in order.
//!
//! The texts are not part of the project: without `../shared/ldbc` the cases are skipped. `ISOMER_LDBC_PERSONS` is the
//! number of people, `ISOMER_LDBC_RUNS` the number of parameters per query.

mod compare;

use std::{cell::OnceCell, path::Path, process::ExitCode, rc::Rc, time::Instant};

use anyhow::{Context as _, Result, ensure};
use isomer_db::{Database, Query};
use isomer_testkit::{
    harness::{Harness, Outcome, Verdict, is_quick, seed},
    ldbc::{
        cell::{Answer, Cell, Parameters},
        generate::generate,
        load::{Times, load, parameters},
        network::Network,
        parameters::Draw,
        published,
        reference::{Compute, Facts, READS, apply},
    },
};

/// Draws until an answer has rows.
const DRAWS: usize = 2_000;

fn number(name: &str, usual: usize) -> usize {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(usual)
}

/// Whether an answer has no rows, or says with its only value that nothing was found.
fn is_nothing(answer: &Answer) -> bool {
    match &answer.rows[..] {
        [] => true,
        [row] => matches!(row[..], [Cell::Int(0)]) || row[..] == [Cell::Float(-1.0)],
        _ => false,
    }
}

/// A database with its network.
struct Loaded {
    db: Database,
    network: Network,
    times: Times,
}

impl Loaded {
    fn new(times: Times) -> Result<Self> {
        let persons = number("ISOMER_LDBC_PERSONS", if is_quick() { 60 } else { 120 });
        let network = generate(persons, seed());
        let db = Database::open_in_memory()?;
        load(&db, &network, times)?;
        Ok(Self { db, network, times })
    }

    /// Parameters whose answers have rows, with these answers, and the first parameters that were drawn.
    fn cases(&self, name: &str, compute: Compute) -> Result<Vec<(Parameters, Answer)>> {
        let facts = Facts::new(&self.network);
        let mut draw = Draw::new(&facts, seed());
        let first = draw.of(name);
        let answer = compute(&facts, &first);
        let mut cases = vec![(first, answer)];
        let wanted = number("ISOMER_LDBC_RUNS", 8);
        for _ in 0..DRAWS {
            let given = draw.of(name);
            let answer = compute(&facts, &given);
            if !is_nothing(&answer) {
                cases.push((given, answer));
            }
            if cases.len() > wanted {
                return Ok(cases);
            }
        }
        let found = cases.len() - 1;
        ensure!(
            found > 2,
            "only {found} of {DRAWS} parameters have rows: the data is too small"
        );
        Ok(cases)
    }

    /// The condition of complex read 14 is a disjunction over two people: they are found by their ids, instead of
    /// reading all replies for each friendship.
    fn finds_people_first(&self, folder: &Path) -> Result<()> {
        let text = published::text(folder, "interactive-complex-14")?;
        let shown = self.db.query(&*format!("EXPLAIN {text}"))?;
        let plan = shown.plan().context("a plan")?;
        let seeks = plan.matches("[branch] IndexSeek").count();
        ensure!(seeks == 4 && !plan.contains("Scan"), "{plan}");
        Ok(())
    }

    /// Runs a published query with several parameters and compares the answers.
    fn check(&self, folder: &Path, name: &str, compute: Compute) -> Result<()> {
        let text = published::text(folder, name)?;
        let run = |name: &str| -> Result<()> {
            self.db.query(&*published::text(folder, name)?)?;
            Ok(())
        };
        let needs_graph = matches!(name, "bi-19" | "bi-20");
        if needs_graph {
            run(&format!("{name}-create-graph"))?;
        }
        let mut spent = 0.0;
        let cases = self.cases(name, compute)?;
        for (given, expected) in &cases {
            let started = Instant::now();
            let query = Query::new(&text).params(parameters(given, self.times));
            let found = self
                .db
                .query(query)
                .with_context(|| format!("with {given:?}"))?;
            spent += started.elapsed().as_secs_f64();
            compare::rows(&found, expected).with_context(|| format!("with {given:?}"))?;
        }
        if needs_graph {
            run(&format!("{name}-drop-graph"))?;
        }
        let rows: usize = cases.iter().map(|(_, answer)| answer.rows.len()).sum();
        println!(
            "{name}: {} runs, {rows} rows, {:.2} ms each",
            cases.len(),
            spent * 1e3 / cases.len() as f64
        );
        Ok(())
    }
}

/// The eight updates, each twice, and then the reads of the interactive workload on what they made.
fn updates(folder: &Path) -> Result<()> {
    let mut loaded = Loaded::new(Times::Epoch)?;
    for round in 0..2 {
        for update in 1..=8 {
            let text = published::text(folder, &format!("interactive-update-{update}"))?;
            let given = {
                let facts = Facts::new(&loaded.network);
                let seed = seed() + round * 100 + update as u64;
                Draw::new(&facts, seed)
                    .of_update(update, (1 << 50) + (round * 8) as i64 + update as i64)
            };
            let query = Query::new(&text).params(parameters(&given, loaded.times));
            let counters = *loaded.db.query(query)?.counters();
            compare::counters(&counters, update, &given)?;
            apply(&mut loaded.network, update, &given);
        }
    }
    for (name, compute) in READS
        .iter()
        .filter(|(name, _)| name.starts_with("interactive"))
    {
        loaded
            .check(folder, name, *compute)
            .with_context(|| format!("{name} after the updates"))?;
    }
    Ok(())
}

/// A network that is loaded by the first case that needs it.
type Shared = Rc<OnceCell<Loaded>>;

fn shared(cell: &Shared, times: Times) -> Result<&Loaded> {
    if cell.get().is_none() {
        let loaded = Loaded::new(times)?;
        cell.set(loaded).ok();
    }
    cell.get().context("it was just loaded")
}

fn with_texts(body: impl FnOnce(&Path) -> Result<()>) -> Outcome {
    match published::folder() {
        None => Ok(Verdict::NeedsData("../shared/ldbc does not exist".into())),
        Some(folder) => body(&folder).map(|()| Verdict::Passed),
    }
}

fn main() -> ExitCode {
    let mut harness = Harness::new();
    let (interactive, business) = (Shared::default(), Shared::default());
    for (name, compute) in READS {
        let is_business = name.starts_with("bi-");
        let (cell, times) = match is_business {
            true => (business.clone(), Times::DateTime),
            false => (interactive.clone(), Times::Epoch),
        };
        harness.case(name.replace('-', "_"), move || {
            with_texts(|folder| shared(&cell, times)?.check(folder, name, *compute))
        });
    }
    harness.case("interactive_updates", || with_texts(updates));
    harness.case("trusted_paths_begin_at_their_people", move || {
        with_texts(|folder| shared(&interactive, Times::Epoch)?.finds_people_first(folder))
    });
    harness.run()
}
