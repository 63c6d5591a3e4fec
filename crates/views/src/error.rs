//! Why a view could not be built.

use std::io;

use isomer_data::DataError;
use isomer_storage::OverBudget;
use thiserror::Error;

use crate::view_file::{ViewFileDamage, ViewFileError, ViewFileOverflow, ViewFileRejection};

/// Why a view could not be built. Reads use the rows instead.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The rows could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The view does not fit into the memory budget.
    #[error("{0}")]
    NoRoom(#[from] OverBudget),
    /// An id exceeds the 32 bits that views hold.
    #[error("an id exceeds 4,294,967,294, the limit of read views: queries read the rows instead")]
    IdTooLarge,
    /// The database is closing, or the view is no longer wanted.
    #[error("building the view was cancelled")]
    Stopped,
    /// Another thread is building the view, and the wait timed out.
    #[error("another thread is building the view")]
    Taken,
    /// Commits in flight did not end in time.
    #[error("commits in flight did not end within {seconds} s: the next request builds the view")]
    Unsettled {
        /// How long the build waited.
        seconds: u64,
    },
    /// Changes during the build exceeded the memory budget, or the view was dropped.
    #[error(
        "changes during the build of the view exceeded the memory budget, or the view was dropped: the next request builds it"
    )]
    Overtaken,
    /// The stored view could not be read.
    #[error("the stored view cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The stored view is damaged.
    #[error("the stored view is damaged: {0}")]
    Damaged(#[source] ViewFileDamage),
    /// The stored view is intact, and not for this database and program.
    #[error("the stored view was rejected: {0}")]
    Rejected(#[source] ViewFileRejection),
    /// The view cannot be stored.
    #[error("the view cannot be stored: {0}")]
    Unwritable(#[source] ViewFileOverflow),
}

impl From<ViewFileError> for ViewError {
    fn from(error: ViewFileError) -> Self {
        match error {
            ViewFileError::Io(error) => Self::Unreadable(error),
            ViewFileError::Damaged(damage) => Self::Damaged(damage),
            ViewFileError::Rejected(rejection) => Self::Rejected(rejection),
            ViewFileError::Unwritable(overflow) => Self::Unwritable(overflow),
        }
    }
}
