//! Scopes: which names are visible, and what they refer to.
//!
//! A [`Frame`] is one query: the statement itself, a `CALL { … }`, or a sub-plan of an expression. Names are looked up
//! in the frame's locals (variables of comprehensions, innermost first), its scope (variables bound by clauses), its
//! imports, and then in the outer frame if that is visible.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::expr::{BoundExpr, LocalId, SlotId, StaticType};
use crate::logical::CsvOrigin;

/// What a name refers to.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub slot: SlotId,
    pub kind: StaticType,
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

    /// Binds a name, or rebinds it.
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

/// Which names of the outer frame are visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// None: all imports were made when the frame began.
    Closed,
    /// All: an expression's sub-plan.
    Open,
}

/// One query being bound.
#[derive(Debug)]
pub(crate) struct Frame {
    pub sight: Visibility,
    /// Variables bound by the clauses so far.
    pub scope: Scope,
    /// Imports from outside; they stay visible after a `WITH`.
    pub imports: Scope,
    /// How imports reach a sub-plan of an expression.
    pub arguments: Vec<(SlotId, BoundExpr)>,
    /// Variables of comprehensions around the expression being bound.
    pub locals: Vec<(Arc<str>, LocalId, StaticType)>,
    /// What `linenumber()` and `file()` are: of the last `LOAD CSV` whose rows have not been combined since.
    pub csv_origin: Option<CsvOrigin>,
}

impl Frame {
    pub fn new(sight: Visibility) -> Self {
        Self {
            sight,
            scope: Scope::default(),
            imports: Scope::default(),
            arguments: Vec::new(),
            locals: Vec::new(),
            csv_origin: None,
        }
    }
}
