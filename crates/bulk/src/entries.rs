//! The index entries of the rows of a load, and the values among them that each record must have alone.

use isomer_data::{Catalog, DataError, RecordScope, Transaction};
use isomer_layout::index::{IndexEntry, entries_of};
use isomer_value::Map;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::{
    load::own_seed,
    uniques::{Claim, Refused, Uniques},
};

/// How errors name the owner of a key or value that a row of the same load repeats.
const THIS_ROW: &str = "this row";
const ANOTHER_ROW: &str = "another row of this load";

/// What a load checks its rows against.
pub(super) struct LoadedScope {
    scope: RecordScope,
    /// Whether there are records of the scope already, among which unique values must be new.
    pub(super) occupied: bool,
    /// Random per load, so that an attacker cannot prepare values whose hashes collide.
    pub(super) seed: u64,
}

impl LoadedScope {
    pub(super) fn new(scope: RecordScope, occupied: bool) -> Self {
        Self {
            scope,
            occupied,
            seed: own_seed(),
        }
    }

    /// Whether one of the scope's indexes is unique.
    pub(super) fn has_unique(&self, catalog: &Catalog) -> bool {
        let mut indexes = catalog.indexes().iter();
        indexes.any(|index| index.scope == self.scope && index.unique)
    }

    /// The entries of a row with these properties; appends its claims to unique values.
    ///
    /// # Errors
    /// [`DataError::NotUnique`] if a record or an earlier row has such a value.
    pub(super) fn entries(
        &self,
        tx: &Transaction,
        properties: &Map,
        uniques: &Uniques,
        claims: &mut Vec<Claim>,
    ) -> Result<Vec<IndexEntry>, DataError> {
        let catalog = tx.names();
        let mut entries = Vec::new();
        let indexes = catalog.indexes().iter().enumerate();
        for (place, index) in indexes.filter(|(_, index)| index.scope == self.scope) {
            for entry in entries_of(index, properties)? {
                if index.unique {
                    let hash = xxh3_128_with_seed(&entry.prefix(), self.seed);
                    let holder = match self.occupied {
                        true => tx.stored_pairs().holder(&entry)?,
                        false => None,
                    };
                    if holder.is_some() || uniques.is_taken(hash) {
                        return Err(DataError::NotUnique {
                            rule: index.name.to_string(),
                            values: entry.described(index, catalog),
                            record: THIS_ROW.into(),
                            holder: match (holder, self.scope) {
                                (None, _) => ANOTHER_ROW.into(),
                                (Some(id), RecordScope::Label(_)) => format!("node {id}"),
                                (Some(id), RecordScope::Type(_)) => format!("relationship {id}"),
                            },
                        });
                    }
                    claims.push(Claim {
                        hash,
                        place: place as u32 + 1,
                        value: entry.described(index, catalog),
                    });
                }
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// The error of a row that repeats the unique value of an earlier one.
pub(super) fn repeated_value(catalog: &Catalog, place: u32, refused: &Refused) -> DataError {
    let index = catalog.indexes().get(place as usize);
    DataError::NotUnique {
        rule: index.map_or_else(String::new, |index| index.name.to_string()),
        values: refused.value.clone(),
        record: THIS_ROW.into(),
        holder: ANOTHER_ROW.into(),
    }
}
