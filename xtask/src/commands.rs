//! The short commands: tidy, bench, bench-peers, soak.

use std::{
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};

use crate::{
    build,
    live::Live,
    process::{self, Log},
    suites::{OWN_SUITES, is_suite},
    tally::Tally,
    tidy, workspace,
};

/// Suites that draw their runs from a seed.
const SEEDED: [&str; 5] = ["simdisk", "isolation", "crash", "faults", "queries"];

/// Runs every check of `tidy`, prints what it finds, and whether all held.
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
    Ok(clean)
}

/// `isomer bench NAME …` in release.
pub fn bench(name: &str, rest: &[String]) -> Result<bool> {
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

/// `bench-peers/run.py …`: it builds what it needs.
pub fn bench_peers(rest: &[String]) -> Result<bool> {
    let script = workspace::root().join("bench-peers").join("run.py");
    succeeds(Command::new("python3").arg(script).args(rest))
}

/// Runs a command with our own standard streams.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(command
        .status()
        .with_context(|| format!("{program} does not start"))?
        .success())
}

/// Repeats the seeded suites until one fails or the time is over, from `seed` on, or from the time of day.
pub fn soak(minutes: u64, seed: Option<u64>, chosen: &[String]) -> Result<bool> {
    if let Some(unknown) = chosen.iter().find(|name| !SEEDED.contains(&name.as_str())) {
        bail!(
            "`{unknown}` has no seeds to soak: choose from {}",
            SEEDED.join(", ")
        );
    }
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
        .collect();
    let Some(programs) = build::some_test_programs(&tests, &mut log, &mut live)? else {
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
        for program in programs
            .iter()
            .filter(|program| SEEDED.iter().any(|suite| is_suite(program, suite)))
        {
            if !wanted(&program.target) {
                continue;
            }
            let mut live = Live::start(&program.target);
            let mut tally = Tally::default();
            let mut command = program.command();
            command.env("ISOMER_TEST_SEED", seed.to_string());
            let left = deadline.saturating_duration_since(Instant::now());
            command.env("ISOMER_TEST_SECONDS", left.as_secs().max(1).to_string());
            let succeeded = process::run(
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
            if !succeeded {
                println!(
                    "again with: ISOMER_TEST_SEED={seed} cargo test -p {} --test {}\nwhole log: {}",
                    program.package,
                    program.target,
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
