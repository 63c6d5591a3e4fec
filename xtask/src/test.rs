//! `cargo xtask test`: runs the suites and adds them up.

use std::{
    fs::{self, File},
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    live::Live,
    needs::{self, Missing},
    process::{self, Log},
    suites::{Context, SUITES, Suite},
    tally::Tally,
    workspace,
};

/// What to run, and how.
#[derive(clap::Args)]
pub struct Options {
    /// Counts what could not run as failed (except for data that is not beside the checkout)
    #[arg(long)]
    strict: bool,
    /// Fewer repetitions and no release build: ends within 10 minutes once built
    #[arg(long)]
    quick: bool,
    /// Only this suite; may be given several times
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Lists the suites and ends
    #[arg(long)]
    list: bool,
}

/// Sums over all suites.
#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    skips: Vec<String>,
    notes: Vec<String>,
}

/// Runs the chosen suites; whether nothing failed.
pub fn run(options: &Options) -> Result<bool> {
    if options.list {
        for suite in SUITES {
            println!("{:<10} {}", suite.name, suite.about);
        }
        return Ok(true);
    }
    let chosen = choose(options)?;
    let logs = workspace::target_dir().join("xtask");
    fs::create_dir_all(&logs).with_context(|| format!("{} cannot be made", logs.display()))?;
    println!("logs in {}", logs.display());

    let started = Instant::now();
    let mut total = Total::default();
    let mut programs = None;
    process::heed_interrupts()?;
    for suite in chosen {
        if process::is_interrupted() {
            bail!("stopped before suite `{}`", suite.name);
        }
        if options.quick && suite.slow && !options.suites.iter().any(|name| name == suite.name) {
            total
                .notes
                .push(format!("left out by --quick: {}", suite.name));
            continue;
        }
        let mut live = Live::start(suite.name);
        live.tick("");
        if let Err(missing) = suite.needs.iter().try_for_each(|need| need.meet()) {
            live.finish(&format!("skipped: {}", missing.reason));
            total.skip(suite.name, &missing, options.strict);
            continue;
        }
        let path = logs.join(format!("{}.log", suite.name));
        let mut log = Log::new(
            File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?,
        );
        let mut context = Context {
            log: &mut log,
            live: &mut live,
            programs: &mut programs,
            quick: options.quick,
            notes: &mut total.notes,
        };
        let tally = suite
            .run(&mut context)
            .with_context(|| format!("suite {}", suite.name))?;
        live.finish(&format!(
            "{} passed, {} failed, {} skipped",
            tally.passed,
            tally.failed,
            tally.skipped()
        ));
        if tally.failed > 0 {
            show_failure(&tally, &log, &path);
        }
        total.add(suite, &tally, options.strict);
    }
    Ok(total.close(started))
}

fn choose(options: &Options) -> Result<Vec<&'static Suite>> {
    for name in &options.suites {
        if !SUITES.iter().any(|suite| suite.name == name) {
            let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            bail!(
                "there is no suite `{name}`: choose from {}",
                known.join(", ")
            );
        }
    }
    let wanted = |suite: &&Suite| {
        options.suites.is_empty() || options.suites.iter().any(|name| name == suite.name)
    };
    Ok(SUITES.iter().filter(wanted).collect())
}

fn show_failure(tally: &Tally, log: &Log, path: &Path) {
    for line in log.tail() {
        println!("    {line}");
    }
    for line in &tally.said {
        println!("  {line}");
    }
    for name in &tally.failures {
        println!("  failed: {name}");
    }
    println!("  whole log: {}", path.display());
}

impl Total {
    fn skip(&mut self, name: &str, missing: &Missing, strict: bool) {
        self.skips.push(format!("{name}: {}", missing.reason));
        if strict && !missing.tolerated {
            self.failed += 1;
            self.failures
                .push(format!("{name}: skipped, and --strict allows no skip"));
        } else {
            self.skipped += 1;
        }
    }

    fn add(&mut self, suite: &Suite, tally: &Tally, strict: bool) {
        self.passed += tally.passed;
        self.failed += tally.failed;
        self.failures.extend(
            tally
                .failures
                .iter()
                .map(|name| format!("{}: {name}", suite.name)),
        );
        for (name, reason) in &tally.skips {
            let missing = Missing {
                reason: reason.clone(),
                tolerated: needs::is_tolerated(reason),
            };
            self.skip(&format!("{}: {name}", suite.name), &missing, strict);
        }
        for _ in 0..tally.skipped() - tally.skips.len() as u64 {
            let missing = Missing {
                reason: "a test said that it was ignored, without a reason".into(),
                tolerated: false,
            };
            self.skip(suite.name, &missing, strict);
        }
    }

    /// Prints what a person needs to know and the closing line.
    fn close(&self, started: Instant) -> bool {
        println!("\ntotal {:.0} s", started.elapsed().as_secs_f64());
        for note in &self.notes {
            println!("{note}");
        }
        for skip in &self.skips {
            println!("skipped: {skip}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        );
        self.failed == 0
    }
}
