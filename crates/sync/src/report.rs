//! Status of a replica and its peers, for people and for programs: why a peer does not advance, and what to do.

use std::fmt::Write;

use isomer_data::DataStore;
use isomer_db::{Map, Value};
use isomer_replication::{MemberInfo, ReplicatedSpace, ReplicationStatus};

use crate::{
    PeerInfo, Result,
    cause::Cause,
    peers,
    text::{hex, time_text},
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The status of a database that is not a replica.
pub const NO_REPLICA: &str = "this database is not a replica: `isomer replica add` makes it one";

/// Why a peer does not advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStall {
    /// The cause.
    pub cause: Cause,
    /// What happened.
    pub why: String,
    /// What to do.
    pub advice: &'static str,
}

impl PeerInfo {
    /// Why exchanges with it do not advance; `None` if they do.
    pub fn stall(&self) -> Option<PeerStall> {
        let why = self.state.error.clone()?;
        let cause = match self.state.is_quarantined {
            true => Cause::Quarantined,
            false => self.state.cause.unwrap_or(Cause::Other),
        };
        Some(PeerStall {
            cause,
            why,
            advice: cause.advice(),
        })
    }
}

/// Status of a replica.
#[derive(Clone, Debug)]
pub struct Report {
    status: ReplicationStatus,
    log_kept_ms: u64,
    peers: Vec<PeerInfo>,
    members: Vec<MemberInfo>,
    keepers: Vec<String>,
}

/// Status of a database as a replica; `None` if it is not one.
///
/// # Errors
///
/// Those of the engine.
pub fn report(store: &DataStore) -> Result<Option<Report>> {
    if !store.is_replicated() {
        return Ok(None);
    }
    let keepers = store.endpoint_keepers().into_iter();
    Ok(Some(Report {
        status: isomer_replication::replication_status(store)?,
        log_kept_ms: isomer_replication::log_retention_ms(store),
        peers: peers(store)?,
        members: isomer_replication::replica_members(store)?,
        keepers: keepers.map(|keeper| keeper.rel_type.to_string()).collect(),
    }))
}

impl Report {
    /// The replica itself.
    pub fn status(&self) -> &ReplicationStatus {
        &self.status
    }

    /// Its peers, by name.
    pub fn peers(&self) -> &[PeerInfo] {
        &self.peers
    }

    /// Lines of text, as `isomer replica status` prints them.
    pub fn lines(&self) -> Vec<String> {
        let status = &self.status;
        let mut lines = vec![
            format!("replica {}", status.name),
            format!(
                "{} in the log, {} waiting to be resolved",
                counted(status.log_entries, "transaction"),
                counted(status.conflicts, "conflict")
            ),
        ];
        if let Some(space) = &status.space {
            lines.push(space_text(Some(space)));
        }
        lines.extend(self.joining());
        lines.extend(accepted_text(status.accepted_clock_ms));
        lines.push(kept_text(self.log_kept_ms));
        if status.names * 4 > status.most_names * 3 {
            lines.push(format!(
                "{} of {} replica names are used (each crash followed by a write takes one): when none is left, a replica that needs a new one is refused; export and import start a new replication",
                status.names, status.most_names
            ));
        }
        if status.outgoing_transfers > 0 {
            lines.push(format!(
                "{} this one's state, the first for {} s: their data is not cleaned up until then",
                match status.outgoing_transfers {
                    1 => "1 replica is joining".to_owned(),
                    many => format!("{many} replicas are joining"),
                },
                status.outgoing_ms / 1000
            ));
        }
        let keeps =
            |rel_type: &String| format!("new relationships {rel_type} keep their end nodes");
        lines.extend(self.keepers.iter().map(keeps));
        for peer in &self.peers {
            lines.push(format!("{}: {}", peer.name, exchanged_text(peer)));
            if let Some(stall) = peer.stall() {
                lines.push(format!("  what to do: {}", stall.advice));
            }
        }
        let member =
            |member: &MemberInfo| format!("member {}: {}", hex(&member.id), member_text(member));
        lines.extend(self.members.iter().map(member));
        lines
    }

    fn joining(&self) -> Vec<String> {
        let Some(joining) = &self.status.joining else {
            return Vec::new();
        };
        let since = match joining.since_ms {
            0 => String::new(),
            ms => format!(" since {}", time_text(ms)),
        };
        let mut lacks = String::new();
        for (name, transactions) in &joining.lacks {
            let lacking = counted(*transactions, "transaction");
            let _ = write!(
                lacks,
                "; {lacking} of replica {} are missing",
                hex(&name.id)
            );
        }
        let next = match joining.is_whole {
            true => "an exchange with a replica that has these makes the database readable again",
            false => Cause::Joining.advice(),
        };
        vec![
            format!(
                "JOINING a snapshot{since}: the database cannot be read until the transfer is complete{lacks}"
            ),
            format!("  what to do: {next}"),
        ]
    }

    /// The status as JSON.
    pub fn value(&self) -> Value {
        let status = &self.status;
        let joining = status.joining.as_ref().map(|joining| {
            let lacks = joining.lacks.iter().map(|(name, transactions)| {
                map([
                    ("replica", hex(&name.id).into()),
                    ("transactions", number(*transactions)),
                ])
            });
            map([
                ("since", time(joining.since_ms)),
                ("pages_complete", joining.is_whole.into()),
                ("lacks", list(lacks)),
            ])
        });
        let peers = self.peers.iter().map(|peer| {
            let stall = peer.stall();
            let some = |text: Option<&str>| text.map_or(Value::Null, Value::from);
            let stall = stall.as_ref();
            map([
                ("name", peer.name.as_str().into()),
                (
                    "state",
                    stall
                        .map_or("exchanging", |stall| stall.cause.name())
                        .into(),
                ),
                ("last_exchanged", time(peer.state.exchanged_ms)),
                ("why", some(stall.map(|stall| stall.why.as_str()))),
                ("advice", some(stall.map(|stall| stall.advice))),
            ])
        });
        let members = self.members.iter().map(|member| {
            map([
                ("replica", hex(&member.id).into()),
                ("heard", time(member.last_contact_ms)),
                ("lacked_transactions", number(member.lacks)),
                ("away", member.is_away.into()),
                ("evicted", member.is_evicted.into()),
            ])
        });
        map([
            ("replica", status.name.as_str().into()),
            ("replicates", space_text(status.space.as_ref()).into()),
            ("log_transactions", number(status.log_entries)),
            ("conflicts", number(status.conflicts)),
            ("kept_days", number(self.log_kept_ms / DAY_MS)),
            ("accepts_stamps_until", time(status.accepted_clock_ms)),
            ("joining", joining.unwrap_or(Value::Null)),
            ("peers", list(peers)),
            ("members", list(members)),
            (
                "text",
                list(self.lines().into_iter().map(|line| line.as_str().into())),
            ),
        ])
    }
}

/// Describes which part of a database is replicated.
pub fn space_text(space: Option<&ReplicatedSpace>) -> String {
    let Some(space) = space else {
        return "the whole database is replicated".to_owned();
    };
    let mut text = format!("the space {} is replicated", space.name);
    for (what, names) in [
        ("labels", &space.labels),
        ("types", &space.rel_types),
        ("buckets", &space.buckets),
    ] {
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let _ = write!(text, ", {what} {}", names.join(" "));
        }
    }
    text
}

/// Describes the retention of the log.
pub fn kept_text(ms: u64) -> String {
    match ms / DAY_MS {
        0 if ms == 0 => "transactions are kept until every member has them".to_owned(),
        days => format!(
            "transactions are kept for {} for a member that is offline",
            counted(days, "day")
        ),
    }
}

/// Describes up to when timestamps ahead of the clock are accepted; `None` if none are.
pub fn accepted_text(until_ms: u64) -> Option<String> {
    (until_ms > 0).then(|| {
        format!(
            "transactions with timestamps ahead of the clock are accepted up to {}",
            time_text(until_ms)
        )
    })
}

fn exchanged_text(peer: &PeerInfo) -> String {
    let when = match peer.state.exchanged_ms {
        0 => "never exchanged".to_owned(),
        ms => format!("last exchanged at {}", time_text(ms)),
    };
    match peer.stall() {
        None => when,
        Some(stall) if stall.cause == Cause::Quarantined => {
            format!("{when}; QUARANTINED: {}", stall.why)
        }
        Some(stall) => format!("{when}; {}: {}", stall.cause.name(), stall.why),
    }
}

fn member_text(member: &MemberInfo) -> String {
    let lacking = counted(member.lacks, "transaction");
    let when = match member.last_contact_ms {
        0 => "as reported by other replicas".to_owned(),
        ms => format!("at its last exchange, at {}", time_text(ms)),
    };
    match (member.is_evicted, member.lacks) {
        (true, _) => "evicted: it is no longer admitted".to_owned(),
        (false, _) if member.is_away => format!(
            "away: it lacked {lacking} of the current transactions for so long that it needs a state transfer; last heard of {when}"
        ),
        (false, 0) => format!("up to date, {when}"),
        (false, _) => {
            format!(
                "has not confirmed {lacking} of the current transactions; had the others {when}"
            )
        }
    }
}

fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let map: Map = fields.into_iter().collect();
    Value::Map(map.into())
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value::List(values.collect::<Vec<_>>().into())
}

fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn time(ms: u64) -> Value {
    match ms {
        0 => Value::Null,
        ms => time_text(ms).as_str().into(),
    }
}
