//! The suites of `cargo xtask test`, in the order in which they run: cheap and telling first.

use std::{process::Command, time::Duration};

use anyhow::Result;

use crate::{
    build::{self, TestProgram},
    chat, console, drivers,
    live::Live,
    needs::Need,
    process::{self, Log},
    readme,
    tally::Tally,
    tck, tidy, workspace,
};

/// A suite: a name, what it needs, and how it runs.
pub struct Suite {
    /// Short, for `--suite`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// What must be there.
    pub needs: &'static [Need],
    /// Whether `--quick` leaves it out.
    pub slow: bool,
    run: fn(&mut Context<'_>) -> Result<Tally>,
}

/// What suites share in one run.
pub struct Context<'a> {
    /// The suite's log.
    pub log: &'a mut Log,
    /// The suite's live line.
    pub live: &'a mut Live,
    /// Test programs, once built.
    pub programs: &'a mut Option<Vec<TestProgram>>,
    /// Whether to run less of what is random or repeated.
    pub quick: bool,
    /// Lines to print before the closing line.
    pub notes: &'a mut Vec<String>,
}

const CC: Need = Need::Program {
    name: "cc",
    apt: "gcc libc6-dev",
};
/// Test targets that are suites of their own, and their packages; all others are `unit`.
pub const OWN_SUITES: [(&str, &str); 8] = [
    ("isomer-testkit", "golden"),
    ("isomer-testkit", "isolation"),
    ("isomer-testkit", "faults"),
    ("isomer-testkit", "crash"),
    ("isomer-testkit", "algorithms"),
    ("isomer-testkit", "queries"),
    ("isomer-store", "simdisk"),
    ("isomer-chat", "stores"),
];

/// All suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "fmt",
        about: "rustfmt changes nothing",
        needs: &[Need::Component {
            command: "fmt",
            rustup: "rustfmt",
        }],
        slow: false,
        run: fmt,
    },
    Suite {
        name: "tidy",
        about: "arrows, key prefixes, sizes, paths, licences, links",
        needs: &[],
        slow: false,
        run: tidy_suite,
    },
    Suite {
        name: "clippy",
        about: "clippy, warnings are errors",
        needs: &[
            CC,
            Need::Component {
                command: "clippy",
                rustup: "clippy",
            },
        ],
        slow: false,
        run: clippy,
    },
    Suite {
        name: "unit",
        about: "unit, property and integration tests of every crate, fuzz corpora replayed",
        needs: &[CC],
        slow: false,
        run: unit,
    },
    Suite {
        name: "redb",
        about: "the tests that open databases once more, on the engine redb",
        needs: &[CC],
        slow: true,
        run: redb,
    },
    Suite {
        name: "traces",
        about: "the server sends traces where the feature otel is on",
        needs: &[CC],
        slow: false,
        run: traces,
    },
    Suite {
        name: "doc",
        about: "examples in the documentation",
        needs: &[CC],
        slow: false,
        run: doc,
    },
    Suite {
        name: "golden",
        about: "scripts in tests/golden",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "golden"),
    },
    Suite {
        name: "isolation",
        about: "recorded random histories, checked for anomalies",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "isolation"),
    },
    Suite {
        name: "faults",
        about: "bad input, full disks, damaged files",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "faults"),
    },
    Suite {
        name: "crash",
        about: "kill -9 in the middle of commits and imports",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "crash"),
    },
    Suite {
        name: "simdisk",
        about: "the store on a simulated disk: power cuts, failing calls, flipped bits",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "simdisk"),
    },
    Suite {
        name: "model",
        about: "commits, readers, flushes and merges in many orders of their steps",
        needs: &[CC],
        slow: true,
        run: model,
    },
    Suite {
        name: "mutants",
        about: "mistakes made on purpose in the store, each of which the simulated disk must show",
        needs: &[CC],
        slow: true,
        run: mutants,
    },
    Suite {
        name: "algorithms",
        about: "graph algorithms compared with networkx",
        needs: &[
            CC,
            Need::Program {
                name: "python3",
                apt: "python3 python3-pip",
            },
            Need::Python {
                module: "networkx",
                pip: "networkx",
            },
        ],
        slow: false,
        run: |context| own(context, "algorithms"),
    },
    Suite {
        name: "queries",
        about: "random queries in all the ways they can run, compared with an interpreter that shares no code",
        needs: &[CC],
        slow: false,
        run: |context| own(context, "queries"),
    },
    Suite {
        name: "tck",
        about: "openCypher Technology Compatibility Kit",
        needs: &[CC, Need::Shared("tck/features")],
        slow: false,
        run: tck::suite,
    },
    Suite {
        name: "console",
        about: "the console in a real browser, and that what is committed is what its sources build",
        needs: &[
            CC,
            Need::Program {
                name: "node",
                apt: "nodejs npm",
            },
            Need::Program {
                name: "npm",
                apt: "npm",
            },
            Need::Program {
                name: "chromium",
                apt: "chromium",
            },
            Need::Npm("console"),
        ],
        slow: false,
        run: console::suite,
    },
    Suite {
        name: "drivers",
        about: "the official drivers of Neo4j (Python, JavaScript, Java, Go) against a server",
        needs: &[
            CC,
            Need::Program {
                name: "curl",
                apt: "curl",
            },
            Need::Program {
                name: "openssl",
                apt: "openssl",
            },
            Need::Program {
                name: "python3",
                apt: "python3 python3-venv",
            },
            Need::Program {
                name: "npm",
                apt: "nodejs npm",
            },
            Need::Program {
                name: "mvn",
                apt: "maven",
            },
            Need::Program {
                name: "java",
                apt: "default-jdk-headless",
            },
            Need::Program {
                name: "go",
                apt: "golang-go",
            },
        ],
        slow: true,
        run: drivers::suite,
    },
    Suite {
        name: "chat",
        about: "the chat example on four stores, PostgreSQL and LevelDB among them, and between two browsers",
        needs: &[
            CC,
            Need::Program {
                name: "python3",
                apt: "python3",
            },
            Need::Program {
                name: "pg_ctlcluster",
                apt: "postgresql",
            },
            Need::Program {
                name: "node",
                apt: "nodejs npm",
            },
            Need::Program {
                name: "npm",
                apt: "npm",
            },
            Need::Program {
                name: "chromium",
                apt: "chromium",
            },
            Need::Npm("console"),
        ],
        slow: true,
        run: chat::suite,
    },
    Suite {
        name: "readme",
        about: "the commands of the README",
        needs: &[CC],
        slow: true,
        run: readme::suite,
    },
];

/// Where the cases of property tests come from: the same ones in every run, so that what fails fails again; `soak` draws others.
pub const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

impl Suite {
    /// Runs it.
    pub fn run(&self, context: &mut Context<'_>) -> Result<Tally> {
        (self.run)(context)
    }
}

impl Context<'_> {
    /// Runs `command` and counts its tests. A program that fails without a failed test is one failure.
    pub fn count(
        &mut self,
        command: &mut Command,
        limit_minutes: u64,
        tally: &mut Tally,
        name: &str,
    ) -> Result<()> {
        if self.quick {
            command.env("ISOMER_TEST_QUICK", "1");
        }
        if std::env::var_os(PROPERTY_SEED).is_none() {
            command.env(PROPERTY_SEED, "1");
        }
        let failed_before = tally.failed;
        let limit = Duration::from_secs(limit_minutes * 60);
        let succeeded = process::run(command, limit, self.log, self.live, &mut |_, line| {
            tally.read_line(line);
            true
        })?;
        if !succeeded && tally.failed == failed_before {
            tally.fail(name);
        }
        Ok(())
    }

    /// Runs `command` as one check: it ends with success or not.
    pub fn check(
        &mut self,
        command: &mut Command,
        limit_minutes: u64,
        name: &str,
    ) -> Result<Tally> {
        let limit = Duration::from_secs(limit_minutes * 60);
        let succeeded = process::run(command, limit, self.log, self.live, &mut |_, _| true)?;
        Ok(Tally::single(name, succeeded))
    }

    /// The built test programs; `None` where they do not build.
    pub fn programs(&mut self) -> Result<Option<&[TestProgram]>> {
        if self.programs.is_none() {
            *self.programs = build::test_programs(self.log, self.live)?;
        }
        Ok(self.programs.as_deref())
    }
}

fn fmt(context: &mut Context<'_>) -> Result<Tally> {
    context.check(
        workspace::cargo().args(["fmt", "--all", "--", "--check"]),
        5,
        "fmt",
    )
}

fn tidy_suite(context: &mut Context<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    for check in tidy::CHECKS {
        let problems = check.run()?;
        if problems.is_empty() {
            tally.passed += 1;
        } else {
            tally.fail(check.name);
        }
        for problem in problems {
            context.log.line(&format!("{}: {problem}", check.name));
        }
    }
    Ok(tally)
}

fn clippy(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]);
    let usual = context.check(&mut command, 30, "clippy")?;
    // What is built only where it is asked for.
    let mut traces = workspace::cargo();
    traces.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    traces.args(["--features", "isomer-server/otel", "--", "-D", "warnings"]);
    let with_traces = context.check(&mut traces, 10, "clippy of the feature otel")?;
    Ok(usual.and(with_traces))
}

fn traces(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--locked", "--test", "server"]);
    command.args(["--features", "isomer-server/otel", "--", "traces"]);
    let mut tally = Tally::default();
    context.count(&mut command, 20, &mut tally, "traces")?;
    Ok(tally)
}

fn doc(context: &mut Context<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    context.count(
        workspace::cargo().args(["test", "--workspace", "--locked", "--doc"]),
        30,
        &mut tally,
        "doc",
    )?;
    Ok(tally)
}

/// Built apart: with the feature, all locks are those of the model checker.
fn model(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args([
        "test",
        "--locked",
        "--package",
        "isomer-storage",
        "--package",
        "isomer-store",
        "--features",
        "isomer-storage/model,isomer-store/model",
        "--lib",
        "--",
        "model_",
    ]);
    let mut tally = Tally::default();
    context.count(&mut command, 20, &mut tally, "model")?;
    Ok(tally)
}

fn mutants(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args([
        "test",
        "--locked",
        "--package",
        "isomer-store",
        "--features",
        "isomer-store/mutants",
        "--lib",
        "--test",
        "simdisk",
        "--",
        "mutants",
    ]);
    let mut tally = Tally::default();
    context.count(&mut command, 20, &mut tally, "mutants")?;
    Ok(tally)
}

fn unit(context: &mut Context<'_>) -> Result<Tally> {
    run_programs(context, "unit", |program| {
        !OWN_SUITES.iter().any(|(_, suite)| is_suite(program, suite))
    })
}

fn own(context: &mut Context<'_>, target: &str) -> Result<Tally> {
    run_programs(context, target, |program| is_suite(program, target))
}

/// Packages whose tests open databases with the default engine.
const ON_ENGINES: [&str; 6] = [
    "isomer-data",
    "isomer-views",
    "isomer-db",
    "isomer-bench",
    "isomer-cli",
    "isomer-testkit",
];

/// What `unit` and `isolation` run on the default engine.
fn redb(context: &mut Context<'_>) -> Result<Tally> {
    let on_default = |program: &TestProgram| {
        let own = OWN_SUITES.iter().any(|(_, suite)| is_suite(program, suite));
        ON_ENGINES.contains(&&*program.package) && (!own || is_suite(program, "isolation"))
    };
    run_programs_with(context, "redb", on_default, &[("ISOMER_ENGINE", "redb")])
}

/// Whether a program is the suite of that name.
pub fn is_suite(program: &TestProgram, suite: &str) -> bool {
    program.is_integration
        && OWN_SUITES.contains(&(&*program.package, suite))
        && program.target == suite
}

fn run_programs(
    context: &mut Context<'_>,
    suite: &str,
    chosen: impl Fn(&TestProgram) -> bool,
) -> Result<Tally> {
    run_programs_with(context, suite, chosen, &[])
}

fn run_programs_with(
    context: &mut Context<'_>,
    suite: &str,
    chosen: impl Fn(&TestProgram) -> bool,
    environment: &[(&str, &str)],
) -> Result<Tally> {
    let Some(programs) = context.programs()? else {
        return Ok(Tally::single(&format!("{suite} (does not build)"), false));
    };
    let commands: Vec<(String, Command)> = programs
        .iter()
        .filter(|program| chosen(program))
        .map(|program| {
            (
                format!("{} {}", program.package, program.target),
                program.command(),
            )
        })
        .collect();
    if commands.is_empty() {
        return Ok(Tally::single(
            &format!("{suite} (no such test target)"),
            false,
        ));
    }
    let mut tally = Tally::default();
    for (name, mut command) in commands {
        command.envs(environment.iter().copied());
        context.count(&mut command, 30, &mut tally, &name)?;
    }
    Ok(tally)
}
