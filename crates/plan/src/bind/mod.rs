//! The binder: resolves names to slots and syntax to a logical plan; reports semantic errors.
//!
//! Syntax is recursive through all files of this module: an expression contains queries, whose clauses contain
//! patterns, which contain expressions. What one file offers the others is a method of [`Binder`]; its own steps are
//! functions.

mod aggregate;
mod call;
mod clause;
mod condition;
mod create;
mod element_id;
mod expression;
mod function;
mod grouping;
mod hint;
mod pattern;
mod projection;
pub(crate) mod query;
pub(crate) mod schema;
mod scope;
pub(crate) mod show;
mod subquery;
mod types;
mod update;
mod walk;

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_cypher::ast;

use crate::arena::Arena;
use crate::catalog::PlannerCatalog;
use crate::error::PlanError;
use crate::expr::{BoundExpr, LocalId, SlotId, StaticType};
use crate::logical::CsvOrigin;
use crate::physical::Notice;

use grouping::Aggregating;
use scope::{Frame, Variable, Visibility};

pub(crate) type Result<T> = std::result::Result<T, PlanError>;

/// An expression and its static kind.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub expr: BoundExpr,
    pub kind: StaticType,
}

impl Typed {
    fn new(expr: BoundExpr, kind: StaticType) -> Self {
        Self { expr, kind }
    }
}

/// The frame of a statement's query.
pub(crate) fn statement_frame() -> Frame {
    Frame::new(Visibility::Closed)
}

/// What a name refers to.
enum Binding {
    Slot(SlotId),
    Local(LocalId),
}

/// Binds one statement.
pub(crate) struct Binder<'a> {
    pub catalog: &'a dyn PlannerCatalog,
    pub text: &'a str,
    pub arena: Arena,
    pub notices: Vec<Notice>,
    frames: Vec<Frame>,
    /// How aggregate functions are handled in the current context.
    aggregating: Aggregating<'a>,
    /// Numbers `MATCH` clauses.
    clause_count: u32,
}

impl<'a> Binder<'a> {
    pub fn new(text: &'a str, catalog: &'a dyn PlannerCatalog) -> Self {
        Self {
            catalog,
            text,
            arena: Arena::default(),
            notices: Vec::new(),
            frames: vec![Frame::new(Visibility::Closed)],
            aggregating: Aggregating::Forbidden("here"),
            clause_count: 0,
        }
    }

    /// Binds an expression that depends on no row.
    pub(crate) fn bind_constant(&mut self, expr: &'a ast::Expr) -> Result<BoundExpr> {
        Ok(self.bind_expr(expr)?.expr)
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames
            .last_mut()
            .expect("a statement is bound in a frame")
    }

    /// The variable of this name that the clauses of this query, or of those around it, bound.
    fn lookup(&mut self, name: &str) -> Option<Typed> {
        let depth = self.frames.len() - 1;
        let (place, kind) = self.resolve(depth, name)?;
        let expr = match place {
            Binding::Slot(slot) => BoundExpr::Slot(slot),
            Binding::Local(local) => BoundExpr::Local(local),
        };
        Some(Typed::new(expr, kind))
    }

    /// Resolves a name in the frame at `depth`, importing it from outer frames if they are visible.
    fn resolve(&mut self, depth: usize, name: &str) -> Option<(Binding, StaticType)> {
        let frame = &self.frames[depth];
        if let Some((_, local, kind)) = frame
            .locals
            .iter()
            .rev()
            .find(|(known, ..)| &**known == name)
        {
            return Some((Binding::Local(*local), kind.clone()));
        }
        if let Some(variable) = frame.scope.get(name).or_else(|| frame.imports.get(name)) {
            return Some((Binding::Slot(variable.slot), variable.kind.clone()));
        }
        if depth == 0 || frame.sight == Visibility::Closed {
            return None;
        }
        let (place, kind) = self.resolve(depth - 1, name)?;
        let (slot, outside) = match place {
            Binding::Slot(slot) => (slot, BoundExpr::Slot(slot)),
            Binding::Local(local) => (self.arena.slot(name, kind.clone()), BoundExpr::Local(local)),
        };
        let frame = &mut self.frames[depth];
        frame.arguments.push((slot, outside));
        frame.imports.set(
            name.into(),
            Variable {
                slot,
                kind: kind.clone(),
            },
        );
        Some((Binding::Slot(slot), kind))
    }

    /// Where the row of the last `LOAD CSV` comes from, in this query or, within an expression, in those around it.
    fn csv_origin(&mut self) -> Option<CsvOrigin> {
        let depth = self.frames.len() - 1;
        self.csv_origin_at(depth)
    }

    fn csv_origin_at(&mut self, depth: usize) -> Option<CsvOrigin> {
        let frame = &self.frames[depth];
        if frame.csv_origin.is_some() || depth == 0 || frame.sight == Visibility::Closed {
            return frame.csv_origin;
        }
        let origin = self.csv_origin_at(depth - 1)?;
        let frame = &mut self.frames[depth];
        for slot in [origin.line, origin.file] {
            frame.arguments.push((slot, BoundExpr::Slot(slot)));
        }
        frame.csv_origin = Some(origin);
        Some(origin)
    }

    /// All names in scope, for hints.
    fn names_in_sight(&self) -> Vec<String> {
        let mut names = Vec::new();
        for frame in self.frames.iter().rev() {
            names.extend(frame.locals.iter().map(|(name, ..)| name.to_string()));
            names.extend(
                frame
                    .scope
                    .names()
                    .chain(frame.imports.names())
                    .map(str::to_owned),
            );
            if frame.sight == Visibility::Closed {
                break;
            }
        }
        names
    }

    fn undefined(&self, name: &str, span: Span) -> PlanError {
        let names = self.names_in_sight();
        PlanError::syntax(
            "UndefinedVariable",
            format!("variable `{name}` is not defined"),
            span,
        )
        .with_near(name, names.iter().map(String::as_str))
    }

    /// Binds a new variable of the current query and gives it a slot.
    fn declare(&mut self, name: &Arc<str>, kind: StaticType) -> SlotId {
        let slot = self.arena.slot(name.clone(), kind.clone());
        self.frame()
            .scope
            .set(name.clone(), Variable { slot, kind });
        slot
    }

    /// Binds a variable that must be new.
    fn declare_new(&mut self, ident: &ast::Ident, kind: StaticType) -> Result<SlotId> {
        self.must_be_new(ident)?;
        Ok(self.declare(&ident.name, kind))
    }

    fn must_be_new(&mut self, ident: &ast::Ident) -> Result<()> {
        match self.lookup(&ident.name) {
            None => Ok(()),
            Some(_) => Err(already_bound(&ident.name, ident.span)),
        }
    }

    /// Runs `body` with a comprehension's variable in scope.
    fn with_local<T>(
        &mut self,
        name: &Arc<str>,
        kind: StaticType,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(LocalId, T)> {
        let local = self.arena.local();
        self.frame().locals.push((name.clone(), local, kind));
        let result = body(self);
        self.frame().locals.pop();
        Ok((local, result?))
    }

    fn notice(&mut self, code: &'static str, message: String, span: Span) {
        if !self.notices.iter().any(|known| known.message == message) {
            let span = Some((span.start as usize, span.end as usize));
            self.notices.push(Notice {
                code,
                message,
                span,
            });
        }
    }
}

fn already_bound(name: &str, span: Span) -> PlanError {
    PlanError::syntax(
        "VariableAlreadyBound",
        format!("variable `{name}` is already bound"),
        span,
    )
    .with_hint("choose another name")
}
