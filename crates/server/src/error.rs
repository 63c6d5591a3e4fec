//! What a front end answers when it does not do what it was asked.

use isomer_db::{Error, ErrorKind};
use thiserror::Error as ThisError;

/// Short for results of this crate.
pub type Result<T, E = ServerError> = std::result::Result<T, E>;

/// Why something was not done. Every front end has its own words for each of these; none of them hides one.
#[derive(Debug, ThisError)]
pub enum ServerError {
    /// The database says so.
    #[error(transparent)]
    Database(#[from] Error),
    /// Nobody said who asks, or nobody believes it.
    #[error("{0}")]
    Unauthenticated(String),
    /// The one who asks may not.
    #[error("{0}")]
    Denied(String),
    /// The request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// Something of that name is there already.
    #[error("{0}")]
    Exists(String),
    /// What it was to be changed from is not what is there.
    #[error("{0}")]
    Precondition(String),
    /// It was there once and is not kept.
    #[error("{0}")]
    Gone(String),
    /// The request is larger than allowed.
    #[error("{0}")]
    TooLarge(String),
    /// The request's content is of a type that is not understood.
    #[error("{0}")]
    MediaType(String),
    /// Too many at once, or in too short a time.
    #[error("{message}")]
    TooMany {
        /// What there is too much of.
        message: String,
        /// When to try again.
        retry_after_s: u32,
    },
    /// The request did not arrive in time.
    #[error("{0}")]
    TooSlow(String),
    /// The name under which the server was called is not its own.
    #[error("{0}")]
    Misdirected(String),
    /// It cannot be done now.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of the server's own.
    #[error("{0}")]
    Internal(String),
}

impl ServerError {
    /// What the caller does next, by the name that interfaces print; see [`ErrorKind::name`].
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

    /// Whether the same request may succeed if it is sent again.
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

impl From<isomer_db::data::DataError> for ServerError {
    fn from(error: isomer_db::data::DataError) -> Self {
        Self::Database(error.into())
    }
}

impl From<isomer_value::ValueError> for ServerError {
    fn from(error: isomer_value::ValueError) -> Self {
        Self::Invalid(error.to_string())
    }
}
