//! State shared by all front ends.

use std::{
    net::{IpAddr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_db::{Limits, MasterKey};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    Result, ServerError,
    access::{
        AdmissionControl, Credential, Databases, Guesses, LoginTurn, Principal, ServerFacts,
        Session, System,
    },
    audit::Audit,
    config::Config,
    connections::Connections,
    metrics::Metrics,
    open::OpenTransactions,
    operations::Operations,
    quick::InlineReads,
    traces::Traces,
};

/// Concurrent password hashes: each takes 19 MiB and a core for tens of milliseconds.
const MAX_PASSWORD_HASHES: usize = 2;

pub(crate) fn bug() -> ServerError {
    ServerError::Internal("the request hit a bug in the server: see its log".into())
}

/// Runs `work` on a blocking thread.
async fn at<T: Send + 'static>(
    slot: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        work()
    });
    done.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request hit a bug");
        Err(bug())
    })
}

/// The server without its front ends.
pub struct Core {
    /// Settings.
    pub config: Config,
    /// Users and tokens; `None` if the server runs without authentication.
    pub system: Option<Arc<System>>,
    pub(crate) databases: Arc<Databases>,
    /// Transactions that stay open between requests.
    pub open: OpenTransactions,
    /// Failed logins.
    pub guesses: Arc<Guesses>,
    /// Metrics.
    pub metrics: Metrics,
    /// The audit log.
    pub audit: Arc<Audit>,
    /// Spans of requests and queries.
    pub(crate) traces: Traces,
    /// The principal of all clients if the server runs without authentication.
    anybody: Arc<Principal>,
    admission_control: Arc<AdmissionControl>,
    passwords: Semaphore,
    requests: Arc<Semaphore>,
    inline_reads: Arc<InlineReads>,
    stopping: watch::Sender<bool>,
    feeds: AtomicUsize,
    /// Connections of all protocols.
    pub(crate) connections: Arc<Connections>,
    /// Bolt address, if enabled.
    pub(crate) bolt_address: Arc<OnceLock<SocketAddr>>,
    /// What statements may ask about the server.
    facts: Arc<ServerFacts>,
    /// Backups and restores in progress.
    pub(crate) operations: Arc<Operations>,
    /// The key of encrypted databases.
    pub(crate) key: Option<MasterKey>,
}

impl Core {
    /// Builds the core.
    pub(crate) fn new(
        config: Config,
        system: Option<System>,
        databases: Databases,
        audit: Audit,
        metrics: Metrics,
        home: Option<Arc<str>>,
        key: Option<MasterKey>,
    ) -> Result<Arc<Self>> {
        let limits = &config.limits;
        let traces = Traces::new(config.traces.as_ref())?;
        let admission_control = AdmissionControl::new(
            limits.user_requests,
            limits.user_memory,
            limits.query_memory,
        );
        let databases = Arc::new(databases);
        let system = system.map(Arc::new);
        let bolt_address = Arc::new(OnceLock::new());
        let audit = Arc::new(audit);
        let guesses = Arc::new(Guesses::new(limits.login_failures));
        let facts = Arc::new(ServerFacts {
            databases: databases.clone(),
            system: system.clone(),
            settings: config.settings.clone(),
            home,
            bolt_address: bolt_address.clone(),
            guesses: guesses.clone(),
            audit: audit.clone(),
        });
        Ok(Arc::new(Self {
            open: OpenTransactions::new(
                limits.transaction_idle,
                limits.transaction_time,
                limits.user_transactions,
                admission_control.clone(),
            ),
            guesses,
            admission_control,
            anybody: Arc::new(Principal::anybody()),
            passwords: Semaphore::new(MAX_PASSWORD_HASHES),
            requests: Arc::new(Semaphore::new(limits.requests)),
            inline_reads: Arc::new(InlineReads::new(config.threads)),
            stopping: watch::Sender::new(false),
            feeds: AtomicUsize::new(0),
            connections: Connections::new(limits.connections, limits.connections_per_address),
            bolt_address,
            facts,
            key,
            operations: Arc::default(),
            databases,
            config,
            system,
            metrics,
            audit,
            traces,
        }))
    }

    /// Opens a session for a token; fails without one.
    pub fn session(&self, token: Option<&str>, from: IpAddr) -> Result<Session> {
        let principal = match (&self.system, token) {
            (None, _) => return self.admit(self.anybody.clone(), from),
            (Some(_), None) => {
                return Err(ServerError::Unauthenticated(
                    "a token is needed: send `Authorization: Bearer TOKEN` (POST /v1/login gives one)".into(),
                ));
            }
            (Some(system), Some(token)) => match system.principal(token) {
                Ok(principal) => principal,
                Err(error) => {
                    // Guesses are slowed down; valid tokens never are.
                    self.metrics.logins_failed.fetch_add(1, Ordering::Relaxed);
                    self.guesses.wrong_token(from, token)?;
                    return Err(error);
                }
            },
        };
        self.admit(Arc::new(principal), from)
    }

    /// Opens a session for an authenticated principal.
    pub(crate) fn admit(&self, principal: Arc<Principal>, from: IpAddr) -> Result<Session> {
        let mut limits = Limits::default();
        limits.time = Some(self.config.limits.query_time);
        limits.memory_bytes = self.config.limits.query_memory;
        Session::new(
            principal,
            from,
            self.facts.clone(),
            &self.admission_control,
            limits,
        )
    }

    /// The principal of a credential, with its current rights.
    pub fn principal(&self, credential: &Credential) -> Result<Arc<Principal>> {
        match &self.system {
            None => Ok(self.anybody.clone()),
            Some(system) => Ok(Arc::new(system.principal_of(credential)?)),
        }
    }

    /// Users and tokens, unless the server runs without authentication.
    pub fn system(&self) -> Result<&System> {
        self.system.as_deref().ok_or_else(|| {
            ServerError::Invalid(
                "the server runs without authentication: it has no users and no tokens".into(),
            )
        })
    }

    /// Runs `work` on a blocking thread, within the limit on concurrent requests.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = self.slot().await?;
        at(slot, work).await
    }

    /// Like [`Core::blocking`], for background work: waits for a slot instead of failing.
    pub async fn background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Acquiring fails only if the server is gone.
        let slot = self.requests.clone().acquire_owned().await;
        at(slot.map_err(|_| bug())?, work).await
    }

    /// Reads one record: on this thread while such reads are fast, otherwise on a blocking thread.
    pub async fn quick<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut stay = self.inline_reads.may_inline();
        if stay.is_none() && self.inline_reads.may_inline_soon() {
            tokio::task::yield_now().await;
            stay = self.inline_reads.may_inline();
        }
        let Some(_stay) = stay else {
            let inline_reads = self.inline_reads.clone();
            return self.blocking(move || inline_reads.timed(work)).await;
        };
        catch_unwind(AssertUnwindSafe(|| self.inline_reads.timed(work))).unwrap_or_else(|_| {
            tracing::error!("a request hit a bug");
            Err(bug())
        })
    }

    /// A slot for blocking work.
    pub async fn slot(&self) -> Result<OwnedSemaphorePermit> {
        let waiting = self.requests.clone().acquire_owned();
        match tokio::time::timeout(self.config.limits.head_time, waiting).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(ServerError::TooMany {
                message: "the server is at its limit of concurrent requests: retry later".into(),
                retry_after_s: 1,
            }),
        }
    }

    /// Like [`Core::slot`], but none is needed for work that releases resources.
    pub(crate) async fn slot_unless(&self, frees: bool) -> Result<Option<OwnedSemaphorePermit>> {
        match frees {
            true => Ok(None),
            false => self.slot().await.map(Some),
        }
    }

    /// Like [`Core::blocking`], for hashing passwords: two at a time, so that logins occupy neither all cores nor all
    /// memory.
    pub async fn hashing<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waiting = tokio::time::timeout(Duration::from_secs(5), self.passwords.acquire());
        let Ok(Ok(_slot)) = waiting.await else {
            return Err(ServerError::TooMany {
                message: "too many concurrent logins: retry later".into(),
                retry_after_s: 5,
            });
        };
        let core = self.clone();
        self.blocking(move || work(&core)).await
    }

    /// The turn to verify a password, one at a time per address; refused after too many failures.
    pub(crate) async fn login_turn(&self, from: IpAddr) -> Result<LoginTurn<'_>> {
        self.guesses.turn(from).await
    }

    /// The database of a principal that names none: the configured one, or the first on the command line, if the
    /// principal has a right there; otherwise the first by name that it has a right on.
    pub(crate) fn home_of(&self, principal: &Principal) -> Option<Arc<str>> {
        self.facts.home_of(principal)
    }

    /// The database that a client means by a name: `neo4j` is an alias of its default database.
    pub(crate) fn resolve(&self, name: &str, principal: &Principal) -> Arc<str> {
        self.facts.resolve(name, principal)
    }

    /// Whether this is the database of administration.
    pub(crate) fn is_system(&self, name: &str) -> bool {
        self.facts.is_system(name)
    }

    /// Begins shutdown.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether it is shutting down.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Notifies of shutdown.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Requests in progress.
    pub fn in_progress(&self) -> usize {
        self.admission_control.in_progress()
    }

    /// A slot for a change feed, unless there are too many.
    pub(crate) fn feed_slot(self: &Arc<Self>) -> Result<FeedSlot> {
        if self.feeds.fetch_add(1, Ordering::Relaxed) >= self.config.limits.feeds {
            self.feeds.fetch_sub(1, Ordering::Relaxed);
            return Err(ServerError::TooMany {
                message: format!(
                    "the limit of {} open change feeds is reached",
                    self.config.limits.feeds
                ),
                retry_after_s: 10,
            });
        }
        Ok(FeedSlot(self.clone()))
    }

    /// Change feeds that are open.
    pub fn feeds(&self) -> usize {
        self.feeds.load(Ordering::Relaxed)
    }

    /// Closes everything; afterwards all acknowledged commits are on disk.
    pub fn close(&self) -> Result<()> {
        self.open.clear();
        let databases = self.databases.close();
        let system = self.system.as_deref().map_or(Ok(()), System::close);
        self.audit.sync();
        self.traces.end();
        databases.and(system)
    }
}

/// InlineReads for shutdown.
pub async fn stop_asked(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Creates a folder that only its owner can access.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = isomer_vfs::private_folder().recursive(true).create(path);
    made.map_err(|error| {
        ServerError::Unavailable(format!("{} cannot be created: {error}", path.display()))
    })
}

/// A change feed's slot.
pub(crate) struct FeedSlot(Arc<Core>);

impl Drop for FeedSlot {
    fn drop(&mut self) {
        self.0.feeds.fetch_sub(1, Ordering::Relaxed);
    }
}
