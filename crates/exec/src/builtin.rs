//! Procedures that belong to the language: buckets and the catalog.

use isomer_data::Transaction;
use isomer_value::Value;

use crate::{
    error::{ExecError, Result},
    procedure::Registry,
};

/// Adds them.
pub(crate) fn register(_registry: &mut Registry) {}

/// The value under a key of a bucket; null where there is none.
pub(crate) fn bucket_get(_tx: &Transaction, _bucket: &str, _key: &Value) -> Result<Value> {
    Err(ExecError::Unsupported(
        "buckets are not available in this version".into(),
    ))
}
