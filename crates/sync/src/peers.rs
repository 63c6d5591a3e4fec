//! Whom a database exchanges with: named in the database itself.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use isomer_data::Store;
use isomer_db::Builder;

use crate::{
    Exchanged, Local, Progress, Remote, RemoteOptions, Result, SyncError,
    exchange::{Peer, exchange},
};

/// The environment variable with the token for peers that name no file.
const TOKEN_VARIABLE: &str = "ISOMER_PEER_TOKEN";

/// How old the noted time of the last exchange may be: a note is a commit.
const NOTED_EVERY_MS: u64 = 60_000;

/// Where a peer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A database on a server.
    Url(String),
    /// A database in a folder on this machine.
    Path(PathBuf),
}

impl Address {
    /// What stands on a command line.
    pub fn parse(text: &str) -> Self {
        match text.contains("://") {
            true => Self::Url(text.to_owned()),
            false => Self::Path(text.into()),
        }
    }
}

/// How the last exchange with a peer went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerState {
    /// When the last one ended well, in ms since 1970; 0 for never.
    pub exchanged_ms: u64,
    /// What went wrong with the last one.
    pub error: Option<String>,
    /// Whether nothing more is exchanged until somebody has looked and added the peer again.
    pub is_quarantined: bool,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// What it is called: its address as it was given.
    pub name: String,
    /// File with its token.
    pub token_file: Option<PathBuf>,
    /// File with the certificates that are trusted.
    pub certificates: Option<PathBuf>,
    /// How the last exchange went.
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
        let fields = [
            "1".to_owned(),
            path(&self.token_file),
            path(&self.certificates),
            self.state.exchanged_ms.to_string(),
            u8::from(self.state.is_quarantined).to_string(),
            self.state.error.clone().unwrap_or_default(),
        ];
        fields.join("\0").into_bytes()
    }

    fn decode(name: String, bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let fields: Vec<&str> = text.split('\0').collect();
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
                is_quarantined: quarantined == "1",
            },
        })
    }
}

/// All peers of a database, by name.
pub fn peers(store: &Store) -> Result<Vec<PeerInfo>> {
    store
        .replica_peers()?
        .into_iter()
        .map(|(name, bytes)| PeerInfo::decode(name, &bytes))
        .collect()
}

/// Makes a database a replica, if it is none, and enters a peer; one that is there is entered anew.
pub fn add_peer(
    store: &Store,
    address: &str,
    token_file: Option<&Path>,
    certificates: Option<&Path>,
) -> Result<PeerInfo> {
    store.begin_replication()?;
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
    store.put_replica_peer(&peer.name, &peer.encode())?;
    Ok(peer)
}

/// Forgets a peer; answers whether it was there.
pub fn remove_peer(store: &Store, address: &str) -> Result<bool> {
    let name = match Address::parse(address) {
        Address::Url(url) => url,
        Address::Path(path) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            path.display().to_string()
        }
    };
    Ok(store.remove_replica_peer(&name)?)
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

/// Reaches a peer. `builder` says how a database in a folder is opened.
pub fn connect(peer: &PeerInfo, builder: &Builder) -> Result<Box<dyn Peer + Send>> {
    Ok(match Address::parse(&peer.name) {
        Address::Url(url) => {
            let options = options_of(peer.token_file.as_deref(), peer.certificates.as_deref())?;
            Box::new(Remote::new(&url, options)?)
        }
        Address::Path(path) => Box::new(Local::open(&path, builder.clone())?),
    })
}

/// Exchanges with one peer of a database, and notes how that went.
///
/// # Errors
/// What went wrong; [`SyncError::Invalid`] for a peer that is quarantined: one that said something that cannot be, or whose
/// transactions cannot be applied here.
pub fn sync_once(
    store: &Store,
    peer: &PeerInfo,
    builder: &Builder,
    progress: Progress<'_>,
) -> Result<Exchanged> {
    if peer.state.is_quarantined {
        let error = peer.state.error.as_deref().unwrap_or("nobody knows why");
        return Err(SyncError::Invalid(format!(
            "{} is quarantined: {error}; once this is mended, `isomer replica add` it again",
            peer.name
        )));
    }
    let done = connect(peer, builder).and_then(|mut peer| exchange(store, &mut *peer, progress));
    let mut noted = peer.clone();
    match &done {
        Ok(_) => {
            noted.state = PeerState {
                exchanged_ms: now_ms(),
                ..PeerState::default()
            }
        }
        Err(error) => {
            noted.state.error = Some(error.to_string().replace('\0', " "));
            noted.state.is_quarantined = error.quarantines();
        }
    }
    let same = noted.state.error == peer.state.error
        && noted.state.is_quarantined == peer.state.is_quarantined;
    let recent = noted.state.exchanged_ms < peer.state.exchanged_ms + NOTED_EVERY_MS;
    if !same || !recent {
        store.put_replica_peer(&noted.name, &noted.encode())?;
    }
    done
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_millis() as u64
}
