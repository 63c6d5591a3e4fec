//! Replication: peers, and exchanging transactions with them (feature `replication`).
//!
//! A peer is another database: in a folder of this machine, or on a server. Peers are stored in the database.
//!
//! ```
//! use isomerdb::{Database, replication};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let (laptop, disk) = (folder.path().join("laptop"), folder.path().join("disk"));
//! let db = Database::open(&laptop)?;
//! db.query("CREATE (:Note {_key: 1, text: 'made on the laptop'})")?;
//! let peer = replication::add_peer(&db, &disk.display().to_string(), &replication::PeerOptions::new())?;
//! replication::sync_once(&db, &peer, &Database::builder())?;
//!
//! let copy = Database::open(&disk)?;
//! assert_eq!(copy.query("MATCH (n:Note {_key: 1}) RETURN n")?.len(), 1);
//! # Ok::<(), isomerdb::Error>(())
//! ```
//!
//! Invariants: a transaction arrives whole, after everything that it had seen. What was exchanged before an error
//! stays, and the next exchange continues there.

use std::path::PathBuf;

use isomer_db::{
    ErrorKind,
    internals::{DatabaseInternals as _, error},
};
use isomer_sync::{Local, PeerInfo, SyncError};

use crate::{Builder, Database, Error, Result};

/// What an exchange did. A state transfer, to or from a database that is new or too far behind, counts no transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanged {
    /// Transactions that this database applied.
    pub received: u64,
    /// Transactions that the other database applied.
    pub sent: u64,
}

/// How a peer on a server is reached: see [`add_peer`].
#[derive(Clone, Debug, Default)]
pub struct PeerOptions {
    token_file: Option<PathBuf>,
    certificates: Option<PathBuf>,
}

impl PeerOptions {
    /// No token file, and the certificates of common authorities.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file with the token of a user with the role `replica`. Its path is stored, and it is read for each exchange.
    /// Without one, the environment variable `ISOMER_PEER_TOKEN` is used.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// The PEM file with the certificates that are trusted: of authorities, or the server's own. Its path is stored.
    pub fn certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates = Some(path.into());
        self
    }
}

/// A peer of a database, as of the call that returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its name: its URL, or its absolute path.
    pub name: String,
    /// When the last exchange succeeded, in ms since 1970, to the minute; none before the first one.
    pub exchanged_ms: Option<u64>,
    /// Why exchanges with it do not advance; none if they do.
    pub problem: Option<PeerProblem>,
}

/// Why exchanges with a peer do not advance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerProblem {
    /// What happened.
    pub message: String,
    /// What to do. It names commands of the program `isomer`.
    pub advice: &'static str,
    /// Whether the peer is *quarantined*: it sent something invalid, or something that cannot be applied here.
    /// Exchanges are refused until it is added again.
    pub is_quarantined: bool,
}

impl Peer {
    fn of(info: &PeerInfo) -> Self {
        let problem = info.stall().map(|stall| PeerProblem {
            message: stall.why,
            advice: stall.advice,
            is_quarantined: info.state.is_quarantined,
        });
        Self {
            name: info.name.clone(),
            exchanged_ms: (info.state.exchanged_ms > 0).then_some(info.state.exchanged_ms),
            problem,
        }
    }
}

/// The state of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The replica's name: 32 hexadecimal digits and its epoch.
    pub replica: String,
    /// Transactions in its log: its own and those of others.
    pub log_transactions: u64,
    /// Recorded conflicts (`SHOW CONFLICTS`), some of which may have been resolved.
    pub conflicts: u64,
    /// Whether a state transfer to it is incomplete: until the next exchange completes it, the database cannot be read.
    pub is_joining: bool,
    /// Its peers, by name.
    pub peers: Vec<Peer>,
    /// The same and more as text, as `isomer replica status` prints it.
    pub lines: Vec<String>,
}

/// Adds a peer, or replaces it and ends its quarantine. The database becomes a replica, if it is none yet: from then on
/// it logs its changes. Nothing is exchanged: see [`sync_once`].
///
/// `address` is a URL (`https://db.example.org:4766/people`) or the path of a folder, which is created by the first
/// exchange if it does not exist.
///
/// # Errors
/// `Invalid` for an invalid address, and for files that cannot be read.
pub fn add_peer(database: &Database, address: &str, options: &PeerOptions) -> Result<Peer> {
    let added = isomer_sync::add_peer(
        &database.store()?,
        address,
        options.token_file.as_deref(),
        options.certificates.as_deref(),
    );
    added.map(|info| Peer::of(&info)).map_err(lift)
}

/// Removes a peer; returns whether it existed. `address` is as in [`add_peer`]. The database stays a replica.
pub fn remove_peer(database: &Database, address: &str) -> Result<bool> {
    isomer_sync::remove_peer(&database.store()?, address).map_err(lift)
}

/// The peers of a database, by name; none for a database that is not a replica.
pub fn peers(database: &Database) -> Result<Vec<Peer>> {
    let peers = isomer_sync::peers(&database.store()?).map_err(lift)?;
    Ok(peers.iter().map(Peer::of).collect())
}

/// Exchanges transactions with one peer until neither lacks anything that the other one has, and records the result in
/// the database. `options` are those with which a peer in a folder is opened, such as its key; it must not be open
/// elsewhere.
///
/// # Errors
/// `NotFound` if it is not a peer any more, `Invalid` if it is quarantined, `Unavailable` if it cannot be reached;
/// those of the exchange.
pub fn sync_once(database: &Database, peer: &Peer, options: &Builder) -> Result<Exchanged> {
    let store = database.store()?;
    // `peer` may be older than the last exchange.
    let mut known = isomer_sync::peers(&store).map_err(lift)?.into_iter();
    let Some(info) = known.find(|info| info.name == peer.name) else {
        let message = format!("{} is not a peer of this database: add it", peer.name);
        return Err(error(ErrorKind::NotFound, message));
    };
    let done = isomer_sync::sync_once(&store, &info, options, &mut |_| {});
    done.map(exchanged).map_err(lift)
}

/// The state of a database as a replica; none if it is not one.
pub fn status(database: &Database) -> Result<Option<Status>> {
    let store = database.store()?;
    let Some(report) = isomer_sync::report(&store).map_err(lift)? else {
        return Ok(None);
    };
    let status = report.status();
    Ok(Some(Status {
        replica: status.name.clone(),
        log_transactions: status.log_entries,
        conflicts: status.conflicts,
        is_joining: status.joining.is_some(),
        peers: report.peers().iter().map(Peer::of).collect(),
        lines: report.lines(),
    }))
}

/// Exchanges transactions with another open database until neither lacks anything that the other one has. Both become
/// replicas, if they are none yet. Concurrent changes of convergent fields ([`crate::Update`]) merge; of concurrent
/// plain values, the latest is visible.
///
/// ```
/// use isomerdb::{Database, replication};
///
/// let (here, there) = (Database::open_in_memory()?, Database::open_in_memory()?);
/// here.query("CREATE (:Note {_key: 1, text: 'made here'})")?;
/// replication::exchange(&here, &there)?;
/// assert_eq!(there.query("MATCH (n:Note {_key: 1}) RETURN n")?.len(), 1);
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub fn exchange(here: &Database, there: &Database) -> Result<Exchanged> {
    let run = || -> Result<isomer_sync::ExchangeReport, SyncError> {
        let (store, other) = (here.store()?, there.store()?);
        for one in [&store, &other] {
            if !one.is_replicated() {
                isomer_replication::begin_replication(one)?;
            }
        }
        let mut peer = Local::new("the other database", there)?;
        isomer_sync::exchange(&store, &mut peer, &mut |_| {})
    };
    run().map(exchanged).map_err(lift)
}

fn exchanged(done: isomer_sync::ExchangeReport) -> Exchanged {
    Exchanged {
        received: done.received,
        sent: done.sent,
    }
}

fn lift(failed: SyncError) -> Error {
    match failed {
        SyncError::Database(failed) => failed,
        failed => error(failed.kind(), failed.to_string()),
    }
}
