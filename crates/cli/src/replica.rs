//! `isomer replica` and `isomer sync`.

use std::{
    collections::BTreeSet,
    io::IsTerminal,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_db::data::{REPLICATION_RANGES, ReplicatedSpace};
use isomer_db::{Database, jiff::Timestamp};
use isomer_sync::{PeerInfo, add_peer, connect, peers, remove_peer, scrub, sync_once};

use crate::{
    open,
    style::{bytes, count, counted, duration, line},
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

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
    /// Says how long transactions are kept for a replica that does not come; one that stays away longer comes back by a snapshot
    Retain {
        /// The database
        db: PathBuf,
        /// For so many days; 0 for ever
        days: u64,
    },
    /// Lets relationships of a type that are made here from now on keep their ends, whoever deletes them elsewhere meanwhile
    Keep {
        /// The database
        db: PathBuf,
        /// The type
        #[arg(value_name = "TYPE")]
        rel_type: String,
        /// Lets them not keep their ends any more
        #[arg(long)]
        off: bool,
    },
    /// Says that only a part of a database is replicated, before it has a peer; without options, which part that is
    #[command(after_help = "Example:
  isomer replica space laptop.db --name team --label Task --label Person --bucket settings

Nodes that are made with one of the labels are in the space, relationships between them (of the types that are named, or of all), and
the buckets. All replicas declare the same; an empty one takes the space of whomever it hears of first.")]
    Space {
        /// The database; made where it is not there
        db: PathBuf,
        /// What it is called
        #[arg(long)]
        name: Option<String>,
        /// A label
        #[arg(long = "label", value_name = "LABEL", requires = "name")]
        labels: Vec<String>,
        /// A type of relationships; all where none is named
        #[arg(long = "type", value_name = "TYPE", requires = "name")]
        rel_types: Vec<String>,
        /// A bucket
        #[arg(long = "bucket", value_name = "BUCKET", requires = "name")]
        buckets: Vec<String>,
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
        ReplicaCommand::Retain { db, days } => {
            let db = open::open_existing(db)?;
            db.store()?.keep_log(days.saturating_mul(DAY_MS))?;
            db.close()?;
            line(&kept(days.saturating_mul(DAY_MS)))?;
        }
        ReplicaCommand::Keep { db, rel_type, off } => {
            let db = open::open_existing(db)?;
            db.store()?.keep_endpoints(rel_type, !off)?;
            db.close()?;
            let not = if *off { "do not keep" } else { "keep" };
            line(&format!("new relationships {rel_type} {not} their ends"))?;
        }
        ReplicaCommand::Space {
            db,
            name,
            labels,
            rel_types,
            buckets,
        } => {
            let db = match name {
                Some(_) => open::open(db)?,
                None => open::open_existing(db)?,
            };
            let store = db.store()?;
            if let Some(name) = name {
                store.declare_space(&ReplicatedSpace {
                    name: name.clone(),
                    labels: labels.iter().cloned().collect(),
                    rel_types: rel_types.iter().cloned().collect(),
                    buckets: buckets.iter().cloned().collect(),
                })?;
            }
            let told = told_space(store.replicated_space().as_ref());
            db.close()?;
            line(&told)?;
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
    if status.space.is_some() {
        line(&told_space(status.space.as_ref()))?;
    }
    line(&kept(store.log_kept_ms()))?;
    if status.names * 4 > status.most_names * 3 {
        line(&format!(
            "{} of {} names of replicas are used (each crash that is followed by a write takes one): when none is left, whoever needs a new one is refused; export and import begin a replication anew",
            status.names, status.most_names
        ))?;
    }
    if status.joins_served > 0 {
        line(&format!(
            "{} this one's state, the first for {} s: what they read is not cleaned up meanwhile",
            match status.joins_served {
                1 => "1 replica is joining".to_owned(),
                many => format!("{many} replicas are joining"),
            },
            status.served_ms / 1000
        ))?;
    }
    for keeper in store.endpoint_keepers() {
        line(&format!(
            "new relationships {} keep their ends",
            keeper.rel_type
        ))?;
    }
    for peer in peers(&store)? {
        line(&format!("{}: {}", peer.name, told(&peer)))?;
    }
    for member in store.replica_members()? {
        let state = match (member.is_evicted, member.lacks) {
            (true, _) => "evicted".to_owned(),
            (false, lacks) if member.is_away => format!(
                "away, as it lacked {} for too long (it comes back by a snapshot)",
                counted(lacks, "transaction")
            ),
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

/// What is replicated, in words.
fn told_space(space: Option<&ReplicatedSpace>) -> String {
    let Some(space) = space else {
        return "all of the database is replicated".to_owned();
    };
    let listed = |what: &str, names: &BTreeSet<String>| match names.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!(", {what} {}", names.join(" "))
        }
    };
    format!(
        "the space {} is replicated{}{}{}",
        space.name,
        listed("labels", &space.labels),
        listed("types", &space.rel_types),
        listed("buckets", &space.buckets)
    )
}

/// How long the log is kept, in words.
fn kept(ms: u64) -> String {
    match ms / DAY_MS {
        0 if ms == 0 => "transactions are kept until every member has them".to_owned(),
        days => format!(
            "transactions are kept {} for a member that does not come",
            counted(days, "day")
        ),
    }
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
