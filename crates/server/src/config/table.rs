//! The table of all settings.

use std::time::Duration;

use isomer_db::Sharing;

use super::{
    Config, ConfigError, Layers, ListenAddress, Origin, ServerLimits, ShownSetting, TraceOptions,
    parse::{Count, Ratio, Size, parse},
};

/// A setting: its name, default and help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name; `limits.body` is `body` in the table `[limits]` of the file.
    pub key: &'static str,
    /// Its value unless set.
    pub default: &'static str,
    /// Help text.
    pub help: &'static str,
}

impl Setting {
    /// The environment variable for it.
    pub fn variable(&self) -> String {
        format!("ISOMER_{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }
}

const fn setting(key: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, default, help }
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    setting(
        "listen",
        "127.0.0.1:4766",
        "Address and port of the HTTP interface, or several ports (127.0.0.1:4766-4769), of which a server takes the first that is free. Addresses other than loopback need users and TLS",
    ),
    setting(
        "bolt",
        "",
        "Address and port, or several ports, for Bolt, such as 127.0.0.1:7687, under the same conditions. Empty: no Bolt",
    ),
    setting(
        "sharing",
        "",
        "shared: other processes may have the databases open, too; exclusive: none; unless set, as each database is stored, and new ones are shared where that is possible",
    ),
    setting(
        "reuse_port",
        "false",
        "Listen on the same ports as other servers of this user that set it (Linux), which share the databases",
    ),
    setting(
        "default_database",
        "",
        "Database of Bolt clients that name none. Empty: the first one on the command line",
    ),
    setting(
        "hosts",
        "",
        "More names that the server accepts in the Host header, such as that of its proxy or certificate",
    ),
    setting(
        "trusted_proxies",
        "",
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto the server trusts: addresses (10.0.0.7), or \
         networks without clients",
    ),
    setting(
        "system",
        "",
        "Folder of the system database with users and tokens. Empty: `isomer-system` next to the first database",
    ),
    setting(
        "databases_folder",
        "",
        "Folder for databases that administrators create over the network. Empty: they cannot create any",
    ),
    setting(
        "backups_folder",
        "",
        "Folder for backups that are made over the network. Empty: none can be made",
    ),
    setting(
        "without_authentication",
        "false",
        "Turns authentication off: every client may do everything",
    ),
    setting(
        "expose_without_protection",
        "false",
        "Allows addresses other than loopback without users or TLS",
    ),
    setting(
        "admin_password_file",
        "",
        "File with a password. The first start creates the user `admin` with it",
    ),
    setting(
        "threads",
        "2",
        "Threads that serve connections. Queries run on other threads",
    ),
    setting(
        "tls.certificate",
        "",
        "File with the certificate chain, PEM",
    ),
    setting("tls.key", "", "File with the private key, PEM"),
    setting("log.format", "text", "Format of log lines: text or json"),
    setting(
        "log.level",
        "info",
        "Minimum level of log lines: error, warn, info, debug or trace",
    ),
    setting(
        "log.slow_query",
        "1s",
        "The server logs queries that take longer, with their plans. 0ms: none",
    ),
    setting(
        "log.audit",
        "changes",
        "What the audit log records: off, changes (logins, refusals and all writes) or all",
    ),
    setting(
        "log.audit_file",
        "",
        "File of the audit log. Empty: `audit.jsonl` next to the system database",
    ),
    setting(
        "traces.endpoint",
        "",
        "Collector of traces (OTLP over HTTP), such as http://127.0.0.1:4318. Needs a program with the feature `otel`",
    ),
    setting(
        "traces.service_name",
        "isomer",
        "Name of the service in traces",
    ),
    setting(
        "traces.sample_ratio",
        "1",
        "Fraction of the traces that the server sends: 0 to 1",
    ),
    setting(
        "limits.body",
        "16MiB",
        "Maximum size of a request's body, both as sent and decompressed",
    ),
    setting(
        "limits.import",
        "16GiB",
        "Maximum size of an import's body, decompressed",
    ),
    setting("limits.head", "16KiB", "Maximum size of a request's head"),
    setting(
        "limits.result",
        "64MiB",
        "Maximum size of a result that is collected before it is sent. Streamed results have no limit",
    ),
    setting(
        "limits.connections",
        "10000",
        "Maximum number of connections; fewer if the limit on open files is too low. At the limit, a new \
         connection closes one without an authenticated request",
    ),
    setting(
        "limits.connections_per_address",
        "1000",
        "Maximum number of connections from one client address (of IPv6: one /64 network). trusted_proxies \
         have no such limit",
    ),
    setting(
        "limits.head_time",
        "10s",
        "Time in which the head of a connection's first request, or a Bolt login, must arrive after the \
         accept. The head of a later request: after its first byte",
    ),
    setting(
        "limits.body_time",
        "30s",
        "Time in which the body of a request must arrive; of an import, the longest pause",
    ),
    setting(
        "limits.write_time",
        "30s",
        "Time after which the server disconnects a client that does not read its answer",
    ),
    setting(
        "limits.idle_time",
        "5min",
        "Time after which the server closes a connection without a request",
    ),
    setting(
        "limits.bolt_idle_time",
        "2h",
        "Time after which the server closes a Bolt connection without a message. Drivers close theirs after an hour",
    ),
    setting("limits.query_time", "30s", "Maximum time of a query"),
    setting("limits.query_memory", "256MiB", "Maximum memory of a query"),
    setting(
        "limits.user_memory",
        "1GiB",
        "Maximum memory of one user's queries, bodies and writes in open transactions, plus 1 MiB for each query",
    ),
    setting(
        "limits.user_requests",
        "64",
        "Maximum number of concurrent requests of one user",
    ),
    setting(
        "limits.requests",
        "256",
        "Maximum number of concurrent requests",
    ),
    setting(
        "limits.user_transactions",
        "64",
        "Maximum number of open transactions of one user",
    ),
    setting(
        "limits.transaction_idle",
        "30s",
        "Time after which the server rolls back a transaction that is not used",
    ),
    setting(
        "limits.transaction_time",
        "10min",
        "Time after which the server rolls back any transaction",
    ),
    setting(
        "limits.login_failures",
        "10",
        "Maximum number of failed logins and invalid tokens per minute from one address",
    ),
    setting("limits.login_time", "12h", "Lifetime of a login"),
    setting(
        "limits.drain_time",
        "8s",
        "Time in which running requests may end when the server stops",
    ),
    setting(
        "limits.feeds",
        "1000",
        "Maximum number of concurrent change feeds",
    ),
    setting(
        "limits.heartbeat",
        "15s",
        "Interval at which change feeds send a keep-alive comment and check the client's right",
    ),
];

/// Parses and checks the settings.
pub(super) fn config(layers: &Layers) -> Result<Config, ConfigError> {
    fn get<T: super::parse::FromText>(layers: &Layers, key: &str) -> Result<T, ConfigError> {
        parse(key, layers.get(key))
    }
    let count = |key| get::<Count>(layers, key).map(|count| count.0);
    let size = |key| get::<Size>(layers, key).map(|size| size.0);
    let bytes = |key| size(key).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let tls = match (get(layers, "tls.certificate")?, get(layers, "tls.key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(ConfigError(
                "TLS requires both `tls.certificate` and `tls.key`: only one is set".into(),
            ));
        }
    };
    let slow_query = match layers.get("log.slow_query") {
        "0ms" | "0s" | "off" => None,
        text => Some(parse::<Duration>("log.slow_query", text)?),
    };
    let traces = get::<Option<String>>(layers, "traces.endpoint")?;
    let traces = traces
        .map(|endpoint| {
            Ok(TraceOptions {
                endpoint,
                service_name: layers.get("traces.service_name").to_owned(),
                sample_ratio: get::<Ratio>(layers, "traces.sample_ratio")?.0,
            })
        })
        .transpose()?;
    let limits = ServerLimits {
        body_bytes: bytes("limits.body")?,
        import_bytes: size("limits.import")?,
        head_bytes: bytes("limits.head")?,
        result_bytes: bytes("limits.result")?,
        connections: count("limits.connections")?,
        connections_per_address: count("limits.connections_per_address")?,
        head_time: get(layers, "limits.head_time")?,
        body_time: get(layers, "limits.body_time")?,
        write_time: get(layers, "limits.write_time")?,
        idle_time: get(layers, "limits.idle_time")?,
        bolt_idle_time: get(layers, "limits.bolt_idle_time")?,
        query_time: get(layers, "limits.query_time")?,
        query_memory: bytes("limits.query_memory")?,
        user_memory: bytes("limits.user_memory")?,
        user_requests: count("limits.user_requests")?,
        requests: count("limits.requests")?,
        user_transactions: count("limits.user_transactions")?,
        transaction_idle: get(layers, "limits.transaction_idle")?,
        transaction_time: get(layers, "limits.transaction_time")?,
        login_failures: get(layers, "limits.login_failures")?,
        login_time: get(layers, "limits.login_time")?,
        drain_time: get(layers, "limits.drain_time")?,
        feeds: count("limits.feeds")?,
        heartbeat: get(layers, "limits.heartbeat")?,
    };
    let settings = layers.all().map(|(setting, value, origin)| ShownSetting {
        setting,
        value: value.to_owned(),
        is_set: origin != Origin::Default,
    });
    let config = Config {
        settings: settings.collect(),
        tls,
        slow_query,
        traces,
        limits,
        listen: get(layers, "listen")?,
        bolt: get(layers, "bolt")?,
        sharing: get(layers, "sharing")?,
        reuse_port: get(layers, "reuse_port")?,
        default_database: get(layers, "default_database")?,
        hosts: get(layers, "hosts")?,
        trusted_proxies: get(layers, "trusted_proxies")?,
        system: get(layers, "system")?,
        databases_folder: get(layers, "databases_folder")?,
        backups_folder: get(layers, "backups_folder")?,
        without_authentication: get(layers, "without_authentication")?,
        expose_without_protection: get(layers, "expose_without_protection")?,
        admin_password_file: get(layers, "admin_password_file")?,
        threads: count("threads")?,
        log_format: get(layers, "log.format")?,
        log_level: get(layers, "log.level")?,
        audit: get(layers, "log.audit")?,
        audit_file: get(layers, "log.audit_file")?,
    };
    check(&config)?;
    Ok(config)
}

/// More threads for connections than any machine has processors.
const MAX_THREADS: usize = 1024;

/// Checks settings that depend on each other.
fn check(config: &Config) -> Result<(), ConfigError> {
    if config.threads > MAX_THREADS {
        return Err(ConfigError(format!(
            "invalid `threads` {}: at most {MAX_THREADS}; use about the number of processors",
            config.threads
        )));
    }
    if config.reuse_port && config.sharing == Sharing::Exclusive {
        return Err(ConfigError(
            "`reuse_port` is for servers that share their databases, and `sharing` is `exclusive`: unset one of them"
                .to_owned(),
        ));
    }
    if config.reuse_port && !isomer_vfs::net::SHARES_ADDRESSES {
        return Err(ConfigError(
            "`reuse_port` needs Linux: give all servers several ports in `listen`, such as 127.0.0.1:4766-4769".to_owned(),
        ));
    }
    if config.expose_without_protection {
        return Ok(());
    }
    let addresses = [Some(config.listen), config.bolt].into_iter().flatten();
    for address in addresses.filter(|address| !address.ip().is_loopback()) {
        check_open(config, address)?;
    }
    Ok(())
}

/// Checks an address that other machines may reach.
fn check_open(config: &Config, address: ListenAddress) -> Result<(), ConfigError> {
    if config.without_authentication {
        return Err(ConfigError(format!(
            "{address} is reachable from other machines without a login: unset `without_authentication`, \
             listen on 127.0.0.1, or set `expose_without_protection`"
        )));
    }
    if config.tls.is_none() {
        return Err(ConfigError(format!(
            "{address} is reachable from other machines and passwords would be sent unencrypted: set `tls.certificate` and \
             `tls.key`, listen on 127.0.0.1, or set `expose_without_protection`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Origin;

    #[test]
    fn flags_override_the_environment_which_overrides_the_file() {
        let mut layers = Layers::new();
        layers
            .add_file(
                Path::new("isomer.toml"),
                "listen = '127.0.0.1:1'\nhosts = ['a.example', 'b.example']\n[limits]\nbody = '1MiB'\nrequests = 7\n",
            )
            .unwrap();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        layers
            .add_environment([
                variable("ISOMER_LIMITS_BODY", "2MiB"),
                variable("ISOMER_LISTEN", "127.0.0.1:2"),
                variable("HOME", "/root"),
            ])
            .unwrap();
        layers.add_flag("listen", "[::1]:3").unwrap();
        let config = layers.config().unwrap();
        assert_eq!(config.listen.to_string(), "[::1]:3");
        assert_eq!(config.limits.body_bytes, 2 << 20);
        assert_eq!(config.limits.requests, 7);
        assert_eq!(config.hosts, ["a.example", "b.example"]);
        let origin = |key| {
            let all: Vec<_> = layers.all().collect();
            all.into_iter()
                .find(|(setting, ..)| setting.key == key)
                .unwrap()
                .2
        };
        assert_eq!(origin("listen"), Origin::Flag);
        assert_eq!(origin("limits.body").to_string(), "ISOMER_LIMITS_BODY");
        assert_eq!(origin("limits.requests").to_string(), "isomer.toml");
        assert_eq!(origin("limits.head"), Origin::Default);
    }

    #[test]
    fn every_default_is_valid_and_errors_name_the_setting() {
        assert!(Layers::new().config().is_ok());
        for (key, value, expected) in [
            ("limits.body", "much", "a size such as"),
            ("limits.query_time", "30", "a time such as"),
            ("limits.requests", "0", "a number of 1 or more"),
            ("listen", "here", "an address and a port"),
            ("log.format", "xml", "text or json"),
            ("traces.sample_ratio", "1.5", "a number from 0 to 1"),
        ] {
            let mut layers = Layers::new();
            layers
                .add_flag("traces.endpoint", "http://127.0.0.1:4318")
                .unwrap();
            layers.add_flag(key, value).unwrap();
            let error = layers.config().unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(expected), "{error}");
        }
        let mut layers = Layers::new();
        layers.add_flag("threads", "100000000").unwrap();
        assert!(
            layers
                .config()
                .unwrap_err()
                .to_string()
                .contains("at most 1024")
        );
        let mut layers = Layers::new();
        let variables = [("ISOMER_LIMITS_BODI".to_owned(), "1".to_owned())];
        let error = layers.add_environment(variables).unwrap_err().to_string();
        assert!(error.contains("`ISOMER_LIMITS_BODI`"), "{error}");
        let others = [("ISOMER_KEY".to_owned(), "k".to_owned())];
        layers.add_environment(others).unwrap();
        let mut layers = Layers::new();
        let error = layers.add_flag("limits.bodi", "1").unwrap_err().to_string();
        assert!(error.contains("unknown setting `limits.bodi`"), "{error}");
        let error = layers
            .add_file(Path::new("x.toml"), "listen = [1]")
            .unwrap_err();
        assert!(error.to_string().starts_with("x.toml: "), "{error}");
    }

    #[test]
    fn another_address_requires_users_and_tls_or_an_explicit_setting() {
        let with = |flags: &[(&str, &str)]| {
            let mut layers = Layers::new();
            for (key, value) in flags {
                layers.add_flag(key, *value).unwrap();
            }
            layers.config()
        };
        let open = ("listen", "0.0.0.0:4766");
        let tls = [("tls.certificate", "c.pem"), ("tls.key", "k.pem")];
        assert!(
            with(&[open])
                .unwrap_err()
                .to_string()
                .contains("unencrypted")
        );
        assert!(with(&[open, tls[0], tls[1]]).is_ok());
        let without_login = ("without_authentication", "true");
        let error = with(&[open, tls[0], tls[1], without_login]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("reachable from other machines without a login")
        );
        assert!(with(&[open, without_login, ("expose_without_protection", "true")]).is_ok());
        assert!(
            with(&[without_login]).is_ok(),
            "the loopback address is this machine's own"
        );
        assert!(with(&[tls[0]]).is_err());
        let bolt = ("bolt", "0.0.0.0:7687");
        assert!(
            with(&[bolt])
                .unwrap_err()
                .to_string()
                .contains("unencrypted")
        );
        assert!(with(&[bolt, tls[0], tls[1]]).is_ok());
        assert!(with(&[bolt, tls[0], tls[1], without_login]).is_err());
        assert!(with(&[("bolt", "localhost:7687")]).is_ok());
    }
}
