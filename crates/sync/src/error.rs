//! What can go wrong between peers.

use isomer_data::DataError;
pub use isomer_data::ErrorKind;
use thiserror::Error;

/// What this crate's functions answer.
pub type Result<T, E = SyncError> = std::result::Result<T, E>;

/// What went wrong, split by where.
#[derive(Debug, Error)]
pub enum SyncError {
    /// This database refused.
    #[error(transparent)]
    Here(#[from] DataError),
    /// This database could not be used.
    #[error(transparent)]
    Database(#[from] isomer_db::Error),
    /// The peer refused, and said why.
    #[error("{peer} refuses ({kind}): {message}")]
    There {
        /// Who.
        peer: String,
        /// The kind of its error, as interfaces print it.
        kind: String,
        /// What it said.
        message: String,
    },
    /// The peer cannot be reached, or the connection broke off.
    #[error(
        "{peer} cannot be reached: {reason}; what was exchanged before stays, the next exchange goes on there"
    )]
    Unreachable {
        /// Who.
        peer: String,
        /// Why.
        reason: String,
    },
    /// What came is nothing that a peer says.
    #[error(
        "{peer} says something that is no part of the protocol ({what}): it is damaged on its way, or no IsomerDB"
    )]
    Malformed {
        /// Who.
        peer: String,
        /// What is wrong.
        what: String,
    },
    /// Another version of the protocol.
    #[error(
        "{peer} speaks version {found} of the protocol, this program version {own}: bring both to the same version"
    )]
    Version {
        /// Who.
        peer: String,
        /// Its version.
        found: u8,
        /// Ours.
        own: u8,
    },
    /// The address or a setting is wrong.
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
            Self::There { kind, .. } if kind == "Unavailable" => ErrorKind::Unavailable,
            Self::There { kind, .. } if kind == "Denied" => ErrorKind::Denied,
            Self::There { .. } | Self::Malformed { .. } | Self::Invalid(_) => ErrorKind::Invalid,
            Self::Version { .. } => ErrorKind::Unsupported,
        }
    }

    /// Whether nothing more should be exchanged before somebody has looked: what was said cannot be, or cannot be done here.
    pub fn quarantines(&self) -> bool {
        match self {
            Self::Here(error) => matches!(
                error.kind(),
                ErrorKind::Invalid | ErrorKind::Exists | ErrorKind::Limit | ErrorKind::Unsupported
            ),
            Self::There { kind, .. } => {
                matches!(
                    kind.as_str(),
                    "Invalid" | "Exists" | "Limit" | "Unsupported"
                )
            }
            Self::Malformed { .. } | Self::Version { .. } => true,
            _ => false,
        }
    }
}
