//! Relationship types that keep their ends: their constraints, as they are stored.

use std::sync::Arc;

use isomer_storage::Read;
use isomer_value::TypeId;
use rustc_hash::FxHashMap;

use crate::{DataError, keyspace::KEEPERS, pairs::each_pair};

/// A type whose new relationships keep their ends, and the name of its constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointKeeper {
    /// The constraint's name.
    pub name: Arc<str>,
    /// The type.
    pub rel_type: Arc<str>,
}

/// Types that keep their ends, each with the name of its constraint; empty for the usual one.
pub type Keepers = FxHashMap<TypeId, Arc<str>>;

/// Loads the types that keep their ends.
///
/// # Errors
/// [`DataError::Corrupt`] for an unreadable record.
pub fn load(read: &dyn Read) -> Result<Keepers, DataError> {
    let mut types = Keepers::default();
    each_pair(read, KEEPERS, |key, name| {
        enter(&mut types, key, Some(name))
    })?;
    Ok(types)
}

/// Enters one stored pair, or removes what was stored under its key.
///
/// # Errors
/// [`DataError::Corrupt`] for an unreadable record.
pub fn enter(types: &mut Keepers, key: &[u8], name: Option<&[u8]>) -> Result<(), DataError> {
    let malformed = || DataError::corrupt("the record of a type that keeps its ends is malformed");
    let id = key.get(KEEPERS.len()..).and_then(|id| id.try_into().ok());
    let id = TypeId(id.map(u32::from_be_bytes).ok_or_else(malformed)?);
    match name {
        Some(name) => {
            let name = std::str::from_utf8(name).map_err(|_| malformed())?;
            types.insert(id, name.into());
        }
        None => {
            types.remove(&id);
        }
    }
    Ok(())
}

/// The default name of the constraint by which a type's relationships keep their ends.
pub fn default_keeper(rel_type: &str) -> String {
    format!("{rel_type}_keep_endpoints")
}
