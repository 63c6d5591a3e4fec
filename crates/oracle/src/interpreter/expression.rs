//! Expressions.

use std::sync::Arc;

use isomer_cypher::ast::{
    BinaryOp, CaseBranch, Expr, ExprKind, Ident, LabelExpr, LabelExprKind, Literal,
    MapProjectionItem, PathPattern, QuantifierKind, SubqueryKind, TypeExpr, UnaryOp,
};

use super::pattern::{fits, matches, shortest_path};
use super::{Interpreter, Row, function, with};
use crate::fault::{Fault, Result, raised};
use crate::logic::{Comparison, compare, equal};
use crate::notation::literal;
use crate::{Datum, Map, temporal};

/// Scope of an expression: variables, and the rows of the group if it is part of an aggregation.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub row: &'a Row,
    pub group: Option<&'a [Row]>,
}

impl<'a> Scope<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        Self { row, group: None }
    }
}

impl Interpreter<'_> {
    pub(super) fn eval(&self, expr: &Expr, row: &Row) -> Result<Datum> {
        self.eval_in(expr, Scope::of(row))
    }

    /// Whether a predicate is true; null is not.
    pub(super) fn holds(&self, expr: &Expr, row: &Row) -> Result<bool> {
        if let ExprKind::And(terms) = &expr.kind
            && !self.variation.eager
        {
            // A term that is false or null drops the row, whatever the others are.
            for term in terms {
                if !self.holds(term, row)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(truth(&self.eval(expr, row)?)? == Some(true))
    }

    pub(super) fn eval_in(&self, expr: &Expr, scope: Scope<'_>) -> Result<Datum> {
        self.count_operation()?;
        let eval = |expr: &Expr| self.eval_in(expr, scope);
        Ok(match &expr.kind {
            ExprKind::Literal(value) => constant(value),
            ExprKind::Parameter(name) => match self.parameters.get(name) {
                Some(value) => value.clone(),
                None => return raised(format!("the parameter {name} is not given")),
            },
            ExprKind::Variable(name) => match scope.row.get(name) {
                Some(value) => value.clone(),
                None => return raised(format!("the variable {name} is not defined")),
            },
            ExprKind::List(items) => items.iter().map(eval).collect::<Result<Vec<_>>>()?.into(),
            ExprKind::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key.name.clone(), eval(&entry.value)?);
                }
                map.into()
            }
            ExprKind::Property { base, key } => {
                self.property_of(base, &eval(base)?, key.as_str())?
            }
            ExprKind::Index { base, index } => self.item_of(base, eval(base)?, &eval(index)?)?,
            ExprKind::Slice { base, from, to } => {
                let bound = |bound: &Option<Box<Expr>>| bound.as_deref().map(eval).transpose();
                slice(&eval(base)?, bound(from)?, bound(to)?)?
            }
            ExprKind::Unary { op, operand } => unary(*op, &eval(operand)?)?,
            ExprKind::Binary { op, left, right } => binary(*op, &eval(left)?, &eval(right)?)?,
            ExprKind::ComparisonChain {
                operands,
                operators,
            } => self.comparisons(operands, operators, scope)?,
            ExprKind::ArithmeticChain {
                operands,
                operators,
            } => self.calculation(operands, operators, scope)?,
            ExprKind::And(terms) => self.connect(terms, false, scope)?,
            ExprKind::Or(terms) => self.connect(terms, true, scope)?,
            ExprKind::Xor(terms) => self.exclusive_or(terms, scope)?,
            ExprKind::IsNull { operand, negated } => {
                Datum::Bool(eval(operand)?.is_null() != *negated)
            }
            ExprKind::IsTyped {
                operand,
                value_type,
                negated,
            } => Datum::Bool(is_typed(&eval(operand)?, value_type)? != *negated),
            ExprKind::HasLabels { operand, labels } => {
                self.has_labels(&eval(operand)?, labels, scope)?
            }
            ExprKind::Case {
                subject,
                branches,
                otherwise,
            } => self.case(subject.as_deref(), branches, otherwise.as_deref(), scope)?,
            ExprKind::CountStar => match scope.group {
                Some(rows) => Datum::Int(rows.len() as i64),
                None => return raised("count(*) has no rows to count here"),
            },
            ExprKind::Function {
                name,
                distinct,
                arguments,
            } => self.function(&name.dotted().to_lowercase(), *distinct, arguments, scope)?,
            ExprKind::ListComprehension {
                variable,
                list,
                predicate,
                projection,
            } => self.list_comprehension(
                &variable.name,
                &eval(list)?,
                predicate.as_deref(),
                projection.as_deref(),
                scope,
            )?,
            ExprKind::Quantifier {
                kind,
                variable,
                list,
                predicate,
            } => {
                let list = eval(list)?;
                self.quantifier(*kind, &variable.name, &list, predicate.as_deref(), scope)?
            }
            ExprKind::Reduce {
                accumulator,
                initial,
                variable,
                list,
                step,
            } => {
                let initial = eval(initial)?;
                let names = [&accumulator.name, &variable.name];
                self.reduce(names, initial, &eval(list)?, step, scope)?
            }
            ExprKind::MapProjection { variable, items } => {
                let Some(base) = scope.row.get(&variable.name) else {
                    return raised(format!("the variable {} is not defined", variable.name));
                };
                self.map_projection(base, items, scope)?
            }
            ExprKind::PatternPredicate(path) => {
                let found = matches(self, &[path.as_ref()], scope.row)?;
                Datum::Bool(!found.is_empty())
            }
            ExprKind::PatternComprehension {
                path,
                predicate,
                projection,
            } => self.pattern_comprehension(path, predicate.as_deref(), projection, scope.row)?,
            ExprKind::ShortestPath(path) => shortest_path(self, path, scope.row)?,
            ExprKind::Subquery { kind, query } => self.subquery(*kind, query, scope.row)?,
        })
    }

    /// A property of a value; null if a value at the end of a path has no such part.
    fn property_of(&self, base: &Expr, value: &Datum, key: &str) -> Result<Datum> {
        if is_path(base) {
            let is_absent = value.is_temporal() && temporal::component(value, key).is_none();
            if is_absent || !has_fields(value) {
                return Ok(Datum::Null);
            }
        }
        self.property(value, key)
    }

    /// An item of a list or map; null if a value at the end of a path has no such part.
    fn item_of(&self, base: &Expr, value: Datum, index: &Datum) -> Result<Datum> {
        match (value, index) {
            (Datum::List(_), Datum::Text(_)) | (Datum::Map(_), Datum::Int(_)) if is_path(base) => {
                Ok(Datum::Null)
            }
            (Datum::List(items), index) => self.index(&Datum::List(items), index),
            (value, _) if is_path(base) && (!has_fields(&value) || value.is_temporal()) => {
                Ok(Datum::Null)
            }
            (value, index) => self.index(&value, index),
        }
    }

    /// `a < b < c`: each pair is compared.
    fn comparisons(
        &self,
        operands: &[Expr],
        operators: &[BinaryOp],
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let values = operands.iter().map(|operand| self.eval_in(operand, scope));
        let values = values.collect::<Result<Vec<_>>>()?;
        let pairs = values.windows(2).zip(operators);
        let terms = pairs
            .map(|(pair, op)| truth(&binary(*op, &pair[0], &pair[1])?))
            .collect::<Result<Vec<_>>>()?;
        Ok(of_truth(crate::logic::every(terms.into_iter())))
    }

    /// `a + b - c`, from the left.
    fn calculation(
        &self,
        operands: &[Expr],
        operators: &[BinaryOp],
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let mut value = Datum::Null;
        for (at, operand) in operands.iter().enumerate() {
            let right = self.eval_in(operand, scope)?;
            value = match at.checked_sub(1) {
                None => right,
                Some(before) => arithmetic(operators[before], &value, &right)?,
            };
        }
        Ok(value)
    }

    fn function(
        &self,
        name: &str,
        distinct: bool,
        arguments: &[Expr],
        scope: Scope<'_>,
    ) -> Result<Datum> {
        if super::aggregate::is_aggregate(name) {
            let Some(rows) = scope.group else {
                return raised(format!("{name}() has no rows to aggregate here"));
            };
            return self.aggregate(name, distinct, arguments, rows);
        }
        if name == "coalesce" {
            return self.coalesce(arguments, scope);
        }
        let values = arguments
            .iter()
            .map(|argument| self.eval_in(argument, scope));
        function::call(self, name, &values.collect::<Result<Vec<_>>>()?)
    }

    fn list_comprehension(
        &self,
        variable: &Arc<str>,
        list: &Datum,
        predicate: Option<&Expr>,
        projection: Option<&Expr>,
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let Some(items) = list_of(list)? else {
            return Ok(Datum::Null);
        };
        let mut out = Vec::new();
        for item in items {
            let row = with(scope.row, variable, item.clone());
            let inner = Scope {
                row: &row,
                group: scope.group,
            };
            let kept = match predicate {
                Some(predicate) => truth(&self.eval_in(predicate, inner)?)? == Some(true),
                None => true,
            };
            if kept {
                out.push(match projection {
                    Some(projection) => self.eval_in(projection, inner)?,
                    None => item,
                });
            }
        }
        Ok(out.into())
    }

    fn quantifier(
        &self,
        kind: QuantifierKind,
        variable: &Arc<str>,
        list: &Datum,
        predicate: Option<&Expr>,
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let Some(items) = list_of(list)? else {
            return Ok(Datum::Null);
        };
        let mut terms = Vec::new();
        for item in items {
            let row = with(scope.row, variable, item.clone());
            let inner = Scope {
                row: &row,
                group: scope.group,
            };
            terms.push(match predicate {
                Some(predicate) => truth(&self.eval_in(predicate, inner)?)?,
                None => truth(&item)?,
            });
        }
        Ok(of_truth(quantified(kind, &terms)))
    }

    /// `names` are the accumulator and the variable.
    fn reduce(
        &self,
        names: [&Arc<str>; 2],
        initial: Datum,
        list: &Datum,
        step: &Expr,
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let Some(items) = list_of(list)? else {
            return Ok(Datum::Null);
        };
        let [accumulator, variable] = names;
        let mut value = initial;
        for item in items {
            let row = with(scope.row, accumulator, value);
            let row = with(&row, variable, item);
            let inner = Scope {
                row: &row,
                group: scope.group,
            };
            value = self.eval_in(step, inner)?;
        }
        Ok(value)
    }

    fn pattern_comprehension(
        &self,
        path: &PathPattern,
        predicate: Option<&Expr>,
        projection: &Expr,
        row: &Row,
    ) -> Result<Datum> {
        let mut out = Vec::new();
        for row in self.in_any_order(matches(self, &[path], row)?)? {
            let kept = match predicate {
                Some(predicate) => self.holds(predicate, &row)?,
                None => true,
            };
            if kept {
                out.push(self.eval(projection, &row)?);
            }
        }
        Ok(out.into())
    }

    fn exclusive_or(&self, terms: &[Expr], scope: Scope<'_>) -> Result<Datum> {
        let mut answer = Some(false);
        for term in terms {
            let term = truth(&self.eval_in(term, scope)?)?;
            answer = answer.zip(term).map(|(a, b)| a != b);
        }
        Ok(of_truth(answer))
    }

    /// `AND`, which one false decides, or `OR`, which one true decides.
    fn connect(&self, terms: &[Expr], deciding: bool, scope: Scope<'_>) -> Result<Datum> {
        let mut answer = Some(!deciding);
        for term in terms {
            match truth(&self.eval_in(term, scope)?)? {
                Some(truth) if truth == deciding => {
                    if !self.variation.eager {
                        return Ok(Datum::Bool(deciding));
                    }
                    answer = Some(deciding);
                }
                None if answer != Some(deciding) => answer = None,
                _ => {}
            }
        }
        Ok(of_truth(answer))
    }

    fn coalesce(&self, arguments: &[Expr], scope: Scope<'_>) -> Result<Datum> {
        let mut answer = Datum::Null;
        for argument in arguments {
            if answer.is_null() {
                answer = self.eval_in(argument, scope)?;
            } else if self.variation.eager {
                self.eval_in(argument, scope)?;
            }
        }
        Ok(answer)
    }

    fn case(
        &self,
        subject: Option<&Expr>,
        branches: &[CaseBranch],
        otherwise: Option<&Expr>,
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let subject = subject
            .map(|subject| self.eval_in(subject, scope))
            .transpose()?;
        let mut answer = None;
        for branch in branches {
            if answer.is_some() && !self.variation.eager {
                break;
            }
            let when = self.eval_in(&branch.when, scope)?;
            let fits = match &subject {
                Some(subject) => equal(subject, &when) == Some(true),
                None => truth(&when)? == Some(true),
            };
            if (fits && answer.is_none()) || self.variation.eager {
                let value = self.eval_in(&branch.then, scope)?;
                if fits && answer.is_none() {
                    answer = Some(value);
                }
            }
        }
        match (answer, otherwise) {
            (Some(answer), Some(otherwise)) if self.variation.eager => {
                self.eval_in(otherwise, scope)?;
                Ok(answer)
            }
            (Some(answer), _) => Ok(answer),
            (None, Some(otherwise)) => self.eval_in(otherwise, scope),
            (None, None) => Ok(Datum::Null),
        }
    }

    pub(super) fn property(&self, base: &Datum, name: &str) -> Result<Datum> {
        match base {
            Datum::Null => Ok(Datum::Null),
            other if other.is_temporal() => match temporal::component(other, name) {
                Some(component) => Ok(component),
                None => raised(format!("{} has no component {name}", literal(other))),
            },
            Datum::Point(_) => Err(Fault::Unknown(format!("the field {name} of a point"))),
            other => Ok(self
                .properties(other)?
                .get(name)
                .cloned()
                .unwrap_or_default()),
        }
    }

    /// All properties of a map, or of an existing node or relationship.
    pub(super) fn properties(&self, base: &Datum) -> Result<Map> {
        let graph = self.graph.borrow();
        match base {
            Datum::Map(map) => Ok(Map::clone(map)),
            Datum::Node(node) => match graph.nodes.get(&node.id) {
                Some(node) => Ok(node.properties.clone()),
                None => raised("the node was deleted"),
            },
            Datum::Relationship(one) => match graph.relationships.get(&one.id) {
                Some(one) => Ok(one.properties.clone()),
                None => raised("the relationship was deleted"),
            },
            other => raised(format!("{} has no properties", literal(other))),
        }
    }

    fn index(&self, base: &Datum, index: &Datum) -> Result<Datum> {
        match (base, index) {
            (Datum::Null, _) => Ok(Datum::Null),
            (
                Datum::List(_) | Datum::Map(_) | Datum::Node(_) | Datum::Relationship(_),
                Datum::Null,
            ) => Ok(Datum::Null),
            (Datum::List(items), Datum::Int(at)) => {
                let length = items.len() as i128;
                let at = i128::from(*at) + if *at < 0 { length } else { 0 };
                Ok(match (0..length).contains(&at) {
                    true => items[at as usize].clone(),
                    false => Datum::Null,
                })
            }
            (Datum::Map(_) | Datum::Node(_) | Datum::Relationship(_), Datum::Text(name)) => {
                self.property(base, name)
            }
            _ => raised(format!("{}[{}]", literal(base), literal(index))),
        }
    }

    /// A label expression with the values of its computed names.
    fn fixed_labels(&self, labels: &LabelExpr, scope: Scope<'_>) -> Result<LabelExpr> {
        let span = labels.span;
        let each = |parts: &[LabelExpr]| -> Result<Vec<LabelExpr>> {
            let fixed = parts.iter().map(|part| self.fixed_labels(part, scope));
            fixed.collect()
        };
        let kind = match &labels.kind {
            LabelExprKind::Name(_) | LabelExprKind::Any => labels.kind.clone(),
            LabelExprKind::Not(inner) => {
                LabelExprKind::Not(Box::new(self.fixed_labels(inner, scope)?))
            }
            LabelExprKind::And(parts) => LabelExprKind::And(each(parts)?),
            LabelExprKind::Or(parts) => LabelExprKind::Or(each(parts)?),
            LabelExprKind::Dynamic { names, any } => {
                let names = computed_names(&self.eval_in(names, scope)?)?;
                let names = names.into_iter().map(|name| LabelExpr {
                    kind: LabelExprKind::Name(Ident::new(name, span)),
                    span,
                });
                match any {
                    true => LabelExprKind::Or(names.collect()),
                    false => LabelExprKind::And(names.collect()),
                }
            }
        };
        Ok(LabelExpr { kind, span })
    }

    /// The names of labels to create, set or remove.
    pub(super) fn label_names(&self, labels: &LabelExpr, row: &Row) -> Result<Vec<String>> {
        let Some(parts) = labels.as_labels() else {
            return raised("a node is created with labels, not with a condition");
        };
        let mut names = Vec::new();
        for part in parts {
            match &part.kind {
                LabelExprKind::Dynamic {
                    names: computed, ..
                } => {
                    names.append(&mut computed_names(&self.eval(computed, row)?)?);
                }
                _ => names.extend(part.as_name().map(|name| name.as_str().to_owned())),
            }
        }
        Ok(names)
    }

    /// Whether an entity's labels, or its type, match for a row; null does not.
    pub(super) fn carries(&self, entity: &Datum, labels: &LabelExpr, row: &Row) -> Result<bool> {
        let found = self.has_labels(entity, labels, Scope::of(row))?;
        Ok(matches!(found, Datum::Bool(true)))
    }

    /// Whether an entity's labels, or its type, match.
    pub(super) fn has_labels(
        &self,
        entity: &Datum,
        labels: &LabelExpr,
        scope: Scope<'_>,
    ) -> Result<Datum> {
        let labels = &self.fixed_labels(labels, scope)?;
        let graph = self.graph.borrow();
        match entity {
            Datum::Null => Ok(Datum::Null),
            Datum::Node(node) => match graph.nodes.get(&node.id) {
                Some(node) => Ok(Datum::Bool(fits(
                    labels,
                    &|name| node.labels.contains(name),
                    !node.labels.is_empty(),
                ))),
                None => raised("the node was deleted"),
            },
            Datum::Relationship(one) => match graph.relationships.get(&one.id) {
                Some(one) => Ok(Datum::Bool(fits(labels, &|name| one.name == name, true))),
                None => raised("the relationship was deleted"),
            },
            other => raised(format!("{} has no labels", literal(other))),
        }
    }

    fn map_projection(
        &self,
        base: &Datum,
        items: &[MapProjectionItem],
        scope: Scope<'_>,
    ) -> Result<Datum> {
        if base.is_null() {
            return Ok(Datum::Null);
        }
        let properties = self.properties(base)?;
        let mut map = Map::new();
        for item in items {
            match item {
                MapProjectionItem::Property(name) => {
                    map.insert(
                        name.name.clone(),
                        properties.get(&name.name).cloned().unwrap_or_default(),
                    );
                }
                MapProjectionItem::AllProperties => {
                    for (name, value) in properties.iter() {
                        map.insert(name.clone(), value.clone());
                    }
                }
                MapProjectionItem::Entry(entry) => {
                    map.insert(entry.key.name.clone(), self.eval_in(&entry.value, scope)?);
                }
                MapProjectionItem::Variable(name) => {
                    map.insert(
                        name.name.clone(),
                        scope.row.get(&name.name).cloned().unwrap_or_default(),
                    );
                }
            }
        }
        Ok(map.into())
    }

    fn subquery(
        &self,
        kind: SubqueryKind,
        query: &isomer_cypher::ast::RegularQuery,
        row: &Row,
    ) -> Result<Datum> {
        let mut count = 0;
        let mut values = Vec::new();
        for branch in &query.branches {
            let run = || self.clauses(&branch.clauses, vec![row.clone()]);
            let (rows, answer) = self.importing(row.clone(), run)?;
            match answer {
                Some(answer) => {
                    count += answer.rows.len();
                    values.extend(answer.rows);
                }
                None => count += rows.len(),
            }
        }
        if query.branches.len() > 1 && query.union == isomer_cypher::ast::UnionKind::Distinct {
            values = super::distinct(values);
            count = values.len();
        }
        Ok(match kind {
            SubqueryKind::Exists => Datum::Bool(count > 0),
            SubqueryKind::Count => Datum::Int(count as i64),
            SubqueryKind::Collect => values
                .into_iter()
                .filter_map(|row| row.into_iter().next())
                .collect::<Vec<_>>()
                .into(),
        })
    }
}

fn truth(value: &Datum) -> Result<Option<bool>> {
    match value {
        Datum::Null => Ok(None),
        Datum::Bool(truth) => Ok(Some(*truth)),
        other => raised(format!("{} is not a boolean", literal(other))),
    }
}

fn binary(op: BinaryOp, left: &Datum, right: &Datum) -> Result<Datum> {
    let asked = |asked| Ok(of_truth(compare(asked, left, right)));
    match op {
        BinaryOp::Equal => Ok(of_truth(equal(left, right))),
        BinaryOp::NotEqual => Ok(of_truth(equal(left, right).map(|equal| !equal))),
        BinaryOp::Less => asked(Comparison::Less),
        BinaryOp::LessOrEqual => asked(Comparison::LessOrEqual),
        BinaryOp::Greater => asked(Comparison::Greater),
        BinaryOp::GreaterOrEqual => asked(Comparison::GreaterOrEqual),
        BinaryOp::In => match list_of(right)? {
            Some(items) => {
                let terms: Vec<Option<bool>> = items.iter().map(|item| equal(left, item)).collect();
                Ok(of_truth(quantified(QuantifierKind::Any, &terms)))
            }
            None => Ok(Datum::Null),
        },
        BinaryOp::StartsWith | BinaryOp::EndsWith | BinaryOp::Contains => match (left, right) {
            (Datum::Text(text), Datum::Text(part)) => Ok(Datum::Bool(match op {
                BinaryOp::StartsWith => text.starts_with(&**part),
                BinaryOp::EndsWith => text.ends_with(&**part),
                _ => text.contains(&**part),
            })),
            _ => Ok(Datum::Null),
        },
        BinaryOp::RegexMatch => Err(Fault::Unknown("regular expressions".into())),
        _ => arithmetic(op, left, right),
    }
}

fn constant(value: &Literal) -> Datum {
    match value {
        Literal::Null => Datum::Null,
        Literal::Bool(value) => Datum::Bool(*value),
        Literal::Int(value) => Datum::Int(*value),
        Literal::Float(value) => Datum::Float(*value),
        Literal::String(value) => Datum::Text(value.clone()),
    }
}

fn of_truth(truth: Option<bool>) -> Datum {
    truth.map_or(Datum::Null, Datum::Bool)
}

/// The items of a list; `None` for null.
fn list_of(value: &Datum) -> Result<Option<Vec<Datum>>> {
    match value {
        Datum::Null => Ok(None),
        Datum::List(items) => Ok(Some(items.to_vec())),
        other => raised(format!("{} is not a list", literal(other))),
    }
}

fn quantified(kind: QuantifierKind, terms: &[Option<bool>]) -> Option<bool> {
    let count = |wanted: Option<bool>| terms.iter().filter(|term| **term == wanted).count();
    let (yes, no, unknown) = (count(Some(true)), count(Some(false)), count(None));
    match kind {
        QuantifierKind::All if no > 0 => Some(false),
        QuantifierKind::Any if yes > 0 => Some(true),
        QuantifierKind::None if yes > 0 => Some(false),
        QuantifierKind::Single if yes > 1 => Some(false),
        _ if unknown > 0 => None,
        QuantifierKind::All | QuantifierKind::None => Some(true),
        QuantifierKind::Any => Some(false),
        QuantifierKind::Single => Some(yes == 1),
    }
}

fn slice(base: &Datum, from: Option<Datum>, to: Option<Datum>) -> Result<Datum> {
    let Some(items) = list_of(base)? else {
        return Ok(Datum::Null);
    };
    let length = items.len() as i128;
    let place = |bound: Option<Datum>, default: i128| match bound {
        None => Ok(Some(default)),
        Some(Datum::Null) => Ok(None),
        Some(Datum::Int(at)) => {
            let at = i128::from(at) + if at < 0 { length } else { 0 };
            Ok(Some(at.clamp(0, length)))
        }
        Some(other) => raised(format!("{} is not a list bound", literal(&other))),
    };
    let (from, to) = (place(from, 0)?, place(to, length)?);
    Ok(match from.zip(to) {
        None => Datum::Null,
        Some((from, to)) if from < to => items[from as usize..to as usize].to_vec().into(),
        Some(_) => Datum::List(Arc::default()),
    })
}

fn unary(op: UnaryOp, value: &Datum) -> Result<Datum> {
    match (op, value) {
        (UnaryOp::Not, value) => Ok(of_truth(truth(value)?.map(|truth| !truth))),
        (_, Datum::Null) => Ok(Datum::Null),
        (UnaryOp::Plus, Datum::Int(_) | Datum::Float(_) | Datum::Duration(_)) => Ok(value.clone()),
        (UnaryOp::Minus, Datum::Int(value)) => match value.checked_neg() {
            Some(value) => Ok(Datum::Int(value)),
            None => raised("overflow"),
        },
        (UnaryOp::Minus, Datum::Float(value)) => Ok(Datum::Float(-value)),
        (UnaryOp::Minus, Datum::Duration(_)) => {
            temporal::arithmetic('*', value, &Datum::Int(-1)).unwrap_or(Ok(Datum::Null))
        }
        _ => raised(format!("a sign before {}", literal(value))),
    }
}

/// `+ - * / % ^ ||`
pub(super) fn arithmetic(op: BinaryOp, left: &Datum, right: &Datum) -> Result<Datum> {
    let text = |value: &Datum| match value {
        Datum::Text(text) => Some(text.to_string()),
        Datum::Int(number) => Some(number.to_string()),
        Datum::Bool(truth) => Some(truth.to_string()),
        Datum::Float(number) if number.is_nan() => Some("NaN".into()),
        Datum::Float(number) if number.is_infinite() => Some(
            if *number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }
            .into(),
        ),
        Datum::Float(number) => Some(format!("{number:?}")),
        _ => None,
    };
    match (op, left, right) {
        (_, Datum::Null, _) | (_, _, Datum::Null) => Ok(Datum::Null),
        (BinaryOp::Add | BinaryOp::Concat, Datum::List(a), Datum::List(b)) => {
            Ok(a.iter().chain(b.iter()).cloned().collect())
        }
        (BinaryOp::Add, Datum::List(a), item) => Ok(a.iter().chain([item]).cloned().collect()),
        (BinaryOp::Add, item, Datum::List(b)) => {
            Ok([item].into_iter().chain(b.iter()).cloned().collect())
        }
        (BinaryOp::Concat, Datum::Text(a), Datum::Text(b)) => Ok(format!("{a}{b}").into()),
        (BinaryOp::Add, Datum::Text(_), _) | (BinaryOp::Add, _, Datum::Text(_)) => {
            match text(left).zip(text(right)) {
                Some((a, b)) => Ok(format!("{a}{b}").into()),
                None => raised(format!("{} + {}", literal(left), literal(right))),
            }
        }
        (_, Datum::Int(a), Datum::Int(b)) => integers(op, *a, *b),
        (_, Datum::Int(_) | Datum::Float(_), Datum::Int(_) | Datum::Float(_)) => {
            let (Some(a), Some(b)) = (left.to_f64(), right.to_f64()) else {
                return raised("no numbers");
            };
            Ok(Datum::Float(match op {
                BinaryOp::Add => a + b,
                BinaryOp::Subtract => a - b,
                BinaryOp::Multiply => a * b,
                BinaryOp::Divide => a / b,
                BinaryOp::Modulo => a % b,
                BinaryOp::Power => a.powf(b),
                _ => return raised("numbers are not joined"),
            }))
        }
        (_, a, b) if a.is_temporal() || b.is_temporal() => {
            let symbol = match op {
                BinaryOp::Add => '+',
                BinaryOp::Subtract => '-',
                BinaryOp::Multiply => '*',
                BinaryOp::Divide => '/',
                _ => ' ',
            };
            temporal::arithmetic(symbol, a, b)
                .unwrap_or_else(|| raised(format!("{} {symbol} {}", literal(a), literal(b))))
        }
        _ => raised(format!(
            "{} and {} do not combine",
            literal(left),
            literal(right)
        )),
    }
}

fn integers(op: BinaryOp, a: i64, b: i64) -> Result<Datum> {
    let (wide_a, wide_b) = (i128::from(a), i128::from(b));
    let wide = match op {
        BinaryOp::Add => wide_a + wide_b,
        BinaryOp::Subtract => wide_a - wide_b,
        BinaryOp::Multiply => wide_a * wide_b,
        BinaryOp::Divide | BinaryOp::Modulo if b == 0 => return raised("division by zero"),
        BinaryOp::Divide => wide_a / wide_b,
        BinaryOp::Modulo => wide_a % wide_b,
        BinaryOp::Power => return Ok(Datum::Float((a as f64).powf(b as f64))),
        _ => return raised("integers are not joined"),
    };
    match i64::try_from(wide) {
        Ok(value) => Ok(Datum::Int(value)),
        Err(_) => raised("overflow"),
    }
}

fn is_typed(value: &Datum, wanted: &TypeExpr) -> Result<bool> {
    Ok(match (wanted, value) {
        (TypeExpr::NotNull(inner), value) => !value.is_null() && is_typed(value, inner)?,
        (TypeExpr::Union(types), value) => {
            for one in types {
                if is_typed(value, one)? {
                    return Ok(true);
                }
            }
            false
        }
        (_, Datum::Null) => true,
        (TypeExpr::Any, _) => true,
        (TypeExpr::Null, _) => false,
        (TypeExpr::List(of), Datum::List(items)) => {
            for item in items.iter() {
                if !is_typed(item, of)? {
                    return Ok(false);
                }
            }
            true
        }
        (TypeExpr::List(_), _) => false,
        (TypeExpr::Number, value) => value.is_number(),
        (TypeExpr::Boolean, value) => matches!(value, Datum::Bool(_)),
        (TypeExpr::Integer, value) => matches!(value, Datum::Int(_)),
        (TypeExpr::Float, value) => matches!(value, Datum::Float(_)),
        (TypeExpr::String, value) => matches!(value, Datum::Text(_)),
        (TypeExpr::Map, value) => matches!(value, Datum::Map(_)),
        (TypeExpr::Node, value) => matches!(value, Datum::Node(_)),
        (TypeExpr::Relationship, value) => matches!(value, Datum::Relationship(_)),
        (TypeExpr::Path, value) => matches!(value, Datum::Path(_)),
        (TypeExpr::Date, value) => matches!(value, Datum::Date(_)),
        (TypeExpr::LocalTime, value) => matches!(value, Datum::LocalTime(_)),
        (TypeExpr::ZonedTime, value) => matches!(value, Datum::Time(..)),
        (TypeExpr::LocalDateTime, value) => matches!(value, Datum::LocalDateTime(..)),
        (TypeExpr::ZonedDateTime, value) => matches!(value, Datum::DateTime(_)),
        (TypeExpr::Duration, value) => matches!(value, Datum::Duration(_)),
        (TypeExpr::Point, value) => matches!(value, Datum::Point(_)),
        (other, _) => return Err(Fault::Unknown(format!("the type {other}"))),
    })
}

/// Whether an expression is a path below a property, through maps and lists: missing elements are null then. A text in
/// brackets names a property.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Property { .. } => true,
        ExprKind::Index { base, index } => {
            matches!(index.kind, ExprKind::Literal(Literal::String(_))) || is_path(base)
        }
        _ => false,
    }
}

/// Whether a value is of a kind with fields.
fn has_fields(value: &Datum) -> bool {
    matches!(
        value,
        Datum::Map(_) | Datum::Node(_) | Datum::Relationship(_) | Datum::Point(_)
    ) || value.is_temporal()
}

/// A text or a list of texts.
fn computed_names(value: &Datum) -> Result<Vec<String>> {
    let name = |value: &Datum| match value {
        Datum::Text(name) if !name.is_empty() => Ok(name.to_string()),
        other => raised(format!("{} does not name a label or type", literal(other))),
    };
    match value {
        Datum::List(names) => names.iter().map(name).collect(),
        one => Ok(vec![name(one)?]),
    }
}
