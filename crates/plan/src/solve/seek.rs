//! Access paths for a node that no bound relationship leads to: by key, by id, through an index, by label, or a scan of
//! all nodes.

use isomer_value::{IndexId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::{Costs, list_length};
use super::selectivity::RangeBound;
use crate::arena::Arena;
use crate::catalog::{IndexInfo, ValueFacts};
use crate::expr::{BoundExpr, Comparison, LabelRef, PropRef, SlotId, StringTest};
use crate::function::Function;
use crate::physical::{IndexRange, NodeIndexSeek, Op, OpId, SeekBound, SeekKeys};
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
        index: IndexId,
        prefix: Vec<BoundExpr>,
        range: IndexRange,
    },
    Label {
        label: LabelRef,
    },
    All,
}

impl Access {
    /// The operator.
    pub fn operator(self, input: OpId, node: SlotId) -> Op {
        match self.kind {
            AccessKind::Key { label, keys } => Op::NodeByKey {
                input,
                node,
                label,
                keys,
            },
            AccessKind::Id { ids } => Op::NodeById { input, node, ids },
            AccessKind::Index {
                label,
                index,
                prefix,
                range,
            } => Op::IndexSeek(NodeIndexSeek {
                input,
                node,
                label,
                index,
                prefix,
                range,
                descending: false,
            }),
            AccessKind::Label { label } => Op::LabelScan { input, node, label },
            AccessKind::All => Op::AllNodesScan { input, node },
        }
    }

    /// Whether it finds a few nodes directly instead of scanning.
    pub fn is_seek(&self) -> bool {
        !matches!(self.kind, AccessKind::Label { .. } | AccessKind::All)
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

/// The predicates on a node.
pub(crate) struct Facts<'f> {
    /// All predicates of the pattern.
    pub predicates: &'f [BoundExpr],
    /// Which of them are not tested yet.
    pub open: &'f [bool],
    /// Which of them read the node.
    pub about: &'f [usize],
    /// The labels that it must have.
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
    let tests = if arena.plain {
        Vec::new()
    } else {
        sargable(facts, node, bound)
    };
    let mut best = Access {
        kind: AccessKind::All,
        rows: costs.nodes(None, arena),
        covers: Vec::new(),
    };
    let mut consider = |access: Access| {
        if access.rows < best.rows
            || (access.rows == best.rows && access.covers.len() > best.covers.len())
        {
            best = access;
        }
    };
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
        for access in index_accesses(costs, arena, *label, count, &tests, &label_covers) {
            consider(access);
        }
    }
    best
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

fn index_accesses(
    costs: &Costs<'_>,
    arena: &Arena,
    label: LabelRef,
    count: f64,
    tests: &[Sargable<'_>],
    label_covers: &[usize],
) -> Vec<Access> {
    let Some(known) = costs.catalog.label(arena.label_name(label)) else {
        return Vec::new();
    };
    // Reading the indexes of a label costs a lookup in the catalog: only if one of them could be used.
    if tests.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for index in costs.catalog.indexes(known) {
        let access = if index.each_element {
            element_access(costs, arena, label, count, &index, tests)
        } else {
            index_access(costs, arena, label, count, &index, tests)
        };
        found.extend(access.map(|mut access| {
            access.covers.extend(label_covers);
            access
        }));
    }
    found
}

/// A seek with equalities on the first components of an index, and a range on the next one.
fn index_access(
    costs: &Costs<'_>,
    arena: &Arena,
    label: LabelRef,
    count: f64,
    index: &IndexInfo,
    tests: &[Sargable<'_>],
) -> Option<Access> {
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
            Subject::Property(names) => costs.values(label, names, arena),
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
    Some(Access {
        kind: AccessKind::Index {
            label,
            index: index.id,
            prefix,
            range,
        },
        rows,
        covers,
    })
}

/// A seek of `value IN node.path` in an index with an entry per element. The predicate is tested again: the index
/// contains elements, but not whether the value is a list.
fn element_access(
    costs: &Costs<'_>,
    arena: &Arena,
    label: LabelRef,
    count: f64,
    index: &IndexInfo,
    tests: &[Sargable<'_>],
) -> Option<Access> {
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
    let kind = AccessKind::Index {
        label,
        index: index.id,
        prefix: vec![element],
        range: IndexRange::All,
    };
    Some(Access {
        kind,
        rows: rows.max(1.0).min(count * 0.95),
        covers: Vec::new(),
    })
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
fn sargable<'e>(facts: &Facts<'e>, node: SlotId, bound: &FxHashSet<SlotId>) -> Vec<Sargable<'e>> {
    let known = |value: &BoundExpr| {
        let mut known = !matches!(value, BoundExpr::Subquery(_));
        value.for_each_slot(&mut |slot| known &= bound.contains(&slot) && slot != node);
        known
    };
    let mut found = Vec::new();
    for position in facts.about.iter().copied().filter(|at| facts.open[*at]) {
        let predicate = &facts.predicates[position];
        let mut add = |subject: &'e BoundExpr, test: Test<'e>, value: &'e BoundExpr| {
            if let Some(subject) = subject_of(subject, node)
                && known(value)
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
