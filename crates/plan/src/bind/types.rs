//! Static types: the join of kinds, and checks that never reject a valid expression.

use isomer_cypher::Span;

use super::Result;
use crate::error::{PlanError, PlanErrorKind};
use crate::expr::StaticType;

impl StaticType {
    /// In words.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Node => "a node",
            Self::Relationship => "a relationship",
            Self::Path => "a path",
            Self::List(_) => "a list",
            Self::Map => "a map",
            Self::Boolean => "a boolean",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Bytes => "bytes",
            Self::Temporal => "a date, time or duration",
            Self::Point => "a point",
        }
    }

    /// The least kind that covers both.
    pub fn join(&self, other: &StaticType) -> StaticType {
        match (self, other) {
            (a, b) if a == b => a.clone(),
            (
                Self::Integer | Self::Float | Self::Number,
                Self::Integer | Self::Float | Self::Number,
            ) => Self::Number,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.join(b))),
            _ => Self::Any,
        }
    }

    /// The kind of the elements of a list of this kind.
    pub fn element(&self) -> StaticType {
        match self {
            Self::List(element) => (**element).clone(),
            _ => Self::Any,
        }
    }

    /// Whether a value of this kind may be a number.
    pub fn maybe_number(&self) -> bool {
        matches!(self, Self::Any | Self::Integer | Self::Float | Self::Number)
    }
}

/// The least kind that covers all of them; `Any` if there are none.
pub(super) fn join_all<'k>(kinds: impl IntoIterator<Item = &'k StaticType>) -> StaticType {
    let mut joined: Option<StaticType> = None;
    for kind in kinds {
        joined = Some(match joined {
            None => kind.clone(),
            Some(known) => known.join(kind),
        });
    }
    joined.unwrap_or(StaticType::Any)
}

/// A static type error: an operation does not accept this kind of value.
pub(super) fn wrong_kind(what: &str, expected: &str, found: &StaticType, span: Span) -> PlanError {
    PlanError::syntax(
        "InvalidArgumentType",
        format!("{what} takes {expected}, and this is {}", found.describe()),
        span,
    )
}

/// Checks the operand of a boolean operator.
pub(super) fn expect_boolean(what: &str, found: &StaticType, span: Span) -> Result<()> {
    match found {
        StaticType::Boolean | StaticType::Any => Ok(()),
        other => Err(wrong_kind(what, "a boolean", other, span)),
    }
}

/// Checks the base of `.name` or `[name]`.
pub(super) fn expect_container(found: &StaticType, span: Span) -> Result<()> {
    match found {
        StaticType::Boolean
        | StaticType::Integer
        | StaticType::Float
        | StaticType::Number
        | StaticType::String
        | StaticType::List(_)
        | StaticType::Bytes => Err(PlanError::new(
            PlanErrorKind::TypeError,
            "InvalidArgumentType",
            format!("{} has no properties", found.describe()),
            span,
        )),
        StaticType::Path => Err(wrong_kind(
            "property access",
            "a map, node or relationship",
            found,
            span,
        )),
        _ => Ok(()),
    }
}
