//! Procedures that belong to the language: buckets.
//!
//! | procedure | what it does |
//! |---|---|
//! | `kv.put(bucket, key, value, [expiresInMs])` | writes a value under a key; null deletes the key |
//! | `kv.delete(bucket, key)` | deletes a key |
//! | `kv.deleteRange(bucket, [from], [to])` | deletes all keys from `from` (inclusive) to `to` (exclusive) |
//! | `kv.deletePrefix(bucket, prefix)` | deletes all keys that begin with `prefix` |
//! | `kv.scan(bucket, [from], [to], [descending], [limit])` | pairs from `from` (inclusive) to `to` (exclusive) |
//! | `kv.prefix(bucket, prefix, [descending], [limit])` | pairs whose keys begin with `prefix` |
//! | `kv.seek(bucket, key, [limit])` | the first pairs whose keys are `key` or greater |
//! | `kv.next(bucket, [after], [limit])` | the pairs after a key; by default the first ones |
//! | `kv.previous(bucket, [before], [limit])` | the pairs before a key, descending; by default the last ones |
//! | `kv.getMany(bucket, keys)` | the values under `keys`, in their order |
//!
//! All procedures that read yield `key, value`. Keys are strings or bytes, values anything that can be stored.

use std::sync::Arc;

use isomer_data::{Expiry, KeyRange, Order, PageLimit, Transaction, after_prefix};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::Value;

use crate::{
    error::{ErrorClass, ExecError, Result},
    procedure::{CallContext, Procedure, Registry},
};

/// Pairs per read of a scan.
const PAGE: PageLimit = PageLimit {
    keys: 1_024,
    bytes: 1 << 20,
};

/// Registers the procedures.
pub(crate) fn register(registry: &mut Registry) {
    for kind in BucketProcedureKind::ALL {
        let signature = Arc::new(signature(kind));
        registry.add_procedure(Arc::new(BucketProcedure { kind, signature }));
    }
}

/// The name of the procedure that writes a key.
pub(crate) const PUT: &str = "kv.put";
/// The name of the procedure that deletes a key.
pub(crate) const DELETE: &str = "kv.delete";

/// The value under a key of a bucket; null if there is none.
pub(crate) fn bucket_get(tx: &Transaction, bucket: &str, key: &Value) -> Result<Value> {
    if key.is_null() {
        return Ok(Value::Null);
    }
    Ok(tx.kv().get_value(bucket, key)?)
}

#[derive(Clone, Copy, Debug)]
enum BucketProcedureKind {
    Put,
    Delete,
    DeleteRange,
    DeletePrefix,
    Scan,
    Prefix,
    Seek,
    Next,
    Previous,
    GetMany,
}

impl BucketProcedureKind {
    const ALL: [Self; 10] = [
        Self::Put,
        Self::Delete,
        Self::DeleteRange,
        Self::DeletePrefix,
        Self::Scan,
        Self::Prefix,
        Self::Seek,
        Self::Next,
        Self::Previous,
        Self::GetMany,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Put => PUT,
            Self::Delete => DELETE,
            Self::DeleteRange => "kv.deleteRange",
            Self::DeletePrefix => "kv.deletePrefix",
            Self::Scan => "kv.scan",
            Self::Prefix => "kv.prefix",
            Self::Seek => "kv.seek",
            Self::Next => "kv.next",
            Self::Previous => "kv.previous",
            Self::GetMany => "kv.getMany",
        }
    }

    fn writes(self) -> bool {
        matches!(
            self,
            Self::Put | Self::Delete | Self::DeleteRange | Self::DeletePrefix
        )
    }
}

struct BucketProcedure {
    kind: BucketProcedureKind,
    signature: Arc<ProcedureSignature>,
}

fn field(name: &str, kind: StaticType, nullable: bool, default: Option<Value>) -> ProcedureField {
    ProcedureField {
        name: name.into(),
        kind,
        nullable,
        default,
    }
}

fn signature(kind: BucketProcedureKind) -> ProcedureSignature {
    let required = |name: &str, kind: StaticType| field(name, kind, false, None);
    let optional = |name: &str, kind: StaticType| field(name, kind, true, Some(Value::Null));
    let value = || field("value", StaticType::Any, true, None);
    let one = || field("limit", StaticType::Integer, true, Some(Value::Int(1)));
    let own = match kind {
        BucketProcedureKind::Put => vec![
            required("key", StaticType::Any),
            value(),
            optional("expiresInMs", StaticType::Integer),
        ],
        BucketProcedureKind::Delete => vec![required("key", StaticType::Any)],
        BucketProcedureKind::DeleteRange => {
            vec![
                optional("from", StaticType::Any),
                optional("to", StaticType::Any),
            ]
        }
        BucketProcedureKind::DeletePrefix => vec![required("prefix", StaticType::Any)],
        BucketProcedureKind::Scan => vec![
            optional("from", StaticType::Any),
            optional("to", StaticType::Any),
            optional("descending", StaticType::Boolean),
            optional("limit", StaticType::Integer),
        ],
        BucketProcedureKind::Prefix => vec![
            required("prefix", StaticType::Any),
            optional("descending", StaticType::Boolean),
            optional("limit", StaticType::Integer),
        ],
        BucketProcedureKind::Seek => vec![required("key", StaticType::Any), one()],
        BucketProcedureKind::Next => vec![optional("after", StaticType::Any), one()],
        BucketProcedureKind::Previous => vec![optional("before", StaticType::Any), one()],
        BucketProcedureKind::GetMany => vec![required(
            "keys",
            StaticType::List(Box::new(StaticType::Any)),
        )],
    };
    let mut parameters = vec![required("bucket", StaticType::String)];
    parameters.extend(own);
    let (results, mode) = if kind.writes() {
        (Vec::new(), ProcedureMode::Write)
    } else {
        (
            vec![required("key", StaticType::Any), value()],
            ProcedureMode::Read,
        )
    };
    ProcedureSignature {
        name: kind.name().into(),
        parameters,
        results,
        mode,
    }
}

impl Procedure for BucketProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let argument = |at: usize| arguments.get(at).unwrap_or(&Value::Null);
        let name = &self.signature.name;
        let bucket = argument(0)
            .as_str()
            .ok_or_else(|| refused(name, "the name of a bucket is a string".into()))?;
        let key = |at: usize| bytes_of(name, argument(at));
        match self.kind {
            BucketProcedureKind::Put => {
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
                    .kv_mut()
                    .put_value(bucket, argument(1), argument(2), expiry)?;
                Ok(())
            }
            BucketProcedureKind::Delete => {
                let nothing = &Value::Null;
                call.transaction().kv_mut().put_value(
                    bucket,
                    argument(1),
                    nothing,
                    Expiry::Never,
                )?;
                Ok(())
            }
            BucketProcedureKind::DeleteRange => {
                let (from, to) = (key(1)?.unwrap_or_default(), key(2)?);
                delete(bucket, &from, to.as_deref(), call)
            }
            BucketProcedureKind::DeletePrefix => {
                let from = key(1)?.unwrap_or_default();
                delete(bucket, &from, after_prefix(&from).as_deref(), call)
            }
            BucketProcedureKind::GetMany => get_many(name, bucket, argument(1), call),
            BucketProcedureKind::Scan => Scan {
                from: key(1)?.unwrap_or_default(),
                to: key(2)?,
                order: order(argument(3)),
                limit: limit(name, argument(4))?,
            }
            .run(bucket, call),
            BucketProcedureKind::Prefix => {
                let from = key(1)?.unwrap_or_default();
                Scan {
                    to: after_prefix(&from),
                    from,
                    order: order(argument(2)),
                    limit: limit(name, argument(3))?,
                }
                .run(bucket, call)
            }
            BucketProcedureKind::Seek => Scan {
                from: key(1)?.unwrap_or_default(),
                to: None,
                order: Order::Ascending,
                limit: limit(name, argument(2))?,
            }
            .run(bucket, call),
            BucketProcedureKind::Next => {
                let mut from = key(1)?;
                // The successor of the key.
                from.iter_mut().for_each(|after| after.push(0));
                Scan {
                    from: from.unwrap_or_default(),
                    to: None,
                    order: Order::Ascending,
                    limit: limit(name, argument(2))?,
                }
                .run(bucket, call)
            }
            BucketProcedureKind::Previous => Scan {
                from: Vec::new(),
                to: key(1)?,
                order: Order::Descending,
                limit: limit(name, argument(2))?,
            }
            .run(bucket, call),
        }
    }
}

/// Pairs of a range.
struct Scan {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    order: Order,
    limit: usize,
}

impl Scan {
    fn run(self, bucket: &str, call: &mut CallContext<'_>) -> Result<()> {
        let range = KeyRange {
            start: &self.from,
            end: self.to.as_deref(),
        };
        let mut left = self.limit;
        let mut after = None;
        while left > 0 {
            let page = PageLimit {
                keys: PAGE.keys.min(left),
                ..PAGE
            };
            let mut pairs = Vec::new();
            after = call.transaction().kv().scan_values(
                bucket,
                range,
                self.order,
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
}

fn delete(bucket: &str, from: &[u8], to: Option<&[u8]>, call: &mut CallContext<'_>) -> Result<()> {
    let range = KeyRange {
        start: from,
        end: to,
    };
    call.transaction().kv_mut().delete_range(bucket, range)?;
    Ok(())
}

fn get_many(name: &str, bucket: &str, keys: &Value, call: &mut CallContext<'_>) -> Result<()> {
    let Value::List(keys) = keys else {
        return Err(refused(name, "keys come as a list".into()));
    };
    for keys in keys.chunks(PAGE.keys) {
        let bytes: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| {
                bytes_of(name, key)?
                    .ok_or_else(|| refused(name, "keys are strings or bytes, not null".into()))
            })
            .collect::<Result<_>>()?;
        let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let values = call.transaction().kv().get_many_values(bucket, &bytes)?;
        for (key, value) in keys.iter().zip(values) {
            call.emit(vec![key.clone(), value])?;
        }
    }
    Ok(())
}

fn order(descending: &Value) -> Order {
    match descending.as_bool() {
        Some(true) => Order::Descending,
        _ => Order::Ascending,
    }
}

fn limit(name: &str, limit: &Value) -> Result<usize> {
    match limit {
        Value::Int(limit) => usize::try_from(*limit)
            .map_err(|_| refused(name, format!("limit is {limit}: give 0 or more"))),
        _ => Ok(usize::MAX),
    }
}

/// The bytes of a key; none for null.
fn bytes_of(name: &str, value: &Value) -> Result<Option<Vec<u8>>> {
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
