//! How deep running a plan recurses.

use crate::expr::BoundExpr;
use crate::physical::{OpId, Plan, PlanBody};
use crate::solve::for_each_expr;

impl Plan {
    /// The most operators that are nested within each other while it runs, those of sub-plans included: a pull recurses
    /// that deep. Fallbacks count as nested in their operator, which passes on their rows.
    pub fn depth(&self) -> usize {
        let PlanBody::Pipeline(root) = self.body else {
            return 1;
        };
        let mut depths = vec![0; self.operators.len()];
        // Each operator is visited before and after all below it. Iterative, because a chain may be long.
        let mut open = vec![(root, false)];
        while let Some((id, is_below_done)) = open.pop() {
            if depths[id.index()] > 0 {
                continue;
            }
            let below = self.below(id);
            if is_below_done {
                let deepest = below.iter().map(|id| depths[id.index()]).max();
                depths[id.index()] = 1 + deepest.unwrap_or(0);
            } else {
                open.push((id, true));
                open.extend(below.into_iter().map(|id| (id, false)));
            }
        }
        depths[root.index()]
    }

    /// The operators that an operator pulls from: its inputs and the sub-plans of its expressions.
    fn below(&self, id: OpId) -> Vec<OpId> {
        fn subplans(expr: &BoundExpr, found: &mut Vec<OpId>) {
            if let BoundExpr::Subquery(subquery) = expr {
                found.push(subquery.root);
            }
            expr.for_each_child(&mut |child| subplans(child, found));
        }
        let op = &self.operator(id).op;
        let mut below = op.children();
        for_each_expr(op, &mut |expr| subplans(expr, &mut below));
        below
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::MockCatalog;

    /// The number of operators of a query, and how deep they are nested.
    fn size(query: &str) -> (usize, usize) {
        let catalog = MockCatalog::new()
            .with_label("N", 20_000)
            .with_type("R", 60_000);
        let plan = crate::prepare(query, &catalog, &crate::PlanningOptions::default()).unwrap();
        (plan.operators.len(), plan.depth())
    }

    #[test]
    fn operators_that_are_not_nested_do_not_count() {
        let (operators, depth) = size(&["RETURN 1 AS x"; 100].join(" UNION ALL "));
        assert!(operators > 200 && depth < 10, "{operators} {depth}");
        let (operators, depth) = size(&format!("{}RETURN x", "WITH 1 AS x ".repeat(100)));
        assert!(depth > 100 && depth <= operators, "{operators} {depth}");
    }

    #[test]
    fn fallbacks_and_sub_plans_are_nested() {
        let (_, depth) = size("MATCH (n:N) RETURN n.k, count(*)");
        // ProduceResult, CountByColumn, Aggregate, Exchange, LabelScan, Argument.
        assert_eq!(depth, 6);
        let exists = |depth: usize| {
            let (open, close) = (
                "EXISTS { MATCH (a) WHERE ".repeat(depth),
                " }".repeat(depth),
            );
            size(&format!("MATCH (a) RETURN {open}true{close}")).1
        };
        assert!(exists(20) >= exists(10) + 10);
    }

    /// There are exponentially many paths through operators with fallbacks, as these read the same input.
    #[test]
    fn chains_of_fallbacks_are_walked_once() {
        let steps: Vec<String> = (0..60).map(|at| format!("(n{at})-[:R]->")).collect();
        let (operators, depth) = size(&format!("MATCH {}(m) RETURN DISTINCT m", steps.concat()));
        assert!(depth > 60 && depth <= operators, "{operators} {depth}");
    }
}
