//! `isomer import`: rows of files become nodes and relationships, all of them or none.

pub mod columns;
pub mod delimited;
pub mod feed;
pub mod input;
pub mod json;
pub mod nodes;
pub mod progress;
pub mod record;
pub mod rejects;
pub mod relationships;
pub mod source;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use isomer_db::{ErrorKind, data::DataError};

/// Options of `isomer import`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer import people.db nodes people.csv --label Person --key id
  isomer import people.db relationships friends.csv --type FRIEND --from Person --to Person

An import is there whole or not at all. See `isomer import DB nodes --help` for formats, types and bad rows.")]
pub struct ImportOptions {
    /// The database; made where nothing is
    pub db: PathBuf,
    #[command(subcommand)]
    pub what: What,
}

/// What the rows become.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Every row becomes a node
    Nodes(nodes::NodesOptions),
    /// Every row becomes a relationship between nodes that are there
    Relationships(relationships::RelationshipsOptions),
    /// A whole database, as `isomer export DB all` wrote it, becomes a new one
    #[command(after_help = "Example:
  isomer import copy.db all everything.jsonl.gz")]
    All {
        /// The file; `-` for standard input
        file: PathBuf,
    },
}

/// Runs the command.
pub fn command(options: &ImportOptions) -> Result<()> {
    let open = || crate::open::open(&options.db);
    let (db, summary) = match &options.what {
        What::All { file } => return crate::export::import_all(&options.db, file),
        What::Nodes(options) => {
            let db = open()?;
            let summary = nodes::import(&db, options)?;
            (db, summary)
        }
        What::Relationships(options) => {
            let db = open()?;
            let summary = relationships::import(&db, options)?;
            (db, summary)
        }
    };
    crate::style::line(&summary.text())?;
    Ok(db.close()?)
}

/// Whether an error is about one row, so that the next may be good.
fn is_rows_fault(error: &DataError) -> bool {
    !matches!(error, DataError::Storage(_))
        && matches!(
            error.kind(),
            ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Limit
        )
}
