//! What statements ask the program that runs the database, rather than the database: its databases, users and settings.

use std::sync::Arc;

use isomer_plan::schema::Listing;
use isomer_value::{Map, Value};

use crate::error::{ExecError, Result};

/// What precedes the number of a query in the id of its transaction.
pub(crate) const TRANSACTION_PREFIX: &str = "db-transaction-";

/// The program that runs the database, and the client that runs the statement.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// The name of the database among those of the program.
    fn database_name(&self) -> Arc<str>;
    /// The rows of a listing that the client may see, one value per column of [`Listing::fields`]. It is one of
    /// databases, users or settings. Fails without the right to the listing.
    fn listing(&self, listing: Listing) -> std::result::Result<Vec<Vec<Value>>, HostError>;
    /// The addresses of the server for drivers.
    fn addresses(&self) -> Vec<String>;
    /// The metadata that the client has given to the transaction.
    fn metadata(&self) -> Map;
    /// Replaces the metadata of the transaction.
    fn set_metadata(&self, metadata: Map);
}

/// Why a host refuses a listing: what happened, and what to do.
#[derive(Debug)]
pub struct HostError {
    /// Whether the client lacks a right.
    pub denied: bool,
    /// The message.
    pub message: String,
}

/// The host of a statement; refused in a program without one.
pub(crate) fn required<'h>(
    host: &'h Option<Arc<dyn Host>>,
    listing: &str,
) -> Result<&'h Arc<dyn Host>> {
    host.as_ref().ok_or_else(|| {
        ExecError::Unsupported(format!(
            "{listing} asks about a server, and this database is open in a program: ask the program"
        ))
    })
}

/// The rows of a listing of the host.
pub(crate) fn listing(host: &Option<Arc<dyn Host>>, kind: Listing) -> Result<Vec<Vec<Value>>> {
    let statement = match kind {
        Listing::DefaultDatabase => "SHOW DEFAULT DATABASE",
        Listing::HomeDatabase => "SHOW HOME DATABASE",
        Listing::Users => "SHOW USERS",
        Listing::CurrentUser => "SHOW CURRENT USER",
        Listing::Settings => "SHOW SETTINGS",
        _ => "SHOW DATABASES",
    };
    required(host, statement)?
        .listing(kind)
        .map_err(|error| match error.denied {
            true => ExecError::Denied(error.message),
            false => ExecError::Unsupported(error.message),
        })
}
