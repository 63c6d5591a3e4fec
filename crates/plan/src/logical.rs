//! The logical plan: what a query asks for, step by step, before any physical decision.
//!
//! A single query is a chain of [`LogicalStep`]s. A `MATCH` is a [`QueryGraph`]: nodes, relationships and predicates
//! without an order; adjacent `MATCH`es form one graph, in which each relationship records its clause (for uniqueness).
//! Slots are bound once and keep their number, so that no mapping between steps is needed.

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_value::IndexId;

use crate::catalog::ProcedureSignature;
use crate::expr::{AggregateCall, BoundExpr, LabelRef, LocalId, SlotId, TypeRef};
use crate::physical::{CreatePattern, Direction, EntityChange, OnBatchError, SortKey};
use crate::schema::Listing;
use crate::walk::{Selector, Walk};

/// Branches of a union; one if there is no union.
#[derive(Clone, Debug)]
pub(crate) struct LogicalQuery {
    /// Each ends with its outputs in the same slots.
    pub branches: Vec<Vec<LogicalStep>>,
    /// The slots of the columns, if it returns rows.
    pub outputs: Vec<SlotId>,
    /// `UNION`: duplicates are removed.
    pub distinct: bool,
}

/// What `linenumber()` and `file()` are after a `LOAD CSV`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsvOrigin {
    pub line: SlotId,
    pub file: SlotId,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum LogicalStep {
    Match {
        graph: QueryGraph,
        optional: bool,
    },
    Filter(Vec<BoundExpr>),
    Project(Vec<(SlotId, BoundExpr)>),
    Aggregate {
        keys: Vec<(SlotId, BoundExpr)>,
        aggregates: Vec<(SlotId, AggregateCall)>,
    },
    Distinct(Vec<SlotId>),
    Sort(Vec<SortKey>),
    Skip(BoundExpr),
    Limit(BoundExpr),
    Unwind {
        list: BoundExpr,
        element: SlotId,
        /// The position of each element, counted from this number.
        position: Option<(SlotId, i64)>,
    },
    LoadCsv {
        url: BoundExpr,
        headers: bool,
        field_terminator: Option<BoundExpr>,
        row: SlotId,
        /// The line of the row in its file, and that file.
        origin: CsvOrigin,
    },
    Call {
        procedure: Arc<ProcedureSignature>,
        arguments: Vec<BoundExpr>,
        yields: Vec<(usize, SlotId)>,
    },
    /// `CALL { … }`; without outputs it runs for its side effects, once per row, and the row passes.
    Apply {
        query: LogicalQuery,
        /// Whether a row for which the query gives none is kept, with nulls.
        optional: bool,
    },
    /// `CALL { … } IN TRANSACTIONS`
    Batches(Box<BatchStep>),
    Create(CreatePattern),
    Merge(Box<MergeStep>),
    Set(Vec<EntityChange>),
    Delete {
        targets: Vec<BoundExpr>,
        detach: bool,
    },
    ForEach {
        list: BoundExpr,
        element: SlotId,
        body: Vec<LogicalStep>,
    },
    Show {
        show: Listing,
        slots: Vec<SlotId>,
    },
}

/// A query that runs in separate transactions.
#[derive(Clone, Debug)]
pub(crate) struct BatchStep {
    pub query: LogicalQuery,
    pub optional: bool,
    pub batch_rows: Option<BoundExpr>,
    pub concurrency: Option<BoundExpr>,
    pub on_error: OnBatchError,
    pub status: Option<SlotId>,
}

/// A `MERGE`.
#[derive(Clone, Debug)]
pub(crate) struct MergeStep {
    pub graph: QueryGraph,
    pub create: CreatePattern,
    pub on_create: Vec<EntityChange>,
    pub on_match: Vec<EntityChange>,
}

/// A graph pattern: nodes and relationships that are matched together.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryGraph {
    /// Nodes that are not bound before.
    pub nodes: Vec<SlotId>,
    /// Relationships of any length.
    pub relationships: Vec<PatternRelationship>,
    /// All must be true.
    pub predicates: Vec<BoundExpr>,
    /// Named paths: built once their parts are bound.
    pub paths: Vec<(SlotId, BoundExpr)>,
    /// How to find some of its elements.
    pub hints: Vec<PatternHint>,
}

/// A hint of the statement: a plan that does not follow it is refused.
#[derive(Clone, Debug)]
pub(crate) struct PatternHint {
    pub kind: HintKind,
    pub span: Span,
}

/// What a hint asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HintKind {
    /// A node is found through this index of a label, or by its key if there is none.
    NodeIndex {
        node: SlotId,
        label: LabelRef,
        index: Option<IndexId>,
    },
    /// A node is found by a scan of this label.
    LabelScan { node: SlotId, label: LabelRef },
    /// A relationship is found, with both its ends, through this index.
    RelationshipIndex {
        relationship: SlotId,
        index: IndexId,
    },
    /// A relationship is found, with both its ends, by a scan of its types.
    TypeScan { relationship: SlotId },
    /// Two parts that are found separately are joined on these nodes.
    Join(Vec<SlotId>),
}

/// One relationship pattern between two nodes.
#[derive(Clone, Debug)]
pub(crate) struct PatternRelationship {
    /// The relationship, or the list of them.
    pub slot: SlotId,
    /// Bound by an earlier step.
    pub bound: bool,
    pub from: SlotId,
    pub to: SlotId,
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    pub length: Length,
    /// Which `MATCH` it belongs to.
    pub clause: u32,
    /// Must hold for each relationship of a walk.
    pub step_predicate: Option<(LocalId, BoundExpr)>,
}

/// The length of a relationship pattern.
#[derive(Clone, Debug)]
pub(crate) enum Length {
    One,
    Walk {
        min: u64,
        max: Option<u64>,
    },
    Shortest {
        min: u64,
        max: Option<u64>,
        all: bool,
        path: Option<SlotId>,
        predicate: Option<BoundExpr>,
        /// Conditions of the clause are part of the search, as for `shortestPath(…)`.
        takes_conditions: bool,
    },
    /// `((a)-->(b) WHERE …){1,3}`: a walk of one link.
    Repeat(Box<Walk>),
    /// A path with a selector.
    Selected(Box<Selected>),
}

/// Which walks between two nodes are matched.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub walk: Walk,
    pub selector: Selector,
    pub path: Option<SlotId>,
    /// Must hold for the walk as a whole.
    pub predicate: Option<BoundExpr>,
}

impl PatternRelationship {
    /// Whether the search needs both ends bound.
    pub fn needs_both_ends(&self) -> bool {
        matches!(self.length, Length::Shortest { .. } | Length::Selected(_))
    }

    /// The slots that it binds in addition to its own and its ends.
    pub fn inner_slots(&self) -> Vec<SlotId> {
        match &self.length {
            Length::One | Length::Walk { .. } => Vec::new(),
            Length::Shortest { path, .. } => path.iter().copied().collect(),
            Length::Repeat(walk) => walk.slots().collect(),
            Length::Selected(selected) => selected.walk.slots().chain(selected.path).collect(),
        }
    }

    /// Calls `visit` for the conditions of its search.
    pub fn for_each_expr<'s>(&'s self, visit: &mut dyn FnMut(&'s BoundExpr)) {
        if let Some((_, condition)) = &self.step_predicate {
            visit(condition);
        }
        match &self.length {
            Length::One | Length::Walk { .. } => {}
            Length::Shortest { predicate, .. } => predicate.iter().for_each(visit),
            Length::Repeat(walk) => walk.for_each_expr(visit),
            Length::Selected(selected) => {
                selected.walk.for_each_expr(visit);
                selected.predicate.iter().for_each(visit);
            }
        }
    }
}

impl QueryGraph {
    /// Merges another clause's graph into this one.
    pub fn absorb(&mut self, other: QueryGraph) {
        self.nodes.extend(other.nodes);
        self.relationships.extend(other.relationships);
        self.predicates.extend(other.predicates);
        self.paths.extend(other.paths);
        self.hints.extend(other.hints);
    }

    /// The slots that it binds.
    pub fn bound_slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let inner = self
            .relationships
            .iter()
            .flat_map(PatternRelationship::inner_slots);
        self.nodes
            .iter()
            .copied()
            .chain(
                self.relationships
                    .iter()
                    .filter(|one| !one.bound)
                    .map(|one| one.slot),
            )
            .chain(self.paths.iter().map(|(slot, _)| *slot))
            .chain(inner)
    }
}

/// The labels that `predicates` require of the node in `slot`, one predicate per label.
pub(crate) fn labels_of(
    predicates: &[BoundExpr],
    slot: SlotId,
) -> impl Iterator<Item = LabelRef> + '_ {
    predicates.iter().flat_map(move |predicate| match predicate {
        BoundExpr::HasLabels { entity, labels }
            if matches!(**entity, BoundExpr::Slot(at) if at == slot) =>
        {
            labels.as_slice()
        }
        _ => &[],
    })
    .copied()
}

/// Splits a conjunction into its terms; nested conjunctions too.
pub(crate) fn conjuncts(predicate: BoundExpr, into: &mut Vec<BoundExpr>) {
    match predicate {
        BoundExpr::And(terms) => terms.into_iter().for_each(|term| conjuncts(term, into)),
        term => into.push(term),
    }
}
