//! `isomer replica` and `isomer sync`.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_db::data::REPLICATION_RANGES;
use isomer_db::{Database, jiff::Timestamp};
use isomer_sync::{PeerInfo, add_peer, connect, peers, remove_peer, scrub, sync_once};

use crate::{
    open,
    style::{bytes, count, counted, duration, line},
};

/// Options of `isomer replica`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer replica add laptop.db /backup/disk/people.db
  isomer replica add laptop.db https://db.example.org/people --token-file token --certificates /etc/ssl/certs/ca-certificates.crt
  isomer replica status laptop.db

A peer is another database: in a folder of this machine, or on a server (http://HOST:PORT/DATABASE). Adding one makes the database
a replica: from then on its transactions are kept until all other replicas have them. See docs/convergence.md.")]
pub struct ReplicaOptions {
    #[command(subcommand)]
    command: ReplicaCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ReplicaCommand {
    /// Adds a peer to exchange transactions with
    Add {
        /// The database; made where it is not there
        db: PathBuf,
        /// Folder or URL of the other one
        peer: String,
        /// File with the token that the server is shown; else ISOMER_PEER_TOKEN
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// Certificates that are trusted, PEM
        #[arg(long, value_name = "FILE")]
        certificates: Option<PathBuf>,
    },
    /// Lists the peers
    List {
        /// The database
        db: PathBuf,
    },
    /// Forgets a peer; what was exchanged stays
    Remove {
        /// The database
        db: PathBuf,
        /// Folder or URL
        peer: String,
    },
    /// Stops waiting for a replica that never comes back: it is not let in any more
    Evict {
        /// The database
        db: PathBuf,
        /// Its id, as `status` shows it
        id: String,
    },
    /// Says who this replica is and how its peers are
    Status {
        /// The database
        db: PathBuf,
    },
}

/// Options of `isomer sync`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer sync once laptop.db
  isomer sync once laptop.db /backup/disk/people.db")]
pub struct SyncOptions {
    #[command(subcommand)]
    command: SyncCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum SyncCommand {
    /// Exchanges transactions with all peers, or with one, until neither side lacks any
    Once {
        /// The database
        db: PathBuf,
        /// Folder or URL of one of its peers
        peer: Option<String>,
        /// Shows no progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Compares all that a database and its peers hold, and brings back what one of them has lost
    Scrub {
        /// The database
        db: PathBuf,
    },
}

/// Runs `isomer replica`.
pub fn replica(options: &ReplicaOptions) -> Result<()> {
    match &options.command {
        ReplicaCommand::Add {
            db,
            peer,
            token_file,
            certificates,
        } => {
            if is_same(db, peer) {
                bail!("a database cannot be its own peer");
            }
            let db = open::open(db)?;
            let peer = add_peer(
                &db.store()?,
                peer,
                token_file.as_deref(),
                certificates.as_deref(),
            )?;
            db.close()?;
            line(&format!("{} is a peer now", peer.name))?;
        }
        ReplicaCommand::List { db } => {
            let db = open::open_existing(db)?;
            for peer in peers(&db.store()?)? {
                line(&peer.name)?;
            }
            db.close()?;
        }
        ReplicaCommand::Remove { db, peer } => {
            let db = open::open_existing(db)?;
            let was = remove_peer(&db.store()?, peer)?;
            db.close()?;
            if !was {
                bail!("{peer} is no peer: see `isomer replica list`");
            }
            line(&format!("{peer} is no peer any more"))?;
        }
        ReplicaCommand::Evict { db, id } => {
            let db = open::open_existing(db)?;
            let store = db.store()?;
            let members = store.replica_members()?;
            let found = members.iter().find(|member| hex(&member.id) == *id);
            let Some(member) = found else {
                bail!("no replica has the id {id}: see `isomer replica status`");
            };
            store.evict_member(&member.id)?;
            db.close()?;
            line(&format!("nobody waits for {id} any more"))?;
        }
        ReplicaCommand::Status { db } => {
            let db = open::open_existing(db)?;
            status(&db)?;
            db.close()?;
        }
    }
    Ok(())
}

fn is_same(db: &Path, peer: &str) -> bool {
    let (one, other) = (db.canonicalize(), Path::new(peer).canonicalize());
    one.is_ok() && one.ok() == other.ok()
}

fn status(db: &Database) -> Result<()> {
    let store = db.store()?;
    if !store.is_replicated() {
        line("this database is no replica: `isomer replica add` makes it one")?;
        return Ok(());
    }
    let status = store.replication_status()?;
    line(&format!("replica {}", status.name))?;
    line(&format!(
        "{} in the log, {} waiting to be resolved",
        counted(status.log_entries, "transaction"),
        counted(status.conflicts, "conflict")
    ))?;
    for peer in peers(&store)? {
        line(&format!("{}: {}", peer.name, told(&peer)))?;
    }
    for member in store.replica_members()? {
        let state = match (member.is_evicted, member.lacks) {
            (true, _) => "evicted".to_owned(),
            (false, 0) => "had everything".to_owned(),
            (false, lacks) => format!("lacked {}", counted(lacks, "transaction")),
        };
        line(&format!(
            "member {}: {state} when it was heard of {}",
            hex(&member.id),
            at(member.heard_ms)
        ))?;
    }
    Ok(())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn at(ms: u64) -> String {
    match Timestamp::from_millisecond(ms as i64) {
        Ok(time) if ms > 0 => format!("at {time:.0}"),
        _ => "from others".to_owned(),
    }
}

fn told(peer: &PeerInfo) -> String {
    let when = match peer.state.exchanged_ms {
        0 => "never exchanged".to_owned(),
        ms => format!("last exchanged {}", at(ms)),
    };
    match (&peer.state.error, peer.state.is_quarantined) {
        (None, _) => when,
        (Some(error), false) => format!("{when}; then: {error}"),
        (Some(error), true) => format!("{when}; QUARANTINED: {error}"),
    }
}

/// Runs `isomer sync`.
pub fn sync(options: &SyncOptions) -> Result<()> {
    let (db, peer, quiet) = match &options.command {
        SyncCommand::Once { db, peer, quiet } => (db, peer, quiet),
        SyncCommand::Scrub { db } => return scrub_all(db),
    };
    let db = open::open_existing(db)?;
    let store = db.store()?;
    let mut all = peers(&store)?;
    if let Some(only) = peer {
        let absolute = std::path::absolute(only).unwrap_or_else(|_| only.into());
        all.retain(|peer| peer.name == *only || Path::new(&peer.name) == absolute);
        if all.is_empty() {
            bail!("{only} is no peer: see `isomer replica list`");
        }
    }
    if all.is_empty() {
        bail!("there is no peer: add one with `isomer replica add`");
    }
    let builder = open::keyed_builder()?;
    let mut failed = 0;
    for peer in &all {
        let bar = bar(*quiet);
        let done = sync_once(&store, peer, &builder, &mut |done| {
            bar.set_message(format!(
                "{}: {} received, {} sent",
                peer.name,
                count(done.received),
                count(done.sent)
            ));
            bar.tick();
        });
        bar.finish_and_clear();
        match done {
            Ok(done) => line(&format!(
                "{}: {} received, {} sent, {}, {}",
                peer.name,
                counted(done.received, "transaction"),
                count(done.sent),
                bytes(done.bytes),
                duration(done.time)
            ))?,
            Err(error) => {
                failed += 1;
                eprintln!("error: {error}");
            }
        }
    }
    db.close()?;
    if failed > 0 {
        bail!(
            "{} of {} could not be exchanged with",
            failed,
            counted(all.len() as u64, "peer")
        );
    }
    Ok(())
}

fn scrub_all(db: &Path) -> Result<()> {
    let db = open::open_existing(db)?;
    let store = db.store()?;
    let builder = open::keyed_builder()?;
    for peer in peers(&store)? {
        let mut connection = connect(&peer, &builder)?;
        let repaired = scrub(&store, &mut *connection, &mut |_| ())?;
        line(&format!(
            "{}: {}",
            peer.name,
            match repaired {
                0 => "holds the same".to_owned(),
                repaired => format!(
                    "{repaired} of {REPLICATION_RANGES} ranges differed; both hold the same now"
                ),
            }
        ))?;
    }
    db.close()?;
    Ok(())
}

fn bar(quiet: bool) -> ProgressBar {
    let shown = !quiet && std::io::stderr().is_terminal();
    let target = match shown {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(ProgressStyle::default_spinner());
    bar
}
