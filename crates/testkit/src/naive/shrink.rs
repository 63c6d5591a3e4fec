//! Shrinks a failing query, and its graph, as long as the results differ.

use isomer_cypher::ast::{Clause, Expr, ExprKind, Statement, StatementBody};

use isomer_oracle::graph::Graph;

use super::differential::difference;
use super::queries::RandomQuery;

/// Maximum number of attempts.
const ATTEMPTS: usize = 400;

/// The smallest query and graph found, with the difference.
pub fn report(made: &RandomQuery, graph: &Graph, schema: &[String], seen: &str) -> String {
    let mut best = made.clone();
    let mut graph = graph.clone();
    let mut schema = schema.to_vec();
    let Some(mut what) = difference(&best, &graph, &schema) else {
        return format!(
            "{}\n  on {}\n  schema {}\n  {seen}\n  not so on a graph made at once",
            made.text,
            shown(&graph),
            schema.join("; ")
        );
    };
    let mut attempts = 0;
    loop {
        let before = attempts;
        let mut smaller = false;
        if let Some(found) = smaller_graph(&best, &graph, &schema, &mut attempts) {
            (graph, what) = found;
            smaller = true;
        }
        if let Some(found) = smaller_query(&best, &graph, &schema, &what, &mut attempts) {
            (best, what) = found;
            smaller = true;
        }
        if !schema.is_empty()
            && let Some(found) = difference(&best, &graph, &[])
        {
            schema = Vec::new();
            what = found;
            smaller = true;
        }
        if !smaller || attempts >= ATTEMPTS || attempts == before {
            break;
        }
    }
    format!(
        "{}\n  on {}\n  schema {}\n  {what}\n  made from: {}",
        best.text,
        shown(&graph),
        schema.join("; "),
        made.text
    )
}

fn shown(graph: &Graph) -> String {
    graph.to_cypher().unwrap_or_else(|| "nothing".into())
}

fn smaller_graph(
    made: &RandomQuery,
    graph: &Graph,
    schema: &[String],
    attempts: &mut usize,
) -> Option<(Graph, String)> {
    let mut candidates = Vec::new();
    for node in graph.nodes.keys() {
        let mut smaller = graph.clone();
        smaller.nodes.remove(node);
        smaller
            .relationships
            .retain(|_, one| one.source != *node && one.target != *node);
        candidates.push(smaller);
    }
    for one in graph.relationships.keys() {
        let mut smaller = graph.clone();
        smaller.relationships.remove(one);
        candidates.push(smaller);
    }
    for (id, node) in &graph.nodes {
        for name in node.properties.keys() {
            let mut smaller = graph.clone();
            if let Some(node) = smaller.nodes.get_mut(id) {
                node.properties.remove(name);
            }
            candidates.push(smaller);
        }
    }
    for candidate in candidates {
        *attempts += 1;
        if *attempts > ATTEMPTS {
            return None;
        }
        if let Some(what) = difference(made, &candidate, schema) {
            return Some((candidate, what));
        }
    }
    None
}

fn smaller_query(
    made: &RandomQuery,
    graph: &Graph,
    schema: &[String],
    before: &str,
    attempts: &mut usize,
) -> Option<(RandomQuery, String)> {
    let statement = isomer_cypher::parse(&made.text).ok()?;
    for candidate in smaller_statements(&statement) {
        let text = candidate.to_string();
        if text.len() >= made.text.len() {
            continue;
        }
        *attempts += 1;
        if *attempts > ATTEMPTS {
            return None;
        }
        let smaller = RandomQuery {
            text,
            ..made.clone()
        };
        if let Some(what) = difference(&smaller, graph, schema)
            // An error introduced by shrinking is not a finding.
            && !what.contains("not defined")
            && !what.contains("not parsed")
            && (before.contains("Some(Prepare)") || !what.contains("Some(Prepare)"))
        {
            return Some((smaller, what));
        }
    }
    None
}

/// Statements with one part removed.
fn smaller_statements(statement: &Statement) -> Vec<Statement> {
    let StatementBody::Query(query) = &statement.body else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut Vec<Clause>), branch: usize| {
        let mut smaller = statement.clone();
        if let StatementBody::Query(query) = &mut smaller.body {
            change(&mut query.branches[branch].clauses);
        }
        out.push(smaller);
    };
    for (branch, single) in query.branches.iter().enumerate() {
        for (at, clause) in single.clauses.iter().enumerate() {
            push(&|clauses| drop(clauses.remove(at)), branch);
            for smaller in smaller_clauses(clause) {
                push(&|clauses| clauses[at] = smaller.clone(), branch);
            }
        }
    }
    if query.branches.len() > 1 {
        for branch in 0..query.branches.len() {
            let mut smaller = statement.clone();
            if let StatementBody::Query(query) = &mut smaller.body {
                query.branches.remove(branch);
            }
            out.push(smaller);
        }
    }
    out
}

/// Clauses with one part removed.
fn smaller_clauses(clause: &Clause) -> Vec<Clause> {
    let mut out = Vec::new();
    match clause {
        Clause::Match(clause) => {
            if let Some(predicate) = &clause.predicate {
                out.push(Clause::Match(isomer_cypher::ast::Match {
                    predicate: None,
                    ..clause.clone()
                }));
                for smaller in smaller_expressions(predicate) {
                    out.push(Clause::Match(isomer_cypher::ast::Match {
                        predicate: Some(smaller),
                        ..clause.clone()
                    }));
                }
            }
            if clause.optional {
                out.push(Clause::Match(isomer_cypher::ast::Match {
                    optional: false,
                    ..clause.clone()
                }));
            }
            for (at, path) in clause.pattern.paths.iter().enumerate() {
                if clause.pattern.paths.len() > 1 {
                    let mut smaller = clause.clone();
                    smaller.pattern.paths.remove(at);
                    out.push(Clause::Match(smaller));
                }
                if !path.steps.is_empty() {
                    let mut smaller = clause.clone();
                    smaller.pattern.paths[at].steps.pop();
                    out.push(Clause::Match(smaller));
                    let mut smaller = clause.clone();
                    let first = smaller.pattern.paths[at].steps.remove(0);
                    smaller.pattern.paths[at].start = first.node;
                    out.push(Clause::Match(smaller));
                }
                let mut smaller = clause.clone();
                let path = &mut smaller.pattern.paths[at];
                path.start.labels = None;
                path.start.properties = None;
                path.start.predicate = None;
                out.push(Clause::Match(smaller));
                for step in 0..path_steps(clause, at) {
                    let mut smaller = clause.clone();
                    let step = &mut smaller.pattern.paths[at].steps[step];
                    step.node.labels = None;
                    step.node.properties = None;
                    step.node.predicate = None;
                    out.push(Clause::Match(smaller));
                }
            }
        }
        Clause::With(clause) => {
            if clause.predicate.is_some() {
                let mut smaller = clause.clone();
                smaller.predicate = None;
                out.push(Clause::With(smaller));
            }
            for projection in smaller_projections(&clause.projection) {
                let mut smaller = clause.clone();
                smaller.projection = projection;
                out.push(Clause::With(smaller));
            }
        }
        Clause::Return(clause) => {
            for projection in smaller_projections(&clause.projection) {
                let mut smaller = clause.clone();
                smaller.projection = projection;
                out.push(Clause::Return(smaller));
            }
        }
        Clause::Unwind(clause) => {
            for list in smaller_expressions(&clause.list) {
                out.push(Clause::Unwind(isomer_cypher::ast::Unwind {
                    list,
                    ..clause.clone()
                }));
            }
        }
        _ => {}
    }
    out
}

fn path_steps(clause: &isomer_cypher::ast::Match, at: usize) -> usize {
    clause.pattern.paths[at].steps.len()
}

fn smaller_projections(
    projection: &isomer_cypher::ast::Projection,
) -> Vec<isomer_cypher::ast::Projection> {
    let mut out = Vec::new();
    let mut push = |change: &dyn Fn(&mut isomer_cypher::ast::Projection)| {
        let mut smaller = projection.clone();
        change(&mut smaller);
        out.push(smaller);
    };
    if projection.distinct {
        push(&|projection| projection.distinct = false);
    }
    if projection.limit.is_some() {
        push(&|projection| projection.limit = None);
    }
    if projection.skip.is_some() {
        push(&|projection| projection.skip = None);
    }
    if !projection.order_by.is_empty() {
        push(&|projection| projection.order_by.clear());
    }
    for at in 0..projection.items.len() {
        if projection.items.len() > 1 {
            push(&|projection| drop(projection.items.remove(at)));
        }
        for smaller in smaller_expressions(&projection.items[at].expr) {
            push(&|projection| projection.items[at].expr = smaller.clone());
        }
    }
    out
}

/// Subexpressions, and the expression with a smaller subexpression.
fn smaller_expressions(expr: &Expr) -> Vec<Expr> {
    let mut out = Vec::new();
    let mut inside = |part: &Expr, rebuild: &dyn Fn(Expr) -> ExprKind| {
        out.push(part.clone());
        for smaller in smaller_expressions(part) {
            out.push(Expr::new(rebuild(smaller), expr.span));
        }
    };
    match &expr.kind {
        ExprKind::Unary { op, operand } => inside(operand, &|operand| ExprKind::Unary {
            op: *op,
            operand: Box::new(operand),
        }),
        ExprKind::Binary { op, left, right } => {
            inside(left, &|left| ExprKind::Binary {
                op: *op,
                left: Box::new(left),
                right: right.clone(),
            });
            inside(right, &|right| ExprKind::Binary {
                op: *op,
                left: left.clone(),
                right: Box::new(right),
            });
        }
        ExprKind::And(terms)
        | ExprKind::Or(terms)
        | ExprKind::Xor(terms)
        | ExprKind::List(terms) => {
            for at in 0..terms.len() {
                let kind = expr.kind.clone();
                inside(&terms[at], &|smaller| {
                    let mut kind = kind.clone();
                    if let ExprKind::And(terms)
                    | ExprKind::Or(terms)
                    | ExprKind::Xor(terms)
                    | ExprKind::List(terms) = &mut kind
                    {
                        terms[at] = smaller;
                    }
                    kind
                });
            }
        }
        ExprKind::Function {
            name,
            distinct,
            arguments,
        } => {
            for at in 0..arguments.len() {
                inside(&arguments[at], &|smaller| {
                    let mut arguments = arguments.clone();
                    arguments[at] = smaller;
                    ExprKind::Function {
                        name: name.clone(),
                        distinct: *distinct,
                        arguments,
                    }
                });
            }
        }
        ExprKind::Case {
            otherwise,
            branches,
            ..
        } => {
            out.extend(otherwise.as_deref().cloned());
            out.extend(
                branches
                    .iter()
                    .flat_map(|branch| [branch.then.clone(), branch.when.clone()]),
            );
        }
        ExprKind::IsNull { operand, .. } | ExprKind::IsTyped { operand, .. } => {
            out.push(Expr::clone(operand))
        }
        ExprKind::Index { base, .. } | ExprKind::Slice { base, .. } => out.push(Expr::clone(base)),
        ExprKind::ListComprehension { list, .. }
        | ExprKind::Quantifier { list, .. }
        | ExprKind::Reduce { list, .. } => {
            out.push(Expr::clone(list));
        }
        _ => {}
    }
    out
}
