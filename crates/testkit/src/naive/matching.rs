//! Brute force: enumerates all bindings of all variables.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::query::{
    Clause, Comparison, Condition, Direction, NodePattern, Path, Query, RelationshipPattern,
    Returned, Variable,
};

/// A query with more intermediate rows than this is skipped.
const MAX_ROWS: usize = 2_000;

/// Limit of operations per row.
const MAX_STEPS: usize = 50_000;

/// The binding of a variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    Null,
    Node(usize),
    Relationship(usize),
    Walk(Vec<usize>),
}

type Row = BTreeMap<Variable, Bound>;

/// The rows as text, sorted; `None` if there are too many intermediate rows.
pub fn answer(graph: &Graph, query: &Query) -> Option<Vec<String>> {
    let mut rows = vec![Row::new()];
    for clause in &query.clauses {
        rows = match clause {
            Clause::Match {
                optional,
                paths,
                condition,
            } => match_all(graph, rows, *optional, paths, condition.as_ref())?,
            Clause::With {
                distinct,
                variables,
            } => {
                let kept = rows.into_iter().map(|row| {
                    row.into_iter()
                        .filter(|(name, _)| variables.contains(name))
                        .collect::<Row>()
                });
                match distinct {
                    true => kept.collect::<BTreeSet<Row>>().into_iter().collect(),
                    false => kept.collect(),
                }
            }
        };
    }
    let mut shown = returned(query, &rows);
    shown.sort();
    Some(shown)
}

fn match_all(
    graph: &Graph,
    rows: Vec<Row>,
    optional: bool,
    paths: &[Path],
    condition: Option<&Condition>,
) -> Option<Vec<Row>> {
    let mut out = Vec::new();
    for row in rows {
        let mut found = Vec::new();
        let mut matcher = Matcher { graph, steps: 0 };
        matcher.paths(paths, row.clone(), &mut Vec::new(), &mut found)?;
        found.retain(|row| {
            condition.is_none_or(|condition| holds(graph, condition, row) == Some(true))
        });
        if found.is_empty() && optional {
            let mut row = row;
            for variable in paths.iter().flat_map(variables) {
                row.entry(variable).or_insert(Bound::Null);
            }
            found.push(row);
        }
        out.append(&mut found);
        if out.len() > MAX_ROWS {
            return None;
        }
    }
    Some(out)
}

/// The variables of a path.
pub(super) fn variables(path: &Path) -> Vec<Variable> {
    let steps = path
        .steps
        .iter()
        .flat_map(|(relationship, node)| [relationship.variable, node.variable]);
    std::iter::once(path.start.variable)
        .chain(steps)
        .flatten()
        .collect()
}

/// The walks of a pattern with a length from a node, each with the node it ends at.
pub(super) fn walks_between(
    graph: &Graph,
    pattern: &RelationshipPattern,
    from: usize,
) -> Vec<(Vec<usize>, usize)> {
    let mut walks = Vec::new();
    let (least, most) = pattern.length.unwrap_or((1, 1));
    Matcher { graph, steps: 0 }.walks(pattern, from, least, most, &[], &mut Vec::new(), &mut walks);
    walks
}

struct Matcher<'g> {
    graph: &'g Graph,
    steps: usize,
}

impl Matcher<'_> {
    /// All rows that extend `row` by the paths. `used` holds the relationships of this clause so far.
    fn paths(
        &mut self,
        paths: &[Path],
        row: Row,
        used: &mut Vec<usize>,
        out: &mut Vec<Row>,
    ) -> Option<()> {
        let Some((path, rest)) = paths.split_first() else {
            out.push(row);
            return (out.len() <= MAX_ROWS).then_some(());
        };
        for node in 0..self.graph.nodes.len() {
            if let Some(row) = self.take_node(&path.start, node, &row) {
                self.steps(node, &path.steps, rest, row, used, out)?;
            }
        }
        Some(())
    }

    fn steps(
        &mut self,
        at: usize,
        steps: &[(RelationshipPattern, NodePattern)],
        rest: &[Path],
        row: Row,
        used: &mut Vec<usize>,
        out: &mut Vec<Row>,
    ) -> Option<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        let Some(((relationship, node), later)) = steps.split_first() else {
            return self.paths(rest, row, used, out);
        };
        let mut walks = Vec::new();
        match relationship.length {
            None => self.walks(relationship, at, 1, 1, used, &mut Vec::new(), &mut walks),
            Some((least, most)) => self.walks(
                relationship,
                at,
                least,
                most,
                used,
                &mut Vec::new(),
                &mut walks,
            ),
        }
        for (walk, end) in walks {
            let value = match relationship.length {
                None => Bound::Relationship(walk[0]),
                Some(_) => Bound::Walk(walk.clone()),
            };
            let Some(row) = bind(relationship.variable, value, &row) else {
                continue;
            };
            let Some(row) = self.take_node(node, end, &row) else {
                continue;
            };
            used.extend(&walk);
            let found = self.steps(end, later, rest, row, used, out);
            used.truncate(used.len() - walk.len());
            found?;
        }
        Some(())
    }

    fn take_node(&self, pattern: &NodePattern, node: usize, row: &Row) -> Option<Row> {
        let held = &self.graph.nodes[node];
        let has_label = pattern
            .label
            .is_none_or(|(label, has)| held.labels.contains(&label) == has);
        let has_v = pattern.v.is_none_or(|v| held.v == Some(v));
        if !has_label || !has_v {
            return None;
        }
        bind(pattern.variable, Bound::Node(node), row)
    }

    /// Walks from a node by relationships that are not used yet, each at most once.
    #[allow(clippy::too_many_arguments)]
    fn walks(
        &self,
        pattern: &RelationshipPattern,
        at: usize,
        least: u64,
        most: u64,
        used: &[usize],
        walk: &mut Vec<usize>,
        out: &mut Vec<(Vec<usize>, usize)>,
    ) {
        let length = walk.len() as u64;
        if length >= least && length <= most {
            out.push((walk.clone(), at));
        }
        if length >= most {
            return;
        }
        for (number, one) in self.graph.relationships.iter().enumerate() {
            let fits = (pattern.types.is_empty() || pattern.types.contains(&one.name))
                && pattern.w.is_none_or(|w| one.w == w);
            if !fits || used.contains(&number) || walk.contains(&number) {
                continue;
            }
            let ends = match pattern.direction {
                Direction::Right => (one.source == at).then_some(one.target),
                Direction::Left => (one.target == at).then_some(one.source),
                Direction::Either if one.source == at => Some(one.target),
                Direction::Either => (one.target == at).then_some(one.source),
            };
            if let Some(end) = ends {
                walk.push(number);
                self.walks(pattern, end, least, most, used, walk, out);
                walk.pop();
            }
        }
    }
}

/// The row with the variable bound, if it is not bound to something else.
fn bind(variable: Option<Variable>, value: Bound, row: &Row) -> Option<Row> {
    let Some(variable) = variable else {
        return Some(row.clone());
    };
    match row.get(&variable) {
        Some(known) => (*known == value).then(|| row.clone()),
        None => {
            let mut row = row.clone();
            row.insert(variable, value);
            Some(row)
        }
    }
}

fn number(graph: &Graph, variable: Variable, row: &Row) -> Option<i64> {
    match row.get(&variable)? {
        Bound::Node(node) => graph.nodes[*node].v,
        Bound::Relationship(one) => Some(graph.relationships[*one].w),
        _ => None,
    }
}

fn compare(a: Option<i64>, comparison: Comparison, b: Option<i64>) -> Option<bool> {
    let (a, b) = (a?, b?);
    Some(match comparison {
        Comparison::Equal => a == b,
        Comparison::Less => a < b,
        Comparison::GreaterOrEqual => a >= b,
    })
}

/// `None` is unknown.
fn holds(graph: &Graph, condition: &Condition, row: &Row) -> Option<bool> {
    let value = |variable: &Variable| row.get(variable).filter(|value| **value != Bound::Null);
    match condition {
        Condition::Compare(a, comparison, b) => {
            compare(number(graph, *a, row), *comparison, number(graph, *b, row))
        }
        Condition::CompareTo(a, comparison, b) => {
            compare(number(graph, *a, row), *comparison, Some(*b))
        }
        Condition::Same(a, same, b) => Some((value(a)? == value(b)?) == *same),
        Condition::HasLabel(a, label) => match value(a)? {
            Bound::Node(node) => Some(graph.nodes[*node].labels.contains(label)),
            _ => None,
        },
        Condition::IsNull(a) => Some(value(a).is_none()),
        Condition::Exists(path) => {
            let mut found = Vec::new();
            let _ = Matcher { graph, steps: 0 }.paths(
                std::slice::from_ref(path),
                row.clone(),
                &mut Vec::new(),
                &mut found,
            );
            Some(!found.is_empty())
        }
        Condition::And(a, b) => match (holds(graph, a, row), holds(graph, b, row)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Condition::Or(a, b) => match (holds(graph, a, row), holds(graph, b, row)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Condition::Not(a) => holds(graph, a, row).map(|holds| !holds),
    }
}

fn shown(value: Option<&Bound>) -> String {
    match value {
        None | Some(Bound::Null) => "null".into(),
        Some(Bound::Node(number) | Bound::Relationship(number)) => number.to_string(),
        Some(Bound::Walk(walk)) => format!(
            "[{}]",
            walk.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

fn returned(query: &Query, rows: &[Row]) -> Vec<String> {
    let line = |row: &Row| {
        query
            .scope
            .iter()
            .map(|name| shown(row.get(name)))
            .collect::<Vec<_>>()
            .join(" | ")
    };
    match (query.result, query.scope.first(), query.scope.last()) {
        (Returned::Rows, Some(_), _) => rows.iter().map(line).collect(),
        (Returned::Distinct, Some(_), _) => rows
            .iter()
            .map(line)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        (Returned::DistinctNodes, _, _) if !query.nodes().is_empty() => {
            let nodes = query.nodes();
            let line = |row: &Row| {
                let cells = nodes.iter().map(|name| shown(row.get(name)));
                cells.collect::<Vec<_>>().join(" | ")
            };
            let distinct: BTreeSet<String> = rows.iter().map(line).collect();
            distinct.into_iter().collect()
        }
        (Returned::CountByFirst, Some(first), _) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            rows.iter()
                .for_each(|row| *counts.entry(shown(row.get(first))).or_default() += 1);
            counts
                .into_iter()
                .map(|(key, count)| format!("{key} | {count}"))
                .collect()
        }
        (Returned::CountDistinctLast, _, Some(last)) => {
            let values: BTreeSet<&Bound> = rows
                .iter()
                .filter_map(|row| row.get(last))
                .filter(|value| **value != Bound::Null)
                .collect();
            vec![values.len().to_string()]
        }
        _ => vec![rows.len().to_string()],
    }
}
