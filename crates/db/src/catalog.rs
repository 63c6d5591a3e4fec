//! The planner's catalog, filled from a transaction's.

use std::sync::Arc;

use isomer_data::{GraphRead, Transaction};
use isomer_exec::Registry;
use isomer_plan::catalog::{Catalog, FunctionSignature, IndexInfo, ProcedureSignature};
use isomer_value::{LabelId, PropId, TypeId};

/// What one transaction knows, in the planner's words.
pub(crate) struct PlanCatalog<'t> {
    transaction: &'t Transaction,
    catalog: Arc<isomer_data::Catalog>,
    registry: &'t Registry,
}

impl<'t> PlanCatalog<'t> {
    pub(crate) fn new(transaction: &'t Transaction, registry: &'t Registry) -> Self {
        Self {
            transaction,
            catalog: transaction.catalog(),
            registry,
        }
    }
}

impl Catalog for PlanCatalog<'_> {
    fn schema_version(&self) -> u64 {
        self.catalog.schema_version()
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
        // An estimate: a plan made without it is still right.
        self.transaction.node_count(label).unwrap_or(0)
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64 {
        self.transaction.relationship_count(rel_type).unwrap_or(0)
    }

    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.catalog
            .usable_indexes(label)
            .filter(|index| index.fields.len() == 1 || index.fields.iter().all(|field| !field.each))
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
