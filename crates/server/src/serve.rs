//! A server from start to stop.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use isomer_db::{Builder, Database, MasterKey, Memory};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::{
    Result, ServerError,
    access::{Databases, Rights, System, check_name, name_of},
    audit::Audit,
    bolt::MESSAGES,
    config::Config,
    core::{Core, make_folder, stop_asked},
    files,
    http::{self, route::ROUTES},
    listen::{self, Spoken},
    metrics::Metrics,
    replication::{self, Replicating},
};

/// What is served. Not to be printed: a password may be in it.
#[derive(Clone)]
pub struct ServeOptions {
    /// Settings.
    pub config: Config,
    /// How databases are opened; those given and those that are made over the network share its budget of memory.
    pub builder: Builder,
    /// Databases: names, where they are said, and folders.
    pub databases: Vec<(Option<String>, PathBuf)>,
    /// Databases that are open already, by name.
    pub open: Vec<(String, Database)>,
    /// Whether folders without a database become empty ones.
    pub create: bool,
    /// The first administrator's password, from the environment.
    pub admin_password: Option<String>,
    /// The key that `builder` has, too: the system database is encrypted with it, and databases are restored with it.
    pub key: Option<MasterKey>,
}

impl ServeOptions {
    /// Serves nothing yet.
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

/// A server at work.
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

/// Lets in no more connections than leave files to the databases.
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
        .thread_name("isomer-http")
        .enable_all()
        .build()
        .map_err(|error| ServerError::Unavailable(format!("threads cannot be made: {error}")))?;
    // The address first: whoever starts a second server learns it before anything is opened.
    let (listener, address) = bind(&runtime, config.listen)?;
    let bolt = config
        .bolt
        .map(|address| bind(&runtime, address))
        .transpose()?;

    let databases = Databases::new(options.builder.clone(), config.databases_folder.clone());
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
        let system = System::open(&folder.join("db"), options.key.as_ref())?;
        if !system.has_users() {
            match first_password(&options)? {
                Some(password) => {
                    system.add_user("admin", &password, &Rights::all())?;
                }
                None if open_address(&config).is_some() && !config.expose_without_protection => {
                    return Err(ServerError::Invalid(format!(
                        "{} is reachable from other machines and there is no user yet: start on 127.0.0.1 first, set \
                         `admin_password_file`, or say `expose_without_protection`",
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
            "`default_database` is `{name}`, and no database of that name is served: the first on the command line is the one unless set"
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
    let http = Spoken::Http(http::router(&core));
    let accept = |listener, spoken| {
        runtime.spawn(listen::accept(core.clone(), listener, spoken, tls.clone()))
    };
    let mut accepting = vec![accept(listener, http)];
    let mut bolt_address = None;
    if let Some((listener, address)) = bolt {
        // It is set here and nowhere else.
        let _ = core.bolt_address.set(address);
        bolt_address = Some(address);
        accepting.push(accept(listener, Spoken::Bolt));
    }
    runtime.spawn(sweep(core.clone()));
    let replicating = replication::start(&core, options.builder.clone())
        .map_err(|error| ServerError::Unavailable(format!("threads cannot be made: {error}")))?;
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

/// Listens on an address, and says which it is where the system chose the port.
fn bind(runtime: &Runtime, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bound = runtime.block_on(TcpListener::bind(address));
    let listener = bound.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "it is in use already: stop the other server or choose another port".to_owned()
            }
            _ => error.to_string(),
        };
        ServerError::Unavailable(format!("cannot listen on {address}: {why}"))
    })?;
    let own = listener.local_addr().unwrap_or(address);
    Ok((listener, own))
}

/// An address that other machines reach.
fn open_address(config: &Config) -> Option<SocketAddr> {
    let mut addresses = [Some(config.listen), config.bolt].into_iter().flatten();
    addresses.find(|address| !address.ip().is_loopback())
}

/// The database of those who name none: the one that is set, or the first that was given.
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

/// Where users and tokens are kept: as set, or beside the first database.
fn system_folder(options: &ServeOptions) -> Option<PathBuf> {
    options.config.system.clone().or_else(|| {
        let beside = options.databases.first().map(|(_, path)| path.as_path());
        let folder = beside
            .and_then(Path::parent)
            .or(options.config.databases_folder.as_deref());
        folder.map(|folder| folder.join("isomer-system"))
    })
}

/// The password of the first administrator, where one was set.
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
    let wrong =
        |path: &Path, why: String| ServerError::Invalid(format!("{}: {why}", path.display()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(|error| wrong(certificate, error.to_string()))?
        .collect();
    let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Rolls back what nobody uses, every second.
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
        // An error is a panic, which was told where it happened.
        let ended = tokio::task::spawn_blocking(move || sweeping.open.sweep())
            .await
            .unwrap_or(0);
        core.metrics
            .transactions_expired
            .fetch_add(ended as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

impl RunningServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for drivers that speak Bolt.
    pub fn bolt_address(&self) -> Option<SocketAddr> {
        self.bolt_address
    }

    /// The one-time token for the first administrator, where there is none yet.
    pub fn setup_token(&self) -> Option<&str> {
        self.setup_token.as_deref()
    }

    /// Waits until the process is asked to stop (SIGTERM, SIGINT).
    pub fn wait_for_signal(&self) -> Result<()> {
        let Some(runtime) = &self.runtime else {
            return Ok(());
        };
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let failed = |error: std::io::Error| {
                ServerError::Unavailable(format!("signals cannot be heard: {error}"))
            };
            let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
            let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            Ok(())
        })
    }

    /// Lets requests at work end, then closes everything. What was acknowledged is on disk.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else {
            return Ok(());
        };
        self.core.stop();
        for accepting in self.accepting.drain(..) {
            // It ends by itself; an error is a panic, which was told.
            let _ = runtime.block_on(accepting);
        }
        self.replicating = None;
        runtime.block_on(listen::drain(&self.core));
        // Those who were cut off stop their queries as they go.
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

/// Serves until the process is asked to stop.
pub fn run(options: ServeOptions) -> Result<()> {
    let config = options.config.clone();
    let server = start(options)?;
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
        "the server answers: the console is the page at this address, the interface is described under /v1/docs"
    );
    if config.without_authentication {
        tracing::warn!(
            "everybody who reaches the server may do everything: without_authentication"
        );
    }
    if config.expose_without_protection && open_address(&config).is_some() {
        tracing::warn!(
            "the server is open to other machines without protection: expose_without_protection"
        );
    }
    if let Some(token) = server.setup_token() {
        // Standard error, and not the log: logs are kept and sent elsewhere.
        eprintln!(
            "There is no user yet. Make the first administrator in a browser (the link works once):\n\n  {url}/#setup={token}\n\nor with\n\n  \
             curl {url}/v1/setup -H 'Content-Type: application/json' -d '{{\"token\": \"{token}\", \"user\": \"admin\", \"password\": \"…\"}}'\n"
        );
    }
    server.wait_for_signal()?;
    tracing::info!("the server stops: requests at work may end");
    server.stop()?;
    tracing::info!("the server has stopped");
    Ok(())
}
