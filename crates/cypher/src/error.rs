//! What is wrong with a text.

use thiserror::Error;

use crate::{Span, diagnostic};

/// A text that is no statement: where, why, and what to do.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{message}")]
pub struct ParseError {
    /// The class of the error, by the names of openCypher's conformance suite.
    pub detail: Detail,
    /// Where it is.
    pub span: Span,
    /// What was found and what was expected, in one line.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ParseError {
    /// An error without a hint.
    pub fn new(detail: Detail, span: Span, message: impl Into<String>) -> Self {
        Self {
            detail,
            span,
            message: message.into(),
            hint: None,
        }
    }

    /// The same error with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error under the line of `text` it is about, with a caret; see [`diagnostic::render`].
    pub fn render(&self, text: &str) -> String {
        diagnostic::render(text, self.span, &self.message, self.hint.as_deref())
    }
}

/// Classes of syntax errors that a parser can tell, by the names of openCypher's conformance suite.
/// Those that need scopes and types belong to the binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Anything else that the grammar does not allow.
    UnexpectedSyntax,
    /// A number with characters that do not belong to it.
    InvalidNumberLiteral,
    /// An integer outside 64 bits.
    IntegerOverflow,
    /// A float beyond the greatest double.
    FloatingPointOverflow,
    /// `\u` without a character's digits.
    InvalidUnicodeLiteral,
    /// A character that looks like an operator and is none.
    InvalidUnicodeCharacter,
    /// Clauses in an order, or mixed, as they may not be.
    InvalidClauseComposition,
    /// A relationship pattern whose length is written wrongly.
    InvalidRelationshipPattern,
    /// A parameter in place of a pattern's properties where they are matched.
    InvalidParameterUse,
    /// A relationship is created without exactly one type.
    NoSingleRelationshipType,
    /// A relationship is created without a direction.
    RequiresDirectedRelationship,
    /// A relationship of variable length is created.
    CreatingVarLength,
    /// `DELETE` of a label.
    InvalidDelete,
    /// `SKIP` or `LIMIT` of less than nothing.
    NegativeIntegerArgument,
    /// `SKIP` or `LIMIT` of something that is no integer.
    InvalidArgumentType,
    /// A procedure without its arguments inside a query.
    InvalidArgumentPassingMode,
    /// The text is longer, or nested deeper, than the limits allow.
    LimitExceeded,
}

impl Detail {
    /// The name in the conformance suite.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnexpectedSyntax => "UnexpectedSyntax",
            Self::InvalidNumberLiteral => "InvalidNumberLiteral",
            Self::IntegerOverflow => "IntegerOverflow",
            Self::FloatingPointOverflow => "FloatingPointOverflow",
            Self::InvalidUnicodeLiteral => "InvalidUnicodeLiteral",
            Self::InvalidUnicodeCharacter => "InvalidUnicodeCharacter",
            Self::InvalidClauseComposition => "InvalidClauseComposition",
            Self::InvalidRelationshipPattern => "InvalidRelationshipPattern",
            Self::InvalidParameterUse => "InvalidParameterUse",
            Self::NoSingleRelationshipType => "NoSingleRelationshipType",
            Self::RequiresDirectedRelationship => "RequiresDirectedRelationship",
            Self::CreatingVarLength => "CreatingVarLength",
            Self::InvalidDelete => "InvalidDelete",
            Self::NegativeIntegerArgument => "NegativeIntegerArgument",
            Self::InvalidArgumentType => "InvalidArgumentType",
            Self::InvalidArgumentPassingMode => "InvalidArgumentPassingMode",
            Self::LimitExceeded => "LimitExceeded",
        }
    }
}
