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
        let id = key[KEEPERS.len()..].try_into().map(u32::from_be_bytes);
        let name = std::str::from_utf8(name).ok();
        let (id, name) = id.ok().zip(name).ok_or_else(|| {
            DataError::corrupt("the record of a type that keeps its ends is malformed")
        })?;
        types.insert(TypeId(id), name.into());
        Ok(())
    })?;
    Ok(types)
}

/// The default name of the constraint by which a type's relationships keep their ends.
pub fn default_keeper(rel_type: &str) -> String {
    format!("{rel_type}_keep_endpoints")
}
