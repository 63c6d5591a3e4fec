//! The audit log: who did what, from where, with which outcome. One JSON object a line, appended; no query texts, no
//! values, no secrets.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use isomer_db::StatementClass;
use parking_lot::Mutex;

use crate::{Result, ServerError, access::now_ms, config::AuditLevel};

/// What is told of a request.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Who it is, or wanted to log in as; nothing where that is no name of a user.
    pub user: Option<&'a str>,
    /// The public half of the token.
    pub token: Option<&'a str>,
    /// The address.
    pub from: IpAddr,
    /// What was asked: method and route, without what stands in its places.
    pub action: &'a str,
    /// The database.
    pub database: Option<&'a str>,
    /// The user, token, backup, query or database that it is about, where the path or the body names one.
    pub target: Option<&'a str>,
    /// What the request may do: read, write, schema, admin.
    pub class: &'a str,
    /// The status of the answer.
    pub status: u16,
    /// The kind of the error.
    pub error: Option<&'a str>,
    /// How long it took.
    pub took_ms: f64,
}

/// What is found out of a request while it is answered.
#[derive(Debug, Default)]
pub struct Told {
    /// Who logged in, or wanted to.
    pub user: Option<String>,
    /// The public half of the token that he was given.
    pub token: Option<String>,
    /// The user, token, backup, query or database that it is about.
    pub target: Option<String>,
    /// What a query may do, as its plan says, or what a transaction has done.
    pub class: Option<StatementClass>,
}

/// The log.
pub struct Audit {
    level: AuditLevel,
    file: Mutex<Option<File>>,
}

impl Audit {
    /// Appends to a file, which others cannot read.
    pub fn open(path: &Path, level: AuditLevel) -> Result<Self> {
        if level == AuditLevel::Off {
            return Ok(Self::off());
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path);
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

    /// Writes nothing.
    pub fn off() -> Self {
        Self {
            level: AuditLevel::Off,
            file: Mutex::new(None),
        }
    }

    /// Whether a request of this class and outcome is told.
    fn tells(&self, event: &Event<'_>) -> bool {
        match self.level {
            AuditLevel::Off => false,
            AuditLevel::Changes => {
                event.class != "read" || matches!(event.status, 401 | 403 | 421 | 429)
            }
            AuditLevel::All => true,
        }
    }

    /// Writes a line. A disk that is full stops no request: it is told in the log of the server.
    pub fn record(&self, event: &Event<'_>) {
        if !self.tells(event) {
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

    /// Makes what was written durable.
    pub fn sync(&self) {
        if let Some(file) = &*self.file.lock()
            && let Err(error) = file.sync_data()
        {
            tracing::error!(%error, "the audit log cannot be synced");
        }
    }
}
