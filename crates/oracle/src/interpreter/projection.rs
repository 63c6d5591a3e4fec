//! `WITH` and `RETURN`: columns, groups, order, pages.

use std::sync::Arc;

use isomer_cypher::ast::{Expr, ExprKind, Projection, ProjectionItem};

use super::expression::Scope;
use super::{Answer, Interpreter, Ordered, Row, aggregate};
use crate::fault::{Result, raised};
use crate::{Datum, logic};

/// A row in a projection: its source row, and its columns.
struct ProjectedRow {
    source: Row,
    group: Option<Vec<Row>>,
    values: Vec<Datum>,
}

impl Interpreter<'_> {
    /// The projected rows, as rows of variables and as a result.
    pub(super) fn project(
        &self,
        projection: &Projection,
        rows: Vec<Row>,
    ) -> Result<(Vec<Row>, Answer)> {
        let star: Vec<Arc<str>> = match (projection.star, rows.first()) {
            (true, Some(row)) => {
                let imported = self.imported.borrow();
                let own = row.keys().filter(|name| !imported.contains_key(*name));
                own.cloned().collect()
            }
            _ => Vec::new(),
        };
        let mut columns = star.clone();
        columns.extend(projection.items.iter().map(|item| item.column().clone()));
        let aggregates = projection
            .items
            .iter()
            .any(|item| has_aggregate(&item.expr));
        let mut made = match aggregates {
            true => self.grouped(&star, &projection.items, rows)?,
            false => {
                let one = |row: Row| {
                    let mut values: Vec<Datum> =
                        star.iter().map(|name| row[name].clone()).collect();
                    for item in &projection.items {
                        values.push(self.eval(&item.expr, &row)?);
                    }
                    Ok(ProjectedRow {
                        source: row,
                        group: None,
                        values,
                    })
                };
                rows.into_iter().map(one).collect::<Result<Vec<_>>>()?
            }
        };
        if projection.distinct {
            let mut kept: Vec<ProjectedRow> = Vec::new();
            for one in self.in_any_order(made)? {
                if !kept
                    .iter()
                    .any(|other| logic::same_group(&other.values, &one.values))
                {
                    kept.push(one);
                }
            }
            made = kept;
        }
        let mut keyed = Vec::new();
        for one in made {
            keyed.push((self.sort_keys(projection, &columns, &one)?, one.values));
        }
        if !projection.order_by.is_empty() {
            keyed.sort_by(|(a, _), (b, _)| {
                let pairs = a.iter().zip(b).zip(&projection.order_by);
                pairs.fold(std::cmp::Ordering::Equal, |so_far, ((a, b), item)| {
                    let order = logic::order(a, b);
                    so_far.then(if item.descending {
                        order.reverse()
                    } else {
                        order
                    })
                })
            });
        }
        let from = self.count(projection.skip.as_ref(), 0)?.min(keyed.len());
        let to = from
            + self
                .count(projection.limit.as_ref(), usize::MAX)?
                .min(keyed.len() - from);
        let values: Vec<Vec<Datum>> = keyed[from..to]
            .iter()
            .map(|(_, values)| values.clone())
            .collect();
        let named = |values: &Vec<Datum>| {
            let own = columns.iter().cloned().zip(values.iter().cloned());
            self.with_imports(own.collect())
        };
        let rows = values.iter().map(named).collect();
        let is_cut = !projection.order_by.is_empty()
            || projection.skip.is_some()
            || projection.limit.is_some();
        let answer = Answer {
            columns,
            rows: values,
            ordered: is_cut.then_some(Ordered {
                rows: keyed,
                from,
                to,
            }),
        };
        Ok((rows, answer))
    }

    /// Grouping: rows with equal keys form one row; the keys are the columns without an aggregation.
    fn grouped(
        &self,
        star: &[Arc<str>],
        items: &[ProjectionItem],
        rows: Vec<Row>,
    ) -> Result<Vec<ProjectedRow>> {
        let keys: Vec<&Expr> = items
            .iter()
            .map(|item| &item.expr)
            .filter(|expr| !has_aggregate(expr))
            .collect();
        let mut groups: Vec<(Vec<Datum>, Vec<Row>)> = Vec::new();
        for row in rows {
            let mut key: Vec<Datum> = star.iter().map(|name| row[name].clone()).collect();
            for expr in &keys {
                key.push(self.eval(expr, &row)?);
            }
            match groups
                .iter_mut()
                .find(|(other, _)| logic::same_group(other, &key))
            {
                Some((_, rows)) => rows.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        if groups.is_empty() && keys.is_empty() && star.is_empty() {
            groups.push((Vec::new(), Vec::new()));
        }
        let mut made = Vec::new();
        for (key, rows) in self.in_any_order(groups)? {
            let first = self.with_imports(rows.first().cloned().unwrap_or_default());
            let mut values: Vec<Datum> = key[..star.len()].to_vec();
            for item in items {
                let scope = Scope {
                    row: &first,
                    group: Some(&rows),
                };
                values.push(self.eval_in(&item.expr, scope)?);
            }
            made.push(ProjectedRow {
                source: first,
                group: Some(rows),
                values,
            });
        }
        Ok(made)
    }

    /// The sort key of a row: over its columns and, unless rows are grouped or distinct, over its source row.
    fn sort_keys(
        &self,
        projection: &Projection,
        columns: &[Arc<str>],
        made: &ProjectedRow,
    ) -> Result<Vec<Datum>> {
        let mut row = made.source.clone();
        row.extend(columns.iter().cloned().zip(made.values.iter().cloned()));
        let first_item = columns.len() - projection.items.len();
        let mut keys = Vec::new();
        for item in &projection.order_by {
            let text = item.expr.to_string();
            let column = projection
                .items
                .iter()
                .position(|one| one.expr.to_string() == text);
            keys.push(match column {
                Some(at) => made.values[first_item + at].clone(),
                None => self.eval_in(
                    &item.expr,
                    Scope {
                        row: &row,
                        group: made.group.as_deref(),
                    },
                )?,
            });
        }
        Ok(keys)
    }

    fn count(&self, expr: Option<&Expr>, default: usize) -> Result<usize> {
        let Some(expr) = expr else { return Ok(default) };
        match self.eval(expr, &Row::new())? {
            Datum::Int(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
            _ => raised("SKIP and LIMIT take integers that are not negative"),
        }
    }
}

/// Whether an expression contains an aggregation, ignoring subqueries.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::CountStar => true,
        ExprKind::Function { name, .. }
            if aggregate::is_aggregate(&name.dotted().to_lowercase()) =>
        {
            true
        }
        _ => parts(expr).into_iter().any(has_aggregate),
    }
}

/// The direct subexpressions of an expression.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::List(items)
        | ExprKind::And(items)
        | ExprKind::Or(items)
        | ExprKind::Xor(items) => items.iter().collect(),
        ExprKind::Map(entries) => entries.iter().map(|entry| &entry.value).collect(),
        ExprKind::Property { base, .. } => vec![base],
        ExprKind::Index { base, index } => vec![base, index],
        ExprKind::Slice { base, from, to } => {
            let mut all: Vec<&Expr> = vec![base];
            all.extend(from.as_deref());
            all.extend(to.as_deref());
            all
        }
        ExprKind::Unary { operand, .. }
        | ExprKind::IsNull { operand, .. }
        | ExprKind::IsTyped { operand, .. } => vec![operand],
        ExprKind::HasLabels { operand, labels } => {
            let mut all = vec![&**operand];
            labels.for_each_expr(&mut |names| all.push(names));
            all
        }
        ExprKind::Binary { left, right, .. } => vec![left, right],
        ExprKind::ComparisonChain { operands, .. } | ExprKind::ArithmeticChain { operands, .. } => {
            operands.iter().collect()
        }
        ExprKind::Case {
            subject,
            branches,
            otherwise,
        } => {
            let mut all: Vec<&Expr> = branches
                .iter()
                .flat_map(|branch| [&branch.when, &branch.then])
                .collect();
            all.extend(subject.as_deref());
            all.extend(otherwise.as_deref());
            all
        }
        ExprKind::Function { arguments, .. } => arguments.iter().collect(),
        ExprKind::ListComprehension {
            list,
            predicate,
            projection,
            ..
        } => {
            let mut all: Vec<&Expr> = vec![list];
            all.extend(predicate.as_deref());
            all.extend(projection.as_deref());
            all
        }
        ExprKind::Quantifier {
            list, predicate, ..
        } => {
            let mut all: Vec<&Expr> = vec![list];
            all.extend(predicate.as_deref());
            all
        }
        ExprKind::Reduce {
            initial,
            list,
            step,
            ..
        } => vec![initial, list, step],
        _ => Vec::new(),
    }
}
