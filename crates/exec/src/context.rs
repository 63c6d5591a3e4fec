//! What one execution carries: parameters, resolved names, limits, counters, clocks, and the transaction it runs in.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use isomer_data::{
    Access, Catalog, ConvergentOwner, DataError, Direction, FileAbout, FileId, GraphRead,
    NodeLabels, Transaction,
};
use isomer_plan::{
    Plan,
    expr::{LabelRef, LocalId, PropRef, TypeRef},
    physical::OpId,
};
use isomer_value::{LabelId, Map, NodeId, PropId, RelId, Relationship, TypeId, Value, jiff};
use isomer_views::{Reader, Views, ViewsAt};
use regex::Regex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    error::{ErrorClass, ExecError, Result},
    eval::{LastList, Remembered},
    function::{Environment, Look},
    limits::Watch,
    operator::{Child, Morsels},
    procedure::Registry,
    result::{Counters, OperatorProfile},
};

/// The state of one execution, without its transaction.
pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    pub(crate) parameters: Vec<Value>,
    pub(crate) locals: Vec<Value>,
    pub(crate) watch: Watch,
    pub(crate) counters: Counters,
    pub(crate) registry: Arc<Registry>,
    /// Operator trees of expressions' sub-plans, by their root; taken out while they run.
    pub(crate) subplans: FxHashMap<OpId, Child>,
    /// The read views at the transaction's version.
    pub(crate) views: ViewsAt,
    /// Per operator, where the execution is profiled.
    pub(crate) profile: Option<Vec<OperatorProfile>>,
    /// For `IN` over the same list again and again.
    pub(crate) last_list: LastList,
    /// What was read of nodes already, where nothing can change.
    pub(crate) remembered: Remembered,
    pub(crate) deleted_nodes: FxHashSet<NodeId>,
    pub(crate) deleted_rels: FxHashSet<RelId>,
    /// Relationships that went with a node and that a later `DELETE` of the statement must name.
    pub(crate) owed_rels: FxHashMap<RelId, NodeId>,
    pub(crate) running: Option<Arc<dyn crate::result::RunningQueries>>,
    /// The folder that queries may read files from.
    pub(crate) csv_folder: Option<Arc<std::path::Path>>,
    /// Threads that may work for it at once, its own included.
    pub(crate) workers: usize,
    /// So many nodes to scan are worth several threads.
    pub(crate) parallel_rows: f64,
    /// The shares of a scan, where this is the state of one of several threads.
    pub(crate) morsels: Option<Arc<Morsels>>,
    /// The number of the share that was taken last.
    pub(crate) share: u64,
    /// Where `views` came from.
    pub(crate) all_views: Option<Arc<Views>>,
    labels: Vec<Option<LabelId>>,
    types: Vec<Option<TypeId>>,
    props: Vec<Option<PropId>>,
    random: Cell<u64>,
    regexes: RefCell<FxHashMap<String, Arc<Regex>>>,
    statement_time: jiff::Timestamp,
    transaction_time: jiff::Timestamp,
    time_zone: jiff::tz::TimeZone,
}

/// What comes from outside: one clock and one seed per execution.
pub(crate) struct Surroundings {
    pub(crate) statement_time: jiff::Timestamp,
    pub(crate) transaction_time: jiff::Timestamp,
    pub(crate) time_zone: jiff::tz::TimeZone,
    pub(crate) seed: u64,
}

impl Run {
    pub(crate) fn new(
        plan: Arc<Plan>,
        parameters: Vec<Value>,
        watch: Watch,
        registry: Arc<Registry>,
        surroundings: Surroundings,
        catalog: &Catalog,
    ) -> Self {
        Self {
            labels: plan
                .names
                .labels
                .iter()
                .map(|name| catalog.label_id(name))
                .collect(),
            types: plan
                .names
                .types
                .iter()
                .map(|name| catalog.type_id(name))
                .collect(),
            props: plan
                .names
                .properties
                .iter()
                .map(|name| catalog.prop_id(name))
                .collect(),
            locals: vec![Value::Null; plan.local_count],
            plan,
            parameters,
            watch,
            counters: Counters::default(),
            registry,
            subplans: FxHashMap::default(),
            views: ViewsAt::none(),
            profile: None,
            last_list: LastList::default(),
            remembered: Remembered::default(),
            deleted_nodes: FxHashSet::default(),
            deleted_rels: FxHashSet::default(),
            owed_rels: FxHashMap::default(),
            running: None,
            csv_folder: None,
            workers: 1,
            parallel_rows: f64::INFINITY,
            morsels: None,
            share: 0,
            all_views: None,
            random: Cell::new(surroundings.seed),
            regexes: RefCell::new(FxHashMap::default()),
            statement_time: surroundings.statement_time,
            transaction_time: surroundings.transaction_time,
            time_zone: surroundings.time_zone,
        }
    }
}

/// An execution at work: its state and its transaction.
pub(crate) struct Cx<'a> {
    pub(crate) tx: &'a mut Transaction,
    pub(crate) run: &'a mut Run,
}

impl Cx<'_> {
    /// The transaction through the read views: everything that is read goes through it.
    #[inline]
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(self.tx, &self.run.views)
    }

    /// The number of a label, where some record ever had it.
    pub(crate) fn label(&mut self, label: LabelRef) -> Option<LabelId> {
        let known = &mut self.run.labels[label.index()];
        if known.is_none() {
            *known = known_label(self.tx, &self.run.plan.names.labels[label.index()]);
        }
        *known
    }

    /// The number of a relationship type, where some relationship ever had it.
    pub(crate) fn rel_type(&mut self, rel_type: TypeRef) -> Option<TypeId> {
        let known = &mut self.run.types[rel_type.index()];
        if known.is_none() {
            *known = known_type(self.tx, &self.run.plan.names.types[rel_type.index()]);
        }
        *known
    }

    /// The number of a property name, where some record ever had it.
    pub(crate) fn prop(&mut self, prop: PropRef) -> Option<PropId> {
        let known = &mut self.run.props[prop.index()];
        if known.is_none() {
            *known = known_prop(self.tx, &self.run.plan.names.properties[prop.index()]);
        }
        *known
    }

    /// The number of a property by its name, where some record ever had it.
    pub(crate) fn known_key(&self, name: &str) -> Option<PropId> {
        known_prop(self.tx, name)
    }

    /// The types that a pattern allows: none where it allows all; otherwise those of them that exist.
    pub(crate) fn type_filter(&mut self, types: &[TypeRef]) -> TypeFilter {
        if types.is_empty() {
            return TypeFilter::Any;
        }
        let mut known: Vec<TypeId> = types.iter().filter_map(|one| self.rel_type(*one)).collect();
        known.sort_unstable();
        known.dedup();
        if known.is_empty() {
            TypeFilter::Nothing
        } else {
            TypeFilter::These(known)
        }
    }

    /// The value of a comprehension's variable.
    pub(crate) fn local(&self, local: LocalId) -> Value {
        self.run.locals[local.index()].clone()
    }

    /// Sets the value of a comprehension's variable.
    pub(crate) fn set_local(&mut self, local: LocalId, value: Value) {
        self.run.locals[local.index()] = value;
    }

    /// Counts work; answers an error when the query is to stop.
    #[inline]
    pub(crate) fn tick(&mut self, units: usize) -> Result<()> {
        self.run.watch.tick(units)
    }

    /// Refuses what was deleted by this statement.
    pub(crate) fn check_node(&self, node: NodeId) -> Result<()> {
        self.run.check_node(node)
    }
}

impl Run {
    /// The state of a thread that works for this query in a `transaction` of its own, of the same version. Draws its
    /// random numbers by itself.
    pub(crate) fn fork(
        &self,
        number: u64,
        transaction: &Transaction,
        morsels: Arc<Morsels>,
    ) -> Self {
        let surroundings = Surroundings {
            statement_time: self.statement_time,
            transaction_time: self.transaction_time,
            time_zone: self.time_zone.clone(),
            seed: self.random.get().rotate_left(32) ^ number,
        };
        let watch = self.watch.fork(transaction.store().memory());
        let mut run = Self::new(
            self.plan.clone(),
            self.parameters.clone(),
            watch,
            self.registry.clone(),
            surroundings,
            transaction.names(),
        );
        run.morsels = Some(morsels);
        if let Some(views) = &self.all_views {
            run.views = views.at(transaction);
            run.all_views = Some(views.clone());
        }
        run.profile = self
            .profile
            .as_ref()
            .map(|profile| vec![OperatorProfile::default(); profile.len()]);
        run
    }

    /// Tells `PROFILE` that a read view answered an operator.
    pub(crate) fn note_view(&mut self, operator: OpId) {
        if let Some(profile) = &mut self.profile
            && let Some(figures) = profile.get_mut(operator.index())
        {
            figures.from_view = true;
        }
    }

    /// Tells `PROFILE` of rows that an operator would have given, had it been asked for them one by one.
    pub(crate) fn note_rows(&mut self, operator: OpId, rows: usize) {
        if let Some(profile) = &mut self.profile
            && let Some(figures) = profile.get_mut(operator.index())
        {
            figures.calls += 1;
            figures.rows += rows as u64;
        }
    }

    fn check_node(&self, node: NodeId) -> Result<()> {
        if !self.deleted_nodes.is_empty() && self.deleted_nodes.contains(&node) {
            return Err(ExecError::deleted(format!("node {node}")));
        }
        Ok(())
    }

    fn check_rel(&self, relationship: RelId) -> Result<()> {
        if !self.deleted_rels.is_empty() && self.deleted_rels.contains(&relationship) {
            return Err(ExecError::deleted(format!("relationship {relationship}")));
        }
        Ok(())
    }
}

/// Relationship types that a pattern allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypeFilter {
    /// All.
    Any,
    /// None of the types named exists: there is nothing to find.
    Nothing,
    /// One of these, ascending.
    These(Vec<TypeId>),
}

impl TypeFilter {
    /// As the data layer takes it; none where there is nothing to find.
    pub(crate) fn ids(&self) -> Option<&[TypeId]> {
        match self {
            Self::Any => Some(&[]),
            Self::Nothing => None,
            Self::These(ids) => Some(ids),
        }
    }

    /// Whether `id` is allowed.
    pub(crate) fn allows(&self, id: TypeId) -> bool {
        match self {
            Self::Any => true,
            Self::Nothing => false,
            Self::These(ids) => ids.contains(&id),
        }
    }
}

/// The plan's word for a direction in the data layer's.
pub(crate) fn data_direction(direction: isomer_plan::physical::Direction) -> Direction {
    match direction {
        isomer_plan::physical::Direction::Outgoing => Direction::Outgoing,
        isomer_plan::physical::Direction::Incoming => Direction::Incoming,
        isomer_plan::physical::Direction::Both => Direction::Both,
    }
}

impl Environment for Cx<'_> {
    fn node_labels(&self, node: NodeId) -> Result<Vec<Arc<str>>> {
        self.check_node(node)?;
        let mut labels = NodeLabels::new();
        self.reader().node_labels(&[node], &mut labels)?;
        let catalog = self.tx.catalog();
        let mut names: Vec<Arc<str>> = labels
            .of(0)
            .iter()
            .filter_map(|label| catalog.label_name(*label))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn node_properties(&self, node: NodeId) -> Result<Map> {
        self.check_node(node)?;
        let mut contents = Vec::with_capacity(1);
        self.reader().node_contents(&[node], &mut contents)?;
        Ok(contents
            .pop()
            .flatten()
            .map(|content| content.properties.clone())
            .unwrap_or_default())
    }

    fn node_property(&self, node: NodeId, name: &str) -> Result<Value> {
        self.check_node(node)?;
        let Some(prop) = known_prop(self.tx, name) else {
            return Ok(Value::Null);
        };
        let mut column = [Vec::with_capacity(1)];
        self.reader()
            .node_properties(&[node], &[prop], &mut column)?;
        Ok(column[0].pop().unwrap_or_default())
    }

    fn relationship_properties(&self, relationship: &Relationship) -> Result<Map> {
        self.run.check_rel(relationship.id)?;
        let mut contents = Vec::with_capacity(1);
        self.reader()
            .relationship_contents(&[relationship.id], &mut contents)?;
        Ok(contents
            .pop()
            .flatten()
            .map(|content| content.properties.clone())
            .unwrap_or_default())
    }

    fn relationship_property(&self, relationship: &Relationship, name: &str) -> Result<Value> {
        self.run.check_rel(relationship.id)?;
        let Some(prop) = known_prop(self.tx, name) else {
            return Ok(Value::Null);
        };
        let mut column = [Vec::with_capacity(1)];
        self.reader()
            .relationship_properties(&[relationship.id], &[prop], &mut column)?;
        Ok(column[0].pop().unwrap_or_default())
    }

    fn type_name(&self, id: TypeId) -> Result<Arc<str>> {
        self.tx.catalog().type_name(id).ok_or_else(|| {
            ExecError::Internal(format!("relationship type {id} is not in the catalog"))
        })
    }

    fn statement_time(&self) -> jiff::Timestamp {
        self.run.statement_time
    }

    fn transaction_time(&self) -> jiff::Timestamp {
        self.run.transaction_time
    }

    fn real_time(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn time_zone(&self) -> jiff::tz::TimeZone {
        self.run.time_zone.clone()
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&self) -> u64 {
        let state = self.run.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.run.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn regex(&self, pattern: &str) -> Result<Arc<Regex>> {
        let mut regexes = self.run.regexes.borrow_mut();
        if let Some(regex) = regexes.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
            .size_limit(1 << 20)
            .build()
            .map_err(|error| {
                ExecError::raised(
                    ErrorClass::ArgumentError,
                    "InvalidRegularExpression",
                    format!("`{pattern}` is not a regular expression that `=~` takes: {error}"),
                )
            })?;
        if regexes.len() >= 64 {
            regexes.clear(); // patterns that come from the rows: keep memory bounded
        }
        let regex = Arc::new(regex);
        regexes.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    fn degree(&self, node: NodeId, types: &[Arc<str>], direction: Direction) -> Result<u64> {
        let ids: Vec<TypeId> = types
            .iter()
            .filter_map(|name| known_type(self.tx, name))
            .collect();
        if ids.is_empty() && !types.is_empty() {
            return Ok(0);
        }
        let mut degrees = Vec::with_capacity(1);
        self.reader()
            .degree(&[node], direction, &ids, &mut degrees)?;
        Ok(degrees.first().copied().unwrap_or(0))
    }

    fn bucket_get(&self, bucket: &str, key: &Value) -> Result<Value> {
        crate::builtin::bucket_get(self.tx, bucket, key)
    }

    fn file_about(&self, path: &str) -> Result<Option<FileAbout>> {
        Ok(self.tx.file_about(path)?)
    }

    fn file_part(&self, file: FileId, offset: u64, length: u64) -> Result<Vec<u8>> {
        crate::files::part(self.tx, file, offset, length, &|bytes| {
            self.allow_bytes(bytes)
        })
    }

    fn look_into(&self, owner: ConvergentOwner, path: &[&str], look: Look<'_>) -> Result<Value> {
        match owner {
            ConvergentOwner::Node(id) => self.check_node(id)?,
            ConvergentOwner::Relationship(id) => self.run.check_rel(id)?,
        }
        let tx = &*self.tx;
        let looked = match look {
            Look::Kind => tx
                .convergent_kind(owner, path)?
                .map(|kind| Value::from(kind.name())),
            Look::Value => tx.convergent_value(owner, path)?,
            Look::Contains(value) => tx.convergent_contains(owner, path, value)?.map(Value::Bool),
            Look::Size => tx
                .convergent_size(owner, path)?
                .map(|size| Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            Look::Page(after, limit) => {
                let from = match after {
                    Value::Null => std::ops::Bound::Unbounded,
                    after => std::ops::Bound::Excluded(after),
                };
                tx.convergent_page(owner, path, from, limit)?
                    .map(|page| page.into_iter().collect())
            }
        };
        Ok(looked.unwrap_or_default())
    }

    fn allow_bytes(&self, bytes: usize) -> Result<()> {
        // What takes much memory takes time: between two rows the query may be asked to stop.
        if bytes >= WORTH_A_LOOK {
            self.run.watch.check()?;
        }
        self.run.watch.allow(bytes)
    }
}

/// A value of so many bytes is not made without a look at the clock.
const WORTH_A_LOOK: usize = 4096;

/// The number of a label. A transaction that writes enters a name that is new, so that what it then does not find is
/// observed like everything else (the label's membership, a record's content) and its own later use of the name is no
/// collision with itself. A transaction that reads has no number for it and finds nothing.
pub(crate) fn known_label(tx: &Transaction, name: &str) -> Option<LabelId> {
    match tx.access() {
        Access::Read => tx.find_label(name),
        // Where a name cannot be entered, that it is absent is what was observed.
        Access::Write => tx.intern_label(name).ok().or_else(|| tx.find_label(name)),
    }
}

/// As [`known_label`], for a relationship type.
pub(crate) fn known_type(tx: &Transaction, name: &str) -> Option<TypeId> {
    match tx.access() {
        Access::Read => tx.find_type(name),
        Access::Write => tx.intern_type(name).ok().or_else(|| tx.find_type(name)),
    }
}

/// As [`known_label`], for a property name.
pub(crate) fn known_prop(tx: &Transaction, name: &str) -> Option<PropId> {
    match tx.access() {
        Access::Read => tx.find_prop(name),
        Access::Write => tx.intern_prop(name).ok().or_else(|| tx.find_prop(name)),
    }
}

/// A data-layer error in the language's words, where it has some.
pub(crate) fn write_error(error: DataError) -> ExecError {
    match error {
        DataError::StillConnected { node } => ExecError::raised(
            ErrorClass::ConstraintVerificationFailed,
            "DeleteConnectedNode",
            format!("node {node} still has relationships: delete them too, or say DETACH DELETE"),
        ),
        other => ExecError::Data(other),
    }
}
