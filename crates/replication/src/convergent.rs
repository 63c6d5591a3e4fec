//! Which properties of a record are convergent fields.

use isomer_data::{ConvergentOwner, DataError, Transaction, after_prefix, internals::own_replica};
use isomer_layout::{keyspace::take_id, replicated::codec::malformed};
use isomer_value::PropId;

/// The convergent properties of an owner, one lookup each.
pub(crate) fn convergent_properties_of(
    tx: &Transaction,
    owner: ConvergentOwner,
) -> Result<Vec<PropId>, DataError> {
    let mut props = Vec::new();
    if !own_replica(tx.store()).has_any() {
        return Ok(props);
    }
    let prefix = owner.prefix();
    let end = after_prefix(&prefix);
    let mut start = prefix.clone();
    while let Some(key) = tx.raw().first_key(&start, end.as_deref())? {
        let mut rest = &key[prefix.len()..];
        let prop = take_id(&mut rest).and_then(|prop| u32::try_from(prop).ok());
        props.push(PropId(
            prop.ok_or_else(|| malformed("the place of a field"))?,
        ));
        match after_prefix(&key[..key.len() - rest.len()]) {
            Some(next) => start = next,
            None => break,
        }
    }
    Ok(props)
}
