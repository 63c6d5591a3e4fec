//! The planner's catalog, implemented on a transaction's catalog.

use std::cell::RefCell;
use std::sync::Arc;

use isomer_data::{
    ConstraintKind, GraphRead, IndexState, IndexStatistics, LabelStatistics, RecordScope,
    Transaction, TypeStatistics, ValueStatistics,
};
use isomer_exec::{Registry, is_component};
use isomer_plan::catalog::{
    FunctionSignature, IndexFacts, IndexInfo, PlannerCatalog, ProcedureSignature, ValueFacts,
};
use isomer_value::{IndexId, LabelId, PropId, TypeId};
use rustc_hash::FxHashMap;

/// The catalog and statistics as seen by one transaction.
pub(crate) struct PlanCatalog<'t> {
    transaction: &'t Transaction,
    catalog: Arc<isomer_data::Catalog>,
    registry: &'t Registry,
    /// Whether the planner uses statistics on values and labels, or counts alone.
    statistics: bool,
    /// Cached lookups: one plan uses one state of the statistics.
    labels: RefCell<FxHashMap<LabelId, Option<Arc<LabelStatistics>>>>,
    types: RefCell<FxHashMap<TypeId, Option<Arc<TypeStatistics>>>>,
}

impl<'t> PlanCatalog<'t> {
    pub(crate) fn new(
        transaction: &'t Transaction,
        registry: &'t Registry,
        statistics: bool,
    ) -> Self {
        Self {
            transaction,
            catalog: transaction.catalog(),
            registry,
            statistics,
            labels: RefCell::default(),
            types: RefCell::default(),
        }
    }

    /// Statistics of a label; none if they cannot be read: a plan without them is still correct.
    fn label_statistics(&self, label: LabelId) -> Option<Arc<LabelStatistics>> {
        if !self.statistics {
            return None;
        }
        let mut known = self.labels.borrow_mut();
        let read = || {
            let store = self.transaction.store();
            store.statistics().of_label(label).ok().flatten()
        };
        known.entry(label).or_insert_with(read).clone()
    }

    fn type_statistics(&self, type_id: TypeId) -> Option<Arc<TypeStatistics>> {
        if !self.statistics {
            return None;
        }
        let mut known = self.types.borrow_mut();
        let read = || {
            let store = self.transaction.store();
            store.statistics().of_type(type_id).ok().flatten()
        };
        known.entry(type_id).or_insert_with(read).clone()
    }

    /// The values of the first field of an index, if it is at this path.
    fn first_field<'s>(
        &self,
        indexes: &'s [IndexStatistics],
        path: &[&str],
    ) -> Option<&'s ValueStatistics> {
        let is_here = |index: &&IndexStatistics| {
            let index = self.catalog.index(index.index);
            let field = index.and_then(|index| index.fields.first());
            field.is_some_and(|field| {
                let names = field.path.0.iter().map(|name| &**name);
                !field.each && names.eq(path.iter().copied())
            })
        };
        indexes.iter().find(is_here).map(|index| &index.first)
    }

    /// The usable indexes of a label or type.
    fn indexes_of(&self, scope: RecordScope) -> Vec<IndexInfo> {
        self.catalog
            .usable_indexes(scope)
            .filter(|index| index.fields.len() == 1 || index.fields.iter().all(|field| !field.each))
            // If another replica created convergent fields that the index cannot contain, records must be read.
            .filter(|index| {
                let mut fields = index.fields.iter();
                let store = self.transaction.store();
                let lacks =
                    index.unique && fields.any(|field| self.is_convergent(&field.path.0[0]));
                !lacks && !store.is_given_up(index.id)
            })
            // A date has a `year`, as a map may, and is not in an index over `born.year`.
            .filter(|index| {
                let component = |names: &[Arc<str>]| {
                    names.len() > 1 && names.last().is_some_and(|last| is_component(last))
                };
                !index.fields.iter().any(|field| component(&field.path.0))
            })
            .map(|index| IndexInfo {
                id: index.id,
                name: index.name.clone(),
                paths: index
                    .fields
                    .iter()
                    .map(|field| field.path.0.to_vec())
                    .collect(),
                unique: index.unique,
                each_element: index.fields.iter().any(|field| field.each),
                distinct_keys: None,
            })
            .collect()
    }
}

fn value_facts(records: u64, values: &ValueStatistics) -> Arc<ValueFacts> {
    let common = values.common.iter();
    Arc::new(ValueFacts {
        nodes: records as f64,
        present: values.present as f64,
        distinct: values.distinct as f64,
        common: common
            .map(|(value, count)| (value.clone(), *count as f64))
            .collect(),
        bounds: values.bounds.clone(),
    })
}

/// Changes with the schema, with every property that becomes a convergent field, and with every index that is
/// abandoned: then other plans are better, or cached plans are no longer correct.
pub(crate) fn planned_version(transaction: &isomer_data::Transaction) -> u64 {
    let store = transaction.store();
    let convergent = (store.convergent_properties() + store.indexes_given_up()) as u64;
    transaction.catalog().schema_version() ^ convergent << 40
}

impl PlannerCatalog for PlanCatalog<'_> {
    fn schema_version(&self) -> u64 {
        planned_version(self.transaction)
    }

    fn is_convergent(&self, property: &str) -> bool {
        let store = self.transaction.store();
        self.catalog
            .prop_id(property)
            .is_some_and(|prop| store.is_convergent(prop))
    }

    fn label(&self, name: &str) -> Option<LabelId> {
        self.catalog.label_id(name)
    }

    fn relationship_type(&self, name: &str) -> Option<TypeId> {
        self.catalog.type_id(name)
    }

    fn property(&self, name: &str) -> Option<PropId> {
        self.catalog.prop_id(name)
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        // An estimate: a plan without it is still correct.
        self.transaction.node_count(label).unwrap_or(0)
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64 {
        self.transaction.relationship_count(rel_type).unwrap_or(0)
    }

    fn nodes_with_both(&self, a: LabelId, b: LabelId) -> Option<u64> {
        Some(self.label_statistics(a)?.with_label(b))
    }

    fn relationships_between(
        &self,
        rel_type: TypeId,
        from: Option<LabelId>,
        to: Option<LabelId>,
    ) -> Option<u64> {
        Some(self.type_statistics(rel_type)?.between(from, to))
    }

    fn values(&self, label: LabelId, path: &[&str]) -> Option<Arc<ValueFacts>> {
        let statistics = self.label_statistics(label)?;
        let indexed = || self.first_field(&statistics.indexes, path);
        let values = statistics.property(path).or_else(indexed)?;
        Some(value_facts(statistics.nodes, values))
    }

    fn is_required(&self, label: LabelId, path: &[Arc<str>]) -> bool {
        // Merging replicas may leave records that violate a constraint: they are recorded as conflicts.
        if self.transaction.store().is_replicated() {
            return false;
        }
        self.catalog.constraints().iter().any(|constraint| {
            constraint.scope == label.into()
                && constraint.state == IndexState::Ready
                && match &constraint.kind {
                    ConstraintKind::Required { path: known } => known.0 == path,
                    ConstraintKind::Key { index } => {
                        let fields = self.catalog.index(*index).map(|index| &index.fields);
                        fields.is_some_and(|all| all.iter().any(|field| field.path.0 == path))
                    }
                    _ => false,
                }
        })
    }

    fn index_facts(&self, index: IndexId) -> Option<Arc<IndexFacts>> {
        let facts = match self.catalog.index(index)?.scope {
            RecordScope::Label(label) => self.label_statistics(label)?.index(index).cloned()?,
            RecordScope::Type(type_id) => self.type_statistics(type_id)?.index(index).cloned()?,
        };
        Some(Arc::new(IndexFacts {
            entries: facts.entries as f64,
            distinct: facts.distinct.iter().map(|one| *one as f64).collect(),
        }))
    }

    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.indexes_of(label.into())
    }

    fn relationship_indexes(&self, rel_type: TypeId) -> Vec<IndexInfo> {
        self.indexes_of(rel_type.into())
    }

    fn relationship_values(&self, rel_type: TypeId, path: &[&str]) -> Option<Arc<ValueFacts>> {
        let statistics = self.type_statistics(rel_type)?;
        let first = self.first_field(&statistics.indexes, path)?;
        Some(value_facts(statistics.relationships, first))
    }

    fn procedure(&self, name: &str) -> Option<Arc<ProcedureSignature>> {
        self.registry
            .procedure(name)
            .map(|procedure| procedure.signature().clone())
    }

    fn function(&self, name: &str) -> Option<Arc<FunctionSignature>> {
        self.registry
            .function(name)
            .map(|function| function.signature().clone())
    }

    fn label_names(&self) -> Vec<Arc<str>> {
        self.catalog
            .labels()
            .into_iter()
            .map(|(_, name)| name)
            .collect()
    }

    fn type_names(&self) -> Vec<Arc<str>> {
        self.catalog
            .types()
            .into_iter()
            .map(|(_, name)| name)
            .collect()
    }

    fn procedure_names(&self) -> Vec<Arc<str>> {
        self.registry
            .procedures()
            .iter()
            .map(|procedure| procedure.signature().name.clone())
            .collect()
    }
}
