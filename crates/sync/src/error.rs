//! Errors of exchanges.

use isomer_data::DataError;
use thiserror::Error;

use crate::cause::Cause;

pub use isomer_data::ErrorKind;

/// Result of this crate's functions.
pub type Result<T, E = SyncError> = std::result::Result<T, E>;

/// Sent in place of an error kind by a peer with an incomplete state transfer.
pub(crate) const JOINING: &str = "Joining";
/// Sent in place of an error kind by a peer that is joining a state at the moment: it can be asked again soon.
pub(crate) const JOIN_RUNNING: &str = "JoinRunning";
/// Sent in place of an error kind by a peer that was pushed a state with timestamps too far ahead of its clock.
pub(crate) const CLOCK_AHEAD: &str = "ClockAhead";

/// An error of an exchange.
#[derive(Debug, Error)]
pub enum SyncError {
    /// An error of this database.
    #[error(transparent)]
    Here(#[from] DataError),
    /// This database could not be used.
    #[error(transparent)]
    Database(#[from] isomer_db::Error),
    /// The peer refused a request.
    #[error("{peer} refuses ({kind}): {message}")]
    There {
        /// The peer.
        peer: String,
        /// The kind of its error, as interfaces print it.
        kind: String,
        /// Its message.
        message: String,
    },
    /// The peer cannot be reached, or the connection broke off.
    #[error(
        "{peer} cannot be reached: {reason}; the next exchange continues after what was exchanged before"
    )]
    Unreachable {
        /// The peer.
        peer: String,
        /// The reason.
        reason: String,
    },
    /// The peer sent something that violates the protocol.
    #[error(
        "{peer}: protocol error ({what}): the response is corrupted, or the peer is not an IsomerDB server"
    )]
    Malformed {
        /// The peer.
        peer: String,
        /// What is invalid.
        what: String,
    },
    /// The peer uses another version of the protocol.
    #[error(
        "{peer} speaks version {found} of the protocol, this program version {own}: upgrade both to the same version"
    )]
    Version {
        /// The peer.
        peer: String,
        /// Its version.
        found: u8,
        /// Our version.
        own: u8,
    },
    /// An address or a setting is invalid.
    #[error("{0}")]
    Invalid(String),
}

impl SyncError {
    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Here(error) => error.kind(),
            Self::Database(error) => error.kind(),
            Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::There { kind, .. }
                if [JOINING, JOIN_RUNNING, "Unavailable"].contains(&kind.as_str()) =>
            {
                ErrorKind::Unavailable
            }
            Self::There { kind, .. } if kind == "Denied" => ErrorKind::Denied,
            Self::There { kind, .. } if kind == "Unsupported" => ErrorKind::Unsupported,
            Self::There { .. } | Self::Malformed { .. } | Self::Invalid(_) => ErrorKind::Invalid,
            Self::Version { .. } => ErrorKind::Unsupported,
        }
    }

    /// Whether the peer refuses because of an incomplete state transfer, which resumes when a state is pushed to it.
    pub(crate) fn is_joining(&self) -> bool {
        matches!(self, Self::There { kind, .. } if [JOINING, JOIN_RUNNING].contains(&kind.as_str()))
    }

    /// Whether the peer refuses because it joins a state at the moment.
    pub(crate) fn is_join_running(&self) -> bool {
        matches!(self, Self::There { kind, .. } if kind == JOIN_RUNNING)
    }

    /// The cause, by how it is resolved.
    pub fn cause(&self) -> Cause {
        match self {
            _ if self.is_joining() => Cause::Joining,
            _ if self.quarantines() => Cause::Quarantined,
            Self::Here(DataError::ClockAhead { .. }) => Cause::Clock,
            Self::There { kind, .. } if kind == CLOCK_AHEAD => Cause::Clock,
            Self::There { kind, .. } if kind == "Denied" => Cause::Denied,
            Self::Database(_) | Self::Invalid(_) => Cause::Opening,
            Self::Unreachable { .. } => Cause::Unreachable,
            _ if self.kind() == ErrorKind::Unsupported => Cause::Version,
            _ => Cause::Other,
        }
    }

    /// Whether exchanges must stop until an administrator has intervened: the peer sent something invalid, or
    /// something that cannot be applied here. Differing clocks and versions are not a reason: exchanges resume by
    /// themselves once they are corrected.
    pub fn quarantines(&self) -> bool {
        match self {
            Self::Here(DataError::ClockAhead { .. } | DataError::OverBudget(_)) => false,
            Self::Here(error) => matches!(
                error.kind(),
                ErrorKind::Invalid | ErrorKind::Exists | ErrorKind::Limit
            ),
            Self::There { kind, .. } => {
                matches!(kind.as_str(), "Invalid" | "Exists" | "Limit")
            }
            Self::Malformed { .. } => true,
            _ => false,
        }
    }
}
