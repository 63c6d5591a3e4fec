//! Which replicas a convergent field's value comes from.

use super::{
    ConvergentKind, ReplicaId, ReplicaNo, counter::amount, place::entry, rows::Rows,
    spot::ConvergentOwner,
};
use crate::{DataError, Transaction};

/// What one replica has added to a field, of what is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvergentOrigin {
    /// The replica; nothing for this database before it was one.
    pub replica: Option<ReplicaId>,
    /// Whether it is this database.
    pub own: bool,
    /// Entries of it: elements, values, increments (older ones are added up to one).
    pub entries: u64,
    /// What its increments add up to, all counters within the field together.
    pub amount: i128,
}

impl Transaction {
    /// The replicas that the entries of the field at `path` are of, and whether that is all of them: at most `most` entries are
    /// read. None where there is no such field.
    pub fn convergent_origins(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        most: usize,
    ) -> Result<Option<(Vec<ConvergentOrigin>, bool)>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        self.footprint().read_field(spot.named());
        let mut found: Vec<(ReplicaNo, u64, i128)> = Vec::new();
        let (mut read, mut complete) = (0, true);
        self.scan(spot.named(), &[], 1024, &mut |key, value| {
            if read == most {
                complete = false;
                return Ok(false);
            }
            read += 1;
            let entry = entry(&key[spot.owner()..])?;
            let by = match entry.kind {
                ConvergentKind::Counter => amount(value)?.0,
                _ => 0,
            };
            let replica = entry.dot.replica;
            match found.iter_mut().find(|(known, ..)| *known == replica) {
                Some((_, entries, sum)) => {
                    *entries += 1;
                    *sum = sum.saturating_add(by);
                }
                None => found.push((replica, 1, by)),
            }
            Ok(true)
        })?;
        if found.is_empty() {
            return Ok(None);
        }
        found.sort_unstable_by_key(|(replica, ..)| *replica);
        let replicas = &self.store().shared().own_replica;
        let own = replicas.own();
        let origins = found
            .into_iter()
            .map(|(replica, entries, amount)| ConvergentOrigin {
                replica: replicas.name(replica),
                own: own == Some(replica),
                entries,
                amount,
            })
            .collect();
        Ok(Some((origins, complete)))
    }
}
