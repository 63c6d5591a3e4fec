//! Consistency of stored convergent fields: owners, names, dots, values.

use isomer_layout::{
    DataError,
    convergent::{
        clock::{Dot, Vector},
        place::{self, malformed},
        value::OwnerReading,
    },
    keyspace::{self, TAG_CONVERGENT, take_id},
};
use isomer_value::PropId;

use super::operate::scan_rows;
use crate::{Access, DataStore, Transaction};

/// Most findings that are reported.
const MAX_FINDINGS: usize = 100;

impl DataStore {
    /// Checks convergent entries against their owners, the catalog and the vector. Returns the inconsistencies, at most
    /// 100 findings.
    pub fn check_convergent(&self) -> Result<Vec<String>, DataError> {
        let tx = self.begin(Access::Read)?;
        let seen = self.numbering().seen_in(tx.read(), None)?;
        let mut findings = Vec::new();
        let (mut owner, mut there, mut reading) = (Vec::new(), true, OwnerReading::default());
        scan_rows(
            tx.read(),
            &[TAG_CONVERGENT],
            &[],
            1024,
            &mut |key, value| {
                let end = keyspace::convergent_owner_len(key)?;
                if owner != key[..end] {
                    owner = key[..end].to_vec();
                    // The ghost of a record may have fields that a deletion had not seen.
                    there = tx.read().get(&record_of(&owner)?)?.is_some()
                        || tx.read().get(&metadata_key_of(&owner)?)?.is_some();
                    reading = OwnerReading::default();
                    if !there {
                        findings.push(format!(
                            "{} has convergent fields and no record",
                            name(&owner)
                        ));
                    }
                }
                if there
                    && let Err(error) = entry(&tx, &seen, &key[end..])
                        .and_then(|()| reading.push(&key[end..], value))
                {
                    findings.push(format!("a convergent field of {}: {error}", name(&owner)));
                }
                Ok(findings.len() < MAX_FINDINGS)
            },
        )?;
        Ok(findings)
    }
}

/// Whether an entry has a name and was seen.
fn entry(tx: &Transaction, seen: &Vector, below_owner: &[u8]) -> Result<(), DataError> {
    let parts = place::entry(below_owner)?;
    let prop = take_id(&mut &below_owner[..])
        .and_then(|prop| u32::try_from(prop).ok())
        .ok_or_else(malformed)?;
    if tx.names().prop_name(PropId(prop)).is_none() || !tx.store().is_convergent(PropId(prop)) {
        return Err(DataError::corrupt(format!(
            "property number {prop} is not known as a convergent one"
        )));
    }
    let Dot {
        replica, number, ..
    } = parts.dot;
    if !seen.covers(parts.dot) {
        return Err(DataError::corrupt(format!(
            "transaction {number} of replica number {} is not among those that were seen",
            replica.0
        )));
    }
    Ok(())
}

fn metadata_key_of(owner: &[u8]) -> Result<Vec<u8>, DataError> {
    let id = keyspace::sole_id(&owner[2..], "the owner of a convergent field")?;
    Ok(match owner[1] {
        0 => keyspace::metadata_row(keyspace::IdSpace::Nodes, id),
        _ => keyspace::metadata_row(keyspace::IdSpace::Relationships, id),
    })
}

fn record_of(owner: &[u8]) -> Result<Vec<u8>, DataError> {
    let id = keyspace::sole_id(&owner[2..], "the owner of a convergent field")?;
    match owner[1] {
        0 => Ok(keyspace::node(isomer_value::NodeId(id))),
        1 => Ok(keyspace::relationship(isomer_value::RelId(id))),
        _ => Err(malformed()),
    }
}

fn name(owner: &[u8]) -> String {
    let id = take_id(&mut &owner[2..]).unwrap_or_default();
    match owner[1] {
        0 => format!("node {id}"),
        _ => format!("relationship {id}"),
    }
}
