//! Which names mean what, where.
//!
//! A [`Frame`] is one query: the statement itself, a `CALL { … }`, or a sub-plan of an expression. Names are looked up in
//! the frame's locals (variables of comprehensions, innermost first), its scope (what the clauses bound), what it
//! imported before, and then in the frame around it, if it may see that.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::expr::{Expr, Kind, LocalId, SlotId};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub slot: SlotId,
    pub kind: Kind,
}

/// Names in the order in which they were bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    names: Vec<Arc<str>>,
    variables: FxHashMap<Arc<str>, Variable>,
}

impl Scope {
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// Binds a name, or binds it anew.
    pub fn set(&mut self, name: Arc<str>, variable: Variable) {
        if self.variables.insert(name.clone(), variable).is_none() {
            self.names.push(name);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Names sorted, as `*` lists them.
    pub fn sorted(&self) -> Vec<(Arc<str>, Variable)> {
        let mut all: Vec<_> = self
            .names
            .iter()
            .map(|name| (name.clone(), self.variables[name].clone()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// Which names of the frame around it a frame sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// None: what it needs was imported when it began.
    Closed,
    /// All: an expression's sub-plan.
    Open,
}

/// One query being bound.
#[derive(Debug)]
pub(crate) struct Frame {
    pub sight: Sight,
    /// What the clauses so far bound.
    pub scope: Scope,
    /// What came from outside; stays visible after a `WITH`.
    pub imports: Scope,
    /// How imports reach a sub-plan of an expression.
    pub arguments: Vec<(SlotId, Expr)>,
    /// Variables of comprehensions around the expression being bound.
    pub locals: Vec<(Arc<str>, LocalId, Kind)>,
}

impl Frame {
    pub fn new(sight: Sight) -> Self {
        Self {
            sight,
            scope: Scope::default(),
            imports: Scope::default(),
            arguments: Vec::new(),
            locals: Vec::new(),
        }
    }
}
