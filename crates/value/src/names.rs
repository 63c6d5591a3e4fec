//! The mapping between property names and numbers, as the codecs need it.

use std::{collections::HashMap, sync::Arc};

use crate::{PropId, ValueError};

/// Resolves property numbers to names. The catalog of a database implements it.
pub trait Names {
    /// The name of this number.
    fn name(&self, prop: PropId) -> Option<Arc<str>>;

    /// A number below which every number has a name, for bulk lookups. Names are never removed.
    fn named_below(&self) -> u32 {
        0
    }
}

/// Resolves property names to numbers, and allocates new ones.
pub trait Interner {
    /// The number of this name; permanent.
    ///
    /// # Errors
    /// Errors of the catalog if it cannot add a name.
    fn intern(&mut self, name: &str) -> Result<PropId, ValueError>;
}

/// An in-memory name table, numbered from 0 in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, PropId>,
}

impl NameTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of this name, if it has one.
    pub fn find(&self, name: &str) -> Option<PropId> {
        self.numbers.get(name).copied()
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Names for NameTable {
    fn name(&self, prop: PropId) -> Option<Arc<str>> {
        self.names.get(prop.0 as usize).cloned()
    }

    fn named_below(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }
}

impl Interner for NameTable {
    fn intern(&mut self, name: &str) -> Result<PropId, ValueError> {
        if let Some(prop) = self.find(name) {
            return Ok(prop);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| ValueError::TooLarge {
            what: "the table of property names",
            size: self.names.len(),
            max: u32::MAX as usize,
        })?;
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, PropId(number));
        Ok(PropId(number))
    }
}
