//! Reading clauses: each is a function from a list of rows to a list of rows.

use std::sync::Arc;

use isomer_cypher::ast::{
    CallSubquery, Clause, Expr, Match, PathPattern, RegularQuery, SubqueryImports, Unwind, With,
};

use super::pattern::{matches_in, variables_of};
use super::projection::has_aggregate;
use super::{Answer, Interpreter, MAX_ROWS, Row, with};
use crate::Datum;
use crate::fault::{Fault, Result, mark_predicate_fault, raised};
use crate::notation::literal;

impl Interpreter<'_> {
    pub(super) fn clause(&self, clause: &Clause, rows: Vec<Row>) -> Result<Vec<Row>> {
        match clause {
            Clause::Match(clause) => self.match_rows(clause, rows),
            Clause::Unwind(clause) => self.unwind(clause, rows),
            Clause::With(clause) => {
                let rows = match (&clause.predicate, self.variation.late) {
                    (Some(predicate), true) => self.project_late(clause, predicate, rows)?,
                    _ => self.project(&clause.projection, rows)?.0,
                };
                let mut kept = Vec::new();
                for row in rows {
                    let holds = match &clause.predicate {
                        Some(predicate) => mark_predicate_fault(self.holds(predicate, &row))?,
                        None => true,
                    };
                    if holds {
                        kept.push(row);
                    }
                }
                Ok(kept)
            }
            Clause::Subquery(clause) if clause.transactions.is_some() => {
                Err(Fault::Unknown("transactions of subqueries".into()))
            }
            Clause::Subquery(clause) => self.call(clause, rows),
            Clause::Finish(_) => Ok(Vec::new()),
            Clause::Create(clause) => self.create(clause, rows),
            Clause::Merge(clause) => self.merge(clause, rows),
            Clause::Set(clause) => {
                rows.iter()
                    .try_for_each(|row| self.set_items(&clause.items, row))?;
                Ok(rows)
            }
            Clause::Remove(clause) => {
                rows.iter()
                    .try_for_each(|row| self.remove_items(&clause.items, row))?;
                Ok(rows)
            }
            Clause::Delete(clause) => self.delete(clause, rows),
            Clause::Foreach(clause) => {
                for row in &rows {
                    let items = match self.eval(&clause.list, row)? {
                        Datum::Null => continue,
                        Datum::List(items) => items,
                        other => {
                            return raised(format!(
                                "FOREACH iterates over a list, not {}",
                                literal(&other)
                            ));
                        }
                    };
                    for item in items.iter() {
                        let row = with(row, &clause.variable.name, item.clone());
                        self.clauses(&clause.clauses, vec![row])?;
                    }
                }
                Ok(rows)
            }
            Clause::Return(_) => raised("RETURN must be the last clause"),
            Clause::Call(_) | Clause::LoadCsv(_) => {
                Err(Fault::Unknown("procedures and files".into()))
            }
        }
    }

    /// Projects row by row; an error in a column of a row that the predicate drops is ignored.
    fn project_late(&self, clause: &With, predicate: &Expr, rows: Vec<Row>) -> Result<Vec<Row>> {
        let projection = &clause.projection;
        let at_once = projection.distinct
            || !projection.order_by.is_empty()
            || projection.skip.is_some()
            || projection.limit.is_some()
            || projection
                .items
                .iter()
                .any(|item| has_aggregate(&item.expr));
        if at_once {
            return Ok(self.project(projection, rows)?.0);
        }
        let mut out = Vec::new();
        for row in rows {
            match self.project(projection, vec![row.clone()]) {
                Ok((mut made, _)) => out.append(&mut made),
                Err(fault) => {
                    let made = projection.items.iter().filter_map(|item| {
                        Some((item.column().clone(), self.eval(&item.expr, &row).ok()?))
                    });
                    let known = self.with_imports(made.collect());
                    if self.holds(predicate, &known) != Ok(false) {
                        return Err(fault);
                    }
                }
            }
        }
        Ok(out)
    }

    fn match_rows(&self, clause: &Match, rows: Vec<Row>) -> Result<Vec<Row>> {
        let paths: Vec<&PathPattern> = clause.pattern.paths.iter().collect();
        let mut out = Vec::new();
        for row in rows {
            let mut found = Vec::new();
            for candidate in mark_predicate_fault(matches_in(self, clause.mode, &paths, &row))? {
                let holds = match &clause.predicate {
                    Some(predicate) => mark_predicate_fault(self.holds(predicate, &candidate))?,
                    None => true,
                };
                if holds {
                    found.push(candidate);
                }
            }
            if found.is_empty() && clause.optional {
                let mut row = row;
                for name in paths.iter().flat_map(|path| variables_of(path)) {
                    row.entry(name).or_insert(Datum::Null);
                }
                found.push(row);
            }
            out.append(&mut found);
            if out.len() > MAX_ROWS {
                return Err(Fault::TooLarge);
            }
        }
        self.in_any_order(out)
    }

    fn unwind(&self, clause: &Unwind, rows: Vec<Row>) -> Result<Vec<Row>> {
        let mut out = Vec::new();
        for row in rows {
            let one = |(at, item): (usize, &Datum)| {
                let row = with(&row, &clause.variable.name, item.clone());
                match &clause.position {
                    Some(position) => {
                        let number = Datum::Int(position.first + at as i64);
                        with(&row, &position.variable.name, number)
                    }
                    None => row,
                }
            };
            match self.eval(&clause.list, &row)? {
                Datum::Null => {}
                Datum::List(items) => out.extend(items.iter().enumerate().map(one)),
                // A value that is not a list counts as a list of one element.
                item => out.push(one((0, &item))),
            }
        }
        Ok(out)
    }

    fn call(&self, clause: &CallSubquery, rows: Vec<Row>) -> Result<Vec<Row>> {
        let returns = |query: &RegularQuery| {
            query
                .branches
                .iter()
                .any(|branch| matches!(branch.clauses.last(), Some(Clause::Return(_))))
        };
        let mut out = Vec::new();
        for row in rows {
            let answer = self.call_for(clause, &row)?;
            if !returns(&clause.query) {
                out.push(row);
                continue;
            }
            if clause.optional && answer.rows.is_empty() {
                let mut row = row.clone();
                row.extend(
                    answer
                        .columns
                        .iter()
                        .map(|name| (name.clone(), Datum::Null)),
                );
                out.push(row);
            }
            for values in answer.rows {
                let mut row = row.clone();
                row.extend(answer.columns.iter().cloned().zip(values));
                out.push(row);
            }
        }
        Ok(out)
    }

    /// The subquery's result for one outer row.
    fn call_for(&self, clause: &CallSubquery, row: &Row) -> Result<Answer> {
        let starts_with_with = |query: &RegularQuery| {
            query
                .branches
                .iter()
                .all(|branch| matches!(branch.clauses.first(), Some(Clause::With(_))))
        };
        let imported: Row = match &clause.imports {
            SubqueryImports::Star => row.clone(),
            SubqueryImports::Named(names) => {
                let named = |known: &Arc<str>| names.iter().any(|name| name.name == *known);
                let chosen = row.iter().filter(|(known, _)| named(known));
                chosen
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            }
            // A `WITH` at the start chooses the variables, and those after it drop them.
            SubqueryImports::ByWith => {
                let seen = match starts_with_with(&clause.query) {
                    true => row.clone(),
                    false => Row::new(),
                };
                return self.importing(Row::new(), || self.query(&clause.query, &seen));
            }
        };
        self.importing(imported.clone(), || self.query(&clause.query, &imported))
    }
}
