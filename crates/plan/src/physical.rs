//! The physical plan: an immutable, re-entrant tree of operators in an arena.
//!
//! **The plan is what runs.** Each operator is one algorithm, and the executor has one state for each. The planner's
//! last step (`solve::choose`) chooses among operators that return the same rows. One that may be unable to
//! run, such as one that reads a view which may be absent, names the operator that then runs in its place: its
//! *fallback*. Which of the two runs is decided for each run, and `PROFILE` shows it. A fallback may read the
//! operator's own input: the two never run together.
//!
//! **Rows.** A row is a set of slots. An operator adds slots to the rows of its `input` (expressions in it read slots
//! of the input); [`Operator::live`] lists the slots that operators above still read, ascending, so that the executor
//! drops all others. A slot has the same number everywhere in the plan, also on both sides of an apply or a join. Every
//! operator keeps the order of rows except where its doc says otherwise; only `Sort` and `Top` establish one.
//!
//! **Right sides.** The rows of a right side (apply, join, product, the matching side of a merge) contain only the
//! slots that the right side itself binds, given by its root's `live`; the other slots of a result row are those of the
//! row of `input`.
//!
//! **Leaves.** [`Op::Argument`] is the only leaf. At the root of a statement it is one row without slots. On the right
//! side of an apply, in the body of a `FOREACH`, or in an expression's [`Subquery`](crate::expr::Subquery), it is the
//! outer row. Scans and seeks have an input and run once for each of its rows.
//!
//! **Chunks.** Designed for an executor whose chunk has one flat group of columns and at most one list group:
//! [`Expand::group`] marks an expand whose `relationship` and `to` may stay a list group, because everything up to the
//! next aggregation only counts them or reads the flat side; [`Op::Degree`] goes further and keeps only their number,
//! as a factor of the aggregation above ([`Aggregate::factors`]). An executor may ignore `group`, but not `factors`.
//!
//! **Relationship uniqueness.** Within one `MATCH` no relationship is used twice. Expands carry `distinct_from`: slots
//! of relationships (or lists of them) matched earlier in the same clause that the new one must differ from.
//!
//! **Writes.** Rows pass a write operator one by one, in order; the planner adds [`Op::Eager`] if a clause could
//! otherwise observe its own writes, or those of a later clause.

use std::sync::Arc;

pub use isomer_cypher::ast::{OnBatchError, StatementMode};
pub use isomer_value::Direction;

pub use crate::expr::OpId;
use isomer_value::{IndexId, Value};

use crate::catalog::{CHANGE_PASSWORD, ProcedureSignature};
use crate::expr::{
    AggregateCall, BoundExpr, LabelRef, LocalId, ParamId, PropRef, SlotId, StaticType, TypeRef,
};
use crate::function::Convergence;
use crate::schema::SchemaCommand;
use crate::walk::{Selector, Walk};

/// A prepared statement. Immutable; any number of executions may share it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The body: a pipeline or a command.
    pub body: PlanBody,
    /// Operators of the pipeline and of all sub-plans. Inputs precede their operators, except for the exchanges and
    /// fallbacks that the planner's last step adds, which follow all others.
    pub operators: Vec<Operator>,
    /// Names and kinds of slots.
    pub slots: Vec<SlotInfo>,
    /// Number of [`LocalId`]s.
    pub local_count: usize,
    /// Names of labels, types and properties that expressions and operators refer to.
    pub names: PlanNames,
    /// Names of the parameters used, in order of first use; execution without one of them fails before it starts.
    pub parameters: Vec<Arc<str>>,
    /// Names of registered functions used.
    pub registered_functions: Vec<Arc<str>>,
    /// Column names of the result, as written; empty if the statement returns nothing.
    pub columns: Vec<Arc<str>>,
    /// Its effect on the database.
    pub class: StatementClass,
    /// Run, explain or profile.
    pub mode: StatementMode,
    /// Notices to the user that are not errors.
    pub notices: Vec<Notice>,
    /// Parameters compared with a property whose values are very unevenly distributed, each with the values that far
    /// more or far fewer nodes have than average: for one of these values another plan may be better.
    pub skewed: Vec<(Arc<str>, Vec<Value>)>,
    /// The schema version of the catalog for which it was planned; plan again when the catalog's version differs.
    pub schema_version: u64,
}

impl Plan {
    /// Whether its text may have passwords: statements that administer.
    pub fn has_secrets(&self) -> bool {
        let changes_password = |operator: &Operator| match &operator.op {
            Op::ProcedureCall(call) => *call.procedure.name == *CHANGE_PASSWORD,
            _ => false,
        };
        self.class == StatementClass::Admin || self.operators.iter().any(changes_password)
    }

    /// The operator at `id`.
    pub fn operator(&self, id: OpId) -> &Operator {
        &self.operators[id.index()]
    }

    /// The name of a property.
    pub fn property_name(&self, property: PropRef) -> &Arc<str> {
        &self.names.properties[property.index()]
    }

    /// The name of a label.
    pub fn label_name(&self, label: LabelRef) -> &Arc<str> {
        &self.names.labels[label.index()]
    }

    /// The name of a relationship type.
    pub fn type_name(&self, rel_type: TypeRef) -> &Arc<str> {
        &self.names.types[rel_type.index()]
    }

    /// The name of a parameter.
    pub fn parameter_name(&self, parameter: ParamId) -> &Arc<str> {
        &self.parameters[parameter.index()]
    }
}

/// The body of a plan.
#[derive(Clone, Debug)]
pub enum PlanBody {
    /// A pipeline. If the root is [`Op::ProduceResult`] its rows are the result, otherwise it is run to its end for its
    /// effects and returns no rows.
    Pipeline(OpId),
    /// One record looked up by its key: no pipeline.
    PointRead(PointRead),
    /// A change of the schema; returns no rows.
    Schema(SchemaCommand),
    /// `KILL QUERY id`: cancels a running query. The expression reads no slots.
    KillQuery(BoundExpr),
}

/// `MATCH (n:Label {_key: key}) RETURN …`: at most one row.
#[derive(Clone, Debug)]
pub struct PointRead {
    /// The label.
    pub label: LabelRef,
    /// The key; reads no slots. Null, or a value that cannot be a key, gives no row.
    pub key: BoundExpr,
    /// The slot of the node that the columns read.
    pub node: SlotId,
    /// One expression for each column of the result; no sub-plans.
    pub columns: Vec<BoundExpr>,
}

/// Class of a statement, for access modes and authorisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StatementClass {
    /// Reads only.
    Read,
    /// May write records.
    Write,
    /// Changes indexes or constraints.
    Schema,
    /// Reads or changes the server.
    Admin,
}

impl StatementClass {
    /// The class's name as interfaces print it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Schema => "schema",
            Self::Admin => "admin",
        }
    }
}

/// A notice to the user that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// A stable short name: `UnknownLabel`, `UnknownType`, `CartesianProduct`, `SurplusFields`.
    pub code: &'static str,
    /// The message, with advice.
    pub message: String,
    /// Position in the text: (start, end) in bytes.
    pub span: Option<(usize, usize)>,
}

impl Notice {
    /// A notice with a stable short name, for a part of the text.
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        span: Option<(usize, usize)>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            span,
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Names that a plan refers to by number.
#[derive(Clone, Debug, Default)]
pub struct PlanNames {
    /// Labels.
    pub labels: Vec<Arc<str>>,
    /// Relationship types.
    pub types: Vec<Arc<str>>,
    /// Property names.
    pub properties: Vec<Arc<str>>,
}

/// Name and kind of a slot.
#[derive(Clone, Debug)]
pub struct SlotInfo {
    /// The variable that it stores, or an invented name in brackets.
    pub name: Arc<str>,
    /// What it holds. `Node` and `Relationship` slots may be columns of ids, with nulls.
    pub kind: StaticType,
}

/// One operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its operation.
    pub op: Op,
    /// The slots of its output that are still read above, ascending.
    pub live: Vec<SlotId>,
    /// Estimated rows.
    pub rows: f64,
}

/// The keys of a seek.
#[derive(Clone, Debug)]
pub enum SeekKeys {
    /// One key. Null finds nothing.
    One(BoundExpr),
    /// A list of keys: each distinct one once, nulls find nothing; a null list finds nothing, another value is a type
    /// error.
    Each(BoundExpr),
}

/// A bound of a range in an index.
#[derive(Clone, Debug)]
pub enum SeekBound {
    /// No bound.
    Unbounded,
    /// Inclusive.
    Included(BoundExpr),
    /// Exclusive.
    Excluded(BoundExpr),
}

/// The range of an index seek.
///
/// Only values that are *comparable* with the bound match (a range over numbers finds no strings), as `<` would be null
/// for others; a null bound finds nothing.
#[derive(Clone, Debug)]
pub enum IndexRange {
    /// The prefix alone; without a prefix the whole index.
    All,
    /// The component after the prefix equals each of these keys (see [`SeekKeys`]).
    Keys(SeekKeys),
    /// The component after the prefix lies between the bounds.
    Between(SeekBound, SeekBound),
    /// The component after the prefix is a string that starts with this one.
    StartsWith(BoundExpr),
}

/// Operators. `input` is the operator whose rows are read.
#[expect(missing_docs, reason = "each field is a word of its operator's doc")]
#[derive(Clone, Debug)]
pub enum Op {
    /// The outer row, or one row without slots at the root of a statement.
    Argument,

    // --- sources of nodes and relationships; each runs once per input row
    /// All nodes.
    AllNodesScan { input: OpId, node: SlotId },
    /// The nodes with a label.
    LabelScan {
        input: OpId,
        node: SlotId,
        label: LabelRef,
    },
    /// Nodes by `_key` in a label.
    NodeByKey {
        input: OpId,
        node: SlotId,
        label: LabelRef,
        keys: SeekKeys,
    },
    /// Nodes by internal id.
    NodeById {
        input: OpId,
        node: SlotId,
        ids: SeekKeys,
    },
    /// Nodes through an index, each node once, in the order of the index.
    IndexSeek(NodeIndexSeek),
    /// All relationships of one of the types (none given: of any). With `Both` each is found twice, once per direction
    /// (self loops once).
    RelationshipScan(RelationshipScan),
    /// Relationships of one type through an index, each once per direction, in the order of the index.
    RelationshipIndexSeek(RelationshipIndexSeek),
    /// Relationships by internal id.
    RelationshipById {
        input: OpId,
        relationship: SlotId,
        from: SlotId,
        to: SlotId,
        direction: Direction,
        ids: SeekKeys,
    },

    // --- along relationships
    /// From a bound node to its neighbours.
    Expand(Expand),
    /// Replaces one expand, or two, of which only the distinct ends matter: a search in the adjacency returns each end
    /// once.
    DistinctEnds(DistinctEnds),
    /// Between two bound nodes.
    ExpandInto(ExpandInto),
    /// Replaces an expand that is only counted: writes the number of rows that it would have returned into `count`, and
    /// passes the row (dropping it if 0).
    Degree(Degree),
    /// Walks of several relationships, none used twice.
    VarExpand(VarExpand),
    /// Shortest walks between two bound nodes.
    ShortestPath(ShortestPath),
    /// Walks along repeated groups of steps, or the shortest of any walks.
    PathSearch(PathSearch),
    /// Checks a bound relationship against a pattern, and binds its ends: `MATCH (a)-[r]->(b)` with a bound `r`. With
    /// `Both` one row per matching direction.
    RelationshipEnds(RelationshipEnds),

    // --- combining
    /// Runs `right` for each row of `input`; its rows are the result. `right` reads the row through its `Argument`. A
    /// chunk of rows is run at once where [`Plan::runs_batched`] allows it, here and in the three operators below.
    Apply { input: OpId, right: OpId },
    /// Like `Apply`, in separate transactions: each of them for a batch of rows.
    BatchApply(BatchApply),
    /// Like `Apply`, but a row without a match passes once, with `nulls` set to null.
    OptionalApply {
        input: OpId,
        right: OpId,
        nulls: Vec<SlotId>,
    },
    /// Passes the rows for which `right` has a row (`anti`: for which it has no row).
    SemiApply {
        input: OpId,
        right: OpId,
        anti: bool,
    },
    /// Passes each row with the number of rows that `right` has for it in `count`; each of these is weighted with its
    /// `factor`.
    CountApply {
        input: OpId,
        right: OpId,
        count: SlotId,
        factor: Option<SlotId>,
    },
    /// Every row of `input` with every row of `right`, which is independent of it and may be buffered.
    CartesianProduct { input: OpId, right: OpId },
    /// Rows of `input` and `right` whose keys are equal (three-valued: null matches nothing). The sides are independent
    /// of each other. Order: that of `input`.
    HashJoin {
        input: OpId,
        right: OpId,
        input_keys: Vec<BoundExpr>,
        right_keys: Vec<BoundExpr>,
    },
    /// The rows of all inputs, one after the other; each branch writes the same slots.
    Union { inputs: Vec<OpId> },

    // --- rows
    /// Replaces an aggregation that only counts the rows of a whole scan: writes the stored count into each of
    /// `counts`. One row per row of `input`.
    Count(Count),
    /// Keeps the rows for which all predicates are true, tested in order.
    Filter {
        input: OpId,
        predicates: Vec<BoundExpr>,
    },
    /// Adds columns. Expressions read the input, not each other.
    Project {
        input: OpId,
        columns: Vec<(SlotId, BoundExpr)>,
    },
    /// Groups and aggregates, by hashing. Any order.
    Aggregate(Aggregate),
    /// Only counts rows, by one node: groups are found in an array by the node's number. Any order.
    CountByNode(Aggregate),
    /// Replaces an expand whose rows are only counted by their end: counts the ends in the adjacency, and does not
    /// form the rows. Any order.
    CountByNeighbour(CountByNeighbour),
    /// Counts the rows of groups that are nodes by the nodes' keys: as each node has another key, the groups stay as
    /// they are. Any order.
    GroupByKey(GroupByKey),
    /// Counts the nodes of a label by one property, in the property's column. Any order.
    CountByColumn(CountByColumn),
    /// Counts paths of two relationships in the adjacency, without enumerating them. One row.
    CountPaths(CountPaths),
    /// Runs a chain of operators over a scan in several threads, each with its share of the scan. Without several
    /// threads, or if few rows are scanned, it passes on the rows of its input.
    Exchange(Exchange),
    /// `DISTINCT`: the first row of each combination of these slots.
    Distinct { input: OpId, slots: Vec<SlotId> },
    /// Stable sort.
    Sort { input: OpId, keys: Vec<SortKey> },
    /// The first `limit` rows of the sorted ones, in order.
    Top {
        input: OpId,
        keys: Vec<SortKey>,
        limit: BoundExpr,
    },
    /// Drops the first rows. `count` reads no slots; a negative or non-integer value is an error.
    Skip { input: OpId, count: BoundExpr },
    /// Keeps the first rows. `count` reads no slots; a negative or non-integer value is an error.
    Limit { input: OpId, count: BoundExpr },
    /// One row per element of a list; null gives none, another value gives itself.
    Unwind {
        input: OpId,
        list: BoundExpr,
        element: SlotId,
        /// The position of each element, counted from this number.
        position: Option<(SlotId, i64)>,
    },
    /// Calls a procedure for each row.
    ProcedureCall(ProcedureCall),
    /// Reads a CSV file, one row each.
    LoadCsv {
        input: OpId,
        url: BoundExpr,
        headers: bool,
        field_terminator: Option<BoundExpr>,
        row: SlotId,
        /// The line at which the row begins.
        line: SlotId,
        /// The file, as `file()` gives it.
        file: SlotId,
    },
    /// Reads all rows before it passes the first.
    Eager { input: OpId },

    // --- writing
    /// Creates nodes, then relationships.
    Create { input: OpId, pattern: CreatePattern },
    /// Runs `matching` for the row: its rows pass, after `on_match`; if there are none, creates the pattern and applies
    /// `on_create`. A null property in the pattern is an error.
    Merge(MatchOrCreate),
    /// Sets and removes properties and labels, item by item.
    Set {
        input: OpId,
        items: Vec<EntityChange>,
    },
    /// Deletes nodes, relationships and paths; nulls are skipped, other values are type errors. All rows' entities are
    /// deleted together: without `detach`, a node that has a relationship at the end of the statement is an error.
    Delete {
        input: OpId,
        targets: Vec<BoundExpr>,
        detach: bool,
    },
    /// For each element of a list runs `body`, whose `Argument` has the row and the element; then passes the row.
    ForEach {
        input: OpId,
        list: BoundExpr,
        element: SlotId,
        body: OpId,
    },

    // --- the result
    /// The result: one slot per column. Entities in it are read with their contents.
    ProduceResult { input: OpId, columns: Vec<SlotId> },
    /// Rows about the catalog or the running queries. Fills `slots`, one per field of
    /// [`Listing::fields`](crate::schema::Listing::fields).
    Show {
        input: OpId,
        show: crate::schema::Listing,
        slots: Vec<SlotId>,
    },
}

/// Nodes through an index.
#[derive(Clone, Debug)]
pub struct NodeIndexSeek {
    /// The input.
    pub input: OpId,
    /// The node found.
    pub node: SlotId,
    /// The label that the index covers.
    pub label: LabelRef,
    /// Which index.
    pub index: IndexId,
    /// Values of its first components; null finds nothing.
    pub prefix: Vec<BoundExpr>,
    /// The range of the component after them.
    pub range: IndexRange,
    /// Whether to scan backwards.
    pub descending: bool,
}

/// All relationships of some types.
#[derive(Clone, Debug)]
pub struct RelationshipScan {
    /// The input.
    pub input: OpId,
    /// The relationship found.
    pub relationship: SlotId,
    /// Where the pattern starts.
    pub from: SlotId,
    /// Where the pattern ends.
    pub to: SlotId,
    /// Direction of the relationship between them.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
}

/// Relationships through an index.
#[derive(Clone, Debug)]
pub struct RelationshipIndexSeek {
    /// Which relationships it finds, and what it binds: of exactly one type, which the index covers.
    pub scan: RelationshipScan,
    /// Which index.
    pub index: IndexId,
    /// Values of its first components; null finds nothing.
    pub prefix: Vec<BoundExpr>,
    /// The range of the component after them.
    pub range: IndexRange,
    /// Whether to scan backwards.
    pub descending: bool,
}

/// From a bound node to its neighbours.
#[derive(Clone, Debug)]
pub struct Expand {
    /// The input.
    pub input: OpId,
    /// Bound; a null gives no row.
    pub from: SlotId,
    /// Direction.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// The relationship; absent if it is not read.
    pub relationship: Option<SlotId>,
    /// The neighbour.
    pub to: SlotId,
    /// The relationship must differ from all of these.
    pub distinct_from: Vec<SlotId>,
    /// May stay a list group of the chunk.
    pub group: bool,
}

/// One step along relationships.
#[derive(Clone, Debug)]
pub struct ExpandStep {
    /// Direction, seen from where the step starts.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
}

/// The distinct ends of one step or of two, over the adjacency.
///
/// Each end once; if other slots of the input are read above (two steps only), each end once for each row of the
/// input. The ends may come in any order, and the fallback may return duplicates.
#[derive(Clone, Debug)]
pub struct DistinctEnds {
    /// The input.
    pub input: OpId,
    /// Where the first step starts; a null gives no row.
    pub from: SlotId,
    /// One step or two.
    pub steps: Vec<ExpandStep>,
    /// Receives the end of the last step.
    pub to: SlotId,
    /// The second step may not use the relationship of the first.
    pub differ: bool,
    /// Runs if the adjacency has no view. Reads `input`, through one expand for each step.
    pub fallback: OpId,
}

/// Relationships between two bound nodes.
#[derive(Clone, Debug)]
pub struct ExpandInto {
    /// The input.
    pub input: OpId,
    /// Bound.
    pub from: SlotId,
    /// Bound.
    pub to: SlotId,
    /// Direction, seen from `from`.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// The relationship; absent if it is not read.
    pub relationship: Option<SlotId>,
    /// The relationship must differ from all of these.
    pub distinct_from: Vec<SlotId>,
}

/// A sub-plan that runs in separate transactions: `CALL { … } IN TRANSACTIONS`.
///
/// The rows of `input` are those of the statement's snapshot, whatever the transactions commit. Memory: the
/// rows of one batch, and what they return.
#[derive(Clone, Debug)]
pub struct BatchApply {
    /// The input.
    pub input: OpId,
    /// Runs for each row of the input, which it reads through its `Argument`.
    pub right: OpId,
    /// Rows of one transaction; the default of the executor if absent.
    pub batch_rows: Option<BoundExpr>,
    /// Transactions that run at once; one if absent, the executor's choice if 0.
    pub concurrency: Option<BoundExpr>,
    /// What an error in a transaction does.
    pub on_error: OnBatchError,
    /// Receives the outcome of the row's transaction as a map.
    pub status: Option<SlotId>,
    /// The slots that the sub-plan returns: null for the rows of a transaction that failed. If there are none, each row
    /// passes once.
    pub outputs: Vec<SlotId>,
    /// Whether a row for which the sub-plan returns none passes once, with nulls.
    pub optional: bool,
}

impl BatchApply {
    /// The slots that it binds.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.outputs.iter().copied().chain(self.status)
    }
}

/// The number of relationships of a bound node.
#[derive(Clone, Debug)]
pub struct Degree {
    /// The input.
    pub input: OpId,
    /// Bound; null counts 0.
    pub from: SlotId,
    /// Direction.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// Relationships that do not count: those of them that the expand would have found are subtracted.
    pub distinct_from: Vec<SlotId>,
    /// Receives the count, an integer.
    pub count: SlotId,
}

/// Walks of several relationships.
///
/// Depth first or breadth first, chosen by the executor; the walk uses no relationship twice, and none of
/// `distinct_from`.
#[derive(Clone, Debug)]
pub struct VarExpand {
    /// The input.
    pub input: OpId,
    /// Bound.
    pub from: SlotId,
    /// The end of the walk; bound already if `into`.
    pub to: SlotId,
    /// Whether `to` is bound.
    pub into: bool,
    /// Direction of each step, seen from `from`.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// Minimum number of steps.
    pub min: u64,
    /// Maximum number of steps; only the limits of the execution apply if absent.
    pub max: Option<u64>,
    /// Receives the list of relationships; absent if it is not read.
    pub relationships: Option<SlotId>,
    /// The pattern was written from `to` to `from`: the list of relationships must be reversed.
    pub reversed: bool,
    /// No step may use one of these (relationships or lists of relationships).
    pub distinct_from: Vec<SlotId>,
    /// Must hold for each relationship of the walk, which is bound to the local. May read slots of the input.
    pub step_predicate: Option<(LocalId, BoundExpr)>,
    /// Only each distinct `to` per input row is needed (the relationships are not read, and duplicates make no
    /// difference): may be answered by a search that visits each node once.
    pub distinct_ends: bool,
}

/// Shortest walks between two bound nodes.
#[derive(Clone, Debug)]
pub struct ShortestPath {
    /// The input.
    pub input: OpId,
    /// Bound.
    pub from: SlotId,
    /// Bound.
    pub to: SlotId,
    /// Direction of each step, seen from `from`.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// Minimum number of steps: 0 or 1.
    pub min: u64,
    /// Maximum number of steps.
    pub max: Option<u64>,
    /// Every shortest one, or any single one.
    pub all: bool,
    /// Receives the path.
    pub path: Option<SlotId>,
    /// Receives the list of relationships.
    pub relationships: Option<SlotId>,
    /// Must hold for each relationship, which is bound to the local. May read slots of the input.
    pub step_predicate: Option<(LocalId, BoundExpr)>,
    /// Must hold for the walk as a whole (reads `path`, `relationships` and the input): the result is the shortest
    /// walks *that satisfy it*, so with a predicate all walks are tried in order of length.
    pub predicate: Option<BoundExpr>,
}

/// Walks along single steps and repeated groups of them; none uses a relationship twice.
#[derive(Clone, Debug)]
pub struct PathSearch {
    /// The input.
    pub input: OpId,
    /// Bound.
    pub from: SlotId,
    /// The end of the walk; bound already if `into`.
    pub to: SlotId,
    /// Whether `to` is bound; always if there is a selector.
    pub into: bool,
    /// The pattern of the walk.
    pub walk: Walk,
    /// The pattern was written from `to` to `from`: lists and the path must be reversed.
    pub reversed: bool,
    /// Which of the walks from `from` to `to` are kept; all of them if absent.
    pub selector: Option<Selector>,
    /// Receives the path.
    pub path: Option<SlotId>,
    /// Receives the list of all relationships.
    pub relationships: Option<SlotId>,
    /// No step may use one of these (relationships or lists of relationships).
    pub distinct_from: Vec<SlotId>,
    /// Must hold for the walk as a whole before any is selected: reads its bindings and the input.
    pub predicate: Option<BoundExpr>,
}

impl PathSearch {
    /// The slots that it binds, except its end.
    pub(crate) fn inner_slots(&self) -> Vec<SlotId> {
        let whole = self.path.into_iter().chain(self.relationships);
        self.walk.slots().chain(whole).collect()
    }
}

/// Checks a bound relationship against a pattern.
#[derive(Clone, Debug)]
pub struct RelationshipEnds {
    /// The input.
    pub input: OpId,
    /// Bound; null gives no row.
    pub relationship: SlotId,
    /// Where the pattern starts.
    pub from: SlotId,
    /// Whether `from` is bound already.
    pub from_bound: bool,
    /// Where it ends.
    pub to: SlotId,
    /// Whether `to` is bound already.
    pub to_bound: bool,
    /// Direction between them.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// It must differ from all of these.
    pub distinct_from: Vec<SlotId>,
}

/// Groups and aggregates. Without keys there is exactly one group, even for no rows.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The input.
    pub input: OpId,
    /// Grouping keys (equal as in `DISTINCT`: null equals null), each into its slot.
    pub keys: Vec<(SlotId, BoundExpr)>,
    /// Aggregations, each into its slot.
    pub aggregates: Vec<(SlotId, AggregateCall)>,
    /// Slots with integers: the weight of a row is their product. Only with aggregations for which that is exact
    /// (`count`, `sum` without `DISTINCT`; `min`, `max` and everything `DISTINCT` ignore it).
    pub factors: Vec<SlotId>,
}

/// Rows counted by the end of an expand.
#[derive(Clone, Debug)]
pub struct CountByNeighbour {
    /// The aggregation; its input are the rows that would be expanded, its key is the end of the expand.
    pub aggregate: Aggregate,
    /// Where the expand starts.
    pub from: SlotId,
    /// The expand.
    pub step: ExpandStep,
    /// Runs if the adjacency has no view: counts the rows of the expand of `input`.
    pub fallback: OpId,
}

/// Groups of nodes, each with its number of rows, by the nodes' keys.
#[derive(Clone, Debug)]
pub struct GroupByKey {
    /// The aggregation by the key. Its input has one row for each node, its factor is the node's number of rows.
    pub aggregate: Aggregate,
    /// The node whose key is read.
    pub node: SlotId,
    /// The node's number of rows.
    pub count: SlotId,
    /// Only groups that may be among the first in the order of their counts are wanted.
    pub first: Option<FirstGroups>,
    /// Runs if nodes may share keys, or if their column of keys has no view: groups by the values of the keys. Reads
    /// the rows of `input`, also those that were read before this was known.
    pub fallback: OpId,
}

/// The groups with the largest or smallest counts.
#[derive(Clone, Debug)]
pub struct FirstGroups {
    /// How many; more are kept if they tie with the last one. Not volatile. An invalid value is reported by the
    /// operator above.
    pub limit: BoundExpr,
    /// The largest counts, or the smallest.
    pub largest: bool,
}

/// The number of a label's nodes for each value of a property.
#[derive(Clone, Debug)]
pub struct CountByColumn {
    /// The input: one row.
    pub input: OpId,
    /// The label.
    pub label: LabelRef,
    /// The property: names from the outermost to the innermost.
    pub path: Vec<PropRef>,
    /// Receives the value.
    pub key: SlotId,
    /// Each receives the number of nodes.
    pub counts: Vec<SlotId>,
    /// Runs if the column has no view, or cannot answer: scans the label.
    pub fallback: OpId,
}

/// The number of paths of two relationships.
#[derive(Clone, Debug)]
pub struct CountPaths {
    /// The input: one row.
    pub input: OpId,
    /// The first relationship, seen from the middle node.
    pub first: ExpandStep,
    /// The second relationship, seen from the middle node.
    pub second: ExpandStep,
    /// Whether the two relationships must be different.
    pub differ: bool,
    /// Each receives the number of paths.
    pub counts: Vec<SlotId>,
    /// Runs if the adjacency has no view: scans the first relationship.
    pub fallback: OpId,
}

/// A chain of operators that runs in several threads.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The top of the chain.
    pub input: OpId,
    /// Its scan, of which each thread takes ranges of ids.
    pub scan: OpId,
    /// What each thread does with its rows. A single thread passes them on.
    pub in_thread: InThread,
}

/// What the threads of an exchange do with their rows before they pass them on.
#[derive(Clone, Debug)]
pub enum InThread {
    /// Nothing.
    Nothing,
    /// Each drops rows that it has seen: the operator above is a `DISTINCT` of these slots.
    Distinct(Vec<SlotId>),
    /// Each adds the positions that its rows have in a single thread: the operator above is a sort, and equal rows
    /// keep that order.
    Sort,
    /// The same for the first rows of a sort; each drops rows that are not among its own first ones.
    Top {
        /// The keys of the sort. Not volatile.
        keys: Vec<SortKey>,
        /// How many rows are wanted. Not volatile.
        limit: BoundExpr,
    },
}

/// What is counted without a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountOf {
    /// The nodes of a label, or all.
    Nodes(Option<LabelRef>),
    /// The relationships of these types, each once; all if empty.
    Relationships(Vec<TypeRef>),
}

/// A stored count.
#[derive(Clone, Debug)]
pub struct Count {
    /// The input.
    pub input: OpId,
    /// What is counted.
    pub of: CountOf,
    /// Each receives the count, an integer.
    pub counts: Vec<SlotId>,
}

/// One key of a sort.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The value.
    pub expr: BoundExpr,
    /// Descending (null, the greatest of all, first).
    pub descending: bool,
}

/// A call of a procedure.
#[derive(Clone, Debug)]
pub struct ProcedureCall {
    /// The input.
    pub input: OpId,
    /// Its signature from the catalog.
    pub procedure: Arc<ProcedureSignature>,
    /// One argument per parameter of the signature, defaults filled in.
    pub arguments: Vec<BoundExpr>,
    /// (position among the signature's results, slot) of the results taken.
    pub yields: Vec<(usize, SlotId)>,
    /// The procedure has no results: each row passes once after the call.
    pub void: bool,
}

/// Source of the properties of a created or merged entity.
#[derive(Clone, Debug)]
pub enum Properties {
    /// Written out; nulls are left out.
    Entries(Vec<(PropRef, BoundExpr)>),
    /// A parameter that holds a map.
    Map(BoundExpr),
}

/// A node to create.
#[derive(Clone, Debug)]
pub struct CreateNode {
    /// Receives the node.
    pub node: SlotId,
    /// Its labels, each once.
    pub labels: Vec<LabelRef>,
    /// Further labels: each expression gives a text or a list of texts.
    pub dynamic_labels: Vec<BoundExpr>,
    /// Its properties; may read slots of the input and of nodes created before it.
    pub properties: Properties,
}

/// A relationship to create.
#[derive(Clone, Debug)]
pub struct CreateRelationship {
    /// Receives the relationship.
    pub relationship: SlotId,
    /// Its type.
    pub rel_type: CreatedType,
    /// Where it starts; null is an error.
    pub source: SlotId,
    /// Where it ends; null is an error.
    pub target: SlotId,
    /// Its properties.
    pub properties: Properties,
}

/// The type of a relationship to create.
#[derive(Clone, Debug)]
pub enum CreatedType {
    /// Named in the statement.
    Fixed(TypeRef),
    /// `$(expression)`: a text, or a list of one text.
    Dynamic(BoundExpr),
}

/// One step of a `CREATE`.
#[derive(Clone, Debug)]
pub enum CreateItem {
    /// A node.
    Node(CreateNode),
    /// A relationship between nodes bound or created before.
    Relationship(CreateRelationship),
}

impl CreateItem {
    /// Calls `visit` for the expressions that it evaluates.
    pub fn for_each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a BoundExpr)) {
        let properties = match self {
            Self::Node(node) => {
                node.dynamic_labels.iter().for_each(&mut *visit);
                &node.properties
            }
            Self::Relationship(one) => {
                if let CreatedType::Dynamic(name) = &one.rel_type {
                    visit(name);
                }
                &one.properties
            }
        };
        match properties {
            Properties::Entries(entries) => entries.iter().for_each(|(_, value)| visit(value)),
            Properties::Map(value) => visit(value),
        }
    }
}

/// What a `CREATE` or the creating side of a `MERGE` creates, in order.
#[derive(Clone, Debug, Default)]
pub struct CreatePattern {
    /// Nodes and relationships; an end precedes the relationship that needs it.
    pub items: Vec<CreateItem>,
    /// Paths to build after the creation: (slot, a `BuildPath`).
    pub paths: Vec<(SlotId, BoundExpr)>,
}

impl CreatePattern {
    /// The slots that it binds.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let items = self.items.iter().map(|item| match item {
            CreateItem::Node(node) => node.node,
            CreateItem::Relationship(relationship) => relationship.relationship,
        });
        items.chain(self.paths.iter().map(|(slot, _)| *slot))
    }
}

/// Match or create.
#[derive(Clone, Debug)]
pub struct MatchOrCreate {
    /// The input.
    pub input: OpId,
    /// Matches the pattern; its `Argument` is the input row. Binds the same slots as `create`.
    pub matching: OpId,
    /// What to create if nothing matched.
    pub create: CreatePattern,
    /// Applied after creating.
    pub on_create: Vec<EntityChange>,
    /// Applied to each match.
    pub on_match: Vec<EntityChange>,
}

/// One change of an entity; a null entity is skipped.
#[expect(missing_docs, reason = "each field is a word of its item's doc")]
#[derive(Clone, Debug)]
pub enum EntityChange {
    /// `SET e.name = value`; null removes it.
    Property {
        entity: BoundExpr,
        name: PropRef,
        value: BoundExpr,
    },
    /// `SET e.a.b = value`: a field inside a map property; missing intermediate maps are created, null removes the
    /// field.
    NestedProperty {
        entity: BoundExpr,
        path: Vec<PropRef>,
        value: BoundExpr,
    },
    /// `SET e[name] = value`
    DynamicProperty {
        entity: BoundExpr,
        name: BoundExpr,
        value: BoundExpr,
    },
    /// `SET e.a.b = counter.add(e.a.b, …)`: an operation on a convergent field.
    Converge {
        entity: BoundExpr,
        path: Vec<PropRef>,
        operation: Convergence,
        arguments: Vec<BoundExpr>,
    },
    /// `SET e = map`: a map or another entity, whose properties are copied.
    Replace { entity: BoundExpr, value: BoundExpr },
    /// `SET e += map`
    Merge { entity: BoundExpr, value: BoundExpr },
    /// `SET e:A:B`, `SET e:$(expression)`
    AddLabels {
        entity: BoundExpr,
        labels: Vec<LabelRef>,
        dynamic: Vec<BoundExpr>,
    },
    /// `REMOVE e:A:B`, `REMOVE e:$(expression)`
    RemoveLabels {
        entity: BoundExpr,
        labels: Vec<LabelRef>,
        dynamic: Vec<BoundExpr>,
    },
    /// `REMOVE e.name`
    RemoveProperty {
        entity: BoundExpr,
        path: Vec<PropRef>,
    },
}

/// Calls `$visit` with each of the operators whose rows flow into `$op`, in order: `input`, then right sides, bodies
/// and fallbacks. By reference or by mutable reference, as `$op` is.
macro_rules! visit_children {
    ($op:expr, $visit:ident) => {
        match $op {
            Op::Argument => {}
            Op::AllNodesScan { input, .. }
            | Op::LabelScan { input, .. }
            | Op::NodeByKey { input, .. }
            | Op::NodeById { input, .. }
            | Op::IndexSeek(NodeIndexSeek { input, .. })
            | Op::RelationshipScan(RelationshipScan { input, .. })
            | Op::RelationshipIndexSeek(RelationshipIndexSeek {
                scan: RelationshipScan { input, .. },
                ..
            })
            | Op::RelationshipById { input, .. }
            | Op::Expand(Expand { input, .. })
            | Op::ExpandInto(ExpandInto { input, .. })
            | Op::Degree(Degree { input, .. })
            | Op::VarExpand(VarExpand { input, .. })
            | Op::ShortestPath(ShortestPath { input, .. })
            | Op::PathSearch(PathSearch { input, .. })
            | Op::RelationshipEnds(RelationshipEnds { input, .. })
            | Op::Count(Count { input, .. })
            | Op::Filter { input, .. }
            | Op::Project { input, .. }
            | Op::Aggregate(Aggregate { input, .. })
            | Op::CountByNode(Aggregate { input, .. })
            | Op::Exchange(Exchange { input, .. })
            | Op::Distinct { input, .. }
            | Op::Sort { input, .. }
            | Op::Top { input, .. }
            | Op::Skip { input, .. }
            | Op::Limit { input, .. }
            | Op::Unwind { input, .. }
            | Op::ProcedureCall(ProcedureCall { input, .. })
            | Op::LoadCsv { input, .. }
            | Op::Eager { input }
            | Op::Create { input, .. }
            | Op::Set { input, .. }
            | Op::Delete { input, .. }
            | Op::ProduceResult { input, .. }
            | Op::Show { input, .. } => $visit(input),
            Op::Apply { input, right }
            | Op::BatchApply(BatchApply { input, right, .. })
            | Op::OptionalApply { input, right, .. }
            | Op::SemiApply { input, right, .. }
            | Op::CountApply { input, right, .. }
            | Op::CartesianProduct { input, right }
            | Op::HashJoin { input, right, .. }
            | Op::Merge(MatchOrCreate {
                input,
                matching: right,
                ..
            })
            | Op::ForEach {
                input, body: right, ..
            } => {
                $visit(input);
                $visit(right);
            }
            Op::DistinctEnds(DistinctEnds {
                input, fallback, ..
            })
            | Op::CountByNeighbour(CountByNeighbour {
                aggregate: Aggregate { input, .. },
                fallback,
                ..
            })
            | Op::GroupByKey(GroupByKey {
                aggregate: Aggregate { input, .. },
                fallback,
                ..
            })
            | Op::CountByColumn(CountByColumn {
                input, fallback, ..
            })
            | Op::CountPaths(CountPaths {
                input, fallback, ..
            }) => {
                $visit(input);
                $visit(fallback);
            }
            Op::Union { inputs } => {
                for input in inputs {
                    $visit(input);
                }
            }
        }
    };
}

impl Op {
    /// The operators whose rows flow into this one's, in order: `input`, then right sides, bodies and fallbacks.
    pub fn children(&self) -> Vec<OpId> {
        let mut children = Vec::new();
        let mut add = |child: &OpId| children.push(*child);
        visit_children!(self, add);
        children
    }

    /// Replaces each of [`Op::children`], and the scan of an exchange, which is one of the operators below it.
    pub(crate) fn map_children(&mut self, map: &mut dyn FnMut(OpId) -> OpId) {
        let mut change = |child: &mut OpId| *child = map(*child);
        visit_children!(self, change);
        if let Self::Exchange(exchange) = self {
            change(&mut exchange.scan);
        }
    }

    /// The operator that runs in this one's place if this one cannot run.
    pub fn fallback(&self) -> Option<OpId> {
        match self {
            Self::DistinctEnds(ends) => Some(ends.fallback),
            Self::CountByNeighbour(count) => Some(count.fallback),
            Self::GroupByKey(group) => Some(group.fallback),
            Self::CountByColumn(count) => Some(count.fallback),
            Self::CountPaths(count) => Some(count.fallback),
            _ => None,
        }
    }

    /// Whether it changes the database.
    pub fn writes(&self) -> bool {
        match self {
            Self::Create { .. }
            | Self::Merge(_)
            | Self::Set { .. }
            | Self::Delete { .. }
            | Self::BatchApply(_) => true,
            Self::ProcedureCall(call) => call.procedure.mode != crate::catalog::ProcedureMode::Read,
            _ => false,
        }
    }
}

/// The value of a `SKIP` or `LIMIT` if it is constant, for estimates.
pub(crate) fn constant_count(expr: &BoundExpr) -> Option<f64> {
    match expr {
        BoundExpr::Const(Value::Int(count)) => Some(*count as f64),
        _ => None,
    }
}
