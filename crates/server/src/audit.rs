//! The audit log: who did what, from which address, with which result. One JSON object per line, appended; no query
//! texts, no values, no secrets.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    net::IpAddr,
    path::Path,
};

use isomer_db::StatementClass;
use parking_lot::Mutex;

use crate::{Result, ServerError, clock::now_ms, config::AuditLevel};

/// An audit event.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The user that authenticated or tried to; absent if that is not a valid user name.
    pub user: Option<&'a str>,
    /// The public part of the token.
    pub token: Option<&'a str>,
    /// The address.
    pub from: IpAddr,
    /// Method and route, without the parameters of the path.
    pub action: &'a str,
    /// The database.
    pub database: Option<&'a str>,
    /// The user, token, backup, query or database that the request concerns, if the path or the body names one.
    pub target: Option<&'a str>,
    /// Class of the request: read, write, schema, admin.
    pub class: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// The kind of the error.
    pub error: Option<&'a str>,
    /// How long it took.
    pub took_ms: f64,
}

/// What a handler adds to the audit event of its request.
#[derive(Debug, Default)]
pub struct AuditDetails {
    /// The user that logged in or tried to.
    pub user: Option<String>,
    /// The public part of the token that was issued.
    pub token: Option<String>,
    /// The user, token, backup, query or database that the request concerns.
    pub target: Option<String>,
    /// Class of a query by its plan, or of what a transaction has done.
    pub class: Option<StatementClass>,
}

/// The log.
pub struct Audit {
    level: AuditLevel,
    file: Mutex<Option<File>>,
}

impl Audit {
    /// Opens a file for appending, readable only by its owner.
    pub fn open(path: &Path, level: AuditLevel) -> Result<Self> {
        if level == AuditLevel::Off {
            return Ok(Self::off());
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let file = isomer_vfs::private_file(&mut options).open(path);
        let file = file.map_err(|error| {
            ServerError::Unavailable(format!(
                "the audit log {} cannot be written: {error}",
                path.display()
            ))
        })?;
        Ok(Self {
            level,
            file: Mutex::new(Some(file)),
        })
    }

    /// An audit log that records nothing.
    pub fn off() -> Self {
        Self {
            level: AuditLevel::Off,
            file: Mutex::new(None),
        }
    }

    /// Whether an event is recorded at this level.
    fn records(&self, event: &Event<'_>) -> bool {
        match self.level {
            AuditLevel::Off => false,
            AuditLevel::Changes => {
                event.class != "read" || matches!(event.status, 401 | 403 | 421 | 429)
            }
            AuditLevel::All => true,
        }
    }

    /// Writes a line. Requests do not fail if it cannot be written; the server logs a warning.
    pub fn record(&self, event: &Event<'_>) {
        if !self.records(event) {
            return;
        }
        let mut line = serde_json::json!({
            "time_ms": now_ms(),
            "user": event.user,
            "token": event.token,
            "from": event.from.to_string(),
            "action": event.action,
            "database": event.database,
            "target": event.target,
            "class": event.class,
            "status": event.status,
            "error": event.error,
            "took_ms": event.took_ms,
        })
        .to_string();
        line.push('\n');
        if let Some(file) = &mut *self.file.lock()
            && let Err(error) = file.write_all(line.as_bytes())
        {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }

    /// Syncs what was written.
    pub fn sync(&self) {
        if let Some(file) = &*self.file.lock()
            && let Err(error) = file.sync_data()
        {
            tracing::error!(%error, "the audit log cannot be synced");
        }
    }
}
