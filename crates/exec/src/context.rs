//! The state of one execution: parameters, resolved names, limits, counters, clocks, and its transaction.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use isomer_data::{
    Catalog, ConvergentOwner, DataError, Direction, Durability, FileId, FileMetadata, GraphRead,
    IdSet, NodeLabels, Transaction,
};
use isomer_plan::{
    Plan,
    expr::{LabelRef, LocalId, PropRef, TypeRef},
    physical::{Notice, OpId, PlanNames},
};
use isomer_value::{
    DatabaseId, Element, LabelId, Map, NodeId, PropId, RelId, Relationship, TypeId, Value, jiff,
};
use isomer_views::{ViewReader, Views, ViewsAt};

use rustc_hash::FxHashMap;

use crate::pattern::{Regex, RegexBuilder};
use crate::{
    error::{ErrorClass, ExecError, Result},
    eval::{LastList, Remembered},
    function::{Environment, FieldQuery},
    limits::LimitGuard,
    names::{label_number, property_number, type_number},
    operator::{Child, Morsels},
    procedure::Registry,
    profiler::Profiler,
    result::Counters,
    value_size::own_bytes,
};

/// The state of one execution, without its transaction.
pub(crate) struct ExecutionState {
    pub(crate) plan: Arc<Plan>,
    pub(crate) parameters: Vec<Value>,
    pub(crate) locals: Vec<Value>,
    pub(crate) watch: LimitGuard,
    pub(crate) registry: Arc<Registry>,
    /// Operator trees of expressions' sub-plans, by their root; removed while they run.
    pub(crate) subplans: FxHashMap<OpId, Child>,
    /// The read views at the transaction's version.
    pub(crate) views: ViewsAt,
    pub(crate) host: HostAccess,
    pub(crate) report: Report,
    pub(crate) caches: Caches,
    pub(crate) deleted: Deleted,
    pub(crate) threads: Threads,
    numbers: NameNumbers,
    external: ExternalInputs,
    /// State of the random number generator.
    random: Cell<u64>,
}

/// What the program around the execution offers to it.
#[derive(Clone, Default)]
pub(crate) struct HostAccess {
    /// How subqueries in separate transactions commit; none if the caller decides what is committed.
    pub(crate) own_commits: Option<Durability>,
    pub(crate) running: Option<Arc<dyn crate::result::RunningQueries>>,
    /// What the program answers about itself.
    pub(crate) program: Option<Arc<dyn crate::host::Host>>,
    /// The folder that queries may read files from.
    pub(crate) csv_folder: Option<Arc<std::path::Path>>,
    /// The addresses that queries may read files from.
    pub(crate) csv_urls: Option<crate::download::CsvUrls>,
    /// Source of [`ExecutionState::views`], for the threads of the execution.
    pub(crate) views: Option<Arc<Views>>,
    /// Plans statements that a procedure runs, and holds the graphs in memory.
    #[cfg(feature = "algorithms")]
    pub(crate) planner: Option<Arc<dyn crate::projection::StatementPlanner>>,
}

/// What the execution reports in addition to its rows.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) counters: Counters,
    /// Notices about the data that the execution met, in addition to those of the plan.
    pub(crate) notices: Vec<Notice>,
    /// Measures the operators, if the execution is profiled.
    pub(crate) profiler: Option<Profiler>,
}

/// What expressions keep from one row for the next ones.
#[derive(Default)]
pub(crate) struct Caches {
    /// For `IN` over the same list in many rows.
    pub(crate) last_list: LastList,
    /// The list of element ids that was converted last, its kind, and the result.
    pub(crate) last_ids: RefCell<Option<LastIds>>,
    /// Cached reads of nodes, for statements that write nothing.
    pub(crate) remembered: Remembered,
    regexes: RefCell<FxHashMap<String, Arc<Regex>>>,
}

impl Caches {
    /// Forgets what was read in an earlier transaction.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            regexes: std::mem::take(&mut self.regexes),
            ..Self::default()
        };
    }
}

/// Entities that this statement deleted: later clauses may not read them.
#[derive(Default)]
pub(crate) struct Deleted {
    pub(crate) nodes: IdSet,
    pub(crate) rels: IdSet,
    /// Relationships that were deleted with a node and that a later `DELETE` of the statement must name.
    pub(crate) owed_rels: FxHashMap<RelId, NodeId>,
}

/// The threads that work for the execution, and the part of it that this state belongs to.
pub(crate) struct Threads {
    /// Threads that may work for it at once, including its own.
    pub(crate) workers: usize,
    /// Minimum number of scanned nodes for which several threads are used.
    pub(crate) min_rows: f64,
    /// The shares of a scan, if this is the state of one of several threads.
    pub(crate) morsels: Option<Arc<Morsels>>,
    /// The index of the share that was taken last.
    pub(crate) share: u64,
}

impl Default for Threads {
    /// The execution's own thread alone.
    fn default() -> Self {
        Self {
            workers: 1,
            min_rows: f64::INFINITY,
            morsels: None,
            share: 0,
        }
    }
}

/// Numbers of the names in the plan, by their references; none for a name that was not found yet.
struct NameNumbers {
    labels: Vec<Option<LabelId>>,
    types: Vec<Option<TypeId>>,
    props: Vec<Option<PropId>>,
}

impl NameNumbers {
    fn look_up(names: &PlanNames, catalog: &Catalog) -> Self {
        fn all<T>(names: &[Arc<str>], number: impl Fn(&str) -> Option<T>) -> Vec<Option<T>> {
            names.iter().map(|name| number(name)).collect()
        }
        Self {
            labels: all(&names.labels, |name| catalog.label_id(name)),
            types: all(&names.types, |name| catalog.type_id(name)),
            props: all(&names.properties, |name| catalog.prop_id(name)),
        }
    }
}

/// A list of element ids, kept alive so that its address stays unique; their kind; their numbers.
type LastIds = (Arc<Vec<Value>>, Element, Value);

/// External inputs: one clock and one seed per execution.
#[derive(Clone)]
pub(crate) struct ExternalInputs {
    pub(crate) statement_time: jiff::Timestamp,
    pub(crate) transaction_time: jiff::Timestamp,
    pub(crate) time_zone: jiff::tz::TimeZone,
    pub(crate) seed: u64,
}

impl ExecutionState {
    pub(crate) fn new(
        plan: Arc<Plan>,
        parameters: Vec<Value>,
        watch: LimitGuard,
        registry: Arc<Registry>,
        external: ExternalInputs,
        catalog: &Catalog,
    ) -> Self {
        Self {
            numbers: NameNumbers::look_up(&plan.names, catalog),
            locals: vec![Value::Null; plan.local_count],
            plan,
            parameters,
            watch,
            registry,
            subplans: FxHashMap::default(),
            views: ViewsAt::none(),
            host: HostAccess::default(),
            report: Report::default(),
            caches: Caches::default(),
            deleted: Deleted::default(),
            threads: Threads::default(),
            random: Cell::new(external.seed),
            external,
        }
    }
}

/// A running execution: its state and its transaction.
pub(crate) struct Cx<'a> {
    pub(crate) tx: &'a mut Transaction,
    pub(crate) run: &'a mut ExecutionState,
}

impl Cx<'_> {
    /// The transaction through the read views: all reads use it.
    #[inline]
    pub(crate) fn reader(&self) -> ViewReader<'_> {
        ViewReader::new(self.tx, &self.run.views)
    }

    /// The number of a label; none if no record ever had it.
    pub(crate) fn label(&mut self, label: LabelRef) -> Option<LabelId> {
        let known = &mut self.run.numbers.labels[label.index()];
        if known.is_none() {
            *known = label_number(self.tx, &self.run.plan.names.labels[label.index()]);
        }
        *known
    }

    /// The number of a relationship type; none if no relationship ever had it.
    pub(crate) fn rel_type(&mut self, rel_type: TypeRef) -> Option<TypeId> {
        let known = &mut self.run.numbers.types[rel_type.index()];
        if known.is_none() {
            *known = type_number(self.tx, &self.run.plan.names.types[rel_type.index()]);
        }
        *known
    }

    /// The number of a property name; none if no record ever had it.
    pub(crate) fn prop(&mut self, prop: PropRef) -> Option<PropId> {
        let known = &mut self.run.numbers.props[prop.index()];
        if known.is_none() {
            *known = property_number(self.tx, &self.run.plan.names.properties[prop.index()]);
        }
        *known
    }

    /// The number of a property by its name; none if no record ever had it.
    pub(crate) fn known_key(&self, name: &str) -> Option<PropId> {
        property_number(self.tx, name)
    }

    /// The types that a pattern allows: none if it allows all; otherwise those that exist.
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

    /// Counts work; fails when the query must stop.
    #[inline]
    pub(crate) fn tick(&mut self, units: usize) -> Result<()> {
        self.run.watch.tick(units)
    }

    /// Counts a value that was computed and stays until its batch of rows is used.
    #[inline]
    pub(crate) fn count_computed(&self, value: &Value) -> Result<()> {
        match own_bytes(value) {
            0 => Ok(()),
            bytes => self.run.watch.count_computed(bytes),
        }
    }

    /// As [`Cx::count_computed`], of several values.
    pub(crate) fn count_all_computed(&self, values: &[Value]) -> Result<()> {
        self.run
            .watch
            .count_computed(values.iter().map(own_bytes).sum())
    }

    /// What the batch under evaluation has computed is used up.
    pub(crate) fn forget_computed(&mut self) {
        self.run.watch.forget_computed();
    }

    /// Evaluates a batch of rows, and returns the bytes of what it computed and kept too. Where it `can_end_early`,
    /// [`ExecError::BatchFull`] asks for fewer rows at once.
    pub(crate) fn evaluate<T>(
        &mut self,
        can_end_early: bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> (Result<T>, usize) {
        let around = self.run.watch.begin_evaluation(can_end_early);
        let outcome = work(self);
        (outcome, self.run.watch.end_evaluation(around))
    }

    /// Fails for entities that this statement deleted.
    pub(crate) fn check_node(&self, node: NodeId) -> Result<()> {
        self.run.check_node(node)
    }
}

impl ExecutionState {
    /// The state of a thread that works for this query in its own `transaction` of the same version. It has its own
    /// random number generator.
    pub(crate) fn fork(
        &self,
        number: u64,
        transaction: &Transaction,
        morsels: Arc<Morsels>,
    ) -> Self {
        let external = ExternalInputs {
            seed: self.random.get().rotate_left(32) ^ number,
            ..self.external.clone()
        };
        let watch = self.watch.fork(transaction.store().memory());
        let mut run = Self::new(
            self.plan.clone(),
            self.parameters.clone(),
            watch,
            self.registry.clone(),
            external,
            transaction.names(),
        );
        run.threads.morsels = Some(morsels);
        if let Some(views) = &self.host.views {
            run.views = views.at(transaction);
            run.host.views = Some(views.clone());
        }
        let profiler = &self.report.profiler;
        run.report.profiler = profiler
            .as_ref()
            .map(|profiler| Profiler::new(profiler.operators().len()));
        run
    }

    /// The state of a part of this statement that runs in a separate `transaction`.
    pub(crate) fn for_transaction(&self, transaction: &Transaction, number: u64) -> Self {
        let external = ExternalInputs {
            seed: self.random.get().rotate_left(32) ^ number,
            ..self.external.clone()
        };
        let mut run = Self::new(
            self.plan.clone(),
            self.parameters.clone(),
            self.watch.fork(transaction.store().memory()),
            self.registry.clone(),
            external,
            transaction.names(),
        );
        run.host = HostAccess {
            own_commits: None,
            ..self.host.clone()
        };
        if let Some(views) = &self.host.views {
            run.views = views.at(transaction);
        }
        let profiler = &self.report.profiler;
        run.report.profiler = profiler
            .as_ref()
            .map(|profiler| Profiler::new(profiler.operators().len()));
        run
    }

    /// Records for `PROFILE` that a read view answered an operator.
    pub(crate) fn note_view(&mut self, operator: OpId) {
        if let Some(profiler) = &mut self.report.profiler {
            profiler.operator(operator).from_view = true;
        }
    }

    /// Records for `PROFILE` that an operator's fallback runs in its place.
    pub(crate) fn note_fallback(&mut self, operator: OpId) {
        if let Some(profiler) = &mut self.report.profiler {
            profiler.operator(operator).fell_back = true;
        }
    }

    /// Records for `PROFILE` how many threads ran the chain below an exchange.
    pub(crate) fn note_threads(&mut self, exchange: OpId, threads: usize) {
        if let Some(profiler) = &mut self.report.profiler {
            let profile = profiler.operator(exchange);
            profile.threads = profile.threads.max(threads as u64);
        }
    }

    fn check_node(&self, node: NodeId) -> Result<()> {
        if self.deleted.nodes.contains(node.0) {
            return Err(ExecError::deleted(format!("node {node}")));
        }
        Ok(())
    }

    fn check_rel(&self, relationship: RelId) -> Result<()> {
        if self.deleted.rels.contains(relationship.0) {
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
    /// None of the types named exists: nothing matches.
    Nothing,
    /// One of these, ascending.
    These(Vec<TypeId>),
}

impl TypeFilter {
    /// In the data layer's form; none if nothing matches.
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
        let Some(prop) = property_number(self.tx, name) else {
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
        let Some(prop) = property_number(self.tx, name) else {
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

    fn database(&self) -> DatabaseId {
        self.tx.store().identity()
    }

    fn converted(
        &self,
        ids: &Arc<Vec<Value>>,
        element: Element,
        convert: &dyn Fn(&[Value]) -> Value,
    ) -> Result<Value> {
        let mut last = self.run.caches.last_ids.borrow_mut();
        if let Some((list, kind, numbers)) = &*last
            && Arc::ptr_eq(list, ids)
            && *kind == element
        {
            return Ok(numbers.clone());
        }
        self.allow_bytes(ids.len() * size_of::<Value>())?;
        let numbers = convert(ids);
        *last = Some((ids.clone(), element, numbers.clone()));
        Ok(numbers)
    }

    fn statement_time(&self) -> jiff::Timestamp {
        self.run.external.statement_time
    }

    fn transaction_time(&self) -> jiff::Timestamp {
        self.run.external.transaction_time
    }

    fn real_time(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn time_zone(&self) -> jiff::tz::TimeZone {
        self.run.external.time_zone.clone()
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
        let mut regexes = self.run.caches.regexes.borrow_mut();
        if let Some(regex) = regexes.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = RegexBuilder::new(&format!("^(?:{pattern})$"))
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
            regexes.clear(); // patterns may come from rows: bounds the memory
        }
        let regex = Arc::new(regex);
        regexes.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }

    fn degree(&self, node: NodeId, types: &[Arc<str>], direction: Direction) -> Result<u64> {
        let ids: Vec<TypeId> = types
            .iter()
            .filter_map(|name| type_number(self.tx, name))
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

    fn file_metadata(&self, path: &str) -> Result<Option<FileMetadata>> {
        Ok(self.tx.files().file_metadata(path)?)
    }

    fn file_part(&self, file: FileId, offset: u64, length: u64) -> Result<Vec<u8>> {
        crate::files::part(self.tx, file, offset, length, &|bytes| {
            self.allow_bytes(bytes)
        })
    }

    fn query_field(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        query: FieldQuery<'_>,
    ) -> Result<Value> {
        match owner {
            ConvergentOwner::Node(id) => self.check_node(id)?,
            ConvergentOwner::Relationship(id) => self.run.check_rel(id)?,
        }
        let tx = &*self.tx;
        let looked = match query {
            FieldQuery::Kind => tx
                .fields()
                .kind(owner, path)?
                .map(|kind| Value::from(kind.name())),
            FieldQuery::Value => tx.fields().value(owner, path)?,
            FieldQuery::Contains(value) => {
                tx.fields().contains(owner, path, value)?.map(Value::Bool)
            }
            FieldQuery::Size => tx
                .fields()
                .size(owner, path)?
                .map(|size| Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            FieldQuery::Page(after, limit) => {
                let from = match after {
                    Value::Null => std::ops::Bound::Unbounded,
                    after => std::ops::Bound::Excluded(after),
                };
                tx.fields()
                    .page(owner, path, from, limit)?
                    .map(|page| page.into_iter().collect())
            }
        };
        Ok(looked.unwrap_or_default())
    }

    fn project_graph(&self, rows: &[Value]) -> Result<Value> {
        #[cfg(feature = "algorithms")]
        if let Some(make) = self.run.registry.graph_maker() {
            let planner = self.run.host.planner.clone();
            let program = self.run.host.program.as_ref();
            let user = program
                .map(|program| program.user_name())
                .unwrap_or_default();
            return make(rows, planner.as_deref(), &user, self.tx, self);
        }
        Err(ExecError::Unsupported(format!(
            "gds.graph.project of {} rows: this build has no graph algorithms",
            rows.len()
        )))
    }

    fn allow_bytes(&self, bytes: usize) -> Result<()> {
        // Large values take time to build: cancellation is checked between two rows.
        if bytes >= MIN_CHECKED_BYTES {
            self.run.watch.check()?;
        }
        self.run.watch.allow_computing(bytes)
    }
}

/// Minimum size of a value for which the clock is checked before it is built.
const MIN_CHECKED_BYTES: usize = 4096;

/// Maps a data-layer error to an error of the language, if there is one.
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
