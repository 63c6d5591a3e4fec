//! Settings: defaults, then one TOML file, then the environment, then flags; the later one wins.
//!
//! Every setting stands in one table ([`SETTINGS`]), from which reading, checking and printing come. In the file
//! `limits.body` is the key `body` of the table `[limits]`; in the environment it is `ISOMER_LIMITS_BODY`.
//! Secrets are no settings: a password comes from a file or from the environment, and is never printed.

mod network;
mod parse;
mod table;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

pub use crate::traces::TraceOptions;
pub use network::Network;
pub use table::{SETTINGS, Setting};

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// This variable of the environment.
    Environment(String),
    /// The command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A setting that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The settings as text, each with its origin.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Layers {
    /// No setting is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what a TOML text says.
    pub fn add_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let wrong = |what: String| ConfigError(format!("{}: {what}", path.display()));
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| wrong(error.to_string().trim_end().to_owned()))?;
        let mut flat = Vec::new();
        for (name, value) in table {
            match value {
                toml::Value::Table(inner) => {
                    flat.extend(
                        inner
                            .into_iter()
                            .map(|(key, value)| (format!("{name}.{key}"), value)),
                    );
                }
                value => flat.push((name, value)),
            }
        }
        for (key, value) in flat {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(truth) => truth.to_string(),
                toml::Value::Array(items) => {
                    let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
                    items
                        .ok_or_else(|| wrong(format!("`{key}` takes a list of texts")))?
                        .join(",")
                }
                _ => {
                    return Err(wrong(format!(
                        "`{key}` takes a text, a number or a list of texts"
                    )));
                }
            };
            self.set(&key, text, Origin::File(path.to_owned()))
                .map_err(|error| wrong(error.0))?;
        }
        Ok(())
    }

    /// Sets what variables named `ISOMER_…` say. Others are none of ours, unless they begin like those of a section: then a
    /// setting is meant that there is not.
    pub fn add_environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        for setting in SETTINGS {
            let name = setting.variable();
            if let Some(value) = variables.get(&name) {
                self.set(setting.key, value.clone(), Origin::Environment(name))?;
            }
        }
        let known = |name: &str| SETTINGS.iter().any(|setting| setting.variable() == name);
        let sections = || {
            SETTINGS
                .iter()
                .filter_map(|setting| setting.key.split_once('.'))
        };
        let is_meant = |name: &&String| {
            sections().any(|(section, _)| {
                let rest = name.strip_prefix("ISOMER_");
                let rest = rest.and_then(|rest| rest.strip_prefix(&section.to_ascii_uppercase()));
                rest.is_some_and(|rest| rest.starts_with('_'))
            })
        };
        match variables.keys().filter(is_meant).find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(ConfigError(format!(
                "there is no setting for the variable `{name}`: `isomer config print` lists all of them"
            ))),
        }
    }

    /// Sets what a flag says.
    pub fn add_flag(&mut self, key: &str, value: impl Into<String>) -> Result<(), ConfigError> {
        self.set(key, value.into(), Origin::Flag)
    }

    fn set(&mut self, key: &str, value: String, origin: Origin) -> Result<(), ConfigError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(ConfigError(format!(
                "there is no setting `{key}`: `isomer config print` lists all of them"
            )));
        };
        self.values.insert(setting.key, (value, origin));
        Ok(())
    }

    /// Every setting with its value and origin, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (&'static Setting, &str, Origin)> {
        SETTINGS
            .iter()
            .map(|setting| match self.values.get(setting.key) {
                Some((value, origin)) => (setting, value.as_str(), origin.clone()),
                None => (setting, setting.default, Origin::Default),
            })
    }

    fn get(&self, key: &str) -> &str {
        let found = self.all().find(|(setting, ..)| setting.key == key);
        found.map(|(_, value, _)| value).unwrap_or_default()
    }

    /// The settings, understood and checked.
    pub fn config(&self) -> Result<Config, ConfigError> {
        table::config(self)
    }
}

/// How the server runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it listens for drivers that speak Bolt; nowhere unless set.
    pub bolt: Option<SocketAddr>,
    /// The database of drivers that name none.
    pub default_database: Option<String>,
    /// Names under which browsers may reach it, beside those of the loopback address.
    pub hosts: Vec<String>,
    /// Proxies that are believed when they say who asks, and whether over TLS.
    pub trusted_proxies: Vec<Network>,
    /// Folder of the system database: users, roles, tokens.
    pub system: Option<PathBuf>,
    /// Where databases are made that are asked for over the network; none can be made without.
    pub databases_folder: Option<PathBuf>,
    /// Where backups are written that are asked for over the network.
    pub backups_folder: Option<PathBuf>,
    /// Whether everybody who reaches the server may do everything.
    pub without_authentication: bool,
    /// Whether it may listen beyond this machine without users and TLS.
    pub expose_without_protection: bool,
    /// Certificate and key, PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A file with the first administrator's password.
    pub admin_password_file: Option<PathBuf>,
    /// Limits.
    pub limits: ServerLimits,
    /// What goes to the audit log.
    pub audit: AuditLevel,
    /// The audit log's file; beside the system database where absent.
    pub audit_file: Option<PathBuf>,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// The least important log lines that are written.
    pub log_level: tracing::Level,
    /// Queries that take longer are logged with their plans.
    pub slow_query: Option<Duration>,
    /// Where traces are sent to.
    pub traces: Option<TraceOptions>,
    /// Threads that accept connections and serialise answers.
    pub threads: usize,
}

/// What is written into the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Nothing.
    Off,
    /// Logins, refusals, and everything that changes something.
    Changes,
    /// Every request.
    All,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What a request, a user and the server may take.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Most bytes of a request's body, as sent and once decompressed.
    pub body_bytes: usize,
    /// Most bytes of an import's body, once decompressed.
    pub import_bytes: u64,
    /// Most bytes of a request's head.
    pub head_bytes: usize,
    /// Most bytes of a gathered result.
    pub result_bytes: usize,
    /// Most connections.
    pub connections: usize,
    /// Time for a request's head to arrive.
    pub head_time: Duration,
    /// Time for a request's body to arrive; for an import, the longest pause within it.
    pub body_time: Duration,
    /// Longest time in which a client takes nothing of an answer.
    pub write_time: Duration,
    /// Longest time that a connection stays open without a request.
    pub idle_time: Duration,
    /// Longest time that a connection of a driver stays open without a message.
    pub bolt_idle_time: Duration,
    /// Longest running time of a query.
    pub query_time: Duration,
    /// Most memory of a query.
    pub query_memory: usize,
    /// Most memory of all queries of one user.
    pub user_memory: usize,
    /// Most requests of one user at work at once.
    pub user_requests: usize,
    /// Most requests at work at once.
    pub requests: usize,
    /// Most transactions of one user that are open between requests.
    pub user_transactions: usize,
    /// A transaction that is not used for so long is rolled back.
    pub transaction_idle: Duration,
    /// A transaction that is open for so long is rolled back.
    pub transaction_time: Duration,
    /// Failed logins, and requests with wrong tokens, a minute from one address.
    pub login_failures: u32,
    /// How long a login lasts.
    pub login_time: Duration,
    /// Time for requests at work to end when the server stops.
    pub drain_time: Duration,
    /// Most change feeds that are open at once.
    pub feeds: usize,
    /// How often a change feed says that it is still there.
    pub heartbeat: Duration,
}
