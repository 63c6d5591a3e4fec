//! Whole transactions, as the network of these tests carries them: in causal order. How replicas do it is in the crate
//! `replication`, with its own histories.

use crate::{
    DataError,
    convergent::{
        clock::{Dot, ReplicaNo, Vector},
        effect::{Action, Stamp},
        rows::RowsMut,
    },
    keyspace,
};

/// The convergent operations of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The replica that it was made in.
    pub origin: ReplicaNo,
    /// Its number there, from 1.
    pub number: u64,
    /// Hybrid time.
    pub time: u64,
    /// The transactions that it had read. Of its own replica: all before `number` that did not run concurrently.
    pub seen: Vector,
    /// Index in the transaction, place and action.
    pub operations: Vec<(u32, Vec<u8>, Action)>,
}

impl Parcel {
    /// Whether it is delivered to a state that has seen `here`: it is new there, the previous one of its replica was
    /// applied, and so was everything that it has seen.
    pub fn follows(&self, here: &Vector) -> bool {
        here.upto(self.origin) + 1 == self.number && here.includes(&self.seen_elsewhere())
    }

    /// What it had seen of other replicas.
    fn seen_elsewhere(&self) -> Vector {
        let mut seen = self.seen.clone();
        seen.set(self.origin, 0, Vec::new());
        seen
    }

    /// Whether its operation `op` had seen `dot`.
    pub fn saw(&self, op: u32, dot: Dot) -> bool {
        self.seen.covers(dot)
            || dot.replica == self.origin && dot.number == self.number && dot.op < op
    }

    /// Applies all of it, in one transaction of `rows`.
    pub fn apply(&self, rows: &mut (impl RowsMut + ?Sized)) -> Result<(), DataError> {
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
