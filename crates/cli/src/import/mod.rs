//! `isomer import`: rows of files become nodes and relationships, all of them or none.

pub mod column_type;
pub mod columns;
pub mod delimited;
pub mod excerpt;
pub mod feed;
pub mod input;
pub mod json;
pub mod moment;
pub mod nodes;
pub mod progress;
pub mod record;
pub mod rejects;
pub mod relationships;
pub mod source;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use isomer_db::{
    Error, ErrorKind,
    internals::data::{AloneHold, DataError, DataStore},
};

/// Options of `isomer import`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer import people.db nodes people.csv --label Person --key id
  isomer import people.db relationships friends.csv --type FRIEND --from Person --to Person

An import is atomic. See `isomer import DB nodes --help` for formats, types and bad rows.")]
pub struct ImportOptions {
    /// The database; created if it is missing
    pub db: PathBuf,
    #[command(subcommand)]
    pub what: ImportKind,
}

/// What the rows become.
#[derive(Clone, Debug, Subcommand)]
pub enum ImportKind {
    /// Every row becomes a node
    Nodes(nodes::NodesOptions),
    /// Every row becomes a relationship between existing nodes
    Relationships(relationships::RelationshipsOptions),
    /// Creates a new database from a dump written by `isomer export DB all`
    #[command(after_help = "Example:
  isomer import copy.db all everything.jsonl.gz")]
    All {
        /// The file; `-` for standard input
        file: PathBuf,
        /// Shows no progress
        #[arg(long, short)]
        quiet: bool,
    },
}

/// Runs the command.
pub fn command(options: &ImportOptions) -> Result<()> {
    let open = || crate::open::open(&options.db);
    let (db, summary) = match &options.what {
        ImportKind::All { file, quiet } => {
            return crate::export::import_all(&options.db, file, *quiet);
        }
        ImportKind::Nodes(options) => {
            let db = open()?;
            let summary = nodes::import(&db, options)?;
            (db, summary)
        }
        ImportKind::Relationships(options) => {
            let db = open()?;
            let summary = relationships::import(&db, options)?;
            (db, summary)
        }
    };
    crate::style::line(&summary.text())?;
    Ok(db.close()?)
}

/// How rows are loaded.
enum LoadMode {
    /// Past transactions. No other process can open the database meanwhile.
    Bulk { _alone: AloneHold },
    /// As one transaction, because other processes have the database open: this says which ones.
    Transaction(DataError),
}

impl LoadMode {
    fn of(store: &DataStore) -> Result<Self> {
        match store.hold_alone() {
            Ok(alone) => Ok(Self::Bulk { _alone: alone }),
            Err(error) if error.requires_exclusive_use() => Ok(Self::Transaction(error)),
            Err(error) => Err(error.into()),
        }
    }

    fn is_past_transactions(&self) -> bool {
        matches!(self, Self::Bulk { .. })
    }

    /// Says for an import that is too large for a transaction how it becomes possible.
    fn explain<T>(&self, outcome: Result<T>) -> Result<T> {
        let Self::Transaction(others) = self else {
            return outcome;
        };
        outcome.map_err(|error| {
            let below = error.downcast_ref::<Error>();
            match below.is_some_and(|error| error.kind() == ErrorKind::Limit) {
                true => {
                    anyhow!("{error:#}\n  an import of any size needs the database alone: {others}")
                }
                false => error,
            }
        })
    }
}

/// Whether an error is about one row, so that the next may be good.
fn is_rows_fault(error: &DataError) -> bool {
    !matches!(error, DataError::Storage(_))
        && matches!(
            error.kind(),
            ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Limit
        )
}
