//! What replicas wrote to one plain property or key without having seen one another: of several *versions* the last by
//! hybrid time is read, the others are kept until a write that has seen them.

use isomer_data::{Dot, ReplicaId, ReplicaNo, Vector, internals::convergent::OwnReplica};
use isomer_layout::{
    keyspace::{push_id, take_id},
    replicated::codec::{push_bytes, take_byte, take_bytes, take_count},
};
use isomer_value::PropId;

/// The time and the dot of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) dot: Dot,
    /// Hybrid time.
    pub(crate) time: u64,
}

impl Stamp {
    pub(crate) fn push(self, out: &mut Vec<u8>) {
        self.dot.push(out);
        push_id(out, self.time);
    }

    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            dot: Dot::take(bytes)?,
            time: take_id(bytes)?,
        })
    }
}

/// One value, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) stamp: Stamp,
    pub(crate) value: Vec<u8>,
}

/// Properties with their encoded values.
pub(crate) type Set = Vec<(PropId, Vec<u8>)>;

/// Values that are copied: each with the time at which it was written.
pub(crate) type CopiedProperties = Vec<(PropId, Vec<(u64, Vec<u8>)>)>;

/// Names of replicas, which order equal times in the same way in all replicas.
pub(crate) trait ReplicaNames {
    fn replica_name(&self, replica: ReplicaNo) -> Option<ReplicaId>;
}

/// The index in `versions` of the one that is read: the latest; of equal times the one with the greatest replica,
/// number, operation.
pub(crate) fn winner(versions: &[Version], names: &dyn ReplicaNames) -> Option<usize> {
    match versions.len() {
        0 => None,
        1 => Some(0),
        _ => (0..versions.len()).max_by_key(|&at| rank(&versions[at], names)),
    }
}

/// The order of versions without a resolving write: by time, then by the names of replicas.
pub(crate) fn rank(
    version: &Version,
    names: &dyn ReplicaNames,
) -> (u64, Option<ReplicaId>, u64, u32) {
    let Dot {
        replica,
        number,
        op,
    } = version.stamp.dot;
    // By the name of the replica: its number is another one in each database.
    (version.stamp.time, names.replica_name(replica), number, op)
}

/// Removes the versions that were seen.
pub(crate) fn remove_seen(versions: &mut Vec<Version>, seen: &dyn Fn(Dot) -> bool) {
    versions.retain(|version| !seen(version.stamp.dot));
}

/// The versions of two states merged: what both hold, and what one holds that the other has not seen.
pub(crate) fn merge(
    one: &[Version],
    one_seen: &Vector,
    other: &[Version],
    other_seen: &Vector,
) -> Vec<Version> {
    // Linear: there are as many versions as concurrent writes of one property that
    // no later write has resolved.
    let holds = |versions: &[Version], dot: Dot| versions.iter().any(|own| own.stamp.dot == dot);
    let mut merged: Vec<Version> = one
        .iter()
        .filter(|own| survives(own.stamp.dot, holds(other, own.stamp.dot), other_seen))
        .cloned()
        .collect();
    let new = other.iter().filter(|theirs| {
        !holds(one, theirs.stamp.dot) && survives(theirs.stamp.dot, false, one_seen)
    });
    merged.extend(new.cloned());
    merged.sort_unstable_by_key(|version| version.stamp.dot);
    merged
}

/// As [`merge`], for stamps alone.
pub(crate) fn merge_stamps(
    one: &[Stamp],
    one_seen: &Vector,
    other: &[Stamp],
    other_seen: &Vector,
) -> Vec<Stamp> {
    let holds = |stamps: &[Stamp], dot: Dot| stamps.iter().any(|own| own.dot == dot);
    let mut merged: Vec<Stamp> = one
        .iter()
        .filter(|own| survives(own.dot, holds(other, own.dot), other_seen))
        .copied()
        .collect();
    let new = other
        .iter()
        .filter(|theirs| !holds(one, theirs.dot) && survives(theirs.dot, false, one_seen));
    merged.extend(new);
    merged.sort_unstable();
    merged
}

/// Whether a dot of one state stays, by whether the other holds it and what that one has seen.
fn survives(dot: Dot, held: bool, seen: &Vector) -> bool {
    held || !seen.covers(dot)
}

/// Appends an id for the number and of each: stamp, then 0, or 1 and bytes where the value is not the one that is
/// stored in place.
pub(crate) fn push_versions(out: &mut Vec<u8>, versions: &[Version], read: Option<usize>) {
    push_id(out, versions.len() as u64);
    for (at, version) in versions.iter().enumerate() {
        version.stamp.push(out);
        match read == Some(at) {
            true => out.push(0),
            false => {
                out.push(1);
                push_bytes(out, &version.value);
            }
        }
    }
}

/// Reads what [`push_versions`] wrote; `read` is the value that is stored in place.
pub(crate) fn take_versions(bytes: &mut &[u8], read: &[u8]) -> Option<Vec<Version>> {
    (0..take_count(bytes)?)
        .map(|_| {
            let stamp = Stamp::take(bytes)?;
            let value = match take_byte(bytes)? {
                0 => read.to_vec(),
                1 => take_bytes(bytes)?.to_vec(),
                _ => return None,
            };
            Some(Version { stamp, value })
        })
        .collect()
}

impl ReplicaNames for OwnReplica {
    fn replica_name(&self, replica: ReplicaNo) -> Option<ReplicaId> {
        self.name(replica)
    }
}
