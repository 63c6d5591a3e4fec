//! The `isomer` binary: imports, queries, a shell, exports, checks, benchmarks, a demonstration.
//!
//! Exit codes: 0 done, 1 an error (told on standard error), 2 wrong usage.

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
mod replica;
mod serve;
mod shell;
mod stats;
mod style;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Queries and commits allocate much and shortly, in pages as well as in strings: with the system's allocator a commit took a
/// quarter more processor time, profiles of neighbours half as much again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Memory for cached pages, read views, queries and imports together; a quarter of the machine's unless given
    #[arg(long, global = true, value_name = "SIZE", value_parser = open::parse_bytes)]
    memory: Option<usize>,
    /// Folder from which queries may read files by LOAD CSV; none may be read unless given
    #[arg(long, global = true, value_name = "DIR")]
    csv_folder: Option<std::path::PathBuf>,
    /// Engine of a database that is made; one that is there is opened with its own
    #[arg(long, global = true, value_enum, value_name = "ENGINE")]
    engine: Option<open::Engine>,
    /// Seconds for which every version can be read after it was replaced
    #[arg(long, global = true, value_name = "SECONDS")]
    keep_versions: Option<u64>,
    /// Bytes per second that work in the background may write, so that reads have the rest of the disk
    #[arg(long, global = true, value_name = "SIZE", value_parser = open::parse_bytes)]
    background_rate: Option<usize>,
    /// How much of its changes a database keeps for who follows them and is slow; 4G, and a week, unless given
    #[arg(long, global = true, value_name = "SIZE", value_parser = open::parse_bytes)]
    hold_changes: Option<usize>,
    /// File with the key of an encrypted database: 32 bytes or 64 hexadecimal digits; else ISOMER_KEY may hold the digits
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Imports nodes or relationships from CSV, TSV, JSON lines or JSON
    Import(import::ImportOptions),
    /// Runs a query and prints its result
    Query(query::QueryOptions),
    /// Runs queries as they are typed
    Shell(shell::ShellOptions),
    /// Writes records, or the whole database, as files that can be imported again
    Export(export::ExportOptions),
    /// Lists, copies, moves and removes the files in a database
    Files(files::FilesOptions),
    /// Looks for damage
    Check(check::CheckOptions),
    /// Says what a database holds
    Stats(stats::StatsOptions),
    /// Copies a database into a folder of backups
    Backup(backup::BackupOptions),
    /// Makes a database out of a backup, at any version or time
    Restore(backup::RestoreArguments),
    /// Copies a database at once, sharing its files, as a database of its own
    Checkpoint(backup::CheckpointOptions),
    /// Merges the tables of a database and gives back space
    Compact(backup::CompactOptions),
    /// Puts an encrypted database under another key
    RotateKey(backup::RotateOptions),
    /// Makes a database in a temporary folder and shows what it can do
    Demo(demo::DemoOptions),
    /// Measures this machine: figures as JSON lines
    Bench(bench::BenchOptions),
    /// Serves databases to others over HTTP and Bolt, with a console for browsers
    Serve(serve::ServeOptions),
    /// Peers of a database, and how they are
    Replica(replica::ReplicaOptions),
    /// Exchanges transactions with peers
    Sync(replica::SyncOptions),
    /// Settings of the server
    Config(serve::ConfigOptions),
    /// Writes a social network as files, for imports and comparisons
    Generate(bench::GenerateOptions),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(bytes) = cli.memory {
        open::set_memory(bytes);
    }
    if let Some(folder) = cli.csv_folder {
        open::set_csv_folder(folder);
    }
    if let Some(bytes) = cli.hold_changes {
        open::set_hold_changes(bytes as u64);
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
    if let Some(file) = cli.key_file {
        open::set_key_file(file);
    }
    let outcome = match &cli.command {
        Command::Import(options) => import::command(options),
        Command::Query(options) => query::command(options),
        Command::Shell(options) => shell::command(options),
        Command::Export(options) => export::command(options),
        Command::Files(options) => files::command(options),
        Command::Check(options) => check::command(options),
        Command::Stats(options) => stats::command(options),
        Command::Backup(options) => backup::backup(options),
        Command::Restore(options) => backup::restore(options),
        Command::Checkpoint(options) => backup::checkpoint(options),
        Command::Compact(options) => backup::compact(options),
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
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and what it comes from, one a line, nothing twice.
fn told(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !told.contains(&cause) {
            if !told.is_empty() {
                told += "\n  ";
            }
            told += &cause;
        }
    }
    told
}

/// Whether the reader of our output went away, as `| head` does: nobody is left to tell.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
