//! Names.

use std::sync::Arc;

use crate::Span;

/// A name as written: variable, label, type, property or procedure, without backquotes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// The name.
    pub name: Arc<str>,
    /// Source span.
    pub span: Span,
}

impl Ident {
    /// A name with its span.
    pub fn new(name: impl Into<Arc<str>>, span: Span) -> Self {
        Self {
            name: name.into(),
            span,
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

/// A dotted name such as `kv.get` or `db.labels`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The parts between the dots; at least one.
    pub parts: Vec<Ident>,
    /// Source span.
    pub span: Span,
}

impl QualifiedName {
    /// The parts joined by dots, as written.
    pub fn dotted(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(Ident::as_str).collect();
        parts.join(".")
    }
}
