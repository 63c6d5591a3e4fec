//! The child process that the crash suite kills.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use isomer_db::Database;
use isomer_testkit::crash;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Commits until killed.
    Write { path: PathBuf },
    /// Holds the database open until its standard input is closed.
    Hold { path: PathBuf },
}

fn main() -> Result<()> {
    match Arguments::parse().role {
        Role::Write { path } => crash::write_until_killed(&path, u64::MAX),
        Role::Hold { path } => {
            let _db = Database::open(path)?;
            println!("open");
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
    }
}
