//! Maps errors of the layers below to error kinds.
//!
//! These conversions are deliberately not `From` implementations, which would be part of the public interface. Errors
//! that are exported have those.

use isomer_data::DataError;

use crate::{Error, ErrorKind, Phase, QueryError, Result, SchemaError};

/// An error of a layer below.
pub trait LayerError {
    /// The error of this crate, with its kind.
    fn lift(self) -> Error;
}

/// A result with an error of a layer below.
pub trait LayerResult<T> {
    /// The same with the error of this crate.
    fn lift(self) -> Result<T>;
}

impl<T, E: LayerError> LayerResult<T> for Result<T, E> {
    fn lift(self) -> Result<T> {
        self.map_err(LayerError::lift)
    }
}

impl LayerError for Error {
    fn lift(self) -> Error {
        self
    }
}

impl LayerError for DataError {
    fn lift(self) -> Error {
        let schema = match &self {
            DataError::Violates { .. }
            | DataError::NotUnique { .. }
            | DataError::KeyExists { .. } => Some(SchemaError::Violated),
            DataError::SchemaBroken { .. } => Some(SchemaError::Unmet),
            DataError::SchemaExists { clash, .. } => Some(SchemaError::Exists(*clash)),
            _ => None,
        };
        Error::new(self.kind(), self.to_string())
            .with_schema(schema)
            .with_source(self)
    }
}

impl LayerError for isomer_storage::StorageError {
    fn lift(self) -> Error {
        DataError::from(self).lift()
    }
}

impl LayerError for isomer_value::ValueError {
    fn lift(self) -> Error {
        self.into()
    }
}

impl From<isomer_value::ValueError> for Error {
    fn from(error: isomer_value::ValueError) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string()).with_source(error)
    }
}

impl LayerError for isomer_plan::PlanError {
    fn lift(self) -> Error {
        let kind = match self.kind {
            isomer_plan::PlanErrorKind::Unsupported => ErrorKind::Unsupported,
            isomer_plan::PlanErrorKind::Limit => ErrorKind::Limit,
            _ => ErrorKind::Invalid,
        };
        let query = QueryError {
            phase: Phase::Prepare,
            class: self.kind.name(),
            detail: self.detail,
        };
        Error::new(kind, self.to_string())
            .with_query(query)
            .with_source(self)
    }
}

impl LayerError for isomer_exec::ExecError {
    fn lift(self) -> Error {
        use isomer_exec::ExecError;
        let error = match self {
            ExecError::Data(below) => return below.lift(),
            error => error,
        };
        let kind = match &error {
            ExecError::Data(below) => below.kind(),
            ExecError::Limit { .. } | ExecError::BatchFull => ErrorKind::Limit,
            ExecError::Cancelled => ErrorKind::Cancelled,
            ExecError::Denied(_) => ErrorKind::Denied,
            ExecError::Unsupported(_) => ErrorKind::Unsupported,
            ExecError::Internal(_) => ErrorKind::Internal,
            ExecError::Raised {
                class: isomer_exec::ErrorClass::EntityNotFound,
                ..
            } => ErrorKind::NotFound,
            ExecError::Raised { .. } => ErrorKind::Invalid,
        };
        let query = error.classified().map(|(class, detail)| QueryError {
            // Parameters are validated before anything is read.
            phase: match class {
                isomer_exec::ErrorClass::ParameterMissing => Phase::Prepare,
                _ => Phase::Run,
            },
            class: class.name(),
            detail,
        });
        let made = Error::new(kind, error.to_string()).with_source(error);
        match query {
            Some(query) => made.with_query(query),
            None => made,
        }
    }
}
