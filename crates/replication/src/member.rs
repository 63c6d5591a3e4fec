//! What a replica knows of another member of the replication, and how that is stored.

use std::collections::BTreeMap;

use isomer_data::{DataError, Vector};
use isomer_layout::{
    keyspace::{self, push_id, take_id},
    pairs::each_pair,
    replicated::codec::{malformed, take_byte},
};
use isomer_storage::Read;

/// The waiting time of a member is stored each time that this fraction (1/64) of the retention time has passed.
pub(crate) const STORED_FRACTION: u64 = 64;

/// Default retention of transactions for a member that does not acknowledge them: 90 days.
pub(crate) const LOG_RETENTION_MS: u64 = 90 * 24 * 60 * 60 * 1000;

/// A known replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// The vector that it reported last.
    pub(crate) acked: Vector,
    /// The same, at a time from which everything that it had written has arrived.
    pub(crate) usable: Vector,
    pub(crate) last_contact_ms: u64,
    pub(crate) is_evicted: bool,
    /// What it reported itself since this database was opened, that is, after a restore.
    pub(crate) reported: Option<Vector>,
    /// Whether a part of its report is not on disk.
    pub(crate) is_news: bool,
    pub(crate) waited: Option<MissingTransactions>,
    /// Whether the log is trimmed without it.
    pub(crate) is_away: bool,
}

/// Transactions that a member lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingTransactions {
    /// When it was checked last, and the stored value of that.
    pub(crate) looked_ms: u64,
    pub(crate) noted_ms: Option<u64>,
    /// For how long it has been waited for.
    pub(crate) for_ms: u64,
    /// The state of this database when that began.
    pub(crate) lacks: Vector,
}

pub(crate) type Members = BTreeMap<[u8; 16], Member>;

impl Member {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let waited = self
            .waited
            .as_ref()
            .filter(|waited| waited.noted_ms.is_some());
        let flags = [
            (self.is_evicted, 1),
            (self.is_away, 2),
            (waited.is_some(), 8),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let mut bytes = vec![flags.map(|(_, flag)| flag).sum()];
        push_id(&mut bytes, self.last_contact_ms);
        self.acked.push_local(&mut bytes);
        if let Some(waited) = waited {
            push_id(&mut bytes, waited.looked_ms);
            push_id(&mut bytes, waited.for_ms);
            waited.lacks.push_local(&mut bytes);
        }
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let flags = take_byte(bytes).filter(|flags| *flags < 16)?;
        let mut member = Self {
            is_evicted: flags & 1 > 0,
            is_away: flags & 2 > 0,
            last_contact_ms: take_id(bytes)?,
            acked: Vector::take_local(bytes)?,
            ..Self::default()
        };
        if flags & 12 > 0 {
            let looked_ms = take_id(bytes)?;
            let for_ms = if flags & 8 > 0 { take_id(bytes)? } else { 0 };
            member.waited = Some(MissingTransactions {
                looked_ms,
                noted_ms: Some(looked_ms),
                for_ms,
                lacks: Vector::take_local(bytes)?,
            });
        }
        Some(member)
    }

    /// Decides whether it is away, from the state of this database, the time and the retention time (0: for ever).
    /// Returns whether that must be stored.
    pub(crate) fn update_absence(&mut self, here: &Vector, now_ms: u64, retention_ms: u64) -> bool {
        let noted = |member: &Self| member.waited.as_ref().and_then(|waited| waited.noted_ms);
        let before = (self.is_away, noted(self));
        let lacks = self.waited.as_ref().map(|waited| &waited.lacks);
        if retention_ms == 0 || lacks.is_some_and(|lacks| self.acked.includes(lacks)) {
            self.waited = None;
        }
        if retention_ms > 0 && self.waited.is_none() && !self.acked.includes(here) {
            self.waited = Some(MissingTransactions {
                looked_ms: now_ms,
                noted_ms: None,
                for_ms: 0,
                lacks: here.clone(),
            });
        }
        self.is_away = false;
        if let Some(waited) = &mut self.waited {
            let passed_ms = now_ms.saturating_sub(waited.looked_ms);
            waited.for_ms += passed_ms.min(retention_ms / MAX_EXCHANGE_FRACTION);
            waited.looked_ms = now_ms;
            self.is_away = waited.for_ms > retention_ms;
            // Not at each exchange: after a restart, an unsaved waiting time only makes it wait a little longer.
            let last_ms = waited.noted_ms.unwrap_or(self.last_contact_ms);
            if now_ms.abs_diff(last_ms) > retention_ms / STORED_FRACTION || self.is_away != before.0
            {
                waited.noted_ms = Some(now_ms);
            }
        }
        before != (self.is_away, noted(self))
    }
}

pub(crate) fn load(read: &dyn Read) -> Result<Members, DataError> {
    let mut members = Members::new();
    each_pair(read, keyspace::MEMBERS, |key, value| {
        let id = key[keyspace::MEMBERS.len()..].try_into();
        let member = id.ok().zip(Member::decode(value));
        let (id, member) = member.ok_or_else(|| malformed("a member"))?;
        members.insert(id, member);
        Ok(())
    })?;
    Ok(members)
}

/// One exchange adds at most this fraction (1/16) of the retention time to the waiting time of a member.
pub(crate) const MAX_EXCHANGE_FRACTION: u64 = 16;
