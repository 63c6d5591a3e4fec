//! The interface through which the planner reads a database's catalog and statistics. Implemented by the layers above;
//! [`MockCatalog`] serves tests.

use std::sync::Arc;

use isomer_value::{IndexId, LabelId, PropId, TypeId, Value};
use rustc_hash::FxHashMap;

use crate::expr::StaticType;
use crate::schema::PropertyPath;

/// The planner's view of one database at one version.
pub trait PlannerCatalog {
    /// Changes with every change of indexes, constraints, procedures and functions. New names and counts do not change
    /// it: plans stay correct then, but their estimates become outdated.
    fn schema_version(&self) -> u64;

    /// The number of a label, if some record ever had it.
    fn label(&self, name: &str) -> Option<LabelId>;
    /// The number of a relationship type, if some relationship ever had it.
    fn relationship_type(&self, name: &str) -> Option<TypeId>;
    /// The number of a property name, if some record ever had it.
    fn property(&self, name: &str) -> Option<PropId>;

    /// Estimated number of nodes with a label, or of all nodes.
    fn node_count(&self, label: Option<LabelId>) -> u64;
    /// Estimated number of relationships of a type, or of all relationships.
    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64;

    /// Estimated number of nodes with both labels, if known.
    fn nodes_with_both(&self, _a: LabelId, _b: LabelId) -> Option<u64> {
        None
    }
    /// Estimated number of relationships of a type that start at a node of one label (any if absent) and end at one of
    /// another, if known.
    fn relationships_between(
        &self,
        _rel_type: TypeId,
        _from: Option<LabelId>,
        _to: Option<LabelId>,
    ) -> Option<u64> {
        None
    }
    /// Statistics on the values of a property over a label's nodes, if known.
    fn values(&self, _label: LabelId, _path: &[&str]) -> Option<Arc<ValueFacts>> {
        None
    }
    /// Statistics on the entries of an index, if known.
    fn index_facts(&self, _index: IndexId) -> Option<Arc<IndexFacts>> {
        None
    }

    /// Whether some record holds this property as a convergent field: it is then queried without loading its value.
    fn is_convergent(&self, _property: &str) -> bool {
        false
    }

    /// Whether a constraint requires a value at a path of every node of a label.
    fn is_required(&self, _label: LabelId, _path: &[Arc<str>]) -> bool {
        false
    }

    /// The usable indexes of a label, except the index on `_key` that every label has.
    fn indexes(&self, label: LabelId) -> Vec<IndexInfo>;

    /// The usable indexes over the relationships of a type.
    fn relationship_indexes(&self, _rel_type: TypeId) -> Vec<IndexInfo> {
        Vec::new()
    }
    /// Statistics on the values of a property over a type's relationships, if known.
    fn relationship_values(&self, _rel_type: TypeId, _path: &[&str]) -> Option<Arc<ValueFacts>> {
        None
    }

    /// A procedure by its full name, in any case of letters.
    fn procedure(&self, name: &str) -> Option<Arc<ProcedureSignature>>;
    /// A function by its full name that is not built in.
    fn function(&self, name: &str) -> Option<Arc<FunctionSignature>>;

    /// All label names, for hints.
    fn label_names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
    /// All names of relationship types, for hints.
    fn type_names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
    /// All procedure names, for hints.
    fn procedure_names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// An index that the planner may use.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: Arc<str>,
    /// Components, in order.
    pub paths: Vec<PropertyPath>,
    /// At most one record per combination of values.
    pub unique: bool,
    /// An entry per list element: only answers `value IN n.path`.
    pub each_element: bool,
    /// Estimated number of distinct keys, if known.
    pub distinct_keys: Option<u64>,
}

/// Statistics on a property over the nodes of a label, or the relationships of a type. All numbers count these
/// records, and all are estimates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueFacts {
    /// How many records the label or type has.
    pub nodes: f64,
    /// How many of them have a value.
    pub present: f64,
    /// How many distinct values there are.
    pub distinct: f64,
    /// The most common values with how many nodes have each.
    pub common: Vec<(Value, f64)>,
    /// Equi-depth histogram: values that cut the others, in their order, into parts of equal size; the smallest first,
    /// the greatest last.
    pub bounds: Vec<Value>,
}

/// Statistics on the entries of an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexFacts {
    /// How many entries it has.
    pub entries: f64,
    /// How many distinct values its first field has, its first two together, and so on.
    pub distinct: Vec<f64>,
}

/// Whether a procedure writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcedureMode {
    /// Reads only.
    Read,
    /// May write records.
    Write,
    /// Changes the schema.
    Schema,
    /// Reads or changes the server.
    Admin,
}

/// A parameter or result of a procedure.
#[derive(Clone, Debug)]
pub struct ProcedureField {
    /// Its name.
    pub name: Arc<str>,
    /// Its kind; an `Integer` is accepted where a `Float` is asked for.
    pub kind: StaticType,
    /// Whether null is accepted.
    pub nullable: bool,
    /// Used where an argument is left out at the end.
    pub default: Option<Value>,
}

/// The procedure of `ALTER CURRENT USER`. Every user may call it, and its text has passwords.
pub const CHANGE_PASSWORD: &str = "dbms.changePassword";

/// The signature of a procedure.
#[derive(Clone, Debug)]
pub struct ProcedureSignature {
    /// The full name: `kv.scan`.
    pub name: Arc<str>,
    /// Parameters, in order.
    pub parameters: Vec<ProcedureField>,
    /// Results, in order; none for a procedure that returns nothing.
    pub results: Vec<ProcedureField>,
    /// Whether it writes.
    pub mode: ProcedureMode,
}

/// The signature of a registered function.
#[derive(Clone, Debug)]
pub struct FunctionSignature {
    /// The full name.
    pub name: Arc<str>,
    /// Parameters, in order.
    pub parameters: Vec<ProcedureField>,
    /// What it returns.
    pub result: StaticType,
    /// Whether the same arguments give the same result.
    pub deterministic: bool,
}

/// A catalog made by hand.
#[derive(Clone, Debug, Default)]
pub struct MockCatalog {
    labels: Vec<(Arc<str>, u64)>,
    types: Vec<(Arc<str>, u64)>,
    node_count: u64,
    indexes: FxHashMap<u32, Vec<IndexInfo>>,
    relationship_indexes: FxHashMap<u32, Vec<IndexInfo>>,
    index_count: u32,
    procedures: Vec<Arc<ProcedureSignature>>,
    functions: Vec<Arc<FunctionSignature>>,
    both: FxHashMap<(LabelId, LabelId), u64>,
    ends: FxHashMap<TypeId, Vec<(LabelId, LabelId, u64)>>,
    values: FxHashMap<(LabelId, String), Arc<ValueFacts>>,
    index_facts: FxHashMap<IndexId, Arc<IndexFacts>>,
    required: FxHashMap<LabelId, Vec<String>>,
}

impl MockCatalog {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this many nodes of a label.
    pub fn with_label(mut self, name: &str, count: u64) -> Self {
        self.labels.push((name.into(), count));
        self.node_count += count;
        self
    }

    /// With this many relationships of a type.
    pub fn with_type(mut self, name: &str, count: u64) -> Self {
        self.types.push((name.into(), count));
        self
    }

    /// With an index on properties (paths written with dots) of a label declared before.
    pub fn with_index(mut self, label: &str, paths: &[&str], unique: bool) -> Self {
        let id = self.label(label).expect("the label was declared");
        let index = self.next_index(label, paths, unique);
        self.indexes.entry(id.0).or_default().push(index);
        self
    }

    /// With an index on properties (paths written with dots) of a relationship type declared before.
    pub fn with_relationship_index(mut self, name: &str, paths: &[&str], unique: bool) -> Self {
        let id = self.relationship_type(name).expect("the type was declared");
        let index = self.next_index(name, paths, unique);
        let indexes = self.relationship_indexes.entry(id.0).or_default();
        indexes.push(index);
        self
    }

    fn next_index(&mut self, owner: &str, paths: &[&str], unique: bool) -> IndexInfo {
        self.index_count += 1;
        IndexInfo {
            id: IndexId(self.index_count),
            name: format!("{owner}_{}", paths.join("_")).into(),
            paths: paths
                .iter()
                .map(|path| path.split('.').map(Arc::from).collect())
                .collect(),
            unique,
            each_element: false,
            distinct_keys: None,
        }
    }

    /// With an index on the elements of a list property of a label declared before.
    pub fn with_element_index(mut self, label: &str, path: &str) -> Self {
        self = self.with_index(label, &[path], false);
        let id = self.label(label).expect("the label was declared");
        if let Some(index) = self.indexes.get_mut(&id.0).and_then(|all| all.last_mut()) {
            index.each_element = true;
        }
        self
    }

    /// With this many nodes that carry both of two labels declared before, each of which counts them already.
    pub fn with_both(mut self, a: &str, b: &str, count: u64) -> Self {
        let (a, b) = (
            self.label(a).expect("the label was declared"),
            self.label(b).expect("the label was declared"),
        );
        self.both.insert((a, b), count);
        self.both.insert((b, a), count);
        self
    }

    /// With this many relationships of a type declared before from nodes of one label to nodes of another; from now on,
    /// other pairs of labels have zero.
    pub fn with_ends(mut self, rel_type: &str, from: &str, to: &str, count: u64) -> Self {
        let rel_type = self
            .relationship_type(rel_type)
            .expect("the type was declared");
        let (from, to) = (
            self.label(from).expect("the label was declared"),
            self.label(to).expect("the label was declared"),
        );
        self.ends
            .entry(rel_type)
            .or_default()
            .push((from, to, count));
        self
    }

    /// With values of a property (a path written with dots) of a label declared before.
    pub fn with_values(mut self, label: &str, path: &str, facts: ValueFacts) -> Self {
        let label = self.label(label).expect("the label was declared");
        self.values
            .insert((label, path.to_owned()), Arc::new(facts));
        self
    }

    /// With a constraint that each node of a label declared before has a value (at a path written with dots).
    pub fn with_required(mut self, label: &str, path: &str) -> Self {
        let label = self.label(label).expect("the label was declared");
        self.required
            .entry(label)
            .or_default()
            .push(path.to_owned());
        self
    }

    /// With entries of the index declared last.
    pub fn with_entries(mut self, facts: IndexFacts) -> Self {
        self.index_facts
            .insert(IndexId(self.index_count), Arc::new(facts));
        self
    }

    /// With a procedure.
    pub fn with_procedure(mut self, signature: ProcedureSignature) -> Self {
        self.procedures.push(Arc::new(signature));
        self
    }

    /// With a registered function.
    pub fn with_function(mut self, signature: FunctionSignature) -> Self {
        self.functions.push(Arc::new(signature));
        self
    }
}

impl PlannerCatalog for MockCatalog {
    fn schema_version(&self) -> u64 {
        1
    }

    fn label(&self, name: &str) -> Option<LabelId> {
        self.labels
            .iter()
            .position(|(label, _)| &**label == name)
            .map(|at| LabelId(at as u32))
    }

    fn relationship_type(&self, name: &str) -> Option<TypeId> {
        self.types
            .iter()
            .position(|(known, _)| &**known == name)
            .map(|at| TypeId(at as u32))
    }

    fn property(&self, _name: &str) -> Option<PropId> {
        None
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        match label {
            None => self.node_count,
            Some(label) => self
                .labels
                .get(label.0 as usize)
                .map_or(0, |(_, count)| *count),
        }
    }

    fn relationship_count(&self, rel_type: Option<TypeId>) -> u64 {
        match rel_type {
            None => self.types.iter().map(|(_, count)| *count).sum(),
            Some(rel_type) => self
                .types
                .get(rel_type.0 as usize)
                .map_or(0, |(_, count)| *count),
        }
    }

    fn nodes_with_both(&self, a: LabelId, b: LabelId) -> Option<u64> {
        self.both.get(&(a, b)).copied()
    }

    fn relationships_between(
        &self,
        rel_type: TypeId,
        from: Option<LabelId>,
        to: Option<LabelId>,
    ) -> Option<u64> {
        let ends = self.ends.get(&rel_type)?;
        let fits = |(source, target, _): &&(LabelId, LabelId, u64)| {
            from.is_none_or(|from| from == *source) && to.is_none_or(|to| to == *target)
        };
        Some(ends.iter().filter(fits).map(|(_, _, count)| count).sum())
    }

    fn values(&self, label: LabelId, path: &[&str]) -> Option<Arc<ValueFacts>> {
        self.values.get(&(label, path.join("."))).cloned()
    }

    fn is_required(&self, label: LabelId, path: &[Arc<str>]) -> bool {
        let path = path.join(".");
        self.required
            .get(&label)
            .is_some_and(|paths| paths.contains(&path))
    }

    fn index_facts(&self, index: IndexId) -> Option<Arc<IndexFacts>> {
        self.index_facts.get(&index).cloned()
    }

    fn indexes(&self, label: LabelId) -> Vec<IndexInfo> {
        self.indexes.get(&label.0).cloned().unwrap_or_default()
    }

    fn relationship_indexes(&self, rel_type: TypeId) -> Vec<IndexInfo> {
        let indexes = self.relationship_indexes.get(&rel_type.0);
        indexes.cloned().unwrap_or_default()
    }

    fn procedure(&self, name: &str) -> Option<Arc<ProcedureSignature>> {
        self.procedures
            .iter()
            .find(|one| one.name.eq_ignore_ascii_case(name))
            .cloned()
    }

    fn function(&self, name: &str) -> Option<Arc<FunctionSignature>> {
        self.functions
            .iter()
            .find(|one| one.name.eq_ignore_ascii_case(name))
            .cloned()
    }

    fn label_names(&self) -> Vec<Arc<str>> {
        self.labels.iter().map(|(name, _)| name.clone()).collect()
    }

    fn type_names(&self) -> Vec<Arc<str>> {
        self.types.iter().map(|(name, _)| name.clone()).collect()
    }

    fn procedure_names(&self) -> Vec<Arc<str>> {
        self.procedures.iter().map(|one| one.name.clone()).collect()
    }
}
