//! Errors of requests.

use isomer_db::{Error, ErrorKind, internals::LayerError as _};
use thiserror::Error as ThisError;

/// Short for results of this crate.
pub type Result<T, E = ServerError> = std::result::Result<T, E>;

/// Why a request failed. Every front end maps each of these to its own codes.
#[derive(Debug, ThisError)]
pub enum ServerError {
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] Error),
    /// Credentials are missing or invalid.
    #[error("{0}")]
    Unauthenticated(String),
    /// The principal lacks the right.
    #[error("{0}")]
    Denied(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The object already exists.
    #[error("{0}")]
    Exists(String),
    /// A precondition (`If-Match`, `If-None-Match`) does not hold.
    #[error("{0}")]
    Precondition(String),
    /// It existed, but is no longer kept.
    #[error("{0}")]
    Gone(String),
    /// The request exceeds a size limit.
    #[error("{0}")]
    TooLarge(String),
    /// The content type is not supported.
    #[error("{0}")]
    MediaType(String),
    /// A concurrency or rate limit is reached.
    #[error("{message}")]
    TooMany {
        /// Which limit.
        message: String,
        /// Seconds after which to retry.
        retry_after_s: u32,
    },
    /// The request did not arrive in time.
    #[error("{0}")]
    TooSlow(String),
    /// The Host header names another server.
    #[error("{0}")]
    Misdirected(String),
    /// Temporarily unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// A bug in the server.
    #[error("{0}")]
    Internal(String),
}

impl ServerError {
    /// A query that exceeded its running time, or the timeout that its client set.
    pub(crate) fn query_too_slow() -> Self {
        Self::TooSlow(
            "the query exceeded its time limit: narrow it, add an index, read its rows faster, or raise the time limit".into(),
        )
    }

    /// The kind of error, by what the caller does next; see [`ErrorKind::name`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Database(error) => error.kind().name(),
            Self::Unauthenticated(_) => "Unauthenticated",
            Self::Denied(_) | Self::Misdirected(_) => "Denied",
            Self::Invalid(_) | Self::MediaType(_) => "Invalid",
            Self::NotFound(_) => "NotFound",
            Self::Exists(_) => "Exists",
            Self::Precondition(_) => "Precondition",
            Self::Gone(_) => "Gone",
            Self::TooLarge(_) | Self::TooMany { .. } | Self::TooSlow(_) => "Limit",
            Self::Unavailable(_) => "Unavailable",
            Self::Internal(_) => "Internal",
        }
    }

    /// Whether the same request may succeed when it is retried.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database(error) => {
                matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unavailable)
            }
            Self::TooMany { .. } | Self::Unavailable(_) => true,
            _ => false,
        }
    }
}

impl From<isomer_db::internals::data::DataError> for ServerError {
    fn from(error: isomer_db::internals::data::DataError) -> Self {
        Self::Database(error.lift())
    }
}

impl From<isomer_value::ValueError> for ServerError {
    fn from(error: isomer_value::ValueError) -> Self {
        Self::Invalid(error.to_string())
    }
}
