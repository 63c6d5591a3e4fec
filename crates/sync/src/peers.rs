//! The peers of a database, which are stored in it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use isomer_data::DataStore;
use isomer_db::Builder;

use crate::{
    Cause, ExchangeProgress, ExchangeReport, Local, Remote, RemoteOptions, Result, SyncError,
    exchange::{PeerConnection, exchange},
};

/// The environment variable with the token for peers without a token file.
const TOKEN_VARIABLE: &str = "ISOMER_PEER_TOKEN";

/// Maximum age of the recorded time of the last exchange: recording it is a commit.
const NOTED_EVERY_MS: u64 = 60_000;

/// Address of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A database on a server.
    Url(String),
    /// A database in a folder on this machine.
    Path(PathBuf),
}

impl Address {
    /// Parses an address on the command line.
    pub fn parse(text: &str) -> Self {
        match text.contains("://") {
            true => Self::Url(text.to_owned()),
            false => Self::Path(text.into()),
        }
    }
}

/// Result of the last exchange with a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerState {
    /// When the last one succeeded, in ms since 1970; 0: never.
    pub exchanged_ms: u64,
    /// The error of the last one, or what was held back in it.
    pub error: Option<String>,
    /// The cause of the error; `None` in entries of earlier versions.
    pub cause: Option<Cause>,
    /// Whether exchanges are stopped until an administrator adds the peer again.
    pub is_quarantined: bool,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its name: the address as it was given.
    pub name: String,
    /// File with the token.
    pub token_file: Option<PathBuf>,
    /// File with the trusted certificates.
    pub certificates: Option<PathBuf>,
    /// Result of the last exchange.
    pub state: PeerState,
}

impl PeerInfo {
    fn encode(&self) -> Vec<u8> {
        let path = |path: &Option<PathBuf>| {
            let path = path
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned());
            path.unwrap_or_default()
        };
        // Six fields, which earlier versions can read, if there is no cause.
        let mut fields = vec![
            "1".to_owned(),
            path(&self.token_file),
            path(&self.certificates),
            self.state.exchanged_ms.to_string(),
            u8::from(self.state.is_quarantined).to_string(),
            self.state.error.clone().unwrap_or_default(),
        ];
        fields.extend(self.state.cause.map(|cause| cause.name().to_owned()));
        fields.join("\0").into_bytes()
    }

    fn decode(name: String, bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut fields: Vec<&str> = text.split('\0').collect();
        let cause = (fields.len() == 7).then(|| fields.pop()).flatten();
        let ["1", token, certificates, exchanged, quarantined, error] = fields[..] else {
            return Err(SyncError::Invalid(format!(
                "the entry of the peer {name} is malformed: remove it and add it again"
            )));
        };
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self {
            name,
            token_file: some(token).map(PathBuf::from),
            certificates: some(certificates).map(PathBuf::from),
            state: PeerState {
                exchanged_ms: exchanged.parse().unwrap_or_default(),
                error: some(error),
                cause: cause.and_then(Cause::parse),
                is_quarantined: quarantined == "1",
            },
        })
    }
}

/// All peers of a database, by name.
pub fn peers(store: &DataStore) -> Result<Vec<PeerInfo>> {
    isomer_replication::replica_peers(store)?
        .into_iter()
        .map(|(name, bytes)| PeerInfo::decode(name, &bytes))
        .collect()
}

/// Makes a database a replica if necessary, and adds or replaces a peer.
pub fn add_peer(
    store: &DataStore,
    address: &str,
    token_file: Option<&Path>,
    certificates: Option<&Path>,
) -> Result<PeerInfo> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = match Address::parse(address) {
        Address::Url(url) => {
            Remote::new(&url, options_of(token_file, certificates)?)?;
            url
        }
        Address::Path(path) => absolute(&path).display().to_string(),
    };
    let peer = PeerInfo {
        name,
        token_file: token_file.map(absolute),
        certificates: certificates.map(absolute),
        state: PeerState::default(),
    };
    // Not before the address and the files are known to be valid: a replica writes a log of its changes.
    isomer_replication::begin_replication(store)?;
    isomer_replication::put_replica_peer(store, &peer.name, &peer.encode())?;
    Ok(peer)
}

/// Removes a peer; returns whether it existed.
pub fn remove_peer(store: &DataStore, address: &str) -> Result<bool> {
    let name = match Address::parse(address) {
        Address::Url(url) => url,
        Address::Path(path) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            path.display().to_string()
        }
    };
    Ok(isomer_replication::remove_replica_peer(store, &name)?)
}

fn options_of(token_file: Option<&Path>, certificates: Option<&Path>) -> Result<RemoteOptions> {
    let token = match token_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                SyncError::Invalid(format!(
                    "the token in {} cannot be read: {error}",
                    file.display()
                ))
            })?;
            // Without one the server would answer that a token is missing, which is not what is wrong.
            if text.trim().is_empty() {
                return Err(SyncError::Invalid(format!(
                    "the token file {} holds no token",
                    file.display()
                )));
            }
            Some(text.trim().to_owned())
        }
        None => std::env::var(TOKEN_VARIABLE).ok(),
    };
    Ok(RemoteOptions {
        token: token.filter(|token| !token.is_empty()),
        certificates: certificates.map(Path::to_owned),
        ..RemoteOptions::default()
    })
}

/// Connects to a peer. `builder` configures how a database in a folder is opened.
pub fn connect(peer: &PeerInfo, builder: &Builder) -> Result<Box<dyn PeerConnection + Send>> {
    Ok(match Address::parse(&peer.name) {
        Address::Url(url) => {
            let options = options_of(peer.token_file.as_deref(), peer.certificates.as_deref())?;
            Box::new(Remote::new(&url, options)?)
        }
        Address::Path(path) => Box::new(Local::open(&path, builder.clone())?),
    })
}

/// Exchanges with one peer of a database, and records the result.
///
/// # Errors
///
/// Those of the exchange; [`SyncError::Invalid`] for a quarantined peer: one that sent invalid data, or transactions
/// that cannot be applied here.
pub fn sync_once(
    store: &DataStore,
    peer: &PeerInfo,
    builder: &Builder,
    progress: ExchangeProgress<'_>,
) -> Result<ExchangeReport> {
    if peer.state.is_quarantined {
        let error = peer.state.error.as_deref().unwrap_or("unknown reason");
        return Err(SyncError::Invalid(format!(
            "{} is quarantined: {error}; after fixing this, add it again with `isomer replica add`",
            peer.name
        )));
    }
    let done = connect(peer, builder).and_then(|mut peer| exchange(store, &mut *peer, progress));
    let mut noted = peer.clone();
    match &done {
        Ok(done) => {
            let error = done.held_text();
            noted.state = PeerState {
                exchanged_ms: now_ms(),
                cause: error.is_some().then_some(Cause::Clock),
                error,
                is_quarantined: false,
            }
        }
        Err(error) => {
            noted.state.error = Some(error.to_string().replace('\0', " "));
            noted.state.cause = Some(error.cause());
            noted.state.is_quarantined = error.quarantines();
        }
    }
    // Messages about clocks contain seconds: they are recorded only together with the time of the exchange.
    let is_clock = noted.state.cause == Some(Cause::Clock);
    let same = noted.state.cause == peer.state.cause
        && noted.state.is_quarantined == peer.state.is_quarantined
        && (is_clock || noted.state.error == peer.state.error);
    let recent = noted.state.exchanged_ms < peer.state.exchanged_ms + NOTED_EVERY_MS;
    if !same || !recent {
        isomer_replication::put_replica_peer(store, &noted.name, &noted.encode())?;
    }
    done
}

/// Exchanges with one peer of a database like [`sync_once`], and accepts its transactions with timestamps ahead of
/// this database's clock. Also returns the latest such timestamp, in ms since 1970, if there was one: timestamps up
/// to it are accepted from now on.
///
/// # Errors
///
/// Those of [`sync_once`]; a quarantined peer is tried again.
pub fn accept_clock(
    store: &DataStore,
    peer: &PeerInfo,
    builder: &Builder,
    progress: ExchangeProgress<'_>,
) -> Result<(ExchangeReport, Option<u64>)> {
    let mut peer = peer.clone();
    peer.state.is_quarantined = false;
    let (done, latest_ms) = isomer_replication::accept_clock_during(store, || {
        sync_once(store, &peer, builder, progress)
    })?;
    Ok((done?, latest_ms))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis() as u64
}
