//! The project's own tools: `cargo xtask test | tidy | tck | bench | bench-peers | console | reference | memory |
//! kills | compat | interface | soak | soak-shared`.
//!
//! Kept light (argument parsing, JSON, errors), because it is built before anything else can run.

mod build;
mod chat;
mod commands;
mod compat;
mod console;
mod context;
mod drivers;
mod durations;
mod examples;
mod host;
mod live;
mod memory;
mod mutants;
mod needs;
mod package;
mod platforms;
mod pool;
mod portions;
mod process;
mod readme;
mod sanitize;
mod server;
mod suites;
mod table;
mod tally;
mod tck;
mod test;
mod test_program;
mod tidy;
mod usage;
mod workspace;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Tests, checks and measures IsomerDB",
    version,
    after_help = "Not part of `cargo xtask test`, because they run for 15 minutes or longer: \
                  `memory` (a whole network within 2 GiB), `kills` (a server under load, killed repeatedly), \
                  `compat` (all libraries of Neo4j's ecosystem), \
                  `interface` (every route, many requests), `soak`, `soak-shared`, `bench` and `bench-peers`."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every suite, in parallel, and ends with a table of durations and one line: N passed, N failed, N skipped
    #[command(after_help = "Example: cargo xtask test --quick --suite unit --suite golden")]
    Test(test::Options),
    /// Checks the project's rules: arrows between crates, key prefixes, sizes, paths, licences, links, words
    Tidy,
    /// Runs openCypher TCK features against the database (release build)
    #[command(after_help = "Example: cargo xtask tck ../shared/tck/features --report tck.json")]
    Tck {
        /// Folder or file of features [default: ../shared/tck/features]
        dir: Option<PathBuf>,
        /// Writes one JSON object per scenario to this file
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Prints each scenario that did not pass, with the reason
        #[arg(long)]
        list_failures: bool,
    },
    /// Runs a workload of `isomer bench` in release and prints one JSON object per line
    #[command(after_help = "Example: cargo xtask bench core --scale 0.1")]
    Bench {
        /// Name of the workload
        name: String,
        /// Passed on to `isomer bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Runs the same work on this database and on others, and prints one JSON object per line
    #[command(
        after_help = "Example: cargo xtask bench-peers --scale 0.1 --systems isomer,limit,duckdb,sqlite\n\n\
                      Installs the other systems into bench-peers/target; needs python3, and java with mvn for the Java systems."
    )]
    BenchPeers {
        /// Passed on to bench-peers/run.py: --scale F, --systems a,b,c, --rounds N, --help for the others
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Builds the console into crates/server/console-dist; takes the screenshots for the documentation; measures load
    /// times
    #[command(after_help = "Example: cargo xtask console --times")]
    Console(console::Options),
    /// Writes docs/reference from the command line and the settings; a test compares them
    Reference,
    /// Loads and queries a whole network under a limit on the process's address space (release build)
    Memory(memory::Options),
    /// Kills a server under mixed load repeatedly (kill -9), checks that acknowledged writes survive, and
    /// measures the recovery (release build)
    #[command(after_help = "Example: cargo xtask kills --minutes 5 --every 60")]
    Kills {
        /// Duration
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// Seconds between two kills
        #[arg(long, default_value_t = 60.0)]
        every: f64,
        /// Cargo profile of the server
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Runs libraries of Neo4j's ecosystem, installed from their registries, against a server each
    #[command(after_help = "Example: cargo xtask compat neomodel spring-elements")]
    Compat {
        /// Libraries [default: all]
        names: Vec<String>,
        /// Libraries at once
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// The server's program [default: built from the sources]
        #[arg(long, value_name = "FILE")]
        isomer: Option<PathBuf>,
    },
    /// Sends requests of all kinds to every route, generated from the server's own description by
    /// schemathesis; none may cause a server error
    #[command(after_help = "Example: cargo xtask interface --examples 200 --seed 7")]
    Interface {
        /// Requests of each kind per route
        #[arg(long, default_value_t = 100)]
        examples: u64,
        /// Random seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Repeats the randomised suites with new seeds until one fails or the time is over
    #[command(after_help = "Example: cargo xtask soak --minutes 60 --suite isolation")]
    Soak {
        /// Duration
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// The first seed; each round increments it [default: the time]
        #[arg(long)]
        seed: Option<u64>,
        /// Only this suite (simdisk, isolation, crash, faults, queries); may be given several times. Or `memory`,
        /// alone: what a process holds under statements and a load that could take much
        #[arg(long = "suite", value_name = "NAME")]
        suites: Vec<String>,
    },
    /// Kills (kill -9) and stops (SIGSTOP) processes on one shared log at random moments, and checks that every
    /// acknowledged record is there once, where it was acknowledged
    #[command(after_help = "Example: cargo xtask soak-shared --kills 500 --seed 7")]
    SoakShared {
        /// Rounds of kills, for each number of processes (2 and 8)
        #[arg(long, default_value_t = 500)]
        kills: u64,
        /// Random seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    let ran = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Tidy => commands::tidy(),
        Command::Tck {
            dir,
            report,
            list_failures,
        } => tck::run(dir, report, list_failures),
        Command::Bench { name, rest } => commands::bench(&name, &rest),
        Command::BenchPeers { rest } => commands::bench_peers(&rest),
        Command::Soak {
            minutes,
            seed,
            suites,
        } => commands::soak(minutes, seed, &suites),
        Command::SoakShared { kills, seed } => commands::soak_shared(kills, seed),
        Command::Console(options) => console::run(&options),
        Command::Reference => commands::reference(),
        Command::Memory(options) => memory::run(&options),
        Command::Kills {
            minutes,
            every,
            profile,
        } => commands::kills(minutes, every, &profile),
        Command::Compat {
            names,
            jobs,
            isomer,
        } => compat::run(&names, jobs, isomer),
        Command::Interface { examples, seed } => drivers::interface(examples, seed),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
