//! Plans as text and as values: what `EXPLAIN` and `PROFILE` show. The output is deterministic.

mod expression;
mod operator;
mod pattern;
mod write;

use std::fmt::Write as _;
use std::sync::Arc;

use isomer_value::{Map, Value, json as value_json};
use rustc_hash::FxHashSet;

use crate::expr::{BoundExpr, Subquery};
use crate::physical::{Op, OpId, Plan, PlanBody};
use crate::solve::for_each_expr;

pub use expression::ExprPrinter;

/// The profile of an operator, appended to its line: `PROFILE` gives rows, time and memory here.
pub type Annotate<'a> = &'a dyn Fn(OpId) -> Option<String>;

/// The plan as a tree, one operator a line, from the result down to the leaves; right sides, bodies and sub-plans are
/// indented under their operator, before its input.
pub fn text(plan: &Plan) -> String {
    annotated_text(plan, &|_| None)
}

/// Like [`text`], but with `?` in place of every constant and without estimates, for output that must not show data.
pub fn outline(plan: &Plan) -> String {
    printed(plan, &ExprPrinter::without_values(plan), &|_| None)
}

/// Like [`text`], with an annotation on each operator's line.
pub fn annotated_text(plan: &Plan, annotate: Annotate<'_>) -> String {
    printed(plan, &ExprPrinter::new(plan), annotate)
}

fn printed(plan: &Plan, printer: &ExprPrinter<'_>, annotate: Annotate<'_>) -> String {
    let mut out = String::new();
    match &plan.body {
        PlanBody::Pipeline(root) => print_tree(plan, printer, *root, annotate, &mut out),
        PlanBody::PointRead(read) => {
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
        PlanBody::Schema(command) => {
            let _ = writeln!(out, "Schema {}", write::schema_command(command));
        }
        PlanBody::KillQuery(id) => {
            let _ = writeln!(out, "KillQuery {}", printer.expr(id));
        }
    }
    out
}

/// One operator of a plan, in display order.
struct Line {
    id: OpId,
    /// The line of the operator that reads this one's rows, or evaluates it as a sub-plan; absent for the root.
    parent: Option<usize>,
    /// Levels of indentation in the text.
    depth: usize,
    /// The role of its rows for the parent; absent for the input of a chain.
    role: Option<&'static str>,
    /// It is a fallback, or below one.
    in_fallback: bool,
}

/// The traversal that all renderings of a plan share: the operators reachable from `root`, each one before its inputs.
/// Operators that a rewrite disconnected are not visited.
///
/// Sub-plans of expressions come first, then right sides and bodies, then the input, so that a chain of inputs reads
/// straight down. An operator with two readers is listed below each of them, except that a fallback ends where it
/// reads what is listed elsewhere: the input of the operator that it replaces. In a chain of operators with fallbacks
/// there are exponentially many paths to an operator. Iterative, because a chain may be long.
fn lines(plan: &Plan, root: OpId) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut listed = without_fallbacks(plan, root);
    let mut open = vec![Line {
        id: root,
        parent: None,
        depth: 0,
        role: None,
        in_fallback: false,
    }];
    while let Some(line) = open.pop() {
        let (at, depth, in_fallback) = (lines.len(), line.depth, line.in_fallback);
        let op = &plan.operator(line.id).op;
        lines.push(line);
        let child = |id, role: Option<&'static str>| Line {
            id,
            parent: Some(at),
            depth: depth + usize::from(role.is_some()),
            role,
            in_fallback: in_fallback || op.fallback() == Some(id),
        };
        let children = op.children();
        let (input, others) = match op {
            Op::Union { .. } => (None, children.as_slice()),
            _ => children
                .split_first()
                .map_or((None, [].as_slice()), |(input, others)| {
                    (Some(input), others)
                }),
        };
        // Pushed in reverse: the last one is visited first.
        open.extend(
            input
                .filter(|id| !in_fallback || listed.insert(**id))
                .map(|id| child(*id, None)),
        );
        let role = operator::role(op);
        open.extend(others.iter().rev().map(|id| child(*id, Some(role))));
        let subqueries = subqueries(op);
        open.extend(
            subqueries
                .iter()
                .rev()
                .map(|subquery| child(subquery.root, Some("subquery"))),
        );
    }
    lines
}

/// The operators reachable from `root` past all fallbacks.
fn without_fallbacks(plan: &Plan, root: OpId) -> FxHashSet<OpId> {
    let mut found = FxHashSet::default();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let op = &plan.operator(id).op;
        let children = op.children().into_iter();
        open.extend(children.filter(|child| Some(*child) != op.fallback()));
        open.extend(subqueries(op).iter().map(|subquery| subquery.root));
    }
    found
}

fn print_tree(
    plan: &Plan,
    printer: &ExprPrinter<'_>,
    root: OpId,
    annotate: Annotate<'_>,
    out: &mut String,
) {
    for line in lines(plan, root) {
        let operator = plan.operator(line.id);
        let indent = "| ".repeat(line.depth);
        let role = line
            .role
            .map(|role| format!("[{role}] "))
            .unwrap_or_default();
        let details = operator::details(printer, &operator.op);
        let space = if details.is_empty() { "" } else { " " };
        let _ = write!(
            out,
            "{indent}{role}{}{space}{details}",
            operator::name(&operator.op)
        );
        let _ = write!(out, "  ~{}", rounded(operator.rows));
        if let Some(more) = annotate(line.id) {
            let _ = write!(out, "  {more}");
        }
        out.push('\n');
    }
}

/// An estimate as displayed: two significant digits.
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
    fn visit<'e>(expr: &'e BoundExpr, found: &mut Vec<&'e Subquery>) {
        if let BoundExpr::Subquery(subquery) = expr {
            found.push(subquery);
        }
        expr.for_each_child(&mut |child| visit(child, found));
    }
    let mut found = Vec::new();
    for_each_expr(op, &mut |expr| visit(expr, &mut found));
    found
}

/// Additional entries of an operator in [`annotated_value`] and [`annotated_json`].
pub type AnnotateValue<'a> = &'a dyn Fn(OpId) -> Option<Map>;

/// The plan as a value: `{class, columns, parameters, plan: {operator, details, rows, role, inputs}}`.
///
/// The operators are those of [`text`], each with the same name, details and role (`right`, `build`, `match`, `each`,
/// `branch`, `fallback`, `subquery`; absent for the input of a chain). `inputs` lists the input of the chain first,
/// then right sides and bodies, then sub-plans of expressions. `rows` is the estimate. As deep as the plan.
pub fn value(plan: &Plan) -> Value {
    annotated_value(plan, &|_| None)
}

/// Like [`value`], with additional entries for each operator.
pub fn annotated_value(plan: &Plan, annotate: AnnotateValue<'_>) -> Value {
    let printer = ExprPrinter::new(plan);
    let tree = match &plan.body {
        PlanBody::Pipeline(root) => tree_value(plan, &printer, *root, annotate),
        _ => {
            let mut entries = single_operator(&printer);
            entries.insert("inputs", Value::empty_list());
            Value::Map(Arc::new(entries))
        }
    };
    let mut entries = head(plan);
    entries.insert("plan", tree);
    Value::Map(Arc::new(entries))
}

/// The JSON text of [`value`]. The generic JSON writer refuses a value that is nested as deep as a long chain of
/// operators; this one is written without recursion.
pub fn json(plan: &Plan) -> String {
    annotated_json(plan, &|_| None)
}

/// The JSON text of [`annotated_value`].
pub fn annotated_json(plan: &Plan, annotate: AnnotateValue<'_>) -> String {
    let printer = ExprPrinter::new(plan);
    let mut out = object_start(&head(plan));
    out.push_str(",\"plan\":");
    match &plan.body {
        PlanBody::Pipeline(root) => tree_json(plan, &printer, *root, annotate, &mut out),
        _ => {
            out.push_str(&object_start(&single_operator(&printer)));
            out.push_str(",\"inputs\":[]}");
        }
    }
    out.push('}');
    out
}

/// The entries of the whole plan.
fn head(plan: &Plan) -> Map {
    let names = |names: &[Arc<str>]| {
        let names = names.iter().map(|name| Value::String(name.clone()));
        Value::List(Arc::new(names.collect()))
    };
    [
        ("class", string(plan.class.name())),
        ("columns", names(&plan.columns)),
        ("parameters", names(&plan.parameters)),
    ]
    .into_iter()
    .collect()
}

/// The entries of a plan that is a single command without a pipeline: the two words of its line.
fn single_operator(printer: &ExprPrinter<'_>) -> Map {
    let line = printed(printer.plan, printer, &|_| None);
    let (name, details) = line.trim_end().split_once(' ').unwrap_or((&line, ""));
    [("operator", string(name)), ("details", string(details))]
        .into_iter()
        .collect()
}

/// The entries of one operator, `inputs` aside.
fn operator_entries(
    plan: &Plan,
    printer: &ExprPrinter<'_>,
    line: &Line,
    annotate: AnnotateValue<'_>,
) -> Map {
    let operator = plan.operator(line.id);
    let mut entries: Map = [
        ("operator", string(operator::name(&operator.op))),
        ("details", string(&operator::details(printer, &operator.op))),
        ("rows", Value::Float(operator.rows)),
    ]
    .into_iter()
    .collect();
    if let Some(role) = line.role {
        entries.insert("role", string(role));
    }
    for (name, value) in annotate(line.id).iter().flat_map(Map::iter) {
        entries.insert(name.clone(), value.clone());
    }
    entries
}

/// Indexes of the lines below each line, in the order of `inputs`.
fn inputs(lines: &[Line]) -> Vec<Vec<usize>> {
    let mut inputs = vec![Vec::new(); lines.len()];
    for (at, line) in lines.iter().enumerate() {
        if let Some(parent) = line.parent {
            inputs[parent].push(at);
        }
    }
    for of in &mut inputs {
        of.sort_by_key(|at: &usize| match lines[*at].role {
            None => 0,
            Some("subquery") => 2,
            Some(_) => 1,
        });
    }
    inputs
}

/// Built from the leaves up, so that a long chain needs no recursion.
fn tree_value(
    plan: &Plan,
    printer: &ExprPrinter<'_>,
    root: OpId,
    annotate: AnnotateValue<'_>,
) -> Value {
    let lines = lines(plan, root);
    let inputs = inputs(&lines);
    let mut values = vec![Value::Null; lines.len()];
    for at in (0..lines.len()).rev() {
        let mut entries = operator_entries(plan, printer, &lines[at], annotate);
        let below = inputs[at]
            .iter()
            .map(|input| std::mem::take(&mut values[*input]));
        entries.insert("inputs", Value::List(Arc::new(below.collect())));
        values[at] = Value::Map(Arc::new(entries));
    }
    std::mem::take(&mut values[0])
}

fn tree_json(
    plan: &Plan,
    printer: &ExprPrinter<'_>,
    root: OpId,
    annotate: AnnotateValue<'_>,
    out: &mut String,
) {
    enum Fragment {
        Operator(usize),
        Text(&'static str),
    }
    let lines = lines(plan, root);
    let inputs = inputs(&lines);
    let mut open = vec![Fragment::Operator(0)];
    while let Some(step) = open.pop() {
        let at = match step {
            Fragment::Operator(at) => at,
            Fragment::Text(text) => {
                out.push_str(text);
                continue;
            }
        };
        out.push_str(&object_start(&operator_entries(
            plan, printer, &lines[at], annotate,
        )));
        out.push_str(",\"inputs\":[");
        open.push(Fragment::Text("]}"));
        for (position, input) in inputs[at].iter().enumerate().rev() {
            open.push(Fragment::Operator(*input));
            if position > 0 {
                open.push(Fragment::Text(","));
            }
        }
    }
}

/// An object without its closing brace, so that entries can follow. `entries` is not empty.
fn object_start(entries: &Map) -> String {
    let object = Value::Map(Arc::new(entries.clone()));
    let mut text =
        value_json::to_string(&object).expect("names, texts and numbers are nested three deep");
    text.pop();
    text
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}
