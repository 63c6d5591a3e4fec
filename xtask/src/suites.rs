//! The suites of `cargo xtask test`: what each needs, builds and runs.

use anyhow::Result;

use crate::{
    build::{Build, DEBUG_FOLDER, FEATURES, RELEASE_FOLDER},
    chat, compat, console,
    context::Context,
    drivers, examples, mutants,
    needs::Need,
    package, platforms,
    pool::Cost,
    readme, sanitize,
    tally::Tally,
    tck,
    test_program::{OWN_SUITES, TestProgram, is_suite},
    tidy, workspace,
};

/// A suite: its name, prerequisites and parts.
pub struct Suite {
    /// Short name, for `--suite`.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Prerequisites.
    pub needs: &'static [Need],
    /// The runs that include it.
    pub when: When,
    /// What runs, in parallel unless a part follows another one.
    pub parts: &'static [Part],
}

/// The runs that include a suite, or a part of one; `--suite` includes it in any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Every run.
    Always,
    /// Runs without `--quick`.
    NotQuick,
    /// Runs with `--full`.
    Full,
}

/// Part of a suite.
pub struct Part {
    /// Short name; empty if the suite has no other part.
    pub name: &'static str,
    /// Builds that it uses.
    pub builds: &'static [Build],
    /// It starts `isomer`, see [`Context::isomer`].
    pub starts_isomer: bool,
    /// It starts after the part before it, unless that one failed.
    pub follows: bool,
    /// The runs of the suite that include it.
    pub when: When,
    /// What it, or each of its programs, takes; a long program is split (see [`crate::portions`]).
    pub cost: Cost,
    /// What runs.
    pub work: Work,
}

impl Part {
    const USUAL: Self = Self {
        name: "",
        builds: &[],
        starts_isomer: false,
        follows: false,
        when: When::Always,
        cost: Cost::USUAL,
        work: Work::Once(|_| Ok(Tally::default())),
    };

    /// A part that uses no build.
    const fn once(run: fn(&mut Context<'_>) -> Result<Tally>, seconds: f64) -> Self {
        Self {
            cost: Cost {
                seconds,
                ..Cost::USUAL
            },
            work: Work::Once(run),
            ..Self::USUAL
        }
    }

    /// Test programs, each a task of the pool, or several if it is long (see [`crate::portions`]).
    const fn programs(build: &'static [Build], pick: Pick, seconds: f64) -> Self {
        Self {
            builds: build,
            cost: Cost {
                seconds,
                ..Cost::USUAL
            },
            work: Work::Programs(pick),
            ..Self::USUAL
        }
    }

    /// The builds that it uses in a run.
    pub fn builds(&self, quick: bool) -> Vec<Build> {
        let isomer = match quick {
            true => Build::Tests,
            false => Build::Release,
        };
        let own = self.builds.iter().copied();
        own.chain(self.starts_isomer.then_some(isomer)).collect()
    }
}

/// What a part runs.
pub enum Work {
    /// A function.
    Once(fn(&mut Context<'_>) -> Result<Tally>),
    /// The programs of its only build that are picked.
    Programs(Pick),
}

/// Picks a test program, and says how it is run.
pub type Pick = fn(&TestProgram) -> Option<Invocation>;

/// Arguments and environment of a test program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation {
    /// Arguments.
    pub arguments: &'static [&'static str],
    /// Environment variables.
    pub environment: &'static [(&'static str, &'static str)],
}

const CC: Need = Need::Program {
    name: "cc",
    apt: "gcc libc6-dev",
};

/// All suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "fmt",
        about: "rustfmt changes nothing",
        needs: &[Need::Component {
            command: "fmt",
            rustup: "rustfmt",
        }],
        when: When::Always,
        parts: &[Part::once(fmt, 3.0)],
    },
    Suite {
        name: "tidy",
        about: "arrows, key prefixes, sizes, paths, licences, links",
        needs: &[],
        when: When::Always,
        parts: &[Part::once(tidy_suite, 3.0)],
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
        when: When::Always,
        parts: &[Part {
            cost: Cost {
                seconds: 80.0,
                memory_mib: 3072,
                is_urgent: true,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(clippy),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "platforms",
        about: "type checks for ARM, macOS and Windows, where their standard libraries can be installed",
        needs: &[CC],
        when: When::Full,
        parts: &[Part {
            cost: Cost {
                seconds: 400.0,
                memory_mib: 3072,
                ..Cost::USUAL
            },
            work: Work::Once(platforms::suite),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "unit",
        about: "unit, property and integration tests of every crate, fuzz corpora replayed",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(&[Build::Tests], unit, 20.0)],
    },
    Suite {
        name: "redb",
        about: "the tests that open databases, on the engine redb",
        needs: &[CC],
        when: When::Full,
        parts: &[Part::programs(&[Build::Tests], redb, 20.0)],
    },
    Suite {
        name: "shared",
        about: "the tests of the data layer and of the public interface, while a second process writes to their databases",
        needs: &[CC],
        when: When::Full,
        parts: &[Part::programs(&[Build::Tests], shared, 60.0)],
    },
    Suite {
        name: "traces",
        about: "the server sends traces, with the feature otel",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(&[Build::Tests], traces, 5.0)],
    },
    Suite {
        name: "doc",
        about: "examples in the documentation",
        needs: &[CC],
        when: When::Always,
        parts: &[Part {
            builds: &[Build::Tests],
            cost: Cost {
                seconds: 10.0,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(doc),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "examples",
        about: "the programs in crates/isomerdb/examples print what they say",
        needs: &[CC],
        when: When::Always,
        parts: &[Part {
            builds: &[Build::Tests],
            cost: Cost {
                seconds: 15.0,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(examples::suite),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "package",
        about: "every published crate packs; the public ones build with each feature, and their documentation",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[Part {
            cost: Cost {
                seconds: 60.0,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(package::suite),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "packed",
        about: "every published crate builds from its package",
        needs: &[CC],
        when: When::Full,
        parts: &[Part {
            cost: Cost {
                seconds: 400.0,
                memory_mib: 3072,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(package::verify),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "rustdoc",
        about: "documentation of the whole workspace, private items included, without warnings",
        needs: &[CC],
        when: When::Full,
        parts: &[Part {
            cost: Cost {
                seconds: 100.0,
                memory_mib: 3072,
                lock: Some(DEBUG_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(package::documentation),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "semver",
        about: "the public interface against the last released version",
        needs: &[CC],
        when: When::Full,
        parts: &[Part::once(package::semver, 100.0)],
    },
    Suite {
        name: "golden",
        about: "scripts in tests/golden",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "golden"),
            5.0,
        )],
    },
    Suite {
        name: "isolation",
        about: "recorded random histories, checked for anomalies",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "isolation"),
            10.0,
        )],
    },
    Suite {
        name: "faults",
        about: "bad input, full disks, damaged files",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "faults"),
            200.0,
        )],
    },
    Suite {
        name: "crash",
        about: "kill -9 in the middle of commits and imports",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "crash"),
            250.0,
        )],
    },
    Suite {
        name: "simdisk",
        about: "the LSM engine on a simulated disk: power cuts, failing calls, flipped bits",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "simdisk"),
            50.0,
        )],
    },
    Suite {
        name: "model",
        about: "commits, readers, flushes and compactions in many interleavings (model checker)",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[Part::programs(&[Build::Model], |_| with(&["model_"]), 20.0)],
    },
    Suite {
        name: "mutants",
        about: "deliberate faults in a copy of the crates, each of which a test must detect",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[Part {
            builds: &[Build::Mutants],
            cost: Cost {
                cores_percent: 150,
                seconds: 60.0,
                ..Cost::USUAL
            },
            work: Work::Once(mutants::suite),
            ..Part::USUAL
        }],
    },
    Suite {
        name: "sanitize",
        about: "the memtable's tests with AddressSanitizer, and with Miri where it can be installed",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[
            Part {
                name: "address",
                ..Part::once(sanitize::address, 60.0)
            },
            Part {
                name: "miri",
                ..Part::once(sanitize::miri, 120.0)
            },
        ],
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
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "algorithms"),
            30.0,
        )],
    },
    Suite {
        name: "queries",
        about: "random queries in all execution modes, compared with an interpreter",
        needs: &[CC],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "queries"),
            280.0,
        )],
    },
    Suite {
        name: "ldbc",
        about: "the published queries of LDBC's Social Network Benchmark, compared with an independent computation",
        needs: &[CC, Need::Shared("ldbc/interactive")],
        when: When::Always,
        parts: &[Part::programs(
            &[Build::Tests],
            |program| own(program, "ldbc"),
            20.0,
        )],
    },
    Suite {
        name: "tck",
        about: "openCypher Technology Compatibility Kit",
        needs: &[CC, Need::Shared("tck/features")],
        when: When::Always,
        parts: &[Part {
            builds: &[Build::Tests],
            ..Part::once(tck::suite, 5.0)
        }],
    },
    Suite {
        name: "console",
        about: "the console in a real browser, and whether the committed files match its sources",
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
        when: When::Always,
        parts: &[
            Part {
                name: "sources",
                ..Part::once(console::sources, 30.0)
            },
            Part {
                name: "pages",
                starts_isomer: true,
                // Five minutes, most of which are the browser's.
                when: When::NotQuick,
                ..Part::once(console::pages, 150.0)
            },
        ],
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
        when: When::NotQuick,
        parts: &[
            Part {
                name: "install",
                ..Part::once(drivers::install, 60.0)
            },
            Part {
                name: "run",
                starts_isomer: true,
                follows: true,
                ..Part::once(drivers::suite, 100.0)
            },
        ],
    },
    Suite {
        name: "compat",
        about: "libraries of Neo4j's ecosystem against a server, one for each language: `cargo xtask compat` runs all",
        needs: &[
            CC,
            Need::Program {
                name: "python3",
                apt: "python3 python3-venv",
            },
            Need::Program {
                name: "npm",
                apt: "nodejs npm",
            },
            Need::Program {
                name: "chromium",
                apt: "chromium",
            },
            Need::Program {
                name: "mvn",
                apt: "maven",
            },
            Need::Program {
                name: "javac",
                apt: "default-jdk-headless",
            },
        ],
        when: When::NotQuick,
        parts: &[
            Part {
                name: "install",
                ..Part::once(compat::install, 30.0)
            },
            Part {
                name: "run",
                starts_isomer: true,
                follows: true,
                ..Part::once(compat::suite, 60.0)
            },
        ],
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
        when: When::NotQuick,
        parts: &[Part {
            builds: &[Build::Tests],
            ..Part::once(chat::suite, 60.0)
        }],
    },
    Suite {
        name: "readme",
        about: "the commands of the README",
        needs: &[CC],
        when: When::NotQuick,
        parts: &[Part {
            builds: &[Build::Release],
            cost: Cost {
                seconds: 30.0,
                memory_mib: 3072,
                lock: Some(RELEASE_FOLDER),
                ..Cost::USUAL
            },
            work: Work::Once(readme::suite),
            ..Part::USUAL
        }],
    },
];

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

/// With the code behind features that are off by default; the release build, in which warnings are errors too, is
/// without.
fn clippy(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    command.args(["--features", FEATURES, "--", "-D", "warnings"]);
    context.check(&mut command, 30, "clippy")
}

fn doc(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--locked", "--doc"]);
    // As in the build of the tests, whose libraries it shares.
    command.args(["--features", FEATURES]);
    context.count(&mut command, 30, "doc")
}

fn with(arguments: &'static [&'static str]) -> Option<Invocation> {
    Some(Invocation {
        arguments,
        ..Invocation::default()
    })
}

/// Tests of `isomer-server` that are the suite `traces`.
const TRACES: &str = "traces::";

fn unit(program: &TestProgram) -> Option<Invocation> {
    if OWN_SUITES.iter().any(|(_, suite)| is_suite(program, suite)) {
        return None;
    }
    match is_server(program) {
        true => with(&["--skip", TRACES]),
        false => with(&[]),
    }
}

fn traces(program: &TestProgram) -> Option<Invocation> {
    is_server(program).then(|| with(&[TRACES]))?
}

fn is_server(program: &TestProgram) -> bool {
    program.package == "isomer-server" && program.is_target("server")
}

fn own(program: &TestProgram, suite: &str) -> Option<Invocation> {
    is_suite(program, suite).then(Invocation::default)
}

/// Packages with tests that open databases with the default engine.
const ON_ENGINES: [&str; 8] = [
    "isomer-data",
    "isomer-bulk",
    "isomer-replication",
    "isomer-views",
    "isomer-db",
    "isomer-bench",
    "isomer-cli",
    "isomer-testkit",
];

/// The programs that `unit` and `isolation` run on the default engine.
fn redb(program: &TestProgram) -> Option<Invocation> {
    let is_own = OWN_SUITES.iter().any(|(_, suite)| is_suite(program, suite));
    let is_on_default =
        ON_ENGINES.contains(&&*program.package) && (!is_own || is_suite(program, "isolation"));
    is_on_default.then_some(Invocation {
        arguments: &[],
        environment: &[("ISOMER_ENGINE", "redb")],
    })
}

/// The programs whose databases a second process can write to.
fn shared(program: &TestProgram) -> Option<Invocation> {
    let is_db = program.package == "isomer-db" && program.is_target("db");
    let is_data = program.package == "isomer-data" && program.is_target("data");
    let arguments: &[&str] = match is_suite(program, "isolation") {
        true => &["language_on_disk"],
        false if is_db || is_data || is_suite(program, "golden") => &[],
        false => return None,
    };
    Some(Invocation {
        arguments,
        environment: &[("ISOMER_TEST_SHARED", "1")],
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_suite_has_its_own_name() {
        let names: BTreeSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }
}
