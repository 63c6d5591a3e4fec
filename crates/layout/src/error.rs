//! Errors, split by cause; [`DataError::kind`] says what the caller does next.

use isomer_storage::{OverBudget, StorageError, Version};
use isomer_value::ValueError;
use thiserror::Error;

/// What the caller does next. Messages may change, kinds may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A conflict: run the transaction again.
    Retry,
    /// A constraint refuses it: the key or value exists already.
    Exists,
    /// The input is wrong: change it.
    Invalid,
    /// It does not exist.
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
    /// The commit may or may not have happened: check before trying again.
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

/// What prevents a new index or constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaClash {
    /// The same index or constraint, under the same name.
    Equivalent,
    /// The same index under another name, or an index over the properties of a new unique constraint or key.
    Index,
    /// A constraint that demands the same, or keeps the same index, under another name.
    Constraint,
    /// A unique constraint over the properties of a key, or the other way round.
    Overlap,
    /// Another index has the name.
    IndexName,
    /// Another constraint has the name.
    ConstraintName,
}

/// Errors of the data layer.
#[derive(Debug, Error)]
pub enum DataError {
    /// Another transaction changed first what this one observed.
    #[error("another transaction changed {what} first (version {version}): run this one again")]
    Conflict {
        /// The conflicting item, as far as it is known.
        what: String,
        /// The commit that changed it.
        version: Version,
    },
    /// The key exists already.
    #[error("a {label} with _key {key} exists already: choose another key or change that record")]
    KeyExists {
        /// The label.
        label: String,
        /// The key as text.
        key: String,
    },
    /// Two records have a value that a unique index allows once.
    #[error(
        "{record} and {holder} share the property value {values}, {rule} allows each value once: change or delete one of them"
    )]
    NotUnique {
        /// The index or constraint.
        rule: String,
        /// Fields and values as text.
        values: String,
        /// The record that was written.
        record: String,
        /// The other record.
        holder: String,
    },
    /// The name exists already.
    #[error("{what} `{name}` exists already: choose another name, or say IF NOT EXISTS")]
    NameExists {
        /// Index, constraint, bucket.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Another index or constraint prevents a new one.
    #[error("{message}")]
    SchemaExists {
        /// What it is.
        clash: SchemaClash,
        /// The conflict, with the name of the existing one.
        message: String,
    },
    /// Existing records violate a new constraint or unique index.
    #[error("`{name}` cannot be created, existing records break it: {cause}")]
    SchemaBroken {
        /// The name of the new constraint or index.
        name: String,
        /// The first violation.
        cause: Box<DataError>,
    },
    /// The name or path exists already.
    #[error("{0}")]
    Exists(String),
    /// A node that was to be deleted still has relationships.
    #[error("node {node} still has relationships: delete them first or detach")]
    StillConnected {
        /// The node.
        node: u64,
    },
    /// The input is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A transaction of another replica is stamped further ahead of this database's clock than clocks differ.
    #[error(
        "a transaction of a replica is stamped {} seconds from now, and clocks may differ by five minutes: correct the wrong clock (here or there) and exchange again, or accept such time stamps with `isomer replica accept-clock`",
        ahead_ms / 1000
    )]
    ClockAhead {
        /// The stamp, in ms since 1970.
        time_ms: u64,
        /// How far it is ahead, in ms.
        ahead_ms: u64,
    },
    /// The change stream was trimmed beyond this version.
    #[error(
        "the change stream was trimmed: changes after version {after} are incomplete, those after {since} are available: read the data anew, then follow from the version read"
    )]
    Forgotten {
        /// The version up to which the reader has read.
        after: Version,
        /// Changes after this version are available.
        since: Version,
    },
    /// A record breaks its label's schema or a constraint.
    #[error("{record}: {label}.{field} {problem} ({rule}): change the value or the rule")]
    Violates {
        /// The label.
        label: Box<str>,
        /// The record.
        record: Box<str>,
        /// The field's path.
        field: Box<str>,
        /// What is wrong with the value.
        problem: Box<str>,
        /// Name of the constraint.
        rule: Box<str>,
    },
    /// It does not exist.
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
    /// Another request merges the state of a replica at the moment: the same page can be pushed again soon.
    #[error("this database is merging another state transfer: retry when it is complete")]
    JoinRunning,
    /// The database is a replica, and it was to be opened for several processes.
    #[error(
        "this database is a replica, which only one process at a time can have open: open it exclusively"
    )]
    SharedReplica,
    /// Stopped on request.
    #[error("cancelled")]
    Cancelled,
    /// Not possible.
    #[error("{0}")]
    Unsupported(String),
    /// Used after it ended.
    #[error("{0}")]
    Closed(String),
    /// Stored bytes are damaged.
    #[error("{what}: run `isomer check`, and restore from a backup if it confirms")]
    Corrupt {
        /// Where and what.
        what: String,
    },
    /// A value that cannot be stored, or a stored one that cannot be decoded.
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
            | Self::SchemaExists { .. }
            | Self::Exists(_) => ErrorKind::Exists,
            Self::SchemaBroken { cause, .. } => cause.kind(),
            Self::StillConnected { .. }
            | Self::Violates { .. }
            | Self::Forgotten { .. }
            | Self::ClockAhead { .. }
            | Self::Invalid(_) => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Limit { .. } | Self::OverBudget(_) => ErrorKind::Limit,
            Self::JoinRunning => ErrorKind::Unavailable,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Unsupported(_) | Self::SharedReplica => ErrorKind::Unsupported,
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

    /// Stored bytes that do not decode.
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    /// Whether the operation needs the database alone, and other processes have it open.
    pub fn requires_exclusive_use(&self) -> bool {
        matches!(self, Self::Storage(StorageError::NeedsAlone { .. }))
    }

    /// A change of a database that was opened for reading only.
    pub fn read_only() -> Self {
        Self::Denied("the database is opened for reading only: open it for writing".to_owned())
    }

    /// Input that is wrong.
    #[doc(hidden)]
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }
}

#[allow(unreachable_patterns)] // engines may answer more ways later; an unknown one is a bug until it is listed here
fn storage_kind(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::Conflict { .. } => ErrorKind::Retry,
        StorageError::TooLarge { .. } => ErrorKind::Limit,
        StorageError::Unavailable(_)
        | StorageError::InUse { .. }
        | StorageError::NeedsAlone { .. } => ErrorKind::Unavailable,
        StorageError::CommitUnknown(_) => ErrorKind::OutcomeUnknown,
        StorageError::Corrupt(_) => ErrorKind::Corrupt,
        StorageError::Invalid(_) => ErrorKind::Internal,
        _ => ErrorKind::Internal,
    }
}
