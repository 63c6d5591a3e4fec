//! Identities and stamps in bytes that are the same in every replica.

use isomer_data::{Transaction, internals::own_replica};
use isomer_layout::replicated::identity::Identity;

use crate::versions::Stamp;

pub(crate) fn spell_identity(tx: &Transaction, identity: &Identity) -> Vec<u8> {
    match identity {
        Identity::Keyed { label, key } => {
            let name = tx.names().label_name(*label).unwrap_or_default();
            [&[1], name.as_bytes(), &[0], key].concat()
        }
        Identity::Made { replica, id } => {
            let name = own_replica(tx.store()).name(*replica);
            let name = name.map(|name| name.to_bytes()).unwrap_or_default();
            [&[2][..], &name, &id.to_be_bytes()].concat()
        }
    }
}

pub(crate) fn spell_stamp(tx: &Transaction, stamp: Stamp) -> Vec<u8> {
    let name = own_replica(tx.store()).name(stamp.dot.replica);
    let mut bytes = name
        .map(|name| name.to_bytes().to_vec())
        .unwrap_or_default();
    bytes.extend_from_slice(&stamp.dot.number.to_le_bytes());
    bytes.extend_from_slice(&stamp.time.to_le_bytes());
    bytes
}
