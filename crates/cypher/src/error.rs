//! Syntax errors.

use thiserror::Error;

use crate::{Span, diagnostic};

/// A syntax error: its position, its cause, and a hint.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{message}")]
pub struct ParseError {
    /// Error class, by the names of openCypher's conformance suite.
    pub detail: Detail,
    /// Source span of the error.
    pub span: Span,
    /// What was found and what was expected, in one line.
    pub message: String,
    /// What the user can do about it.
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

    /// Renders the error under the source line it refers to, with a caret; see [`diagnostic::render`].
    pub fn render(&self, text: &str) -> String {
        diagnostic::render(text, self.span, &self.message, self.hint.as_deref())
    }
}

/// Classes of syntax errors that the parser can distinguish, by the names of openCypher's conformance suite.
/// The binder reports those that need scopes and types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Anything else that the grammar does not allow.
    UnexpectedSyntax,
    /// A number with invalid characters.
    InvalidNumberLiteral,
    /// An integer outside 64 bits.
    IntegerOverflow,
    /// A float above the largest finite double.
    FloatingPointOverflow,
    /// `\u` without the hexadecimal digits of a character.
    InvalidUnicodeLiteral,
    /// A character that resembles an operator but is not one.
    InvalidUnicodeCharacter,
    /// Clauses in an invalid order or combination.
    InvalidClauseComposition,
    /// A relationship pattern with an invalid length.
    InvalidRelationshipPattern,
    /// A parameter in place of the property map of a matched pattern.
    InvalidParameterUse,
    /// A created relationship without exactly one type.
    NoSingleRelationshipType,
    /// A created relationship without a direction.
    RequiresDirectedRelationship,
    /// A created relationship of variable length.
    CreatingVarLength,
    /// `DELETE` of a label.
    InvalidDelete,
    /// A negative `SKIP` or `LIMIT`.
    NegativeIntegerArgument,
    /// A `SKIP` or `LIMIT` that is not an integer.
    InvalidArgumentType,
    /// A procedure call without arguments inside a query.
    InvalidArgumentPassingMode,
    /// The text is longer, or nested deeper, than the limits allow.
    LimitExceeded,
}

impl Detail {
    /// The class's name in the conformance suite.
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
