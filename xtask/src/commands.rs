//! The short commands: tidy, bench, bench-peers, soak, soak-shared and others.

use std::{
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};

use crate::{
    build,
    context::PROPERTY_SEED,
    live::Live,
    process::{self, Log},
    tally::Tally,
    test_program::{LIBRARY, OWN_SUITES, TestProgram, is_suite},
    tidy, workspace,
};

/// Suites with randomised, seeded runs.
const SEEDED: [&str; 5] = ["simdisk", "isolation", "crash", "faults", "queries"];

/// Seeded tests of the suite `unit`: a name, their package and target, and a filter on test names.
const SEEDED_UNITS: [(&str, &str, &str, &str); 7] = [
    ("histories", "isomer-replication", LIBRARY, "history_says"),
    ("replicas", "isomer-cli", "cli", "replicas::partitions::"),
    ("sums", "isomer-exec", LIBRARY, "exact::"),
    ("codecs", "isomer-value", "value", "codecs::"),
    ("cursors", "isomer-data", "data", "cursors::"),
    ("files", "isomer-data", "data", "files::"),
    ("spills", "isomer-db", "db", "spill::"),
];

/// Runs every check of `tidy` and prints the findings; returns whether all passed.
pub fn tidy() -> Result<bool> {
    let mut clean = true;
    for check in tidy::CHECKS {
        let problems = check.run()?;
        println!(
            "{:<10} {}",
            check.name,
            if problems.is_empty() {
                "ok"
            } else {
                check.rule
            }
        );
        for problem in &problems {
            println!("    {problem}");
        }
        clean &= problems.is_empty();
    }
    for line in tidy::report()? {
        println!("{line}");
    }
    Ok(clean)
}

/// `isomer bench NAME …` in release; `chat` is an example and compares stores; `server --node …` queries from
/// node.js with Neo4j's driver, and compares with PostgreSQL.
pub fn bench(name: &str, rest: &[String]) -> Result<bool> {
    if let ("server", Some((first, others))) = (name, rest.split_first())
        && first == "--node"
    {
        let script = workspace::root().join("bench-peers/server/run.py");
        return succeeds(Command::new("python3").arg(script).args(others));
    }
    if name == "chat" {
        let script = workspace::root().join("examples/chat/run.py");
        return succeeds(Command::new("python3").arg(script).arg("bench").args(rest));
    }
    let mut command = workspace::cargo();
    command
        .args([
            "run",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "isomer-cli",
            "--",
            "bench",
            name,
        ])
        .args(rest);
    succeeds(&mut command)
}

/// Writes docs/reference: the tests that compare these pages also write them.
pub fn reference() -> Result<bool> {
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--locked", "-p", "isomer-cli"]);
    command.args(["--bin", "isomer", "reference::"]);
    succeeds(command.env("UPDATE_GOLDEN", "1"))
}

/// `tests/kills.py` against a server of this profile.
pub fn kills(minutes: f64, every: f64, profile: &str) -> Result<bool> {
    let mut build = workspace::cargo();
    build.args([
        "build",
        "--locked",
        "--profile",
        profile,
        "-p",
        "isomer-cli",
    ]);
    if !succeeds(&mut build)? {
        return Ok(false);
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    let mut command = Command::new("python3");
    command
        .arg(workspace::root().join("tests/kills.py"))
        .args([
            "--minutes",
            &minutes.to_string(),
            "--every",
            &every.to_string(),
        ])
        .arg(workspace::target_dir().join(folder).join("isomer"));
    succeeds(&mut command)
}

/// `bench-peers/run.py …`: it builds what it needs.
pub fn bench_peers(rest: &[String]) -> Result<bool> {
    let script = workspace::root().join("bench-peers").join("run.py");
    succeeds(Command::new("python3").arg(script).args(rest))
}

/// Runs a command with inherited standard streams.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(command
        .status()
        .with_context(|| format!("{program} does not start"))?
        .success())
}

/// The suite that measures a built program instead of running tests: only where it is named.
const MEMORY_SUITE: &str = "memory";

/// `tests/memory_soak.py` against a released build: statements that could take much memory, then the given number of
/// minutes of mixed load.
fn memory_soak(minutes: u64, seed: Option<u64>) -> Result<bool> {
    let mut build = workspace::cargo();
    build.args(["build", "--locked", "--release", "-p", "isomer-cli"]);
    if !succeeds(&mut build)? {
        return Ok(false);
    }
    let mut command = Command::new("python3");
    command
        .arg(workspace::root().join("tests/memory_soak.py"))
        .args(["--minutes", &minutes.to_string()])
        .args(["--seed", &seed.unwrap_or(1).to_string()])
        .arg(workspace::target_dir().join("release").join("isomer"));
    succeeds(&mut command)
}

/// The test of processes on one shared log, with more kills.
pub fn soak_shared(kills: u64, seed: u64) -> Result<bool> {
    let mut command = workspace::cargo();
    command
        .args(["test", "--locked", "-p", "isomer-shared-log"])
        .args(["--test", "processes", "--", "--nocapture"])
        .args(["--test-threads", "1"])
        .env("ISOMER_KILLS", kills.to_string())
        .env("ISOMER_TEST_SEED", seed.to_string());
    succeeds(&mut command)
}

/// Repeats the seeded suites until one fails or the time is over, starting at `seed`, or at the current time.
pub fn soak(minutes: u64, seed: Option<u64>, chosen: &[String]) -> Result<bool> {
    if chosen.iter().any(|name| name == MEMORY_SUITE) {
        if chosen.len() > 1 {
            bail!("`{MEMORY_SUITE}` runs alone: name the other suites in another run");
        }
        return memory_soak(minutes, seed);
    }
    let units = SEEDED_UNITS.map(|(name, ..)| name);
    let known = [&SEEDED[..], &units, &[MEMORY_SUITE]].concat();
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(&name.as_str())) {
        bail!(
            "`{unknown}` is not a seeded suite: choose from {}",
            known.join(", ")
        );
    }
    process::handle_interrupts()?;
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|choice| choice == name);
    let folder = workspace::target_dir().join("xtask");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("soak.log");
    let mut log = Log::new(
        std::fs::File::create(&path)
            .with_context(|| format!("{} cannot be written", path.display()))?,
    );
    let mut live = Live::start("build");
    let tests: Vec<(&str, &str)> = OWN_SUITES
        .into_iter()
        .filter(|(_, suite)| SEEDED.contains(suite) && wanted(suite))
        .chain(
            SEEDED_UNITS
                .iter()
                .filter(|(name, ..)| wanted(name))
                .map(|(_, package, target, _)| (*package, *target)),
        )
        .collect();
    let Some(programs) = build::some_test_programs(&tests, &mut log, &mut live)? else {
        if process::is_interrupted() {
            bail!("stopped before anything ran");
        }
        bail!("the tests do not build: see {}", path.display());
    };
    live.finish("built");

    let deadline = Instant::now() + Duration::from_secs(minutes * 60);
    let first_seed = match seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let mut rounds = 0;
    while Instant::now() < deadline {
        let seed = first_seed + rounds;
        for (name, filter, program) in seeded(&programs, &wanted) {
            let mut live = Live::start(name);
            let mut tally = Tally::default();
            let mut command = program.command();
            if let Some(filter) = filter {
                command.args([filter, "--nocapture"]);
            }
            command.env("ISOMER_TEST_SEED", seed.to_string());
            command.env(PROPERTY_SEED, seed.to_string());
            let left = deadline.saturating_duration_since(Instant::now());
            command.env("ISOMER_TEST_SECONDS", left.as_secs().max(1).to_string());
            let ended = process::run(
                &mut command,
                Duration::from_secs(60 * 60),
                &mut log,
                &mut live,
                &mut |_, line| {
                    tally.read_line(line);
                    true
                },
            )?;
            live.finish(&format!(
                "seed {seed}: {} passed, {} failed",
                tally.passed, tally.failed
            ));
            if process::is_interrupted() {
                println!(
                    "stopped in round {} (seed {seed}), nothing failed",
                    rounds + 1
                );
                return Ok(true);
            }
            if !ended.succeeded {
                let target = match program.is_integration {
                    true => format!("--test {}", program.target),
                    false => LIBRARY.to_owned(),
                };
                let filter = filter.unwrap_or_default();
                println!(
                    "reproduce with: ISOMER_TEST_SEED={seed} {PROPERTY_SEED}={seed} cargo test -p {} {target} {filter}\nwhole log: {}",
                    program.package,
                    path.display()
                );
                return Ok(false);
            }
        }
        rounds += 1;
    }
    println!("{rounds} rounds, nothing failed");
    Ok(true)
}

/// What `soak` runs in each round: a name, the filter on test names of a suite `unit`'s part, and the program.
fn seeded<'a>(
    programs: &'a [TestProgram],
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<(&'static str, Option<&'static str>, &'a TestProgram)> {
    let suites = SEEDED.into_iter().flat_map(|suite| {
        let of_suite = programs
            .iter()
            .filter(move |program| is_suite(program, suite));
        of_suite.map(move |program| (suite, None, program))
    });
    let units = SEEDED_UNITS
        .into_iter()
        .flat_map(|(name, package, target, filter)| {
            let of_unit = programs
                .iter()
                .filter(move |program| program.package == package && program.is_target(target));
            of_unit.map(move |program| (name, Some(filter), program))
        });
    suites
        .chain(units)
        .filter(|(name, ..)| wanted(name))
        .collect()
}
