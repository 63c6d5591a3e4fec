//! Start and shutdown of a server.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use isomer_db::{Builder, Database, MasterKey, Memory, Sharing};
use isomer_vfs::net::listen_with_others;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, CertificateError, OtherError, ServerConfig,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};

use crate::{
    Result, ServerError,
    access::{Databases, Rights, System, check_name, name_of},
    audit::Audit,
    bolt::MESSAGES,
    config::{Config, ListenAddress},
    core::{Core, make_folder, stop_asked},
    files,
    http::{self, routes::ROUTES},
    listen::{self, Protocol},
    metrics::Metrics,
    replication::{self, Replicating},
};

/// What to serve. Must not be logged: it may contain a password.
#[derive(Clone)]
pub struct ServeOptions {
    /// Settings.
    pub config: Config,
    /// How databases are opened; all of them share its memory budget.
    pub builder: Builder,
    /// Databases: names, if given, and folders.
    pub databases: Vec<(Option<String>, PathBuf)>,
    /// Databases that are already open, by name.
    pub open: Vec<(String, Database)>,
    /// Whether missing databases are created.
    pub create: bool,
    /// Password of the first administrator, from the environment.
    pub admin_password: Option<String>,
    /// The key that `builder` has, too: the system database is encrypted with it, and databases are restored with it.
    pub key: Option<MasterKey>,
}

impl ServeOptions {
    /// No databases.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            builder: Database::builder().shared_memory(&Memory::of_this_machine()),
            databases: Vec::new(),
            open: Vec::new(),
            create: false,
            admin_password: None,
            key: None,
        }
    }
}

/// The signals that stop a server.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

/// A running server.
pub struct RunningServer {
    core: Arc<Core>,
    runtime: Option<Runtime>,
    /// Ends before the databases are closed.
    replicating: Option<Replicating>,
    accepting: Vec<tokio::task::JoinHandle<()>>,
    address: SocketAddr,
    bolt_address: Option<SocketAddr>,
    setup_token: Option<String>,
}

/// Reduces the limit of connections so that enough open files are left for the databases.
fn leave_files(config: &mut Config) {
    let wanted = config.limits.connections;
    let connections = files::room_for_connections(wanted);
    if connections < wanted {
        tracing::warn!(
            wanted,
            connections,
            "the limit of open files leaves room for fewer connections: raise it (`ulimit -n`), or lower limits.connections"
        );
    }
    config.limits.connections = connections;
}

/// How long a thread for requests waits for the next one. The allocator keeps memory for the thread that allocated it,
/// also where another thread has freed it: an answer of many MiB is returned to the operating system only when the
/// thread that made it ends or allocates again.
const IDLE_THREAD: Duration = Duration::from_secs(1);

/// Starts a server: when this returns, it answers.
pub fn start(options: ServeOptions) -> Result<RunningServer> {
    let mut config = options.config.clone();
    leave_files(&mut config);
    let tls = config
        .tls
        .as_ref()
        .map(|(certificate, key)| acceptor(certificate, key))
        .transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.threads)
        .max_blocking_threads(config.limits.requests + 8)
        .thread_keep_alive(IDLE_THREAD)
        .thread_name("isomer-http")
        .enable_all()
        .build()
        .map_err(|error| ServerError::Unavailable(format!("threads cannot be created: {error}")))?;
    // Binds the address first, so that a second server fails before it opens anything.
    let bind = |address| bind(&runtime, address, config.reuse_port);
    let (listener, address) = bind(config.listen)?;
    let bolt = config.bolt.map(bind).transpose()?;

    let sharing = sharing_of(&config);
    let builder = options.builder.clone().sharing(sharing);
    let builder = builder.process_kind("server");
    let folder = config.databases_folder.clone();
    let databases = Databases::new(builder, folder, sharing != Sharing::Exclusive);
    for (name, path) in &options.databases {
        let name = name.clone().unwrap_or_else(|| name_of(path));
        databases.add_at(&name, path, options.create)?;
    }
    for (name, db) in &options.open {
        databases.add(name, db.clone())?;
    }
    databases.open_folder()?;

    let folder = system_folder(&options);
    let mut setup_token = None;
    let system = if config.without_authentication {
        None
    } else {
        let folder = folder.as_ref().ok_or_else(|| {
            ServerError::Invalid("a folder for users and tokens is missing: set `system`".into())
        })?;
        make_folder(folder)?;
        let system = System::open(&folder.join("db"), options.key.as_ref(), sharing)?;
        if !system.has_users() {
            match first_password(&options)? {
                Some(password) => match system.add_user("admin", &password, &Rights::all()) {
                    // Another server was faster.
                    Err(ServerError::Exists(_)) if sharing != Sharing::Exclusive => {}
                    added => drop(added?),
                },
                None if open_address(&config).is_some() && !config.expose_without_protection => {
                    return Err(ServerError::Invalid(format!(
                        "{} is reachable from other machines and there is no user yet: start on 127.0.0.1 first, set \
                         `admin_password_file`, or set `expose_without_protection`",
                        open_address(&config).unwrap_or(config.listen)
                    )));
                }
                None => setup_token = Some(system.begin_setup()?),
            }
        }
        Some(system)
    };
    let audit = match (&config.audit_file, &folder) {
        (Some(file), _) => Audit::open(file, config.audit)?,
        (None, Some(folder)) if system.is_some() => {
            Audit::open(&folder.join("audit.jsonl"), config.audit)?
        }
        _ => Audit::off(),
    };
    let metrics = Metrics::new(
        ROUTES.iter().map(|route| (route.method, route.path)),
        MESSAGES.iter().map(|message| message.name),
    );
    let home = home(&options, &config)?;
    if let (Some(name), None) = (&config.default_database, &config.databases_folder)
        && !databases.names().iter().any(|known| **known == **name)
    {
        return Err(ServerError::Invalid(format!(
            "`default_database` is `{name}`, which is not served: unset it to use the first database on the command line"
        )));
    }
    let core = Core::new(
        config,
        system,
        databases,
        audit,
        metrics,
        home,
        options.key.clone(),
    )?;
    let http = Protocol::Http(http::router(&core));
    let accept = |listener, spoken| {
        runtime.spawn(listen::accept(core.clone(), listener, spoken, tls.clone()))
    };
    let mut accepting = vec![accept(listener, http)];
    let mut bolt_address = None;
    if let Some((listener, address)) = bolt {
        // It is set only here.
        let _ = core.bolt_address.set(address);
        bolt_address = Some(address);
        accepting.push(accept(listener, Protocol::Bolt));
    }
    runtime.spawn(sweep(core.clone()));
    let replicating = replication::start(&core, options.builder.clone())
        .map_err(|error| ServerError::Unavailable(format!("threads cannot be created: {error}")))?;
    Ok(RunningServer {
        replicating: Some(replicating),
        core,
        runtime: Some(runtime),
        accepting,
        address,
        bolt_address,
        setup_token,
    })
}

/// How the databases are opened: servers on one port share them.
fn sharing_of(config: &Config) -> Sharing {
    match config.reuse_port {
        true => Sharing::Shared,
        false => config.sharing,
    }
}

/// Connections that wait to be accepted on a shared address.
const MAX_WAITING_CONNECTIONS: i32 = 1024;

/// Binds the first free port of an address, and returns the address with this port.
fn bind(
    runtime: &Runtime,
    listen: ListenAddress,
    with_others: bool,
) -> Result<(TcpListener, SocketAddr)> {
    let try_one = |address| {
        runtime.block_on(async {
            match with_others {
                true => listen_with_others(address, MAX_WAITING_CONNECTIONS)
                    .and_then(TcpListener::from_std),
                false => TcpListener::bind(address).await,
            }
        })
    };
    for address in listen.addresses() {
        match try_one(address) {
            Ok(listener) => {
                let own = listener.local_addr().unwrap_or(address);
                return Ok((listener, own));
            }
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(ServerError::Unavailable(format!(
                    "cannot listen on {address}: {error}"
                )));
            }
        }
    }
    Err(ServerError::Unavailable(format!(
        "cannot listen on {listen}: it is already in use: stop another server or choose another port; several servers can \
         share one (`reuse_port`), or take the first free port of several (`listen` with 127.0.0.1:4766-4769)"
    )))
}

/// An address that other machines can reach.
fn open_address(config: &Config) -> Option<ListenAddress> {
    let mut addresses = [Some(config.listen), config.bolt].into_iter().flatten();
    addresses.find(|address| !address.ip().is_loopback())
}

/// Default database: the configured one, or the first on the command line.
fn home(options: &ServeOptions, config: &Config) -> Result<Option<Arc<str>>> {
    if let Some(name) = &config.default_database {
        check_name(name)?;
        return Ok(Some(name.as_str().into()));
    }
    let first = options.databases.first();
    let first = first.map(|(name, path)| name.clone().unwrap_or_else(|| name_of(path)));
    let open = options.open.first().map(|(name, _)| name.clone());
    Ok(first.or(open).map(|name| name.as_str().into()))
}

/// Folder of users and tokens: as configured, or next to the first database.
fn system_folder(options: &ServeOptions) -> Option<PathBuf> {
    options.config.system.clone().or_else(|| {
        let first = options.databases.first().map(|(_, path)| path.as_path());
        let folder = first
            .and_then(Path::parent)
            .or(options.config.databases_folder.as_deref());
        folder.map(|folder| folder.join("isomer-system"))
    })
}

/// Password of the first administrator, if configured.
fn first_password(options: &ServeOptions) -> Result<Option<String>> {
    let Some(file) = &options.config.admin_password_file else {
        return Ok(options.admin_password.clone());
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        ServerError::Invalid(format!(
            "the password cannot be read from {}: {error}",
            file.display()
        ))
    })?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let invalid =
        |path: &Path, why: String| ServerError::Invalid(format!("{}: {why}", path.display()));
    let unreadable = |path: &Path, error: pem::Error, item: &str| match error {
        pem::Error::NoItemsFound => invalid(path, format!("no {item} in it: give a PEM file")),
        error => invalid(path, error.to_string()),
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(|error| unreadable(certificate, error, "certificate"))?
        .collect();
    let chain = chain.map_err(|error| unreadable(certificate, error, "certificate"))?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error, "private key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| match &error {
            rustls::Error::NoCertificatesPresented => {
                unreadable(certificate, pem::Error::NoItemsFound, "certificate")
            }
            rustls::Error::InconsistentKeys(_) => invalid(
                key,
                format!("it is not the private key of {}", certificate.display()),
            ),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
                if why.to_string() == "UnsupportedCertVersion" =>
            {
                invalid(
                    certificate,
                    "the certificate is one of X.509 version 1, which clients refuse: make one of version 3, such as with \
                     `openssl req -x509 … -addext subjectAltName=DNS:HOST`"
                        .into(),
                )
            }
            // The only general error is that of a private key.
            rustls::Error::General(_) => invalid(
                key,
                "this kind of private key is not supported: use RSA with 2048 bits or more, ECDSA (P-256, P-384), or Ed25519"
                    .into(),
            ),
            error => invalid(certificate, error.to_string()),
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Rolls back unused transactions, twice a second.
async fn sweep(core: Arc<Core>) {
    let mut stopping = core.stopping();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = stop_asked(&mut stopping) => return,
        }
        if core.open.count() == 0 {
            continue;
        }
        let sweeping = core.clone();
        // An error is a panic, which the panic hook reported.
        let ended = tokio::task::spawn_blocking(move || sweeping.open.sweep())
            .await
            .unwrap_or(0);
        core.metrics
            .transactions_expired
            .fetch_add(ended as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

impl RunningServer {
    /// HTTP address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bolt address.
    pub fn bolt_address(&self) -> Option<SocketAddr> {
        self.bolt_address
    }

    /// The one-time token for creating the first administrator, if there is none yet.
    pub fn setup_token(&self) -> Option<&str> {
        self.setup_token.as_deref()
    }

    /// Handles SIGTERM and SIGINT from now on: without it they end the process at once.
    fn handle_signals(&self) -> Result<StopSignals> {
        use tokio::signal::unix::{SignalKind, signal};
        let Some(runtime) = &self.runtime else {
            return Err(ServerError::Unavailable("the server has stopped".into()));
        };
        let _entered = runtime.enter();
        let failed = |error: std::io::Error| {
            ServerError::Unavailable(format!("signals cannot be handled: {error}"))
        };
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    /// Waits for one of them.
    fn wait_for(&self, signals: &mut StopSignals) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                tokio::select! {
                    _ = signals.terminate.recv() => {}
                    _ = signals.interrupt.recv() => {}
                }
            });
        }
    }

    /// Waits for running requests, then closes everything. Acknowledged commits are on disk afterwards.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else {
            return Ok(());
        };
        self.core.stop();
        for accepting in self.accepting.drain(..) {
            // It ends by itself; an error is a panic, which was reported.
            let _ = runtime.block_on(accepting);
        }
        self.replicating = None;
        runtime.block_on(listen::drain(&self.core));
        // Aborted requests cancel their queries.
        runtime.shutdown_timeout(Duration::from_millis(1_500));
        self.core.close()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "the server did not stop in order");
        }
    }
}

/// Serves until SIGTERM or SIGINT.
pub fn run(options: ServeOptions) -> Result<()> {
    let config = options.config.clone();
    let server = start(options)?;
    // Before it says that it is ready: who reads that may stop it immediately.
    let mut signals = server.handle_signals()?;
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}", server.address());
    let databases: Vec<String> = server
        .core
        .databases
        .names()
        .iter()
        .map(ToString::to_string)
        .collect();
    let bolt = server.bolt_address().map(|address| {
        let scheme = if config.tls.is_some() {
            "bolt+s"
        } else {
            "bolt"
        };
        format!("{scheme}://{address}")
    });
    tracing::info!(
        url,
        bolt,
        databases = databases.join(", "),
        "the server is ready: the console is at this address, the interface is described under /v1/docs"
    );
    if config.without_authentication {
        tracing::warn!(
            "authentication is disabled, every client may do everything: without_authentication"
        );
    }
    if config.expose_without_protection && open_address(&config).is_some() {
        tracing::warn!(
            "the server is reachable from other machines without protection: expose_without_protection"
        );
    }
    if let Some(token) = server.setup_token() {
        // Written to standard error instead of the log, as logs are stored and forwarded.
        eprintln!(
            "There is no user yet. Create the first administrator in a browser (the link works once):\n\n  {url}/#setup={token}\n\nor with\n\n  \
             curl {url}/v1/setup -H 'Content-Type: application/json' -d '{{\"token\": \"{token}\", \"user\": \"admin\", \"password\": \"…\"}}'\n"
        );
    }
    server.wait_for(&mut signals);
    tracing::info!("the server is shutting down: waiting for running requests");
    server.stop()?;
    tracing::info!("the server has stopped");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl x509 -req` without extensions.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBEzCBuQIUbSYifT/jMvPmcMsQcmlHfeQUTvwwCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBeDAeFw0yNjExMjYxNTU1MzZaFw0yNjExMjUxNTU1MzZaMAwxCjAIBgNV
BAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQPB9BFt0DD1EfL9FkxUplN
YYfTfbg5UgG7zADVNv43a5q3Oi6Qob3NxTlkQJo4ix/7m28PfY1p9s5Eqlm+CRLA
MAoGCCqGSM49BAMCA0kAMEYCIQCuDnOHETGPiuBHyxQxdAvG8umddv17h5sX4p+q
O1H80AIhANADNZYeITbdqh+0vMc6dLxVR/EYqkX184zm9Z6pJxXu
-----END CERTIFICATE-----
";

    /// The error names the file and says what is wrong with it, in words of the field.
    #[test]
    fn a_certificate_or_key_that_is_refused_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2]
            .map(|()| rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap());
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let key = one.signing_key.serialize_pem();
        let good = (path("good.pem", &one.cert.pem()), path("good.key", &key));
        assert!(acceptor(&good.0, &good.1).is_ok());
        let junk = path("junk.pem", "no PEM");
        let foreign = path("other.key", &other.signing_key.serialize_pem());
        let version_1 = path("old.pem", VERSION_1);
        let unknown = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let unknown = path("unknown.key", unknown);
        for (certificate, key, named, why) in [
            (&junk, &good.1, "junk.pem", "no certificate in it"),
            (&good.0, &junk, "junk.pem", "no private key in it"),
            (&good.0, &foreign, "other.key", "not the private key of"),
            (&version_1, &good.1, "old.pem", "X.509 version 1"),
            (&good.0, &unknown, "unknown.key", "RSA with 2048 bits"),
        ] {
            let error = acceptor(certificate, key)
                .err()
                .expect("refused")
                .to_string();
            assert!(error.contains(named) && error.contains(why), "{error}");
        }
    }
}
