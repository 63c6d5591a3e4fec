//! The project's own tools: `cargo xtask test | tidy | tck | bench | bench-peers | memory | kills | interface | soak`.
//!
//! Kept light (argument parsing, JSON, errors), because it is built before anything else can run.

mod build;
mod chat;
mod commands;
mod console;
mod drivers;
mod live;
mod memory;
mod needs;
mod process;
mod readme;
mod suites;
mod tally;
mod tck;
mod test;
mod tidy;
mod workspace;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Tests, checks and measures IsomerDB",
    version,
    after_help = "Not part of `cargo xtask test`, because they take from a quarter of an hour to as long as you like: `memory` (a whole network within 2 GiB), `kills` (a server under load, killed once a minute), `interface` (every route, at length), `soak`, `bench` and `bench-peers`."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every suite and ends with one line: N passed, N failed, N skipped
    #[command(after_help = "Example: cargo xtask test --quick --suite unit --suite golden")]
    Test(test::Options),
    /// Checks what no compiler checks: arrows between crates, key prefixes, sizes, paths, licences, links
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
    /// Runs a workload of `isomer bench` in release and prints one JSON object a line
    #[command(after_help = "Example: cargo xtask bench core --scale 0.1")]
    Bench {
        /// Name of the workload
        name: String,
        /// Passed on to `isomer bench`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Compares this database with others on the same work, side by side, and prints one JSON object a line
    #[command(
        after_help = "Example: cargo xtask bench-peers --scale 0.1 --systems isomer,limit,duckdb,sqlite\n\nInstalls what it compares with into bench-peers/target; needs python3, and java with mvn for the Java systems."
    )]
    BenchPeers {
        /// Passed on to bench-peers/run.py: --scale F, --systems a,b,c, --rounds N, --help for the others
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Builds the console into crates/server/console-dist; with `--screenshots` also takes its pictures for the documentation
    Console {
        /// Takes the pictures in docs/images
        #[arg(long)]
        screenshots: bool,
    },
    /// Loads a whole network and asks it, with a limit on the process's address space (release build)
    Memory(memory::Options),
    /// Kills a server under mixed load (kill -9) again and again: is all there that it acknowledged, and how soon is it as fast as before? (release build)
    #[command(after_help = "Example: cargo xtask kills --minutes 5 --every 60")]
    Kills {
        /// How long
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// Seconds between two kills
        #[arg(long, default_value_t = 60.0)]
        every: f64,
        /// Cargo's profile of the server
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Requests of all kinds to every route, made from the server's own description by schemathesis: none may meet a fault of the server's
    #[command(after_help = "Example: cargo xtask interface --examples 200 --seed 7")]
    Interface {
        /// Requests of each kind for a route
        #[arg(long, default_value_t = 100)]
        examples: u64,
        /// What they are drawn from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Runs the randomised suites again and again with new seeds until one fails or the time is over
    #[command(after_help = "Example: cargo xtask soak --minutes 60 --suite isolation")]
    Soak {
        /// How long
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// The first seed; the next round has the next one [default: the time]
        #[arg(long)]
        seed: Option<u64>,
        /// Only this suite (simdisk, isolation, crash, faults, queries); may be given several times
        #[arg(long = "suite", value_name = "NAME")]
        suites: Vec<String>,
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
        Command::Console { screenshots } => console::build(screenshots),
        Command::Memory(options) => memory::run(&options),
        Command::Kills {
            minutes,
            every,
            profile,
        } => commands::kills(minutes, every, &profile),
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
