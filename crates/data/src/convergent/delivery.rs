//! Whole transactions between replicas: when one may be applied, and applying it.

use super::{
    clock::{Dot, ReplicaNo, Vector},
    effect::{Action, Stamp},
    place::malformed,
    rows::RowsMut,
};
use crate::{Change, ChangeSet, DataError, keyspace};

/// The convergent operations of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) origin: ReplicaNo,
    pub(crate) number: u64,
    /// Hybrid time.
    pub(crate) time: u64,
    /// What the transaction had seen. Of its own replica: everything before `number`, except what ran concurrently.
    pub(crate) seen: Vector,
    /// Index in the transaction, place and action.
    pub(crate) operations: Vec<(u32, Vec<u8>, Action)>,
}

/// Whether a transaction may be applied to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It was applied before.
    Past,
    /// It can be applied now.
    Now,
    /// It depends on transactions that are not applied yet.
    Later,
}

impl Parcel {
    /// The convergent part of a commit, if any.
    pub(crate) fn of(entry: &ChangeSet<'_>) -> Result<Option<Self>, DataError> {
        let mut operations = Vec::new();
        for change in &entry.changes {
            match change {
                Change::Converged {
                    owner,
                    op,
                    place,
                    action,
                } => {
                    let action = Action::decode(action).ok_or_else(malformed)?;
                    operations.push((*op, [&owner.prefix()[..], place].concat(), action));
                }
                Change::ConvergedBy {
                    replica,
                    number,
                    time,
                    seen,
                } => {
                    return Ok(Some(Self {
                        origin: *replica,
                        number: *number,
                        time: *time,
                        seen: seen.clone(),
                        operations,
                    }));
                }
                _ => {}
            }
        }
        match operations.is_empty() {
            true => Ok(None),
            false => Err(malformed()),
        }
    }

    /// Whether it can be applied in a state that has seen `here`: after the previous one of its replica, and after
    /// everything that it has seen. A replica sends its transactions in the order of their numbers, once no lower one
    /// is under way.
    pub(crate) fn turn(&self, here: &Vector) -> Turn {
        if here.saw(self.origin, self.number) {
            return Turn::Past;
        }
        let follows = here.upto(self.origin) + 1 == self.number;
        let caused = here.includes(&self.seen_elsewhere());
        match follows && caused {
            true => Turn::Now,
            false => Turn::Later,
        }
    }

    /// What it had seen of other replicas.
    fn seen_elsewhere(&self) -> Vector {
        let mut seen = self.seen.clone();
        seen.set(self.origin, 0, Vec::new());
        seen
    }

    /// Whether its operation `op` had seen `dot`.
    pub(crate) fn saw(&self, op: u32, dot: Dot) -> bool {
        self.seen.covers(dot)
            || dot.replica == self.origin && dot.number == self.number && dot.op < op
    }

    /// Applies all of it, in one transaction of `rows`.
    pub(crate) fn apply(&self, rows: &mut (impl RowsMut + ?Sized)) -> Result<(), DataError> {
        for (op, place, action) in &self.operations {
            let stamp = Stamp {
                dot: Dot {
                    replica: self.origin,
                    number: self.number,
                    op: *op,
                },
                time: self.time,
            };
            let owner = keyspace::convergent_owner_len(place)?;
            action.apply(rows, owner, place, stamp, &|dot| self.saw(*op, dot))?;
        }
        Ok(())
    }
}
