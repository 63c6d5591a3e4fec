//! `isomer replica` and `isomer sync`.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_db::internals::{DatabaseInternals as _, data::DataStore};
use isomer_db::{Database, Value, jiff::Timestamp, json};
use isomer_replication::{RANGE_COUNT as REPLICATION_RANGES, ReplicatedSpace};
use isomer_sync::{
    ExchangeReport, NO_REPLICA, PeerInfo, accept_clock, accepted_text, add_peer, connect,
    kept_text, peers, remove_peer, report, scrub, space_text, sync_once,
};

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
        /// The database; created if it is missing
        db: PathBuf,
        /// Folder or URL of the peer
        peer: String,
        /// File with the token for the peer's server; default: ISOMER_PEER_TOKEN
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// Trusted certificates, PEM
        #[arg(long, value_name = "FILE")]
        certificates: Option<PathBuf>,
    },
    /// Lists the peers
    List {
        /// The database
        db: PathBuf,
    },
    /// Removes a peer; exchanged data stays
    Remove {
        /// The database
        db: PathBuf,
        /// Folder or URL
        peer: String,
    },
    /// Removes a replica that never comes back: the log is not kept for it, and it is not admitted any more
    Evict {
        /// The database
        db: PathBuf,
        /// Its id, as shown by `status`
        id: String,
    },
    /// Sets how long transactions are kept for an absent replica; one that stays away longer is sent a snapshot
    Retain {
        /// The database
        db: PathBuf,
        /// Number of days; 0 for no limit
        days: u64,
    },
    /// Lets new relationships of a type keep their ends even if another replica deletes these concurrently
    Keep {
        /// The database
        db: PathBuf,
        /// The type
        #[arg(value_name = "TYPE")]
        rel_type: String,
        /// Ends this rule
        #[arg(long)]
        off: bool,
    },
    /// Restricts replication to a part of a database, before it has a peer; without options, shows that part
    #[command(after_help = "Example:
  isomer replica space laptop.db --name team --label Task --label Person --bucket settings

The space contains nodes that are created with one of the labels, relationships between them (of the named types, or of all types), and
the buckets. All replicas must declare the same space; an empty one adopts the space of its first peer.")]
    Space {
        /// The database; created if it is missing
        db: PathBuf,
        /// Name of the part
        #[arg(long)]
        name: Option<String>,
        /// A label
        #[arg(long = "label", value_name = "LABEL", requires = "name")]
        labels: Vec<String>,
        /// A relationship type; all types if none is named
        #[arg(long = "type", value_name = "TYPE", requires = "name")]
        rel_types: Vec<String>,
        /// A bucket
        #[arg(long = "bucket", value_name = "BUCKET", requires = "name")]
        buckets: Vec<String>,
    },
    /// Accepts transactions that another replica stamped with a clock that was ahead, and exchanges with it
    #[command(after_help = "Examples:
  isomer replica accept-clock laptop.db /backup/disk/people.db
  isomer replica accept-clock laptop.db --until 2026-12-01T00:00:00Z

A transaction that is stamped more than five minutes ahead of this database's clock is held back, with all that follows it, until the
clock has caught up. This command applies the peer's transactions immediately; stamps do not change. Each replica accepts separately.
See docs/convergence.md.")]
    AcceptClock(AcceptOptions),
    /// Shows this replica's name and its peers, why one does not advance, and what to do
    Status {
        /// The database
        db: PathBuf,
        /// Output format
        #[arg(long, value_enum, default_value_t = StatusFormat::Text)]
        format: StatusFormat,
    },
}

/// Options of `isomer replica accept-clock`.
#[derive(Clone, Debug, Args)]
struct AcceptOptions {
    /// The database that holds back transactions
    db: PathBuf,
    /// Folder or URL of one of its peers; all if none is named
    peer: Option<String>,
    /// Accepts stamps up to this time, without an exchange
    #[arg(long, value_name = "TIME", conflicts_with = "peer")]
    until: Option<Timestamp>,
    /// Accepts no stamps ahead of the clock any more; applied transactions stay
    #[arg(long, conflicts_with_all = ["peer", "until"])]
    none: bool,
}

/// Output format of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// Text
    Text,
    /// One JSON object for programs; null for a database that is not a replica
    Json,
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
    /// Compares all data of a database and its peers, and restores what one of them has lost
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
            let db = open::open_replica(db)?;
            let peer = add_peer(
                &db.store()?,
                peer,
                token_file.as_deref(),
                certificates.as_deref(),
            )?;
            db.close()?;
            line(&format!("added the peer {}", peer.name))?;
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
                bail!("{peer} is not a peer: see `isomer replica list`");
            }
            line(&format!("removed the peer {peer}"))?;
        }
        ReplicaCommand::Evict { db, id } => {
            let db = open::open_existing(db)?;
            let store = db.store()?;
            let members = isomer_replication::replica_members(&store)?;
            let found = members.iter().find(|member| hex(&member.id) == *id);
            let Some(member) = found else {
                bail!("no replica has the id {id}: see `isomer replica status`");
            };
            isomer_replication::evict_member(&store, &member.id)?;
            db.close()?;
            line(&format!(
                "removed the replica {id}: the log is not kept for it any more"
            ))?;
        }
        ReplicaCommand::Retain { db, days } => {
            let db = open::open_existing(db)?;
            isomer_replication::set_log_retention(&db.store()?, days.saturating_mul(DAY_MS))?;
            db.close()?;
            line(&kept_text(days.saturating_mul(DAY_MS)))?;
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
                Some(_) => open::open_replica(db)?,
                None => open::open_existing(db)?,
            };
            let store = db.store()?;
            if let Some(name) = name {
                isomer_replication::declare_space(
                    &store,
                    &ReplicatedSpace {
                        name: name.clone(),
                        labels: labels.iter().cloned().collect(),
                        rel_types: rel_types.iter().cloned().collect(),
                        buckets: buckets.iter().cloned().collect(),
                    },
                )?;
            }
            let text = space_text(isomer_replication::replicated_space(&store).as_ref());
            db.close()?;
            line(&text)?;
        }
        ReplicaCommand::AcceptClock(options) => accept(options)?,
        ReplicaCommand::Status { db, format } => {
            let db = open::open_existing(db)?;
            status(&db, *format)?;
            db.close()?;
        }
    }
    Ok(())
}

fn is_same(db: &Path, peer: &str) -> bool {
    let (one, other) = (db.canonicalize(), Path::new(peer).canonicalize());
    one.is_ok() && one.ok() == other.ok()
}

fn status(db: &Database, format: StatusFormat) -> Result<()> {
    let found = report(&db.store()?)?;
    match (found, format) {
        (None, StatusFormat::Text) => {
            line(NO_REPLICA)?;
        }
        (Some(report), StatusFormat::Text) => {
            report.lines().iter().try_for_each(|text| line(text))?;
        }
        (found, StatusFormat::Json) => {
            let value = found.map_or(Value::Null, |report| report.value());
            line(&json::to_string(&value)?)?;
        }
    }
    Ok(())
}

/// The limit on stamps ahead of the clock, from the options of `accept-clock`.
fn accept(options: &AcceptOptions) -> Result<()> {
    let db = open::open_existing(&options.db)?;
    let store = db.store()?;
    let until_ms = match &options.until {
        Some(time) => Some(time.as_millisecond().max(0).unsigned_abs()),
        None => options.none.then_some(0),
    };
    if let Some(until_ms) = until_ms {
        isomer_replication::accept_clock(&store, until_ms)?;
        db.close()?;
        line(&accepted(until_ms))?;
        return Ok(());
    }
    let builder = open::keyed_builder()?;
    let mut failed = Vec::new();
    for peer in chosen(&store, options.peer.as_deref())? {
        match accept_clock(&store, &peer, &builder, &mut |_| ()) {
            Ok((done, latest_ms)) => {
                exchanged(&peer, &done)?;
                match latest_ms {
                    Some(latest_ms) => line(&accepted(latest_ms))?,
                    None => line("no transaction was stamped ahead of the clock")?,
                }
                failed.extend(done.held_text());
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    db.close()?;
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", failed.join("; ")),
    }
}

fn accepted(until_ms: u64) -> String {
    let text = accepted_text(until_ms);
    text.unwrap_or_else(|| "no transactions stamped ahead of the clock are accepted".to_owned())
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs `isomer sync`.
pub fn sync(options: &SyncOptions) -> Result<()> {
    let (db, peer, quiet) = match &options.command {
        SyncCommand::Once { db, peer, quiet } => (db, peer, quiet),
        SyncCommand::Scrub { db } => return scrub_all(db),
    };
    let db = open::open_existing(db)?;
    let store = db.store()?;
    let all = chosen(&store, peer.as_deref())?;
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
            Ok(done) => {
                exchanged(peer, &done)?;
                if let Some(held) = done.held_text() {
                    failed += 1;
                    report!("error: {}: {held}", peer.name);
                }
            }
            Err(error) => {
                failed += 1;
                report!("error: {error}");
            }
        }
    }
    db.close()?;
    if failed > 0 {
        bail!(
            "the exchange with {} of {} is incomplete: `isomer replica status` says what to do",
            failed,
            counted(all.len() as u64, "peer")
        );
    }
    Ok(())
}

/// All peers of a database, or the named one.
fn chosen(store: &DataStore, only: Option<&str>) -> Result<Vec<PeerInfo>> {
    let mut all = peers(store)?;
    if let Some(only) = only {
        let absolute = std::path::absolute(only).unwrap_or_else(|_| only.into());
        all.retain(|peer| peer.name == *only || Path::new(&peer.name) == absolute);
        if all.is_empty() {
            bail!("{only} is not a peer: see `isomer replica list`");
        }
    }
    if all.is_empty() {
        bail!("there is no peer: add one with `isomer replica add`");
    }
    Ok(all)
}

fn exchanged(peer: &PeerInfo, done: &ExchangeReport) -> std::io::Result<()> {
    line(&format!(
        "{}: {} received, {} sent, {}, {}",
        peer.name,
        counted(done.received, "transaction"),
        count(done.sent),
        bytes(done.bytes),
        duration(done.time)
    ))
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
                0 => "identical".to_owned(),
                repaired => format!(
                    "{repaired} of {REPLICATION_RANGES} ranges differed; both are identical now"
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
