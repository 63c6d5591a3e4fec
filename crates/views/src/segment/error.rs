//! Why a file of a view is not used.

use thiserror::Error;

/// Why a file was rejected.
#[derive(Debug, Error)]
pub(crate) enum SegmentError {
    /// The operating system reported an error.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The content differs from what was written.
    #[error("{0}")]
    Damaged(String),
    /// The file is intact, but of another database or another history.
    #[error("the file belongs to another history of the database")]
    Foreign,
    /// The file is intact, but has a newer format.
    #[error("the file has format {found}, this program reads formats up to {newest}")]
    Format {
        /// The format of the file.
        found: u32,
        /// The newest known format.
        newest: u32,
    },
}
