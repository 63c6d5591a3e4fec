//! Settings: defaults, then one TOML file, then the environment, then flags; later ones take precedence.
//!
//! Every setting is in one table ([`SETTINGS`]), from which parsing, checking and printing are derived. In the file,
//! `limits.body` is the key `body` of the table `[limits]`; in the environment, it is `ISOMER_LIMITS_BODY`. Secrets
//! are not settings: a password comes from a file or from the environment, and is never printed.

mod network;
mod parse;
mod table;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use isomer_db::Sharing;

pub use crate::traces::TraceOptions;
pub use network::{ListenAddress, Network};
pub use table::{SETTINGS, Setting};

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// This environment variable.
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

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The settings as text, each with its source.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Layers {
    /// All settings at their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a TOML text.
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
                        .ok_or_else(|| wrong(format!("`{key}` must be a list of strings")))?
                        .join(",")
                }
                _ => {
                    return Err(wrong(format!(
                        "`{key}` must be a string, a number or a list of strings"
                    )));
                }
            };
            self.set(&key, text, Origin::File(path.to_owned()))
                .map_err(|error| wrong(error.0))?;
        }
        Ok(())
    }

    /// Applies the variables named `ISOMER_…`. Others are ignored, unless they begin with the prefix of a section:
    /// then the name of a setting is misspelt.
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
                "no setting for the variable `{name}`: `isomer config print` lists all of them"
            ))),
        }
    }

    /// Applies a flag.
    pub fn add_flag(&mut self, key: &str, value: impl Into<String>) -> Result<(), ConfigError> {
        self.set(key, value.into(), Origin::Flag)
    }

    fn set(&mut self, key: &str, value: String, origin: Origin) -> Result<(), ConfigError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return Err(ConfigError(format!(
                "unknown setting `{key}`: `isomer config print` lists all of them"
            )));
        };
        self.values.insert(setting.key, (value, origin));
        Ok(())
    }

    /// Every setting with its value and source, in the order of the table.
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

    /// Parses and checks the settings.
    pub fn config(&self) -> Result<Config, ConfigError> {
        table::config(self)
    }
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// HTTP address to listen on.
    pub listen: ListenAddress,
    /// Bolt address to listen on; `None` disables Bolt.
    pub bolt: Option<ListenAddress>,
    /// Whether other processes may have the databases open.
    pub sharing: Sharing,
    /// Whether other servers may listen on the same ports.
    pub reuse_port: bool,
    /// The database of Bolt clients that name none.
    pub default_database: Option<String>,
    /// Names under which browsers may reach it, in addition to those of the loopback address.
    pub hosts: Vec<String>,
    /// Proxies whose headers for the client address and TLS are trusted.
    pub trusted_proxies: Vec<Network>,
    /// Folder of the system database: users, roles, tokens.
    pub system: Option<PathBuf>,
    /// Folder of databases that are created over the network; `None` disables creation.
    pub databases_folder: Option<PathBuf>,
    /// Folder of backups that are made over the network; `None` disables them.
    pub backups_folder: Option<PathBuf>,
    /// Whether every client may do everything.
    pub without_authentication: bool,
    /// Whether it may listen on other than loopback addresses without users and TLS.
    pub expose_without_protection: bool,
    /// Certificate and key, PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// A file with the first administrator's password.
    pub admin_password_file: Option<PathBuf>,
    /// Limits.
    pub limits: ServerLimits,
    /// What the audit log records.
    pub audit: AuditLevel,
    /// The audit log's file; next to the system database if absent.
    pub audit_file: Option<PathBuf>,
    /// Format of the log.
    pub log_format: LogFormat,
    /// Minimum level of the log.
    pub log_level: tracing::Level,
    /// Queries that take longer are logged with their plans.
    pub slow_query: Option<Duration>,
    /// Where traces are sent to.
    pub traces: Option<TraceOptions>,
    /// Threads that accept connections and serialise answers.
    pub threads: usize,
    /// All settings as text.
    pub settings: Vec<ShownSetting>,
}

/// A setting with its value.
#[derive(Clone, Debug)]
pub struct ShownSetting {
    /// The setting.
    pub setting: &'static Setting,
    /// Its value.
    pub value: String,
    /// Whether it is set, rather than at its default.
    pub is_set: bool,
}

/// What the audit log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Nothing.
    Off,
    /// Logins, refusals, and all changes.
    Changes,
    /// Every request.
    All,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Limits per request, per user and of the server.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Size of a request's body, as sent and once decompressed.
    pub body_bytes: usize,
    /// Size of an import's body, once decompressed.
    pub import_bytes: u64,
    /// Size of a request's head.
    pub head_bytes: usize,
    /// Size of a result that is collected before it is sent.
    pub result_bytes: usize,
    /// Connections.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// Time for a request's head to arrive: for a connection's first one, and for a Bolt login, from the accept on.
    pub head_time: Duration,
    /// Time for a request's body to arrive; for an import, the longest pause within it.
    pub body_time: Duration,
    /// Longest time for which a client does not read its answer.
    pub write_time: Duration,
    /// Longest time for which an HTTP connection stays open without a request.
    pub idle_time: Duration,
    /// Longest time for which a Bolt connection stays open without a message.
    pub bolt_idle_time: Duration,
    /// Longest running time of a query.
    pub query_time: Duration,
    /// Memory of a query.
    pub query_memory: usize,
    /// Memory of all queries of one user.
    pub user_memory: usize,
    /// Concurrent requests of one user.
    pub user_requests: usize,
    /// Concurrent requests.
    pub requests: usize,
    /// Open transactions of one user.
    pub user_transactions: usize,
    /// Time without use after which an open transaction is rolled back.
    pub transaction_idle: Duration,
    /// Age at which an open transaction is rolled back.
    pub transaction_time: Duration,
    /// Failed logins and requests with invalid tokens, per minute and address.
    pub login_failures: u32,
    /// How long a login lasts.
    pub login_time: Duration,
    /// Time for requests to complete when the server stops.
    pub drain_time: Duration,
    /// Open change feeds.
    pub feeds: usize,
    /// Interval of the keep-alive comments of change feeds.
    pub heartbeat: Duration,
}
