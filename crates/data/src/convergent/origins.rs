//! The replicas that contributed to a convergent field's value.

use isomer_layout::{
    DataError,
    convergent::{
        clock::{ReplicaId, ReplicaNo},
        counter::amount,
        place::{ConvergentKind, entry},
        position::ConvergentOwner,
        rows::Rows,
    },
};

use crate::Fields;

/// The contribution of one replica to the current value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldOrigin {
    /// The replica; nothing for this database before it was one.
    pub replica: Option<ReplicaId>,
    /// Whether it is this database.
    pub own: bool,
    /// Its entries: elements, values, increments (older ones are folded into one).
    pub entries: u64,
    /// The sum of its increments, of all counters within the field.
    pub amount: i128,
}

impl Fields<'_> {
    /// The replicas that the entries of the field at `path` are of, and whether the list is complete: at most `most`
    /// entries are read. None where there is no such field.
    pub fn origins(
        self,
        owner: ConvergentOwner,
        path: &[&str],
        most: usize,
    ) -> Result<Option<(Vec<FieldOrigin>, bool)>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        let mut found: Vec<(ReplicaNo, u64, i128)> = Vec::new();
        let (mut read, mut complete) = (0, true);
        self.tx
            .scan(position.named(), &[], 1024, &mut |key, value| {
                if read == most {
                    complete = false;
                    return Ok(false);
                }
                read += 1;
                let entry = entry(&key[position.owner()..])?;
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
        let replicas = &self.tx.store().shared().own_replica;
        let own = replicas.own();
        let origins = found
            .into_iter()
            .map(|(replica, entries, amount)| FieldOrigin {
                replica: replicas.name(replica),
                own: own == Some(replica),
                entries,
                amount,
            })
            .collect();
        Ok(Some((origins, complete)))
    }
}
