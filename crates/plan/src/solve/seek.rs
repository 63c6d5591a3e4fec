//! Access paths for a node that no bound relationship leads to: by key, by id, through an index, by label, or a scan of
//! all nodes. And those for a relationship whose ends are both unknown: through an index, or a scan of its types.
//!
//! A disjunction whose terms each have an access path is a union of these paths: `a.x = 1 OR a.y = 2` of two
//! seeks, `:A|B` of two label scans.

use std::sync::Arc;

use isomer_value::{IndexId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::{Costs, list_length};
use super::failure::{condition_can_fail, value_can_fail};
use super::selectivity::RangeBound;
use crate::arena::Arena;
use crate::catalog::{IndexInfo, ValueFacts};
use crate::expr::{BoundExpr, Comparison, LabelRef, PropRef, SlotId, StringTest, TypeRef};
use crate::function::Function;
use crate::logical::{HintKind, PatternRelationship};
use crate::physical::{Direction, IndexRange, NodeIndexSeek, Op, OpId, SeekBound, SeekKeys};
use crate::schema::PropertyPath;

/// An access path.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub kind: AccessKind,
    /// Rows out per row in.
    pub rows: f64,
    /// Predicates (by index) that it satisfies by itself.
    pub covers: Vec<usize>,
}

/// The kinds of access paths.
#[derive(Clone, Debug)]
pub(crate) enum AccessKind {
    Key {
        label: LabelRef,
        keys: SeekKeys,
    },
    Id {
        ids: SeekKeys,
    },
    Index {
        label: LabelRef,
        seek: IndexAccess,
    },
    /// What any of these finds, each node once.
    Union(Vec<Access>),
    Label {
        label: LabelRef,
    },
    All,
}

/// A range of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexAccess {
    pub index: IndexId,
    pub prefix: Vec<BoundExpr>,
    pub range: IndexRange,
}

impl Access {
    /// The operator of an access that is not a union.
    pub fn operator(self, input: OpId, node: SlotId) -> Op {
        match self.kind {
            AccessKind::Key { label, keys } => Op::NodeByKey {
                input,
                node,
                label,
                keys,
            },
            AccessKind::Id { ids } => Op::NodeById { input, node, ids },
            AccessKind::Index { label, seek } => Op::IndexSeek(NodeIndexSeek {
                input,
                node,
                label,
                index: seek.index,
                prefix: seek.prefix,
                range: seek.range,
                descending: false,
            }),
            AccessKind::Union(_) => unreachable!("a union is emitted part by part"),
            AccessKind::Label { label } => Op::LabelScan { input, node, label },
            AccessKind::All => Op::AllNodesScan { input, node },
        }
    }

    /// Whether it is what a hint asks for.
    pub fn follows(&self, hint: &HintKind) -> bool {
        match (&self.kind, hint) {
            (
                AccessKind::Index { label, seek },
                HintKind::NodeIndex {
                    label: wanted,
                    index: Some(index),
                    ..
                },
            ) => label == wanted && seek.index == *index,
            (
                AccessKind::Key { label, .. },
                HintKind::NodeIndex {
                    label: wanted,
                    index: None,
                    ..
                },
            )
            | (AccessKind::Label { label }, HintKind::LabelScan { label: wanted, .. }) => {
                label == wanted
            }
            _ => false,
        }
    }

    /// Whether it finds a few nodes directly instead of scanning.
    pub fn is_seek(&self) -> bool {
        match &self.kind {
            AccessKind::Label { .. } | AccessKind::All => false,
            AccessKind::Union(parts) => parts.iter().all(Self::is_seek),
            AccessKind::Key { .. } | AccessKind::Id { .. } | AccessKind::Index { .. } => true,
        }
    }
}

/// An access path to a relationship and both its ends.
#[derive(Clone, Debug)]
pub(crate) struct RelAccess {
    /// Ranges of indexes, each over one type; a scan of all types if there is none.
    pub seeks: Vec<(TypeRef, IndexAccess)>,
    /// Whether two of the ranges may hold the same relationship.
    pub overlaps: bool,
    /// Rows out per row in.
    pub rows: f64,
    /// Predicates (by index) that it satisfies by itself.
    pub covers: Vec<usize>,
}

impl RelAccess {
    /// Whether it finds a few relationships directly instead of scanning.
    pub fn is_seek(&self) -> bool {
        !self.seeks.is_empty()
    }
}

/// The records of an index.
#[derive(Clone, Copy)]
enum IndexedScope {
    Label(LabelRef),
    Type(TypeRef),
}

impl IndexedScope {
    fn indexes(self, costs: &Costs<'_>, arena: &Arena) -> Vec<IndexInfo> {
        let catalog = costs.catalog;
        match self {
            Self::Label(label) => match catalog.label(arena.label_name(label)) {
                Some(label) => catalog.indexes(label),
                None => Vec::new(),
            },
            Self::Type(of_type) => match catalog.relationship_type(arena.type_name(of_type)) {
                Some(of_type) => catalog.relationship_indexes(of_type),
                None => Vec::new(),
            },
        }
    }

    fn values(self, costs: &Costs<'_>, path: &[PropRef], arena: &Arena) -> Option<Arc<ValueFacts>> {
        match self {
            Self::Label(label) => costs.values(label, path, arena),
            Self::Type(of_type) => costs.type_values(of_type, path, arena),
        }
    }
}

/// Terms of a disjunction that are looked at for a union.
const MAX_UNION_TERMS: usize = 16;
/// A union compares what its parts find: it must find this many times fewer rows than another access.
const UNION_COST: f64 = 1.25;

/// A disjunction among the predicates on a record.
struct Disjunction {
    position: usize,
    /// The positions of the other predicates.
    others: Vec<usize>,
    /// The predicates that hold for a record of each term: the conjuncts of the term, then the other predicates.
    terms: Vec<DisjunctionTerm>,
}

impl Disjunction {
    /// The predicates that a union covers whose parts cover these predicates of each term: those that all parts cover,
    /// and the disjunction itself if each part covers its term.
    fn covered_by(&self, parts: &[Vec<usize>]) -> Vec<usize> {
        let covers = |of: &dyn Fn(&DisjunctionTerm, &[usize]) -> bool| {
            let mut pairs = self.terms.iter().zip(parts);
            pairs.all(|(term, part)| of(term, part))
        };
        let others = self.others.iter().enumerate();
        let mut covered: Vec<usize> = others
            .filter(|(at, _)| covers(&|term, part| part.contains(&(term.own + at))))
            .map(|(_, position)| *position)
            .collect();
        if covers(&|term, part| (0..term.own).all(|at| part.contains(&at))) {
            covered.push(self.position);
        }
        covered
    }
}

struct DisjunctionTerm {
    predicates: Vec<BoundExpr>,
    /// How many of them are the term itself.
    own: usize,
}

/// The untested disjunctions among the predicates on a record.
fn disjunctions(facts: &Facts<'_>, arena: &Arena) -> Vec<Disjunction> {
    let mut found = Vec::new();
    for position in facts.about.iter().copied().filter(|at| facts.open[*at]) {
        let BoundExpr::Or(terms) = without_position(&facts.predicates[position]) else {
            continue;
        };
        if terms.len() > MAX_UNION_TERMS || terms.iter().any(|term| is_guarded(term, arena)) {
            continue;
        }
        let others = facts.about.iter().copied();
        let others = others.filter(|at| facts.open[*at] && *at != position);
        let others: Vec<usize> = others.collect();
        // `(a OR b) AND c` is `(a AND c) OR (b AND c)`: the access path of a term may use the other
        // predicates as well, such as the first components of an index.
        let with_others = |term: &BoundExpr| {
            let mut predicates = match without_position(term) {
                BoundExpr::And(conjuncts) => conjuncts.clone(),
                one => vec![one.clone()],
            };
            let own = predicates.len();
            predicates.extend(others.iter().map(|at| facts.predicates[*at].clone()));
            DisjunctionTerm { predicates, own }
        };
        let terms = terms.iter().map(with_others).collect();
        found.push(Disjunction {
            position,
            others,
            terms,
        });
    }
    found
}

/// Whether a term has conjuncts that can fail and must not be evaluated where those before them are false, as in `$x <>
/// 0 AND n.k = 10 / $x`: the keys of a seek are evaluated in any case.
fn is_guarded(term: &BoundExpr, arena: &Arena) -> bool {
    match without_position(term) {
        BoundExpr::And(conjuncts) => conjuncts
            .iter()
            .skip(1)
            .any(|one| condition_can_fail(one, arena)),
        _ => false,
    }
}

fn without_position(expr: &BoundExpr) -> &BoundExpr {
    match expr {
        BoundExpr::At { inner, .. } => without_position(inner),
        other => other,
    }
}

/// A sargable predicate: a condition on a property of the node (or its id) that an access path can use.
struct Sargable<'e> {
    position: usize,
    subject: Subject,
    test: Test<'e>,
}

#[derive(PartialEq)]
enum Subject {
    Id,
    Property(Vec<PropRef>),
}

enum Test<'e> {
    Equal(&'e BoundExpr),
    In(&'e BoundExpr),
    Less(&'e BoundExpr, bool),
    Greater(&'e BoundExpr, bool),
    StartsWith(&'e BoundExpr),
    /// A list contains this element.
    Holds(&'e BoundExpr),
    /// A value exists.
    Any,
}

/// Placeholder for the value of a test without one.
static ANYTHING: BoundExpr = BoundExpr::Const(Value::Null);

/// The predicates on a node or relationship.
pub(crate) struct Facts<'f> {
    /// All predicates of the pattern.
    pub predicates: &'f [BoundExpr],
    /// Which of them are not tested yet.
    pub open: &'f [bool],
    /// Which of them read the record.
    pub about: &'f [usize],
    /// The labels that it must have, if it is a node.
    pub labels: &'f [LabelRef],
}

/// The cheapest access path to the node in `node` when the slots in `bound` are known.
pub(crate) fn best_access(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
) -> Access {
    let mut best = single_access(costs, arena, facts, node, bound);
    // A union has at least one row for each of its parts.
    if arena.plain || best.rows <= 2.0 {
        return best;
    }
    for disjunction in disjunctions(facts, arena) {
        let Some(union) = union_access(costs, arena, facts, &disjunction, node, bound) else {
            continue;
        };
        if union.rows * UNION_COST < best.rows {
            best = union;
        }
    }
    best
}

/// The access path that a hint asks for; none if no predicate allows it when the slots in `bound` are known.
pub(crate) fn hinted_access(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
    hint: &HintKind,
) -> Option<Access> {
    single_accesses(costs, arena, facts, node, bound)
        .into_iter()
        .filter(|access| access.follows(hint))
        .min_by(|a, b| a.rows.total_cmp(&b.rows))
}

/// The nodes of each term of a disjunction; none if a term has no access path that is better than a scan of all nodes.
fn union_access(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    disjunction: &Disjunction,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
) -> Option<Access> {
    let (mut parts, mut rows, mut covers) = (Vec::new(), 0.0, Vec::new());
    for DisjunctionTerm { predicates, own } in &disjunction.terms {
        let about: Vec<usize> = (0..predicates.len()).collect();
        let mut labels = facts.labels.to_vec();
        for predicate in &predicates[..*own] {
            if let BoundExpr::HasLabels {
                entity,
                labels: all,
            } = predicate
                && matches!(**entity, BoundExpr::Slot(slot) if slot == node)
            {
                labels.extend(all);
            }
        }
        let term = Facts {
            predicates,
            open: &vec![true; predicates.len()],
            about: &about,
            labels: &labels,
        };
        let part = single_access(costs, arena, &term, node, bound);
        // A scan of all nodes finds what the other parts find, so the union cannot be cheaper.
        if matches!(part.kind, AccessKind::All) {
            return None;
        }
        rows += part.rows;
        covers.push(part.covers.clone());
        parts.push(part);
    }
    Some(Access {
        kind: AccessKind::Union(parts),
        rows,
        covers: disjunction.covered_by(&covers),
    })
}

/// The cheapest access path to a relationship of some types, and to both its ends.
pub(crate) fn best_rel_access(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    relationship: &PatternRelationship,
    bound: &FxHashSet<SlotId>,
    hint: Option<&HintKind>,
) -> RelAccess {
    let directions = match relationship.direction {
        Direction::Both => 2.0,
        Direction::Outgoing | Direction::Incoming => 1.0,
    };
    let mut best = RelAccess {
        seeks: Vec::new(),
        overlaps: false,
        rows: costs.relationships(&relationship.types, arena) * directions,
        covers: Vec::new(),
    };
    if arena.plain
        || relationship.types.is_empty()
        || facts.about.is_empty()
        || matches!(hint, Some(HintKind::TypeScan { .. }))
    {
        return best;
    }
    let index = match hint {
        Some(HintKind::RelationshipIndex { index, .. }) => Some(*index),
        _ => None,
    };
    let seeks = |facts: &Facts<'_>| rel_seeks(costs, arena, facts, relationship, bound, index);
    if let Some(mut access) = seeks(facts) {
        access.rows *= directions;
        if hint.is_some() {
            return access;
        }
        // Of a type without relationships, too: a plan is kept while they come.
        if access.rows < best.rows.max(1.0) * directions {
            best = access;
        }
    }
    // A union has at least one row for each of its parts.
    if best.rows <= 2.0 {
        return best;
    }
    for disjunction in disjunctions(facts, arena) {
        let mut union = RelAccess {
            seeks: Vec::new(),
            // A relationship may satisfy several terms; the union must return it once.
            overlaps: true,
            rows: 0.0,
            covers: Vec::new(),
        };
        let mut covers = Vec::new();
        let found = disjunction.terms.iter().all(|term| {
            let predicates = &term.predicates;
            let about: Vec<usize> = (0..predicates.len()).collect();
            let part = seeks(&Facts {
                predicates,
                open: &vec![true; predicates.len()],
                about: &about,
                labels: &[],
            });
            let Some(part) = part else { return false };
            covers.push(part.covers);
            union.rows += part.rows * directions;
            union.seeks.extend(part.seeks);
            true
        });
        if found && union.rows * UNION_COST < best.rows {
            union.covers = disjunction.covered_by(&covers);
            best = union;
        }
    }
    best
}

/// The cheapest range of an index for each type of a relationship; none if one of the types has none.
fn rel_seeks(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    relationship: &PatternRelationship,
    bound: &FxHashSet<SlotId>,
    hinted: Option<IndexId>,
) -> Option<RelAccess> {
    let tests = sargable(arena, facts, relationship.slot, bound);
    let mut found = RelAccess {
        seeks: Vec::new(),
        overlaps: false,
        rows: 0.0,
        covers: Vec::new(),
    };
    let mut types = relationship.types.clone();
    types.sort_unstable();
    types.dedup();
    for (at, of_type) in types.into_iter().enumerate() {
        let count = costs.relationships(&[of_type], arena).max(1.0);
        let accesses = index_accesses(costs, arena, IndexedScope::Type(of_type), count, &tests);
        let cheapest = accesses
            .into_iter()
            .filter(|(seek, ..)| hinted.is_none_or(|hinted| seek.index == hinted))
            .min_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
        let (seek, rows, covers) = cheapest?;
        found.rows += rows;
        match at {
            0 => found.covers = covers,
            // A predicate is tested by the seeks only if the seek of every type tests it.
            _ => found.covers.retain(|one| covers.contains(one)),
        }
        found.seeks.push((of_type, seek));
    }
    Some(found)
}

/// The cheapest access path that is not a union.
fn single_access(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
) -> Access {
    let mut best = Access {
        kind: AccessKind::All,
        rows: costs.nodes(None, arena),
        covers: Vec::new(),
    };
    for access in single_accesses(costs, arena, facts, node, bound) {
        if access.rows < best.rows
            || (access.rows == best.rows && access.covers.len() > best.covers.len())
        {
            best = access;
        }
    }
    best
}

/// The access paths that are neither a union nor a scan of all nodes.
fn single_accesses(
    costs: &Costs<'_>,
    arena: &Arena,
    facts: &Facts<'_>,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
) -> Vec<Access> {
    let tests = if arena.plain {
        Vec::new()
    } else {
        sargable(arena, facts, node, bound)
    };
    let mut found = Vec::new();
    let mut consider = |access: Access| found.push(access);
    for test in tests.iter().filter(|test| test.subject == Subject::Id) {
        if let Some((ids, rows)) = keys_of(&test.test) {
            consider(Access {
                kind: AccessKind::Id { ids },
                rows,
                covers: vec![test.position],
            });
        }
    }
    // An access by label makes the predicate that requires this label superfluous: it is covered.
    let mut said = label_predicates(facts, node);
    for label in facts.labels {
        let count = costs.nodes(Some(*label), arena);
        let label_covers = said.remove(label).unwrap_or_default();
        consider(Access {
            kind: AccessKind::Label { label: *label },
            rows: count,
            covers: label_covers.clone(),
        });
        for test in &tests {
            if matches!(&test.subject, Subject::Property(path) if is_key(path, arena))
                && let Some((keys, rows)) = keys_of(&test.test)
            {
                let mut covers = label_covers.clone();
                covers.push(test.position);
                consider(Access {
                    kind: AccessKind::Key {
                        label: *label,
                        keys,
                    },
                    // A key finds at most one node: a little less than a row, so that it wins against an index with
                    // the same estimate.
                    rows: rows * 0.9,
                    covers,
                });
            }
        }
        let scope = IndexedScope::Label(*label);
        for (seek, rows, mut covers) in index_accesses(costs, arena, scope, count, &tests) {
            covers.extend(&label_covers);
            consider(Access {
                kind: AccessKind::Index {
                    label: *label,
                    seek,
                },
                rows,
                covers,
            });
        }
    }
    found
}

fn is_key(path: &[PropRef], arena: &Arena) -> bool {
    matches!(path, [name] if arena.property_name(*name) == "_key")
}

/// For each label, the predicates that only require that the node has it.
fn label_predicates(facts: &Facts<'_>, node: SlotId) -> FxHashMap<LabelRef, Vec<usize>> {
    let mut said: FxHashMap<LabelRef, Vec<usize>> = FxHashMap::default();
    for at in facts.about.iter().copied().filter(|at| facts.open[*at]) {
        if let BoundExpr::HasLabels { entity, labels } = &facts.predicates[at]
            && matches!(**entity, BoundExpr::Slot(slot) if slot == node)
            && let [label] = labels.as_slice()
        {
            said.entry(*label).or_default().push(at);
        }
    }
    said
}

fn keys_of(test: &Test<'_>) -> Option<(SeekKeys, f64)> {
    match test {
        Test::Equal(value) => Some((SeekKeys::One((*value).clone()), 1.0)),
        Test::In(list) => Some((SeekKeys::Each((*list).clone()), list_length(list).max(1.0))),
        _ => None,
    }
}

/// A range of an index, its rows, and the predicates that it covers.
type FoundIndex = (IndexAccess, f64, Vec<usize>);

fn index_accesses(
    costs: &Costs<'_>,
    arena: &Arena,
    scope: IndexedScope,
    count: f64,
    tests: &[Sargable<'_>],
) -> Vec<FoundIndex> {
    // Reading the indexes of a scope costs a lookup in the catalog: only if one of them could be used.
    if tests.is_empty() {
        return Vec::new();
    }
    let access = |index: &IndexInfo| match index.each_element {
        true => element_access(costs, arena, count, index, tests),
        false => index_access(costs, arena, scope, count, index, tests),
    };
    scope
        .indexes(costs, arena)
        .iter()
        .filter_map(access)
        .collect()
}

/// A seek with equalities on the first components of an index, and a range on the next one.
fn index_access(
    costs: &Costs<'_>,
    arena: &Arena,
    scope: IndexedScope,
    count: f64,
    index: &IndexInfo,
    tests: &[Sargable<'_>],
) -> Option<FoundIndex> {
    let mut prefix = Vec::new();
    let mut covers = Vec::new();
    let mut range = IndexRange::All;
    let mut share = 1.0;
    let facts = costs.catalog.index_facts(index.id);
    let of = |path: &PropertyPath| -> Vec<&Sargable<'_>> {
        let about = |test: &&Sargable<'_>| match &test.subject {
            Subject::Property(names) => same_path(names, path, arena),
            Subject::Id => false,
        };
        tests.iter().filter(about).collect()
    };
    for path in &index.paths {
        let here = of(path);
        let values = here.first().and_then(|test| match &test.subject {
            Subject::Property(names) => scope.values(costs, names, arena),
            Subject::Id => None,
        });
        if let Some((position, value)) = here.iter().find_map(|test| match test.test {
            Test::Equal(value) => Some((test.position, value)),
            _ => None,
        }) {
            let alone = match &values {
                Some(values) => costs.equal_share(value, values, arena),
                None => 0.05,
            };
            prefix.push(value.clone());
            share *= alone;
            // The product of the selectivities is only right for independent fields: statistics on their combinations
            // replace it.
            if let Some(distinct) = facts
                .as_ref()
                .and_then(|facts| facts.distinct.get(prefix.len() - 1))
                && prefix.len() > 1
            {
                share = 1.0 / distinct.max(1.0);
            }
            covers.push(position);
            continue;
        }
        // All components of a unique index are given: one node at most, whatever the statistics say.
        let whole = index.unique && prefix.len() + 1 == index.paths.len();
        if let Some((next, part, covered)) = range_of(
            &here,
            costs,
            values.as_deref(),
            whole.then_some(1.0 / count.max(1.0)),
        ) {
            range = next;
            share *= part;
            covers.extend(covered);
        }
        break;
    }
    let whole = prefix.len() == index.paths.len();
    if prefix.is_empty() && matches!(range, IndexRange::All) {
        // A full index scan: it pays if most nodes have no entry.
        let sparse = facts.filter(|facts| facts.entries < count * 0.5)?;
        let first = of(index.paths.first()?);
        let any = first.iter().find(|test| matches!(test.test, Test::Any))?;
        share = sparse.entries / count.max(1.0);
        covers.push(any.position);
    }
    // A node without a value for one of the fields is not in the index: the index can only be used if it is not needed.
    let used = prefix.len() + usize::from(!matches!(range, IndexRange::All));
    let has_value = |path: &PropertyPath| !of(path).is_empty();
    if !index.paths[used.min(index.paths.len())..]
        .iter()
        .all(has_value)
    {
        return None;
    }
    let rows = if whole && index.unique {
        1.0
    } else {
        (count * share).max(1.0)
    };
    // A seek with fewer rows than the label is worth it even if the estimate is coarse.
    let rows = rows.min(count * 0.95);
    let access = IndexAccess {
        index: index.id,
        prefix,
        range,
    };
    Some((access, rows, covers))
}

/// A seek of `value IN node.path` in an index with an entry per element. The predicate is tested again: the index
/// contains elements, but not whether the value is a list.
fn element_access(
    costs: &Costs<'_>,
    arena: &Arena,
    count: f64,
    index: &IndexInfo,
    tests: &[Sargable<'_>],
) -> Option<FoundIndex> {
    let [path] = index.paths.as_slice() else {
        return None;
    };
    let element = tests
        .iter()
        .find_map(|test| match (&test.subject, &test.test) {
            (Subject::Property(names), Test::Holds(element)) if same_path(names, path, arena) => {
                Some((*element).clone())
            }
            _ => None,
        })?;
    let entries = costs.catalog.index_facts(index.id);
    let rows = match entries.as_deref() {
        Some(facts) => facts.entries / facts.distinct.first().map_or(1.0, |one| one.max(1.0)),
        None => count * 0.05,
    };
    let access = IndexAccess {
        index: index.id,
        prefix: vec![element],
        range: IndexRange::All,
    };
    Some((access, rows.max(1.0).min(count * 0.95), Vec::new()))
}

fn same_path(names: &[PropRef], path: &PropertyPath, arena: &Arena) -> bool {
    names.len() == path.len()
        && names
            .iter()
            .zip(path)
            .all(|(name, part)| arena.property_name(*name) == &**part)
}

/// The range that the tests on one component amount to, its selectivity, and the tests that it covers. `each` is the
/// fraction of nodes per distinct value, if known exactly.
fn range_of(
    tests: &[&Sargable<'_>],
    costs: &Costs<'_>,
    values: Option<&ValueFacts>,
    each: Option<f64>,
) -> Option<(IndexRange, f64, Vec<usize>)> {
    for test in tests {
        match test.test {
            Test::In(list) => {
                let share = match (each, list, values) {
                    (Some(each), ..) => each * list_length(list),
                    (None, BoundExpr::Const(Value::List(items)), Some(values)) => items
                        .iter()
                        .map(|item| values.equal_share(Some(item)))
                        .sum(),
                    (None, _, values) => {
                        values.map_or(0.05, |values| values.equal_share(None)) * list_length(list)
                    }
                };
                let keys = IndexRange::Keys(SeekKeys::Each(list.clone()));
                return Some((keys, share, Vec::new()));
            }
            Test::StartsWith(prefix) => {
                let known = match costs.value(prefix) {
                    Some(Value::String(prefix)) => Some(&**prefix),
                    _ => None,
                };
                return Some((
                    IndexRange::StartsWith(prefix.clone()),
                    values.map_or(0.05, |values| values.prefix_share(known)),
                    vec![test.position],
                ));
            }
            _ => {}
        }
    }
    let (mut low, mut high) = (SeekBound::Unbounded, SeekBound::Unbounded);
    let (mut from, mut to) = (RangeBound::Open, RangeBound::Open);
    let mut covers = Vec::new();
    for test in tests {
        let (side, known, value, included) = match test.test {
            Test::Greater(value, included) => (&mut low, &mut from, value, included),
            Test::Less(value, included) => (&mut high, &mut to, value, included),
            _ => continue,
        };
        if matches!(side, SeekBound::Unbounded) {
            *side = if included {
                SeekBound::Included(value.clone())
            } else {
                SeekBound::Excluded(value.clone())
            };
            *known = costs
                .value(value)
                .map_or(RangeBound::Unknown, RangeBound::At);
            covers.push(test.position);
        }
    }
    let guess = match covers.len() {
        0 => return None,
        1 => 0.3,
        _ => 0.1,
    };
    let share = values.map_or(guess, |values| values.range_share(from, to));
    Some((IndexRange::Between(low, high), share, covers))
}

/// The untested predicates of the form `node.path <test> value` whose value is known.
fn sargable<'e>(
    arena: &Arena,
    facts: &Facts<'e>,
    node: SlotId,
    bound: &FxHashSet<SlotId>,
) -> Vec<Sargable<'e>> {
    // The value must be known before the node is: it may read bound slots, but not the node itself.
    // Sub-plans are left to filters.
    let known = |value: &BoundExpr, is_early: bool| {
        let is_left_to_filters =
            matches!(value, BoundExpr::Subquery(_)) || is_early && value_can_fail(value, arena);
        let mut known = !is_left_to_filters;
        value.for_each_slot(&mut |slot| known &= bound.contains(&slot) && slot != node);
        known
    };
    let mut found = Vec::new();
    for position in facts.about.iter().copied().filter(|at| facts.open[*at]) {
        // Of an early copy, an index finds the records for which the condition is true; those for which it fails
        // are not among them, as without the copy.
        let (predicate, is_early) = match &facts.predicates[position] {
            BoundExpr::Early(inner) => (&**inner, true),
            other => (other, false),
        };
        let mut add = |subject: &'e BoundExpr, test: Test<'e>, value: &'e BoundExpr| {
            if let Some(subject) = subject_of(subject, node)
                && known(value, is_early)
            {
                found.push(Sargable {
                    position,
                    subject,
                    test,
                });
            }
        };
        match predicate {
            BoundExpr::Compare { op, left, right } => match op {
                Comparison::Equal => {
                    // Either side may be the property; `add` ignores a side that is not one of this node.
                    add(left, Test::Equal(right), right);
                    add(right, Test::Equal(left), left);
                }
                Comparison::Less | Comparison::LessOrEqual => {
                    let included = *op == Comparison::LessOrEqual;
                    add(left, Test::Less(right, included), right);
                    add(right, Test::Greater(left, included), left);
                }
                Comparison::Greater | Comparison::GreaterOrEqual => {
                    let included = *op == Comparison::GreaterOrEqual;
                    add(left, Test::Greater(right, included), right);
                    add(right, Test::Less(left, included), left);
                }
                Comparison::NotEqual => {}
            },
            BoundExpr::In { item, list } => {
                add(item, Test::In(list), list);
                add(list, Test::Holds(item), item);
            }
            BoundExpr::StringTest {
                op: StringTest::StartsWith,
                left,
                right,
            } => add(left, Test::StartsWith(right), right),
            BoundExpr::IsNotNull(operand) => add(operand, Test::Any, &ANYTHING),
            // A query on a convergent set precedes the plain list that the property may be.
            BoundExpr::Call {
                function: Function::Coalesce,
                arguments,
            } => {
                if let [look, BoundExpr::In { item, list }] = &arguments[..]
                    && is_field_query(look, Function::ConvergentContains)
                {
                    add(list, Test::Holds(item), item);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_field_query(expr: &BoundExpr, look: Function) -> bool {
    matches!(expr, BoundExpr::Call { function, .. } if *function == look)
}

/// The id or the property of the node that a side of a comparison reads.
fn subject_of(expr: &BoundExpr, node: SlotId) -> Option<Subject> {
    if let BoundExpr::Call {
        function: Function::Id,
        arguments,
    } = expr
    {
        return match arguments.as_slice() {
            [BoundExpr::Slot(slot)] if *slot == node => Some(Subject::Id),
            _ => None,
        };
    }
    let mut path = Vec::new();
    let mut at = expr;
    loop {
        match at {
            BoundExpr::Property { base, name, .. } => {
                path.push(*name);
                at = base;
            }
            // A convergent map is queried for the entry first: it is the same path.
            BoundExpr::Call {
                function: Function::Coalesce,
                arguments,
            } => match &arguments[..] {
                [look, plain @ BoundExpr::Property { .. }]
                    if is_field_query(look, Function::ConvergentValue) =>
                {
                    at = plain;
                }
                _ => break,
            },
            _ => break,
        }
    }
    path.reverse();
    match at {
        BoundExpr::Slot(slot) if *slot == node && !path.is_empty() => Some(Subject::Property(path)),
        _ => None,
    }
}
