//! `ldbc generate FOLDER`, `ldbc run FOLDER`: data of the Social Network Benchmark's schema as files, and the times of
//! its reads, for a comparison with other databases (`bench-peers/ldbc.py`). The results are not LDBC benchmark
//! results.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use isomer_db::{Database, Query};
use isomer_testkit::ldbc::{
    cell::{Cell, Parameters},
    files,
    generate::generate,
    load::{Times, load, parameters},
    parameters::Draw,
    published,
    reference::{Facts, READS},
};

/// Generates data of LDBC's schema, and measures the published reads of the interactive workload on it.
#[derive(Parser)]
struct Arguments {
    /// Number of people.
    #[arg(long, global = true, default_value_t = 1_000)]
    persons: usize,
    /// Seed of the data and the parameters.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Parameters of each query; those with rows are chosen.
    #[arg(long, global = true, default_value_t = 20)]
    runs: usize,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the tables as CSV, and `runs.tsv`: a query and its parameters a line
    Generate {
        /// An existing folder.
        folder: PathBuf,
    },
    /// Loads the data into a database in memory and prints a JSON object per query
    Run {
        /// Passes over all runs; the time of a run is that of its fastest pass.
        #[arg(long, default_value_t = 5)]
        passes: usize,
    },
}

fn main() -> Result<()> {
    let given = Arguments::parse();
    let network = generate(given.persons, given.seed);
    let facts = Facts::new(&network);
    let runs = runs(&facts, &given);
    match &given.command {
        Command::Generate { folder } => {
            files::write(&network, folder).with_context(|| format!("{}", folder.display()))?;
            let lines: Vec<String> = runs.iter().map(line).collect();
            fs::write(folder.join("runs.tsv"), lines.concat())?;
            Ok(())
        }
        Command::Run { passes } => {
            let folder = published::folder().context("../shared/ldbc does not exist")?;
            let db = Database::open_in_memory()?;
            load(&db, &network, Times::Epoch)?;
            measure(&db, &folder, &runs, *passes)
        }
    }
}

/// A query, its parameters, and the number of rows expected.
type Run = (&'static str, Parameters, usize);

fn runs(facts: &Facts<'_>, given: &Arguments) -> Vec<Run> {
    let mut runs = Vec::new();
    for (name, compute) in READS
        .iter()
        .filter(|(name, _)| name.starts_with("interactive"))
    {
        let mut draw = Draw::new(facts, given.seed);
        let drawn = (0..given.runs * 50)
            .map(|_| draw.of(name))
            .filter_map(|parameters| {
                let rows = compute(facts, &parameters).rows.len();
                (rows > 0).then_some((*name, parameters, rows))
            });
        runs.extend(drawn.take(given.runs));
    }
    runs
}

/// `query`, rows, and `kind:name=value` of each parameter, separated by tabs.
fn line((name, parameters, rows): &Run) -> String {
    let cells = parameters.iter().map(|(name, cell)| match cell {
        Cell::Int(number) | Cell::Time(number) => format!("\tlong:{name}={number}"),
        Cell::Text(text) => format!("\ttext:{name}={text}"),
        other => unreachable!("no read has a parameter such as {other:?}"),
    });
    format!("{name}\t{rows}{}\n", cells.collect::<String>())
}

fn measure(db: &Database, folder: &Path, runs: &[Run], passes: usize) -> Result<()> {
    let mut best: BTreeMap<usize, f64> = BTreeMap::new();
    for _ in 0..passes {
        for (at, (name, given, rows)) in runs.iter().enumerate() {
            let text = published::text(folder, name)?;
            let query = Query::new(&text).params(parameters(given, Times::Epoch));
            let started = Instant::now();
            let found = db.query(query)?.len();
            let time = started.elapsed().as_secs_f64() * 1e6;
            ensure!(
                found == *rows,
                "{name}: {found} rows instead of {rows} with {given:?}"
            );
            let known = best.entry(at).or_insert(time);
            *known = known.min(time);
        }
    }
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (at, time) in best {
        times.entry(runs[at].0).or_default().push(time);
    }
    for (name, mut times) in times {
        times.sort_by(f64::total_cmp);
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{{\"system\": \"isomer\", \"case\": \"{name}\", \"median_us\": {median:.0}, \"max_us\": {most:.0}}}"
        );
    }
    Ok(())
}
