//! What a running query can answer instead of rows.

use std::fmt;

use isomer_data::DataError;
use isomer_value::{Value, ValueError};
use thiserror::Error;

/// The class of an error that the language defines, as the openCypher specification names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// A value has the wrong type.
    TypeError,
    /// A value has the right type and lies outside what is allowed.
    ArgumentError,
    /// Overflow, division by zero.
    ArithmeticError,
    /// A node or relationship is not there any more.
    EntityNotFound,
    /// What the grammar cannot see and the query still may not say.
    SyntaxError,
    /// A clause contradicts itself with these values.
    SemanticError,
    /// A parameter was not given.
    ParameterMissing,
    /// A rule of the graph (nodes with relationships stay, unique keys) would break.
    ConstraintVerificationFailed,
    /// A procedure refused its arguments, or failed.
    ProcedureError,
}

impl ErrorClass {
    /// As the specification writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeError => "TypeError",
            Self::ArgumentError => "ArgumentError",
            Self::ArithmeticError => "ArithmeticError",
            Self::EntityNotFound => "EntityNotFound",
            Self::SyntaxError => "SyntaxError",
            Self::SemanticError => "SemanticError",
            Self::ParameterMissing => "ParameterMissing",
            Self::ConstraintVerificationFailed => "ConstraintVerificationFailed",
            Self::ProcedureError => "ProcedureError",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What stopped a query.
#[derive(Debug, Error)]
pub enum ExecError {
    /// The query and its values do not fit together.
    #[error("{message}")]
    Raised {
        /// Class of the openCypher specification.
        class: ErrorClass,
        /// Its detail, for example `InvalidArgumentValue`.
        detail: &'static str,
        /// What happened, with the values.
        message: String,
        /// Where in the text that was planned, from and to in bytes, where that is known.
        place: Option<(u32, u32)>,
    },
    /// A limit of the query was reached.
    #[error("the query reached its limit of {limit}: {advice}")]
    Limit {
        /// The limit, with its size.
        limit: String,
        /// What to do.
        advice: &'static str,
    },
    /// Somebody asked the query to stop.
    #[error("the query was cancelled")]
    Cancelled,
    /// Not allowed here.
    #[error("{0}")]
    Denied(String),
    /// Known to the language, not to this version.
    #[error("{0}")]
    Unsupported(String),
    /// A promise inside the executor broke: a bug, told instead of a wrong answer.
    #[error("internal error in the executor: {0}; please report it with the query")]
    Internal(String),
    /// From the layer below.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Short for results of this crate.
pub type Result<T, E = ExecError> = std::result::Result<T, E>;

impl ExecError {
    /// An error of the language.
    pub fn raised(class: ErrorClass, detail: &'static str, message: impl Into<String>) -> Self {
        Self::Raised {
            class,
            detail,
            message: message.into(),
            place: None,
        }
    }

    /// The error with its place, unless it has one.
    pub(crate) fn at(mut self, found: (u32, u32)) -> Self {
        if let Self::Raised { place, .. } = &mut self {
            place.get_or_insert(found);
        }
        self
    }

    /// Where in the text that was planned it happened, from and to in bytes, where that is known.
    pub fn place(&self) -> Option<(u32, u32)> {
        match self {
            Self::Raised { place, .. } => *place,
            _ => None,
        }
    }

    /// `TypeError: InvalidArgumentValue`.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::raised(ErrorClass::TypeError, "InvalidArgumentValue", message)
    }

    /// `TypeError: InvalidArgumentType`.
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::raised(ErrorClass::TypeError, "InvalidArgumentType", message)
    }

    /// `ArgumentError: NumberOutOfRange`.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::raised(ErrorClass::ArgumentError, "NumberOutOfRange", message)
    }

    /// `ArithmeticError: IntegerOverflow`.
    pub fn overflow(message: impl Into<String>) -> Self {
        Self::raised(ErrorClass::ArithmeticError, "IntegerOverflow", message)
    }

    /// `EntityNotFound: DeletedEntityAccess`.
    pub fn deleted(what: impl fmt::Display) -> Self {
        Self::raised(
            ErrorClass::EntityNotFound,
            "DeletedEntityAccess",
            format!(
                "{what} was deleted, its labels and properties are gone: read them before the deletion"
            ),
        )
    }

    /// A limit that was reached.
    pub fn limit(limit: impl Into<String>, advice: &'static str) -> Self {
        Self::Limit {
            limit: limit.into(),
            advice,
        }
    }

    /// Class and detail, where the language defines them.
    pub fn classified(&self) -> Option<(ErrorClass, &'static str)> {
        match self {
            Self::Raised { class, detail, .. } => Some((*class, detail)),
            _ => None,
        }
    }
}

impl From<ValueError> for ExecError {
    fn from(error: ValueError) -> Self {
        let (class, detail) = match &error {
            ValueError::Type { .. } => (ErrorClass::TypeError, "InvalidArgumentType"),
            ValueError::OutOfRange { .. } => (ErrorClass::ArgumentError, "NumberOutOfRange"),
            ValueError::Overflow { .. } => (ErrorClass::ArithmeticError, "IntegerOverflow"),
            ValueError::DivisionByZero => (ErrorClass::ArithmeticError, "DivisionByZero"),
            ValueError::NoField { .. } => (ErrorClass::TypeError, "PropertyAccessOnNonMap"),
            ValueError::NotStorable { .. } => (ErrorClass::TypeError, "InvalidPropertyType"),
            ValueError::Syntax { .. }
            | ValueError::Fields { .. }
            | ValueError::UnknownZone { .. }
            | ValueError::Json { .. } => (ErrorClass::ArgumentError, "InvalidArgumentValue"),
            ValueError::TooDeep { .. } | ValueError::TooLarge { .. } => {
                return Self::limit(error.to_string(), "make the value smaller or flatter");
            }
            ValueError::Corrupt { .. } => return Self::Internal(error.to_string()),
        };
        Self::raised(class, detail, error.to_string())
    }
}

/// A value and its type for a message, shortened.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => format!("the boolean {b}"),
        Value::Int(i) => format!("the integer {i}"),
        Value::Float(f) => format!("the float {f:?}"),
        Value::String(s) => {
            let mut short: String = s.chars().take(40).collect();
            if short.len() < s.len() {
                short.push('…');
            }
            format!("the string '{short}'")
        }
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::List(items) => format!("a list of {}", items.len()),
        Value::Map(map) => format!("a map of {}", map.len()),
        Value::Node(_) => "a node".into(),
        Value::Relationship(_) => "a relationship".into(),
        Value::Path(_) => "a path".into(),
        other => format!("a value of type {}", other.type_name()),
    }
}
