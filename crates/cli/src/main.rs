//! The `isomer` binary: imports, queries, a shell, exports, checks, benchmarks, a demonstration.
//!
//! Exit codes: 0 done, 1 an error (reported on standard error), 2 wrong usage, 141 standard output was closed before
//! everything was written, as with `| head`.

// These macros panic if the reader of the output has gone.
#![warn(clippy::print_stdout, clippy::print_stderr)]

/// Prints a line on standard output, or returns the error.
macro_rules! say {
    ($($part:tt)*) => { crate::style::line(&format!($($part)*))? };
}

/// Prints a line on standard error. If its reader has gone, as with `2>&1 | head`, the command continues without it.
macro_rules! report {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

mod allocator;
mod backup;
mod bench;
mod check;
mod demo;
mod dump;
mod export;
mod files;
mod import;
mod open;
mod output;
mod query;
#[cfg(test)]
mod reference;
mod replica;
mod run;
mod serve;
mod share;
mod shell;
mod stats;
mod style;

use std::process::ExitCode;

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, builder::ValueParser,
    error::ErrorKind,
};

/// Queries and commits make many short-lived allocations, of pages as well as of strings: with the system's allocator a
/// commit took 25 % more processor time, and reading neighbours' profiles 50 % more.
#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// The exit code if standard output was closed before everything was written: shells report the same for a program
/// that ends by the signal SIGPIPE.
const CLOSED_OUTPUT: u8 = 141;

/// The heading of the global options in help texts.
const EVERY_COMMAND: &str = "Options of every command";

/// A database for key-values, documents and graphs in one transaction.
#[derive(Debug, Parser)]
#[command(
    name = "isomer",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 120
)]
struct Cli {
    /// Memory budget for cached pages, read views, queries and imports together; default: a quarter of the machine's
    /// memory
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "SIZE", value_parser = open::parse_bytes)]
    memory: Option<usize>,
    /// Folder from which queries may read files by LOAD CSV; by default none
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "DIR")]
    csv_folder: Option<std::path::PathBuf>,
    /// Address below which queries may read files by LOAD CSV, such as https://data.example.org/public/; may be given
    /// several times; by default none
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "URL", value_parser = open::parse_csv_url)]
    csv_url: Vec<String>,
    /// Trusted certificates for files that LOAD CSV reads over HTTPS, PEM; default: those of the system
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "FILE")]
    csv_certificates: Option<std::path::PathBuf>,
    /// Storage engine of a new database; an existing one is opened with its own engine
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_enum, value_name = "ENGINE")]
    engine: Option<open::Engine>,
    /// Seconds for which replaced versions remain readable
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "SECONDS")]
    keep_versions: Option<u64>,
    /// Limit on background writes in bytes per second, which leaves the rest of the disk's bandwidth to reads
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "SIZE", value_parser = open::parse_bytes)]
    background_rate: Option<usize>,
    /// Change-feed retention for slow consumers in bytes; default: 4G, and one week
    // The alias is its name in version 0.1.0.
    #[arg(long, alias = "hold-changes", global = true, help_heading = EVERY_COMMAND, value_name = "SIZE", value_parser = open::parse_bytes)]
    change_retention: Option<usize>,
    /// File with the key of an encrypted database: 32 bytes or 64 hexadecimal digits; default: the digits in ISOMER_KEY
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "FILE")]
    key_file: Option<std::path::PathBuf>,
    /// Whether other processes may have the database open at the same time; default: as the database is stored; a new
    /// one is shared where that is possible
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_enum, value_name = "MODE")]
    sharing: Option<open::SharingOption>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Imports nodes or relationships from CSV, TSV, JSON lines or JSON
    Import(import::ImportOptions),
    /// Runs a query and prints its result
    Query(query::QueryOptions),
    /// Runs scripts: statements and commands from files or standard input
    Run(run::RunOptions),
    /// Opens an interactive shell
    Shell(shell::ShellOptions),
    /// Exports records, or the whole database, as files that can be imported again
    Export(export::ExportOptions),
    /// Lists, copies, moves and removes the files in a database
    Files(files::FilesOptions),
    /// Checks the integrity of a database
    Check(check::CheckOptions),
    /// Shows statistics of a database
    Stats(stats::StatsOptions),
    /// Backs up a database to a folder of backups
    Backup(backup::BackupOptions),
    /// Restores a database from a backup, at any version or time
    Restore(backup::RestoreArguments),
    /// Copies a database immediately, sharing its files, as a separate database
    Checkpoint(backup::CheckpointOptions),
    /// Compacts a database and frees disk space
    Compact(backup::CompactOptions),
    /// Makes an exclusive database a shared one, which any number of processes may have open
    Share(share::ShareOptions),
    /// Changes the master key of an encrypted database
    RotateKey(backup::RotateOptions),
    /// Creates a database in a temporary folder and demonstrates its features
    Demo(demo::DemoOptions),
    /// Runs benchmarks and writes the results as JSON lines
    Bench(bench::BenchOptions),
    /// Serves databases over HTTP and Bolt, with a browser console
    Serve(serve::ServeOptions),
    /// Manages replication peers and shows their status
    Replica(replica::ReplicaOptions),
    /// Exchanges transactions with peers
    Sync(replica::SyncOptions),
    /// Shows and checks the settings of the server
    Config(serve::ConfigOptions),
    /// Generates a social network as files, for imports and comparisons
    Generate(bench::GenerateOptions),
}

/// The first argument for a file or folder that is an address, which would create a folder with a strange name.
fn address_for_path(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let path = ValueParser::path_buf().type_id();
    let here = command
        .get_arguments()
        .filter(|argument| argument.get_value_parser().type_id() == path)
        .filter_map(|argument| {
            matches
                .try_get_raw(argument.get_id().as_str())
                .ok()
                .flatten()
        })
        .flatten()
        .map(|value| value.to_string_lossy())
        .find(|value| value.contains("://"));
    match (here, matches.subcommand()) {
        (Some(address), _) => Some(address.into_owned()),
        (None, Some((name, matches))) => address_for_path(command.find_subcommand(name)?, matches),
        (None, None) => None,
    }
}

/// Parses the command line, or ends the process with an error message.
fn arguments() -> Cli {
    let mut command = Cli::command();
    let matches = command.get_matches_mut();
    if let Some(address) = address_for_path(&command, &matches) {
        let message = format!(
            "`{address}` is an address, and a file or folder on this machine is needed: databases on a server are reached \
             over HTTP or Bolt, not by this command"
        );
        command.error(ErrorKind::ValueValidation, message).exit();
    }
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

fn main() -> ExitCode {
    let cli = arguments();
    isomer_db::internals::count_allocations(allocator::allocated_bytes);
    let budget = cli.memory;
    let budget = budget.unwrap_or_else(|| isomer_db::Memory::of_this_machine().total_bytes());
    allocator::give_back_when_idle(budget);
    if let Some(bytes) = cli.memory {
        open::set_memory(bytes);
    }
    if let Some(folder) = cli.csv_folder {
        open::set_csv_folder(folder);
    }
    open::set_csv_urls(cli.csv_url, cli.csv_certificates);
    if let Some(bytes) = cli.change_retention {
        open::set_change_retention(bytes as u64);
    }
    if let Some(seconds) = cli.keep_versions {
        open::set_keep_versions(std::time::Duration::from_secs(seconds));
    }
    if let Some(rate) = cli.background_rate {
        open::set_background_rate(rate as u64);
    }
    if let Some(engine) = cli.engine {
        open::set_engine(engine.into());
    }
    if let Some(sharing) = cli.sharing {
        open::set_sharing(sharing);
    }
    if let Some(file) = cli.key_file {
        open::set_key_file(file);
    }
    let outcome = match &cli.command {
        Command::Import(options) => import::command(options),
        Command::Query(options) => query::command(options),
        Command::Run(options) => run::command(options),
        Command::Shell(options) => shell::command(options),
        Command::Export(options) => export::command(options),
        Command::Files(options) => files::command(options),
        Command::Check(options) => check::command(options),
        Command::Stats(options) => stats::command(options),
        Command::Backup(options) => backup::backup(options),
        Command::Restore(options) => backup::restore(options),
        Command::Checkpoint(options) => backup::checkpoint(options),
        Command::Compact(options) => backup::compact(options),
        Command::Share(options) => share::command(options),
        Command::RotateKey(options) => backup::rotate_key(options),
        Command::Demo(options) => demo::command(options),
        Command::Bench(options) => bench::command(options),
        Command::Serve(options) => serve::command(options),
        Command::Replica(options) => replica::replica(options),
        Command::Sync(options) => replica::sync(options),
        Command::Config(options) => serve::config(options),
        Command::Generate(options) => bench::generate(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(CLOSED_OUTPUT),
        Err(error) => {
            report!("error: {}", describe(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, one per line, without duplicates.
fn describe(error: &anyhow::Error) -> String {
    let mut description = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !description.contains(&cause) {
            if !description.is_empty() {
                description += "\n  ";
            }
            description += &cause;
        }
    }
    description
}
