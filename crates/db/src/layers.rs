//! Maps errors of the layers below to error kinds.

use isomer_data::DataError;

use crate::{Error, ErrorKind, Phase, QueryError, SchemaError};

impl From<DataError> for Error {
    fn from(error: DataError) -> Self {
        let schema = match &error {
            DataError::Violates { .. }
            | DataError::NotUnique { .. }
            | DataError::KeyExists { .. } => Some(SchemaError::Violated),
            DataError::SchemaBroken { .. } => Some(SchemaError::Unmet),
            DataError::SchemaExists { clash, .. } => Some(SchemaError::Exists(*clash)),
            _ => None,
        };
        Self::new(error.kind(), error.to_string())
            .with_schema(schema)
            .with_source(error)
    }
}

impl From<isomer_storage::StorageError> for Error {
    fn from(error: isomer_storage::StorageError) -> Self {
        DataError::from(error).into()
    }
}

impl From<isomer_value::ValueError> for Error {
    fn from(error: isomer_value::ValueError) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string()).with_source(error)
    }
}

impl From<isomer_plan::PlanError> for Error {
    fn from(error: isomer_plan::PlanError) -> Self {
        let kind = match error.kind {
            isomer_plan::ErrorKind::Unsupported => ErrorKind::Unsupported,
            isomer_plan::ErrorKind::Limit => ErrorKind::Limit,
            _ => ErrorKind::Invalid,
        };
        let query = QueryError {
            phase: Phase::Prepare,
            class: error.kind.name(),
            detail: error.detail,
        };
        Self::new(kind, error.to_string())
            .with_query(query)
            .with_source(error)
    }
}

impl From<isomer_exec::ExecError> for Error {
    fn from(error: isomer_exec::ExecError) -> Self {
        use isomer_exec::ExecError;
        let error = match error {
            ExecError::Data(below) => return below.into(),
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
        let made = Self::new(kind, error.to_string()).with_source(error);
        match query {
            Some(query) => made.with_query(query),
            None => made,
        }
    }
}
