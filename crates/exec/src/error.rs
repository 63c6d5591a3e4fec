//! Errors of a running query.

use std::fmt;

use isomer_data::DataError;
use isomer_value::{Value, ValueError};
use thiserror::Error;

/// The class of an error that the language defines, as the openCypher specification names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// A value has the wrong type.
    TypeError,
    /// A value has the right type and is out of range.
    ArgumentError,
    /// Overflow, division by zero.
    ArithmeticError,
    /// A node or relationship does not exist any more.
    EntityNotFound,
    /// A semantic error that the grammar cannot detect.
    SyntaxError,
    /// The values make a clause contradict itself.
    SemanticError,
    /// A parameter is missing.
    ParameterMissing,
    /// A rule of the graph would be violated (nodes with relationships stay, unique keys).
    ConstraintVerificationFailed,
    /// A procedure refused its arguments, or failed.
    ProcedureError,
}

impl ErrorClass {
    /// Its name in the specification.
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

/// The reason why a query stopped.
#[derive(Debug, Error)]
pub enum ExecError {
    /// The query does not apply to these values.
    #[error("{message}")]
    Raised {
        /// Class of the openCypher specification.
        class: ErrorClass,
        /// Its detail, for example `InvalidArgumentValue`.
        detail: &'static str,
        /// What happened, with the values.
        message: String,
        /// Position in the planned text, from and to in bytes, if known.
        place: Option<(u32, u32)>,
    },
    /// A limit of the query was reached.
    #[error("the query reached its limit of {limit}: {advice}")]
    Limit {
        /// The limit, with its size.
        limit: String,
        /// Advice: how to stay within the limit.
        advice: &'static str,
    },
    /// The values computed for a batch of rows take their share of memory: the operator evaluates fewer rows at once.
    /// Stays inside the executor.
    #[doc(hidden)]
    #[error(
        "the values of a batch of rows take more memory than they may: aggregate or LIMIT earlier"
    )]
    BatchFull,
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// Not allowed here.
    #[error("{0}")]
    Denied(String),
    /// Part of the language, but not supported by this version.
    #[error("{0}")]
    Unsupported(String),
    /// An invariant of the executor is violated: a bug, reported instead of a wrong answer.
    #[error("internal error in the executor: {0}; please report it with the query")]
    Internal(String),
    /// From the layer below.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Result type of this crate.
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

    /// The error of a statement that a procedure runs: its position is one in another text.
    #[cfg(feature = "algorithms")]
    pub(crate) fn within(mut self, procedure: &str) -> Self {
        if let Self::Raised { place, message, .. } = &mut self {
            *place = None;
            *message = format!("{message}, in a statement that {procedure} runs");
        }
        self
    }

    /// The error with this position, unless it has one.
    pub(crate) fn at(mut self, found: (u32, u32)) -> Self {
        if let Self::Raised { place, .. } = &mut self {
            place.get_or_insert(found);
        }
        self
    }

    /// Position in the planned text, from and to in bytes, if known.
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

    /// Whether it reports that a value has no field of a name.
    pub(crate) fn is_no_field(&self) -> bool {
        matches!(self, Self::Raised { detail, .. } if *detail == "PropertyAccessOnNonMap")
    }

    /// The error of a limit that was reached.
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
            ValueError::TooDeep { .. } | ValueError::TooLarge { .. } => {
                return Self::limit(error.to_string(), "make the value smaller or flatter");
            }
            ValueError::Corrupt { .. } => return Self::Internal(error.to_string()),
            // Texts, fields and zones that make no value.
            _ => (ErrorClass::ArgumentError, "InvalidArgumentValue"),
        };
        Self::raised(class, detail, error.to_string())
    }
}

/// The error of `IN` with something other than a list on its right.
pub(crate) fn not_a_list(value: &Value) -> ExecError {
    ExecError::type_mismatch(format!(
        "IN takes a list on its right, not {}: write `IN [...]` around single values",
        shown(value)
    ))
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
