//! Plans as text and as values: what `EXPLAIN` and `PROFILE` show. The same plan always prints the same.

mod expression;
mod operator;

use std::fmt::Write as _;
use std::sync::Arc;

use isomer_value::{Map, Value};

use crate::expr::{Expr, Subquery};
use crate::physical::{Body, Op, OpId, Plan};
use crate::solve::for_each_expr;

pub use expression::Printer;

/// What a run adds to an operator's line: `PROFILE` gives rows, time and memory here.
pub type Annotate<'a> = &'a dyn Fn(OpId) -> Option<String>;

/// The plan as a tree, one operator a line: from the result down to the leaves; right sides, bodies and sub-plans stand
/// indented under the operator they belong to, before its input.
pub fn text(plan: &Plan) -> String {
    annotated_text(plan, &|_| None)
}

/// The plan as [`text`], with `?` in place of every constant, estimates aside: what may be shown where data must not be.
pub fn outline(plan: &Plan) -> String {
    printed(plan, &Printer::without_values(plan), &|_| None)
}

/// The plan as [`text`], with something added to each operator's line.
pub fn annotated_text(plan: &Plan, annotate: Annotate<'_>) -> String {
    printed(plan, &Printer::new(plan), annotate)
}

fn printed(plan: &Plan, printer: &Printer<'_>, annotate: Annotate<'_>) -> String {
    let mut out = String::new();
    match &plan.body {
        Body::Pipeline(root) => print_tree(plan, printer, *root, annotate, &mut out),
        Body::PointRead(read) => {
            let columns: Vec<String> = read
                .columns
                .iter()
                .map(|column| printer.expr(column))
                .collect();
            let _ = writeln!(
                out,
                "PointRead {}:{} {{_key: {}}} -> {}",
                printer.slot(read.node),
                plan.label_name(read.label),
                printer.expr(&read.key),
                columns.join(", ")
            );
        }
        Body::Schema(command) => {
            let _ = writeln!(out, "Schema {}", operator::schema_command(command));
        }
        Body::KillQuery(id) => {
            let _ = writeln!(out, "KillQuery {}", printer.expr(id));
        }
    }
    out
}

fn print_tree(
    plan: &Plan,
    printer: &Printer<'_>,
    root: OpId,
    annotate: Annotate<'_>,
    out: &mut String,
) {
    let mut open = vec![(root, 0usize, None::<&str>)];
    while let Some((id, depth, role)) = open.pop() {
        let operator = plan.operator(id);
        let indent = "| ".repeat(depth);
        let role = role.map(|role| format!("[{role}] ")).unwrap_or_default();
        let details = operator::details(printer, &operator.op);
        let space = if details.is_empty() { "" } else { " " };
        let _ = write!(
            out,
            "{indent}{role}{}{space}{details}",
            operator::name(&operator.op)
        );
        let _ = write!(out, "  ~{}", rounded(operator.rows));
        if let Some(more) = annotate(id) {
            let _ = write!(out, "  {more}");
        }
        out.push('\n');
        let children = operator.op.children();
        let mut next: Vec<(OpId, usize, Option<&str>)> = Vec::new();
        for subquery in subqueries(&operator.op) {
            next.push((subquery.root, depth + 1, Some("subquery")));
        }
        match &operator.op {
            Op::Union { inputs } => next.extend(
                inputs
                    .iter()
                    .map(|input| (*input, depth + 1, Some("branch"))),
            ),
            _ => {
                next.extend(
                    children
                        .iter()
                        .skip(1)
                        .map(|child| (*child, depth + 1, Some(operator::right_role(&operator.op)))),
                );
                next.extend(children.first().map(|input| (*input, depth, None)));
            }
        }
        open.extend(next.into_iter().rev());
    }
}

/// An estimate as it is shown: two significant digits.
fn rounded(rows: f64) -> String {
    if !rows.is_finite() {
        return "many".to_owned();
    }
    if rows < 0.05 {
        return "0".to_owned();
    }
    if rows < 10.0 {
        let text = format!("{rows:.1}");
        return text.trim_end_matches(".0").to_owned();
    }
    let magnitude = 10f64.powf(rows.log10().floor() - 1.0);
    format!("{:.0}", (rows / magnitude).round() * magnitude)
}

/// The sub-plans in an operator's expressions, in order.
fn subqueries(op: &Op) -> Vec<&Subquery> {
    fn visit<'e>(expr: &'e Expr, found: &mut Vec<&'e Subquery>) {
        if let Expr::Subquery(subquery) = expr {
            found.push(subquery);
        }
        expr.for_each_child(&mut |child| visit(child, found));
    }
    let mut found = Vec::new();
    for_each_expr(op, &mut |expr| visit(expr, &mut found));
    found
}

/// The plan as a value, to be written as JSON: `{class, columns, plan: {operator, details, rows, inputs}}`.
pub fn value(plan: &Plan) -> Value {
    annotated_value(plan, &|_| None)
}

/// The plan as [`value`], with more entries for each operator.
pub fn annotated_value(plan: &Plan, annotate: &dyn Fn(OpId) -> Option<Map>) -> Value {
    let printer = Printer::new(plan);
    let class = plan.class.name();
    let tree = match &plan.body {
        Body::Pipeline(root) => tree_value(plan, &printer, *root, annotate),
        _ => map([("operator", string(text(plan).trim_end()))]),
    };
    let columns = plan
        .columns
        .iter()
        .map(|column| Value::String(column.clone()))
        .collect();
    let parameters = plan
        .parameters
        .iter()
        .map(|name| Value::String(name.clone()))
        .collect();
    map([
        ("class", string(class)),
        ("columns", Value::List(Arc::new(columns))),
        ("parameters", Value::List(Arc::new(parameters))),
        ("plan", tree),
    ])
}

/// Built from the leaves up, so that a long chain needs no recursion.
fn tree_value(
    plan: &Plan,
    printer: &Printer<'_>,
    root: OpId,
    annotate: &dyn Fn(OpId) -> Option<Map>,
) -> Value {
    let mut values: Vec<Option<Value>> = vec![None; plan.operators.len()];
    for at in 0..=root.index() {
        let operator = &plan.operators[at];
        let mut inputs: Vec<Value> = operator
            .op
            .children()
            .iter()
            .filter_map(|child| values[child.index()].take())
            .collect();
        inputs.extend(
            subqueries(&operator.op)
                .iter()
                .filter_map(|one| values[one.root.index()].take()),
        );
        let mut entries: Map = [
            ("operator", string(operator::name(&operator.op))),
            ("details", string(&operator::details(printer, &operator.op))),
            ("rows", Value::Float(operator.rows)),
            ("inputs", Value::List(Arc::new(inputs))),
        ]
        .into_iter()
        .collect();
        for (name, value) in annotate(OpId(at as u32)).iter().flat_map(Map::iter) {
            entries.insert(name.clone(), value.clone());
        }
        values[at] = Some(Value::Map(Arc::new(entries)));
    }
    values[root.index()].take().unwrap_or_default()
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(Arc::new(entries.into_iter().collect::<Map>()))
}
