//! Why a view was not made.

use isomer_data::DataError;
use isomer_storage::OverBudget;
use thiserror::Error;

use crate::segment::SegmentError;

/// Why a view was not made. Reads are answered from the rows then.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The rows cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// It does not fit into the memory budget.
    #[error("{0}")]
    NoRoom(#[from] OverBudget),
    /// An id is above what views hold.
    #[error(
        "an id is above 4,294,967,294, which read views do not hold: queries read the rows instead"
    )]
    IdTooLarge,
    /// The database is being closed, or the view is not wanted any more.
    #[error("making the view was stopped")]
    Stopped,
    /// Another one makes it, for longer than was to be waited.
    #[error("the view is being made by another one")]
    Taken,
    /// Commits that are under way did not end in time.
    #[error(
        "commits that are under way did not end within {seconds} s: the view is made when it is asked for again"
    )]
    Unsettled {
        /// How long was waited.
        seconds: u64,
    },
    /// More was changed while it was made than the memory budget holds, or it was dropped meanwhile.
    #[error(
        "what changed while the view was made does not fit into the memory budget, or the view was dropped meanwhile: it is made when it is asked for again"
    )]
    Overtaken,
    /// What is stored of it cannot be read now.
    #[error("the stored view cannot be read: {0}")]
    Unreadable(String),
    /// What was stored of it is damaged.
    #[error("the stored view is damaged: {0}")]
    Damaged(String),
    /// What was stored of it is not used.
    #[error("the stored view is not used: {0}")]
    Stored(String),
}

impl From<SegmentError> for ViewError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::Damaged(reason) => Self::Damaged(reason),
            SegmentError::Io(error) => Self::Unreadable(error.to_string()),
            error => Self::Stored(error.to_string()),
        }
    }
}
