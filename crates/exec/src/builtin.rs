//! Procedures that belong to the language: buckets.
//!
//! | procedure | what it does |
//! |---|---|
//! | `kv.put(bucket, key, value, [expiresInMs])` | puts a value under a key; null takes the key out |
//! | `kv.delete(bucket, key)` | takes a key out |
//! | `kv.scan(bucket, [from], [to], [descending], [limit]) YIELD key, value` | pairs from `from` (inclusive) to `to` (exclusive) |
//!
//! Keys are strings or bytes, values anything that can be stored.

use std::sync::Arc;

use isomer_data::{Expiry, KeyRange, Order, PageLimit, Transaction};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::Kind,
};
use isomer_value::Value;

use crate::{
    error::{ErrorClass, ExecError, Result},
    procedure::{Call, Procedure, Registry},
};

/// What a scan reads at once.
const PAGE: PageLimit = PageLimit {
    keys: 1_024,
    bytes: 1 << 20,
};

/// Adds them.
pub(crate) fn register(registry: &mut Registry) {
    for (what, name) in [
        (What::Put, PUT),
        (What::Delete, DELETE),
        (What::Scan, "kv.scan"),
    ] {
        let signature = Arc::new(signature(what, name));
        registry.add_procedure(Arc::new(BucketProcedure { what, signature }));
    }
}

/// The name of the procedure that puts a key.
pub(crate) const PUT: &str = "kv.put";
/// The name of the procedure that takes a key out.
pub(crate) const DELETE: &str = "kv.delete";

/// The value under a key of a bucket; null where there is none.
pub(crate) fn bucket_get(tx: &Transaction, bucket: &str, key: &Value) -> Result<Value> {
    if key.is_null() {
        return Ok(Value::Null);
    }
    Ok(tx.kv_get_value(bucket, key)?)
}

#[derive(Clone, Copy, Debug)]
enum What {
    Put,
    Delete,
    Scan,
}

struct BucketProcedure {
    what: What,
    signature: Arc<ProcedureSignature>,
}

fn signature(what: What, name: &str) -> ProcedureSignature {
    let field = |name: &str, kind: Kind, nullable: bool, default: Option<Value>| ProcedureField {
        name: name.into(),
        kind,
        nullable,
        default,
    };
    let required = |name: &str, kind: Kind, nullable: bool| field(name, kind, nullable, None);
    let optional = |name: &str, kind: Kind| field(name, kind, true, Some(Value::Null));
    let bucket = required("bucket", Kind::String, false);
    let key = required("key", Kind::Any, false);
    let (parameters, results, mode) = match what {
        What::Put => (
            vec![
                bucket,
                key,
                required("value", Kind::Any, true),
                optional("expiresInMs", Kind::Integer),
            ],
            Vec::new(),
            ProcedureMode::Write,
        ),
        What::Delete => (vec![bucket, key], Vec::new(), ProcedureMode::Write),
        What::Scan => (
            vec![
                bucket,
                optional("from", Kind::Any),
                optional("to", Kind::Any),
                optional("descending", Kind::Boolean),
                optional("limit", Kind::Integer),
            ],
            vec![
                required("key", Kind::Any, false),
                required("value", Kind::Any, true),
            ],
            ProcedureMode::Read,
        ),
    };
    ProcedureSignature {
        name: name.into(),
        parameters,
        results,
        mode,
    }
}

impl Procedure for BucketProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut Call<'_>) -> Result<()> {
        let argument = |at: usize| arguments.get(at).unwrap_or(&Value::Null);
        let name = &self.signature.name;
        let bucket = argument(0)
            .as_str()
            .ok_or_else(|| refused(name, "the name of a bucket is a string".into()))?;
        match self.what {
            What::Put => {
                let expiry = match argument(3) {
                    Value::Int(milliseconds) => {
                        Expiry::After(u64::try_from(*milliseconds).map_err(|_| {
                            refused(
                                name,
                                format!("expiresInMs is {milliseconds}: give 0 or more"),
                            )
                        })?)
                    }
                    _ => Expiry::Never,
                };
                call.transaction()
                    .kv_put_value(bucket, argument(1), argument(2), expiry)?;
                Ok(())
            }
            What::Delete => {
                call.transaction().kv_put_value(
                    bucket,
                    argument(1),
                    &Value::Null,
                    Expiry::Never,
                )?;
                Ok(())
            }
            What::Scan => scan(name, bucket, arguments, call),
        }
    }
}

fn scan(name: &str, bucket: &str, arguments: &[Value], call: &mut Call<'_>) -> Result<()> {
    let argument = |at: usize| arguments.get(at).unwrap_or(&Value::Null);
    let from = bound(name, argument(1))?.unwrap_or_default();
    let to = bound(name, argument(2))?;
    let order = match argument(3).as_bool() {
        Some(true) => Order::Descending,
        _ => Order::Ascending,
    };
    let mut left = match argument(4) {
        Value::Int(limit) => usize::try_from(*limit)
            .map_err(|_| refused(name, format!("limit is {limit}: give 0 or more")))?,
        _ => usize::MAX,
    };
    let range = KeyRange {
        start: &from,
        end: to.as_deref(),
    };
    let mut after = None;
    while left > 0 {
        let page = PageLimit {
            keys: PAGE.keys.min(left),
            ..PAGE
        };
        let mut pairs = Vec::new();
        after = call.transaction().kv_scan_values(
            bucket,
            range,
            order,
            page,
            after.as_ref(),
            &mut |key, value| pairs.push(vec![key, value]),
        )?;
        left = left.saturating_sub(pairs.len());
        pairs.into_iter().try_for_each(|pair| call.emit(pair))?;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// The bytes of a bound; none for null.
fn bound(name: &str, value: &Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_bytes().to_vec())),
        Value::Bytes(bytes) => Ok(Some(bytes.to_vec())),
        other => Err(refused(
            name,
            format!("keys are strings or bytes, not {}", other.type_name()),
        )),
    }
}

fn refused(name: &str, reason: String) -> ExecError {
    ExecError::raised(
        ErrorClass::ProcedureError,
        "InvalidArgumentValue",
        format!("{name}: {reason}"),
    )
}
