//! What can go wrong, split by what went wrong; [`DataError::kind`] says what the caller does next.

use isomer_storage::{OverBudget, StorageError, Version};
use isomer_value::ValueError;
use thiserror::Error;

/// What the caller does next. Messages may change, kinds may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Lost a race: run the transaction again.
    Retry,
    /// A constraint refuses it: something with this key or value exists already.
    Exists,
    /// The input is wrong: change it.
    Invalid,
    /// What was asked for is not there.
    NotFound,
    /// Not allowed, or not allowed in this transaction.
    Denied,
    /// Over a limit: make it smaller or raise the limit.
    Limit,
    /// Stopped on request.
    Cancelled,
    /// Not possible with this build, engine or version.
    Unsupported,
    /// The database cannot be used now: locked, full disk, no permission.
    Unavailable,
    /// The commit may or may not have happened: look before trying again.
    OutcomeUnknown,
    /// Used after it was closed.
    Closed,
    /// Stored bytes are not what was written.
    Corrupt,
    /// A bug in the database.
    Internal,
}

impl ErrorKind {
    /// The kind's name as interfaces print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Exists => "Exists",
            Self::Invalid => "Invalid",
            Self::NotFound => "NotFound",
            Self::Denied => "Denied",
            Self::Limit => "Limit",
            Self::Cancelled => "Cancelled",
            Self::Unsupported => "Unsupported",
            Self::Unavailable => "Unavailable",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::Closed => "Closed",
            Self::Corrupt => "Corrupt",
            Self::Internal => "Internal",
        }
    }
}

/// What went wrong in the data layer.
#[derive(Debug, Error)]
pub enum DataError {
    /// Another transaction changed first what this one observed.
    #[error("another transaction changed {what} first (version {version}): run this one again")]
    Conflict {
        /// What collided, as far as it is known.
        what: String,
        /// The commit that changed it.
        version: Version,
    },
    /// A key is taken.
    #[error("a {label} with _key {key} exists already: choose another key or change that record")]
    KeyExists {
        /// The label.
        label: String,
        /// The key as text.
        key: String,
    },
    /// A unique index holds the value.
    #[error(
        "{index} allows each value once and {value} is taken by {holder}: choose another value"
    )]
    NotUnique {
        /// The index or constraint.
        index: String,
        /// The value or values as text.
        value: String,
        /// Who holds it.
        holder: String,
    },
    /// Something of that name exists already.
    #[error("{what} `{name}` exists already: choose another name, or say IF NOT EXISTS")]
    NameExists {
        /// Index, constraint, bucket.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something is in the way.
    #[error("{0}")]
    Exists(String),
    /// Relationships still hang on a node that was to be deleted.
    #[error("node {node} still has relationships: delete them first or detach")]
    StillConnected {
        /// The node.
        node: u64,
    },
    /// The input is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The change stream does not reach so far back.
    #[error(
        "the change stream no longer tells what happened after version {after}, only what happened after {since}: read the data anew, then follow from the version read"
    )]
    Forgotten {
        /// What was read up to here.
        after: Version,
        /// Everything after this version is told.
        since: Version,
    },
    /// A record breaks its label's schema or a constraint.
    #[error("{label}.{field} {problem} ({rule}): change the value or the rule")]
    Violates {
        /// The label.
        label: String,
        /// The field's path.
        field: String,
        /// What is wrong with the value.
        problem: String,
        /// Name of the constraint.
        rule: String,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// Not allowed in this transaction.
    #[error("{0}")]
    Denied(String),
    /// Over a limit.
    #[error("{what} is {size}, the limit is {max}: {advice}")]
    Limit {
        /// What is too large.
        what: String,
        /// Its size with unit.
        size: String,
        /// The limit with unit.
        max: String,
        /// What to do.
        advice: &'static str,
    },
    /// Over the process's budget of memory.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// Stopped on request.
    #[error("cancelled")]
    Cancelled,
    /// Not possible.
    #[error("{0}")]
    Unsupported(String),
    /// Used after it ended.
    #[error("{0}")]
    Closed(String),
    /// Stored bytes are not what was written.
    #[error("{what}: run `isomer check`, and restore from a backup if it confirms")]
    Corrupt {
        /// Where and what.
        what: String,
    },
    /// A value that cannot be stored, or a stored one that cannot be read.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// From the engine.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

impl DataError {
    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict { .. } => ErrorKind::Retry,
            Self::KeyExists { .. }
            | Self::NotUnique { .. }
            | Self::NameExists { .. }
            | Self::Exists(_) => ErrorKind::Exists,
            Self::StillConnected { .. }
            | Self::Violates { .. }
            | Self::Forgotten { .. }
            | Self::Invalid(_) => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Limit { .. } | Self::OverBudget(_) => ErrorKind::Limit,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::Closed(_) => ErrorKind::Closed,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Internal(_) => ErrorKind::Internal,
            Self::Value(ValueError::Corrupt { .. }) => ErrorKind::Corrupt,
            Self::Value(ValueError::TooDeep { .. } | ValueError::TooLarge { .. }) => {
                ErrorKind::Limit
            }
            Self::Value(_) => ErrorKind::Invalid,
            Self::Storage(error) => storage_kind(error),
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }
}

#[allow(unreachable_patterns)] // engines may answer more ways later; an unknown one is a bug until it is listed here
fn storage_kind(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::Conflict { .. } => ErrorKind::Retry,
        StorageError::TooLarge { .. } => ErrorKind::Limit,
        StorageError::Unavailable(_) => ErrorKind::Unavailable,
        StorageError::CommitUnknown(_) => ErrorKind::OutcomeUnknown,
        StorageError::Corrupt(_) => ErrorKind::Corrupt,
        StorageError::Invalid(_) => ErrorKind::Internal,
        _ => ErrorKind::Internal,
    }
}
