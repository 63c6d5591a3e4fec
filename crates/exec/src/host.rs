//! What statements ask the program that runs the database, rather than the database: its databases, users and settings.

use std::sync::Arc;

use isomer_plan::schema::Listing;
use isomer_value::{Map, Value};

use crate::error::{ErrorClass, ExecError, Result};

/// What precedes the number of a query in the id of its transaction.
pub(crate) const TRANSACTION_PREFIX: &str = "db-transaction-";

/// The program that runs the database, and the client that runs the statement.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// The name of the database among those of the program.
    fn database_name(&self) -> Arc<str>;
    /// The name of the user that runs the statement.
    fn user_name(&self) -> Arc<str>;
    /// The rows of a listing that the client may see, one value per column of [`Listing::fields`]. It is one of
    /// databases, users or settings. Fails without the right to the listing.
    fn listing(&self, listing: Listing) -> std::result::Result<Vec<Vec<Value>>, HostError>;
    /// Creates, changes or removes a user or a database. Fails without the right to do so.
    fn administer(&self, command: Administration) -> std::result::Result<(), HostError>;
    /// Changes the password of the user that runs the statement. Fails if `current` is not the current one.
    fn change_password(&self, current: &str, password: &str) -> std::result::Result<(), HostError>;
    /// The addresses of the server for drivers.
    fn addresses(&self) -> Vec<String>;
    /// The metadata that the client has given to the transaction.
    fn metadata(&self) -> Map;
    /// Replaces the metadata of the transaction.
    fn set_metadata(&self, metadata: Map);
}

/// A change of the users or databases of a program.
#[derive(Clone)]
#[non_exhaustive]
pub enum Administration {
    /// `CREATE [OR REPLACE] USER name [IF NOT EXISTS] SET PASSWORD 'text'`: a user without roles.
    CreateUser {
        /// Its name.
        name: Arc<str>,
        /// Its password.
        password: Arc<str>,
        /// Whether an existing user is accepted as it is.
        if_not_exists: bool,
        /// Whether an existing user is removed first.
        replace: bool,
    },
    /// `ALTER USER name [IF EXISTS] SET PASSWORD 'text'`
    SetPassword {
        /// Its name.
        name: Arc<str>,
        /// Its new password.
        password: Arc<str>,
        /// Whether a missing user is accepted.
        if_exists: bool,
    },
    /// `DROP USER name [IF EXISTS]`
    DropUser {
        /// Its name.
        name: Arc<str>,
        /// Whether a missing user is accepted.
        if_exists: bool,
    },
    /// `CREATE [OR REPLACE] DATABASE name [IF NOT EXISTS]`
    CreateDatabase {
        /// Its name.
        name: Arc<str>,
        /// Whether an existing database is accepted as it is.
        if_not_exists: bool,
        /// Whether an existing database is removed first.
        replace: bool,
    },
    /// `DROP DATABASE name [IF EXISTS]`
    DropDatabase {
        /// Its name.
        name: Arc<str>,
        /// Whether a missing database is accepted.
        if_exists: bool,
    },
}

impl Administration {
    /// The command of the map that the parser gives to `dbms.administer()`.
    pub(crate) fn of(command: &Value) -> Result<Self> {
        let field = |name: &str| command.as_map().and_then(|map| map.get(name));
        let text = |name: &str| text_of(command, name);
        let truth = |name: &str| field(name).is_some_and(|value| *value == Value::Bool(true));
        let (condition, replace) = (truth("ifExists"), truth("replace"));
        let name = text("name")?;
        match &*text("action")? {
            "create user" => Ok(Self::CreateUser {
                name,
                password: text("password")?,
                if_not_exists: condition,
                replace,
            }),
            "alter user" => Ok(Self::SetPassword {
                name,
                password: text("password")?,
                if_exists: condition,
            }),
            "drop user" => Ok(Self::DropUser {
                name,
                if_exists: condition,
            }),
            "create database" => Ok(Self::CreateDatabase {
                name,
                if_not_exists: condition,
                replace,
            }),
            "drop database" => Ok(Self::DropDatabase {
                name,
                if_exists: condition,
            }),
            other => Err(ExecError::type_error(format!(
                "`{other}` is not an action: create user, alter user, drop user, create database and drop database are"
            ))),
        }
    }
}

/// A text of the map that the parser gives to the procedures of administration.
fn text_of(command: &Value, name: &str) -> Result<Arc<str>> {
    match command.as_map().and_then(|map| map.get(name)) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(ExecError::type_error(format!(
            "the {name} of a user or database is a text"
        ))),
    }
}

/// Has the host run a command.
pub(crate) fn administer(host: &Option<Arc<dyn Host>>, command: &Value) -> Result<()> {
    let command = Administration::of(command)?;
    let outcome = required(host, "this statement")?.administer(command);
    outcome.map_err(not_administered)
}

/// Has the host change the user's own password: `current` and `password` of a map.
pub(crate) fn change_password(host: &Option<Arc<dyn Host>>, change: &Value) -> Result<()> {
    let (current, password) = (text_of(change, "current")?, text_of(change, "password")?);
    let outcome = required(host, "ALTER CURRENT USER")?.change_password(&current, &password);
    outcome.map_err(not_administered)
}

fn not_administered(error: HostError) -> ExecError {
    match error.denied {
        true => ExecError::Denied(error.message),
        false => ExecError::raised(
            ErrorClass::ArgumentError,
            "InvalidArgumentValue",
            error.message,
        ),
    }
}

fn refused(error: HostError) -> ExecError {
    match error.denied {
        true => ExecError::Denied(error.message),
        false => ExecError::Unsupported(error.message),
    }
}

/// Why a host refuses: what happened, and what to do.
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
    required(host, statement)?.listing(kind).map_err(refused)
}
