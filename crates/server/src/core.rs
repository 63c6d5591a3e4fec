//! What all front ends share.

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
    access::{Credential, Databases, Gates, Guesses, Principal, Session, System, Turn},
    audit::Audit,
    config::Config,
    metrics::Metrics,
    open::OpenTransactions,
    operations::Operations,
    quick::Waits,
    traces::Traces,
};

/// Passwords that are hashed at once: each takes 19 MiB and a core for tens of milliseconds.
const PASSWORDS_AT_ONCE: usize = 2;

fn bug() -> ServerError {
    ServerError::Internal("the request met a bug in the server: its log tells more".into())
}

/// Does something on a thread that may wait.
async fn at<T: Send + 'static>(
    place: OwnedSemaphorePermit,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request ended in a bug");
        Err(bug())
    })
}

/// The server without its front ends.
pub struct Core {
    /// Settings.
    pub config: Config,
    /// Users and tokens; none where the server runs without authentication.
    pub system: Option<System>,
    pub(crate) databases: Arc<Databases>,
    /// Transactions between requests.
    pub open: OpenTransactions,
    /// Failed logins.
    pub guesses: Guesses,
    /// Figures.
    pub metrics: Metrics,
    /// The audit log.
    pub audit: Audit,
    /// Spans of requests and queries.
    pub(crate) traces: Traces,
    /// Who asks where the server runs without authentication.
    anybody: Arc<Principal>,
    gates: Arc<Gates>,
    passwords: Semaphore,
    requests: Arc<Semaphore>,
    waits: Arc<Waits>,
    stopping: watch::Sender<bool>,
    feeds: AtomicUsize,
    /// Places for connections of all kinds.
    pub(crate) connections: Arc<Semaphore>,
    /// Where drivers connect, where they may.
    pub(crate) bolt_address: OnceLock<SocketAddr>,
    /// The database of those who name none.
    home: Option<Arc<str>>,
    /// Backups and restores at work.
    pub(crate) operations: Arc<Operations>,
    /// The key of encrypted databases.
    pub(crate) key: Option<MasterKey>,
}

impl Core {
    /// Puts the parts together.
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
        let gates = Gates::new(
            limits.user_requests,
            limits.user_memory,
            limits.query_memory,
        );
        Ok(Arc::new(Self {
            open: OpenTransactions::new(
                limits.transaction_idle,
                limits.transaction_time,
                limits.user_transactions,
                gates.clone(),
            ),
            guesses: Guesses::new(limits.login_failures),
            gates,
            anybody: Arc::new(Principal::anybody()),
            passwords: Semaphore::new(PASSWORDS_AT_ONCE),
            requests: Arc::new(Semaphore::new(limits.requests)),
            waits: Arc::new(Waits::new(config.threads)),
            stopping: watch::Sender::new(false),
            feeds: AtomicUsize::new(0),
            connections: Arc::new(Semaphore::new(limits.connections)),
            bolt_address: OnceLock::new(),
            home,
            key,
            operations: Arc::default(),
            databases: Arc::new(databases),
            config,
            system,
            metrics,
            audit,
            traces,
        }))
    }

    /// Lets in who shows this token. No token, no session.
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
                    // Whoever guesses is answered less and less; right tokens are never held up.
                    self.metrics.logins_failed.fetch_add(1, Ordering::Relaxed);
                    self.guesses.wrong_token(from, token)?;
                    return Err(error);
                }
            },
        };
        self.admit(Arc::new(principal), from)
    }

    /// Lets in a principal that was just told who it is.
    pub(crate) fn admit(&self, principal: Arc<Principal>, from: IpAddr) -> Result<Session> {
        let mut limits = Limits::default();
        limits.time = Some(self.config.limits.query_time);
        limits.memory_bytes = self.config.limits.query_memory;
        Session::new(principal, from, self.databases.clone(), &self.gates, limits)
    }

    /// Who shows a credential now.
    pub fn principal(&self, credential: &Credential) -> Result<Arc<Principal>> {
        match &self.system {
            None => Ok(self.anybody.clone()),
            Some(system) => Ok(Arc::new(system.principal_of(credential)?)),
        }
    }

    /// Users and tokens, where there are any.
    pub fn system(&self) -> Result<&System> {
        self.system.as_ref().ok_or_else(|| {
            ServerError::Invalid(
                "the server runs without authentication: it has no users and no tokens".into(),
            )
        })
    }

    /// Does something that takes time on a thread that may wait: at most so many at once.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let place = self.place().await?;
        at(place, work).await
    }

    /// As [`Core::blocking`], for what no request waits for: it has a place when there is one.
    pub async fn patient<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // It is refused only where the server is gone.
        let place = self.requests.clone().acquire_owned().await;
        at(place.map_err(|_| bug())?, work).await
    }

    /// Reads one record: here while such reads are quick, on a thread that may wait where they are not.
    pub async fn quick<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut stay = self.waits.may_stay();
        if stay.is_none() && self.waits.may_stay_soon() {
            tokio::task::yield_now().await;
            stay = self.waits.may_stay();
        }
        let Some(_stay) = stay else {
            let waits = self.waits.clone();
            return self.blocking(move || waits.timed(work)).await;
        };
        catch_unwind(AssertUnwindSafe(|| self.waits.timed(work))).unwrap_or_else(|_| {
            tracing::error!("a request ended in a bug");
            Err(bug())
        })
    }

    /// The right to work on a thread that may wait.
    pub async fn place(&self) -> Result<OwnedSemaphorePermit> {
        let waiting = self.requests.clone().acquire_owned();
        match tokio::time::timeout(self.config.limits.head_time, waiting).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(ServerError::TooMany {
                message: "the server is at work on as much as it may: try again".into(),
                retry_after_s: 1,
            }),
        }
    }

    /// As [`Core::place`], but none is taken by what frees others.
    pub(crate) async fn place_unless(&self, frees: bool) -> Result<Option<OwnedSemaphorePermit>> {
        match frees {
            true => Ok(None),
            false => self.place().await.map(Some),
        }
    }

    /// As [`Core::blocking`], for what hashes passwords: two at once, so that logins take neither all cores nor all memory.
    pub async fn hashing<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waiting = tokio::time::timeout(Duration::from_secs(5), self.passwords.acquire());
        let Ok(Ok(_place)) = waiting.await else {
            return Err(ServerError::TooMany {
                message: "too many logins at once: try again".into(),
                retry_after_s: 5,
            });
        };
        let core = self.clone();
        self.blocking(move || work(&core)).await
    }

    /// The right to look at a password that somebody shows, one after the other for each address; refused where too many were wrong.
    pub(crate) async fn login_turn(&self, from: IpAddr) -> Result<Turn<'_>> {
        self.guesses.turn(from).await
    }

    /// The database of a principal that names none: the one that is set, or the first that the server was started with, where it
    /// has a right there; otherwise the first one by name that it has a right on.
    pub(crate) fn home_of(&self, principal: &Principal) -> Option<Arc<str>> {
        let allowed = |name: &Arc<str>| principal.rights.on(name).is_some();
        let home = self.home.clone().filter(allowed);
        home.or_else(|| self.databases.names().into_iter().find(allowed))
    }

    /// Says that the server is about to stop.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether it is about to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Tells when it is about to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Requests at work.
    pub fn at_work(&self) -> usize {
        self.gates.at_work()
    }

    /// A place for a change feed, unless there are too many.
    pub(crate) fn feed_place(self: &Arc<Self>) -> Result<FeedPlace> {
        if self.feeds.fetch_add(1, Ordering::Relaxed) >= self.config.limits.feeds {
            self.feeds.fetch_sub(1, Ordering::Relaxed);
            return Err(ServerError::TooMany {
                message: format!(
                    "{} change feeds are open, which is the limit",
                    self.config.limits.feeds
                ),
                retry_after_s: 10,
            });
        }
        Ok(FeedPlace(self.clone()))
    }

    /// Change feeds that are open.
    pub fn feeds(&self) -> usize {
        self.feeds.load(Ordering::Relaxed)
    }

    /// Closes everything; afterwards all that was acknowledged is on disk.
    pub fn close(&self) -> Result<()> {
        self.open.clear();
        let databases = self.databases.close();
        let system = self.system.as_ref().map_or(Ok(()), System::close);
        self.audit.sync();
        self.traces.end();
        databases.and(system)
    }
}

/// Waits until the server is about to stop.
pub async fn stop_asked(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone altogether.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Makes a folder that others cannot read.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|error| {
        ServerError::Unavailable(format!("{} cannot be made: {error}", path.display()))
    })
}

/// One of the change feeds that may be open.
pub(crate) struct FeedPlace(Arc<Core>);

impl Drop for FeedPlace {
    fn drop(&mut self) {
        self.0.feeds.fetch_sub(1, Ordering::Relaxed);
    }
}
