//! Errors in a statement that are found before it runs.

use std::fmt;

use isomer_cypher::Span;

/// The classes of errors, as openCypher names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanErrorKind {
    /// The statement contains something that the language does not allow.
    SyntaxError,
    /// It is allowed but meaningless.
    SemanticError,
    /// A value of a type that an operation does not take.
    TypeError,
    /// An argument out of range.
    ArgumentError,
    /// A procedure that does not exist.
    ProcedureError,
    /// A parameter is missing.
    ParameterMissing,
    /// Allowed, but not implemented.
    Unsupported,
    /// Exceeds a limit.
    Limit,
}

impl PlanErrorKind {
    /// Its openCypher name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SyntaxError => "SyntaxError",
            Self::SemanticError => "SemanticError",
            Self::TypeError => "TypeError",
            Self::ArgumentError => "ArgumentError",
            Self::ProcedureError => "ProcedureError",
            Self::ParameterMissing => "ParameterMissing",
            Self::Unsupported => "Unsupported",
            Self::Limit => "Limit",
        }
    }
}

/// Why a statement cannot be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The class of error.
    pub kind: PlanErrorKind,
    /// openCypher's name of the detail, such as `UndefinedVariable`.
    pub detail: &'static str,
    /// The message, with the names and values.
    pub message: String,
    /// Position in the text.
    pub span: Option<Span>,
    /// Advice.
    pub hint: Option<String>,
}

impl PlanError {
    /// A syntax error (in openCypher's sense: found before running) at a position.
    pub fn syntax(detail: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(PlanErrorKind::SyntaxError, detail, message, span)
    }

    /// An error of some kind at a position.
    pub fn new(
        kind: PlanErrorKind,
        detail: &'static str,
        message: impl Into<String>,
        span: Span,
    ) -> Self {
        Self {
            kind,
            detail,
            message: message.into(),
            span: Some(span),
            hint: None,
        }
    }

    /// A feature of the language that this planner does not implement.
    pub fn unsupported(what: impl fmt::Display, span: Span) -> Self {
        Self::new(
            PlanErrorKind::Unsupported,
            "NotImplemented",
            format!("{what} is not supported yet"),
            span,
        )
    }

    /// With advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With "did you mean" if one of `candidates` is close to `name`.
    pub fn with_near<'n>(self, name: &str, candidates: impl IntoIterator<Item = &'n str>) -> Self {
        match nearest(name, candidates) {
            Some(near) => self.with_hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}

/// The candidate most similar to `name`, other than itself, if it is close enough to be a typing error.
pub(crate) fn nearest<'n>(
    name: &str,
    candidates: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let others = candidates
        .into_iter()
        .filter(|candidate| *candidate != name);
    isomer_cypher::suggest::nearest(name, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_near_and_other_words_are_not() {
        assert_eq!(nearest("persn", ["person", "city"]), Some("person"));
        assert_eq!(nearest("toUpepr", ["toUpper", "toLower"]), Some("toUpper"));
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("animal", ["person"]), None);
    }
}
