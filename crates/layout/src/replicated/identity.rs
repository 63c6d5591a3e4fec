//! The identity of a node or relationship in all replicas.

#![allow(missing_docs)] // an interface for `replication` alone

use isomer_value::LabelId;

use crate::{
    convergent::clock::ReplicaNo,
    keyspace::{push_id, take_id},
    replicated::codec::{push_bytes, take_bytes},
};

/// The identity of a node or relationship. Ids of one database have no meaning in another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// A node that was created with a `_key`: by its label (of several the first by name) and the encoded key, so that
    /// concurrently created records of one key are one record.
    Keyed { label: LabelId, key: Vec<u8> },
    /// Any other record: by the replica that created it, and its id there.
    Made { replica: ReplicaNo, id: u64 },
}

impl Identity {
    /// Appends 01, id label, bytes key; or 02, id replica, id id: with the numbers of this database.
    pub fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::Keyed { label, key } => {
                out.push(1);
                push_id(out, label.0.into());
                push_bytes(out, key);
            }
            Self::Made { replica, id } => {
                out.push(2);
                push_id(out, replica.0.into());
                push_id(out, *id);
            }
        }
    }

    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (&tag, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(match tag {
            1 => Self::Keyed {
                label: LabelId(u32::try_from(take_id(bytes)?).ok()?),
                key: take_bytes(bytes)?.to_vec(),
            },
            2 => Self::Made {
                replica: ReplicaNo(u32::try_from(take_id(bytes)?).ok()?),
                id: take_id(bytes)?,
            },
            _ => return None,
        })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        self.push(&mut bytes);
        bytes
    }
}
