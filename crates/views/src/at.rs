//! The views at one version.

use std::sync::Arc;

use isomer_data::{Catalog, Transaction, Version};
use isomer_value::TypeId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{AdjacencyAt, Side, Views};

/// With more types than this, "any type" is one range of rows instead of as many views.
const MANY_TYPES: usize = 16;

/// The views at the version of one transaction. What is asked for is pinned at the first question and stays the same.
pub struct ViewsAt {
    views: Option<Arc<Views>>,
    catalog: Option<Arc<Catalog>>,
    version: Version,
    pins: Mutex<Pins>,
}

#[derive(Default)]
struct Pins {
    adjacency: FxHashMap<(TypeId, Side), AdjacencyAt>,
}

impl ViewsAt {
    pub(crate) fn new(views: Arc<Views>, tx: &Transaction) -> Self {
        Self {
            views: Some(views),
            catalog: Some(tx.names().clone()),
            version: tx.version(),
            pins: Mutex::default(),
        }
    }

    /// No view: rows answer everything.
    pub fn none() -> Self {
        Self {
            views: None,
            catalog: None,
            version: 0,
            pins: Mutex::default(),
        }
    }

    /// The version that is answered.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether there are views at all.
    pub fn is_enabled(&self) -> bool {
        self.views.is_some()
    }

    /// The relationships of a type, or of all types, seen from one end, if views of them stand; otherwise they are being
    /// made for those who come later. Nothing for all types where there are very many of them.
    pub fn adjacency(&self, type_id: Option<TypeId>, side: Side) -> Option<AdjacencyAt> {
        match type_id {
            Some(type_id) => self.adjacency_of(type_id, side, false, self.enough()),
            None => self.adjacency_of_types(&self.all_types()?, side),
        }
    }

    /// As [`ViewsAt::adjacency`] of one type, with the ids of the relationships.
    pub fn adjacency_with_relationships(&self, type_id: TypeId, side: Side) -> Option<AdjacencyAt> {
        self.adjacency_of(type_id, side, true, self.enough())
    }

    /// All types that there are, unless there are too many to look at one by one.
    pub(crate) fn all_types(&self) -> Option<Vec<TypeId>> {
        let types = self.catalog.as_ref()?.types();
        (types.len() <= MANY_TYPES).then(|| types.into_iter().map(|(id, _)| id).collect())
    }

    /// As [`ViewsAt::adjacency`], of several types together.
    pub fn adjacency_of_types(&self, types: &[TypeId], side: Side) -> Option<AdjacencyAt> {
        // All are asked for, so that all are made.
        let parts: Vec<_> = types
            .iter()
            .map(|type_id| self.adjacency_of(*type_id, side, false, self.enough()))
            .collect();
        let parts: Option<Vec<_>> = parts.into_iter().collect();
        parts.map(AdjacencyAt::many)
    }

    fn enough(&self) -> u64 {
        self.views.as_ref().map_or(0, |views| views.enough_demand())
    }

    /// As [`ViewsAt::adjacency`]; where there is none, `demand` units of work count towards making it.
    pub(crate) fn adjacency_of(
        &self,
        type_id: TypeId,
        side: Side,
        with_ids: bool,
        demand: u64,
    ) -> Option<AdjacencyAt> {
        let views = self.views.as_ref()?;
        let mut pins = self.pins.lock();
        if let Some(known) = pins.adjacency.get(&(type_id, side))
            && (known.has_relationships() || !with_ids)
        {
            return Some(known.clone());
        }
        let pinned = views.adjacency_at(type_id, side, with_ids, self.version, demand)?;
        let at = AdjacencyAt::one(type_id, side, pinned);
        pins.adjacency.insert((type_id, side), at.clone());
        Some(at)
    }
}

impl std::fmt::Debug for ViewsAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewsAt")
            .field("version", &self.version)
            .field("enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}
