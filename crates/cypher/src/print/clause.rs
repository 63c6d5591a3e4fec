//! Clauses.

use super::Printer;
use crate::ast::{
    CallProcedure, CallSubquery, Clause, Concurrency, Expr, Hint, HintKind, Ident, InTransactions,
    LabelExpr, Match, MatchMode, Merge, MergeEvent, OnBatchError, Projection, RemoveItem, SetItem,
    SubqueryImports, Unwind, Yield, YieldItems,
};

impl Printer {
    pub(super) fn clause(&mut self, clause: &Clause) {
        match clause {
            Clause::Match(clause) => self.match_clause(clause),
            Clause::Unwind(clause) => self.unwind(clause),
            Clause::With(clause) => {
                self.text("WITH ");
                self.projection(&clause.projection);
                self.optional_where(clause.predicate.as_ref());
            }
            Clause::Return(clause) => {
                self.text("RETURN ");
                self.projection(&clause.projection);
            }
            Clause::Create(clause) => {
                self.text("CREATE ");
                self.separated(&clause.pattern.paths, ", ", Self::path);
            }
            Clause::Merge(clause) => self.merge(clause),
            Clause::Set(clause) => {
                self.text("SET ");
                self.separated(&clause.items, ", ", Self::set_item);
            }
            Clause::Remove(clause) => {
                self.text("REMOVE ");
                self.separated(&clause.items, ", ", Self::remove_item);
            }
            Clause::Delete(clause) => {
                self.text(if clause.detach {
                    "DETACH DELETE "
                } else {
                    "DELETE "
                });
                self.separated(&clause.targets, ", ", Self::expr);
            }
            Clause::Foreach(clause) => {
                self.text("FOREACH (");
                self.variable(&clause.variable.name);
                self.text(" IN ");
                self.expr_before_bar(&clause.list);
                self.text(" | ");
                self.separated(&clause.clauses, " ", Self::clause);
                self.text(")");
            }
            Clause::Call(call) => self.procedure_call(call),
            Clause::Subquery(clause) => self.call_subquery(clause),
            Clause::Finish(_) => self.text("FINISH"),
            Clause::LoadCsv(clause) => {
                self.text(if clause.with_headers {
                    "LOAD CSV WITH HEADERS FROM "
                } else {
                    "LOAD CSV FROM "
                });
                self.expr(&clause.source);
                self.text(" AS ");
                self.variable(&clause.variable.name);
                if let Some(terminator) = &clause.field_terminator {
                    self.text(" FIELDTERMINATOR ");
                    self.expr(terminator);
                }
            }
        }
    }

    pub(super) fn optional_where(&mut self, predicate: Option<&Expr>) {
        if let Some(predicate) = predicate {
            self.text(" WHERE ");
            self.expr(predicate);
        }
    }

    fn match_clause(&mut self, clause: &Match) {
        self.text(if clause.optional {
            "OPTIONAL MATCH "
        } else {
            "MATCH "
        });
        self.match_mode(clause.mode);
        self.separated(&clause.pattern.paths, ", ", Self::path);
        clause.hints.iter().for_each(|hint| self.hint(hint));
        self.optional_where(clause.predicate.as_ref());
    }

    fn unwind(&mut self, clause: &Unwind) {
        let Some(position) = &clause.position else {
            self.text("UNWIND ");
            self.expr(&clause.list);
            self.text(" AS ");
            return self.variable(&clause.variable.name);
        };
        self.text("FOR ");
        self.variable(&clause.variable.name);
        self.text(" IN ");
        self.expr(&clause.list);
        self.text(match position.first {
            0 => " WITH OFFSET ",
            _ => " WITH ORDINALITY ",
        });
        self.variable(&position.variable.name);
    }

    fn match_mode(&mut self, mode: MatchMode) {
        if mode == MatchMode::RepeatableElements {
            self.text("REPEATABLE ELEMENTS ");
        }
    }

    fn hint(&mut self, hint: &Hint) {
        let mut about = |words, variable: &Ident, label: &Ident| {
            self.text(words);
            self.variable(&variable.name);
            self.text(":");
            self.name(&label.name);
        };
        match &hint.kind {
            HintKind::Scan { variable, label } => about(" USING SCAN ", variable, label),
            HintKind::Index {
                variable,
                label,
                properties,
            } => {
                about(" USING INDEX ", variable, label);
                self.text("(");
                self.separated(properties, ", ", |printer, name| printer.name(&name.name));
                self.text(")");
            }
            HintKind::Join(variables) => {
                self.text(" USING JOIN ON ");
                self.separated(variables, ", ", |printer, name| {
                    printer.variable(&name.name)
                });
            }
        }
    }

    fn projection(&mut self, projection: &Projection) {
        if projection.distinct {
            self.text("DISTINCT ");
        }
        if projection.star {
            self.text(if projection.items.is_empty() {
                "*"
            } else {
                "*, "
            });
        }
        self.separated(&projection.items, ", ", |printer, item| {
            printer.expr(&item.expr);
            printer.optional_alias(item.alias.as_ref());
        });
        self.paging(projection);
    }

    /// `ORDER BY`, `SKIP` and `LIMIT`.
    pub(super) fn paging(&mut self, projection: &Projection) {
        if !projection.order_by.is_empty() {
            self.text(" ORDER BY ");
            self.separated(&projection.order_by, ", ", |printer, item| {
                printer.expr(&item.expr);
                printer.text(if item.descending { " DESC" } else { "" });
            });
        }
        for (keyword, count) in [(" SKIP ", &projection.skip), (" LIMIT ", &projection.limit)] {
            if let Some(count) = count {
                self.text(keyword);
                self.expr(count);
            }
        }
    }

    fn optional_alias(&mut self, alias: Option<&Ident>) {
        if let Some(alias) = alias {
            self.text(" AS ");
            self.variable(&alias.name);
        }
    }

    fn merge(&mut self, clause: &Merge) {
        self.text("MERGE ");
        self.path(&clause.path);
        for action in &clause.actions {
            self.text(match action.event {
                MergeEvent::Create => " ON CREATE SET ",
                MergeEvent::Match => " ON MATCH SET ",
            });
            self.separated(&action.items, ", ", Self::set_item);
        }
    }

    fn set_item(&mut self, item: &SetItem) {
        match item {
            SetItem::Property { target, value } => {
                self.expr(target);
                self.text(" = ");
                self.expr(value);
            }
            SetItem::Replace { variable, value } => {
                self.variable(&variable.name);
                self.text(" = ");
                self.expr(value);
            }
            SetItem::Merge { variable, value } => {
                self.variable(&variable.name);
                self.text(" += ");
                self.expr(value);
            }
            SetItem::Labels { variable, labels } => self.plain_labels(variable, labels),
        }
    }

    fn remove_item(&mut self, item: &RemoveItem) {
        match item {
            RemoveItem::Property(target) => self.expr(target),
            RemoveItem::Labels { variable, labels } => self.plain_labels(variable, labels),
        }
    }

    fn plain_labels(&mut self, variable: &Ident, labels: &LabelExpr) {
        self.variable(&variable.name);
        for label in labels.as_labels().unwrap_or_default() {
            self.text(":");
            self.labels(label);
        }
    }

    fn procedure_call(&mut self, call: &CallProcedure) {
        self.text(if call.optional {
            "OPTIONAL CALL "
        } else {
            "CALL "
        });
        self.separated(&call.name.parts, ".", |printer, part| {
            printer.name(&part.name)
        });
        if let Some(arguments) = &call.arguments {
            self.text("(");
            self.separated(arguments, ", ", Self::expr);
            self.text(")");
        }
        if let Some(yields) = &call.yields {
            self.yield_clause(yields);
        }
    }

    pub(super) fn yield_clause(&mut self, yields: &Yield) {
        if yields.items != YieldItems::Default {
            self.text(" YIELD ");
        }
        match &yields.items {
            YieldItems::Default => {}
            YieldItems::Star => self.text("*"),
            YieldItems::Nothing => self.text("-"),
            YieldItems::Named(items) => self.separated(items, ", ", |printer, item| {
                printer.name(&item.column.name);
                printer.optional_alias(item.alias.as_ref());
            }),
        }
        self.optional_where(yields.predicate.as_ref());
    }

    fn call_subquery(&mut self, clause: &CallSubquery) {
        self.text(if clause.optional {
            "OPTIONAL CALL "
        } else {
            "CALL "
        });
        match &clause.imports {
            SubqueryImports::ByWith => {}
            SubqueryImports::Star => self.text("(*) "),
            SubqueryImports::Named(names) => {
                self.text("(");
                self.separated(names, ", ", |printer, name| printer.variable(&name.name));
                self.text(") ");
            }
        }
        self.text("{ ");
        self.query(&clause.query);
        self.text(" }");
        if let Some(transactions) = &clause.transactions {
            self.in_transactions(transactions);
        }
    }

    fn in_transactions(&mut self, transactions: &InTransactions) {
        self.text(" IN ");
        match &transactions.concurrency {
            None => {}
            Some(Concurrency::Default) => self.text("CONCURRENT "),
            Some(Concurrency::Count(count)) => {
                self.expr(count);
                self.text(" CONCURRENT ");
            }
        }
        self.text("TRANSACTIONS");
        if let Some(rows) = &transactions.batch_rows {
            self.text(" OF ");
            self.expr(rows);
            self.text(" ROWS");
        }
        self.text(match transactions.on_error {
            OnBatchError::Fail => "",
            OnBatchError::Continue => " ON ERROR CONTINUE",
            OnBatchError::Break => " ON ERROR BREAK",
        });
        if let Some(status) = &transactions.status {
            self.text(" REPORT STATUS AS ");
            self.variable(&status.name);
        }
    }
}
