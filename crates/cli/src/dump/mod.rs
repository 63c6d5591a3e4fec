//! Dumps a whole database as JSON lines, and loads such a dump.
//!
//! ```text
//! {"isomer":1}                                                            first line: the format's version, 1 or 2
//! {"node":17,"labels":["User"],"properties":{"_key":"ada","age":36}}      numbers are the file's own
//! {"relationship":"KNOWS","from":17,"to":18,"properties":{}}
//!                                  "convergent":[{"path":["votes"],"kind":"COUNTER","value":7}]   in either, where
//! there are any
//! {"bucket":"sessions","kind":"map","reversible":false}
//! {"in":"sessions","key":K,"value":V,"expires":1790000000000}             `expires` only where it does
//! {"in":"sessions","sequence":"invoice","last":7}
//! {"folder":"/a"}                                                         after the folder that it is in
//! {"file":"/a/b","bytes":70000}
//! {"of":"/a/b","at":65536,"hex":"00ff"}                                   content, directly after its file; missing parts are zeros
//! {"index":"name","label":"User","fields":[{"path":["a","b"],"each":false}],"unique":false}
//! {"constraint":"name","label":"User","kind":"required","path":["name"]}  and unique, key, type, check, closed
//! {"end":123}                                                             last line: the number of lines before it
//! ```
//!
//! Version 2 is written where the database has convergent fields, or constraints that declare them; all else is version
//! 1, which version 0.1.0 of the program reads too, unless there is a `key` constraint: it refuses the dump then.
//!
//! Values are JSON where JSON keeps them exactly. Others (bytes, NaN, infinities, dates, times, durations, points) are
//! `{"$":"…"}` with the bytes of the record codec in hexadecimal, and a map with the key `$` is `{"$map":{…}}`.

mod convergent;
mod files;

use std::{
    collections::HashMap,
    io::{BufRead, Write},
    ops::Bound,
};

use anyhow::{Context, Result, anyhow, bail};
use isomer_db::{
    Database, Expiry, Map, Value,
    internals::{
        DatabaseInternals as _, LayerError as _, LayerResult as _,
        data::{
            Access, BucketKind, BucketOptions, Catalog, Check, Constraint, ConstraintKind,
            ConstraintSpec, ConvergentKind, ConvergentOwner, DataError, FieldCheck, FieldPath,
            GraphRead, IndexField, IndexSpec, KeyRange, Order, PageLimit, RecordScope,
            SchemaChange, SchemaClash, ScopeName, Transaction, ValueType,
        },
    },
    json::{self, JsonReader},
    params,
};
use isomer_value::{
    IndexId, NameTable, NodeId,
    record::{decode_value, encode_value},
};

/// Versions of the format without and with convergent fields.
const PLAIN: i64 = 1;
const CONVERGENT: i64 = 2;
/// Records per read.
const BATCH: usize = 1_000;
/// Rows per transaction while a dump is loaded into a database that is not visible to others yet,
const ROWS_A_TRANSACTION: u64 = 100_000;
/// and bytes of files.
const FILE_BYTES_A_TRANSACTION: usize = 16 << 20;

/// Counts of what was written or loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    pub nodes: u64,
    pub relationships: u64,
    pub keys: u64,
    pub files: u64,
}

/// Writes all content of one version of the database.
pub fn write(db: &Database, out: &mut dyn Write) -> Result<Dumped> {
    let transaction = db.store()?.begin(Access::Read).lift()?;
    let mut writer = Writer { out, lines: 0 };
    let mut dumped = Dumped::default();
    let converges =
        |constraint: &Constraint| matches!(constraint.kind, ConstraintKind::Convergent { .. });
    let is_plain = transaction.store().convergent_properties() == 0
        && !transaction.catalog().constraints().iter().any(converges);
    writer.line(params! { "isomer" => if is_plain { PLAIN } else { CONVERGENT } })?;
    write_nodes(&transaction, &mut writer, &mut dumped).map_err(plain)?;
    write_relationships(&transaction, &mut writer, &mut dumped).map_err(plain)?;
    write_buckets(&transaction, &mut writer, &mut dumped).map_err(plain)?;
    dumped.files = files::write(&transaction, &mut writer).map_err(plain)?;
    write_schema(&transaction.catalog(), &mut writer)?;
    for keeper in transaction.store().endpoint_keepers() {
        writer.line(params! { "constraint" => keeper.name, "kind" => "keep endpoints", "type" => keeper.rel_type })?;
    }
    let lines = writer.lines;
    writer.line(params! { "end" => lines })?;
    writer.out.flush()?;
    Ok(dumped)
}

/// Converts errors of the layer below.
fn plain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<isomer_db::internals::data::DataError>() {
        Ok(error) => error.lift().into(),
        Err(error) => error,
    }
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    lines: i64,
}

impl Writer<'_> {
    fn line(&mut self, fields: Map) -> Result<()> {
        self.lines += 1;
        let text = json::to_string(&Value::from(fields))?;
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n").context("cannot write the dump")
    }
}

fn write_nodes(
    transaction: &Transaction,
    writer: &mut Writer<'_>,
    dumped: &mut Dumped,
) -> Result<()> {
    let mut after = None;
    loop {
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        transaction.scan_nodes(None, after, BATCH, &mut ids)?;
        transaction.node_contents(&ids, &mut contents)?;
        for (id, content) in ids.iter().zip(&contents) {
            let Some(content) = content else { continue };
            let mut properties = content.properties.clone();
            let owner = ConvergentOwner::Node(*id);
            let convergent = convergent::take(transaction, owner, &mut properties)?;
            let labels: Value = content
                .labels
                .iter()
                .map(|label| Value::String(label.clone()))
                .collect();
            let mut line = params! { "node" => number(id.0)?, "labels" => labels, "properties" => packed_map(&properties)? };
            if !convergent.is_empty() {
                line.insert("convergent", convergent.into());
            }
            writer.line(line)?;
            dumped.nodes += 1;
        }
        after = ids.last().copied();
        if ids.len() < BATCH {
            return Ok(());
        }
    }
}

fn write_relationships(
    transaction: &Transaction,
    writer: &mut Writer<'_>,
    dumped: &mut Dumped,
) -> Result<()> {
    let mut after = None;
    loop {
        let (mut rows, mut contents) = (Vec::new(), Vec::new());
        transaction.scan_relationships(None, after, BATCH, &mut rows)?;
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        transaction.relationship_contents(&ids, &mut contents)?;
        for (row, content) in rows.iter().zip(&contents) {
            let Some(content) = content else { continue };
            let mut properties = content.properties.clone();
            let owner = ConvergentOwner::Relationship(row.id);
            let convergent = convergent::take(transaction, owner, &mut properties)?;
            let (from, to) = (number(row.source.0)?, number(row.target.0)?);
            let mut line = params! { "relationship" => content.type_name.clone(), "from" => from, "to" => to, "properties" => packed_map(&properties)? };
            if !convergent.is_empty() {
                line.insert("convergent", convergent.into());
            }
            writer.line(line)?;
            dumped.relationships += 1;
        }
        after = ids.last().copied();
        if rows.len() < BATCH {
            return Ok(());
        }
    }
}

fn write_buckets(
    transaction: &Transaction,
    writer: &mut Writer<'_>,
    dumped: &mut Dumped,
) -> Result<()> {
    for (name, options) in transaction.kv().list_buckets()? {
        let kind = match options.kind {
            BucketKind::Map => "map",
            BucketKind::Multi => "multi",
        };
        writer.line(params! { "bucket" => name.clone(), "kind" => kind, "reversible" => options.reversible })?;
        let mut after = None;
        loop {
            let mut pairs = Vec::new();
            let limit = PageLimit {
                keys: BATCH,
                bytes: 4 << 20,
            };
            let range = KeyRange {
                start: &[],
                end: None,
            };
            after = transaction.kv().scan_values(
                &name,
                range,
                Order::Ascending,
                limit,
                after.as_ref(),
                &mut |key, value| pairs.push((key, value)),
            )?;
            for (key, value) in pairs {
                let bytes = key
                    .as_str()
                    .map(str::as_bytes)
                    .or(key.as_bytes())
                    .unwrap_or_default();
                let mut fields = params! { "in" => name.clone(), "key" => packed(&key)?, "value" => packed(&value)? };
                if options.kind == BucketKind::Map
                    && let Some(Expiry::At(time)) = transaction.kv().expiry(&name, bytes)?
                {
                    fields.insert("expires", number(time)?);
                }
                writer.line(fields)?;
                dumped.keys += 1;
            }
            if after.is_none() {
                break;
            }
        }
        for (sequence, last) in transaction.kv().sequences(&name)? {
            writer.line(
                params! { "in" => name.clone(), "sequence" => sequence, "last" => number(last)? },
            )?;
        }
    }
    Ok(())
}

fn write_schema(catalog: &Catalog, writer: &mut Writer<'_>) -> Result<()> {
    let insert_scope = |fields: &mut Map, scope: RecordScope| {
        let (key, what) = match scope {
            RecordScope::Label(label) => ("label", format!("label {label}")),
            RecordScope::Type(type_id) => ("type", format!("relationship type {type_id}")),
        };
        let name = catalog.scope_name(scope);
        let name = name.ok_or_else(|| anyhow!("{what} has no name: run `isomer check`"))?;
        fields.insert(key, name.into());
        anyhow::Ok(())
    };
    let owned: Vec<IndexId> = catalog
        .constraints()
        .iter()
        .filter_map(|constraint| constraint.kind.index())
        .collect();
    for index in catalog
        .indexes()
        .iter()
        .filter(|index| !owned.contains(&index.id))
    {
        let mut fields = params! { "index" => index.name.clone(), "fields" => fields_value(&index.fields), "unique" => index.unique };
        insert_scope(&mut fields, index.scope)?;
        writer.line(fields)?;
    }
    for constraint in catalog.constraints() {
        let mut fields = constraint_fields(catalog, constraint)?;
        fields.insert("constraint", constraint.name.clone().into());
        insert_scope(&mut fields, constraint.scope)?;
        writer.line(fields)?;
    }
    Ok(())
}

fn number(number: u64) -> Result<Value> {
    Ok(Value::Int(i64::try_from(number)?))
}

fn path_value(path: &FieldPath) -> Value {
    path.0
        .iter()
        .map(|name| Value::String(name.clone()))
        .collect()
}

fn fields_value(fields: &[IndexField]) -> Value {
    fields
        .iter()
        .map(|field| {
            Value::from(params! { "path" => path_value(&field.path), "each" => field.each })
        })
        .collect()
}

fn constraint_fields(catalog: &Catalog, constraint: &Constraint) -> Result<Map> {
    Ok(match &constraint.kind {
        kind @ (ConstraintKind::Unique { index } | ConstraintKind::Key { index }) => {
            let index = catalog.index(*index).ok_or_else(|| {
                anyhow!(
                    "constraint `{}` has lost its index: run `isomer check`",
                    constraint.name
                )
            })?;
            let kind = match kind {
                ConstraintKind::Key { .. } => "key",
                _ => "unique",
            };
            params! { "kind" => kind, "fields" => fields_value(&index.fields) }
        }
        ConstraintKind::Required { path } => {
            params! { "kind" => "required", "path" => path_value(path) }
        }
        ConstraintKind::Type { path, types } => {
            params! { "kind" => "type", "path" => path_value(path), "types" => types.iter().map(|one| Value::Int(*one as i64)).collect::<Value>() }
        }
        ConstraintKind::Check { checks } => {
            let checks = checks
                .iter()
                .map(|check| Ok(check_fields(check)?.into()))
                .collect::<Result<Vec<Value>>>()?;
            params! { "kind" => "check", "checks" => Value::from(checks) }
        }
        ConstraintKind::Convergent { path, kind } => {
            params! { "kind" => "convergent", "path" => path_value(path), "of" => kind.name() }
        }
        ConstraintKind::Closed { names } => {
            params! { "kind" => "closed", "names" => names.iter().map(|name| Value::String(name.clone())).collect::<Value>() }
        }
    })
}

fn check_fields(check: &FieldCheck) -> Result<Map> {
    let path = path_value(&check.path);
    let bound = |bound: &Bound<Value>| -> Result<Value> {
        Ok(match bound {
            Bound::Unbounded => Value::Null,
            Bound::Included(value) => params! { "from" => packed(value)? }.into(),
            Bound::Excluded(value) => params! { "beyond" => packed(value)? }.into(),
        })
    };
    let count = |count: &Option<u64>| count.map_or(Ok(Value::Null), number);
    Ok(match &check.check {
        Check::Range { min, max } => {
            params! { "path" => path, "rule" => "range", "min" => bound(min)?, "max" => bound(max)? }
        }
        Check::OneOf(values) => {
            let values = values.iter().map(packed).collect::<Result<Vec<_>>>()?;
            params! { "path" => path, "rule" => "one_of", "values" => Value::from(values) }
        }
        Check::Length { min, max } => {
            params! { "path" => path, "rule" => "length", "min" => count(min)?, "max" => count(max)? }
        }
    })
}

fn field_check(value: &Value) -> Result<FieldCheck> {
    let fields = value
        .as_map()
        .ok_or_else(|| anyhow!("a check is not an object"))?;
    let bound = |name: &str| -> Result<Bound<Value>> {
        let Some(Value::Map(bound)) = fields.get(name) else {
            return Ok(Bound::Unbounded);
        };
        match (bound.get("from"), bound.get("beyond")) {
            (Some(value), _) => Ok(Bound::Included(unpacked(value)?)),
            (None, Some(value)) => Ok(Bound::Excluded(unpacked(value)?)),
            (None, None) => bail!("unknown bound `{name}`"),
        }
    };
    let count = |name: &str| -> Result<Option<u64>> {
        match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => Ok(Some(u64::try_from(integer(value)?)?)),
        }
    };
    let check = match field(fields, "rule")? {
        "range" => Check::Range {
            min: bound("min")?,
            max: bound("max")?,
        },
        "one_of" => Check::OneOf(
            list(fields, "values")?
                .iter()
                .map(unpacked)
                .collect::<Result<_>>()?,
        ),
        "length" => Check::Length {
            min: count("min")?,
            max: count("max")?,
        },
        other => bail!("unknown rule `{other}`"),
    };
    Ok(FieldCheck {
        path: FieldPath(names(list(fields, "path")?)?),
        check,
    })
}

/// A value that JSON represents exactly.
fn packed(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::String(_) => value.clone(),
        Value::Float(number) if number.is_finite() => value.clone(),
        Value::List(items) => Value::from(items.iter().map(packed).collect::<Result<Vec<_>>>()?),
        Value::Map(map) if map.contains("$") || map.contains("$map") => {
            params! { "$map" => packed_map(map)? }.into()
        }
        Value::Map(map) => packed_map(map)?.into(),
        exotic => {
            let mut bytes = Vec::new();
            encode_value(exotic, &mut NameTable::new(), &mut bytes)?;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            params! { "$" => hex }.into()
        }
    })
}

fn packed_map(map: &Map) -> Result<Map> {
    map.iter()
        .map(|(name, value)| Ok((name.clone(), packed(value)?)))
        .collect()
}

/// The inverse of [`packed`].
fn unpacked(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::List(items) => Value::from(items.iter().map(unpacked).collect::<Result<Vec<_>>>()?),
        Value::Map(map) => match (map.len(), map.get("$"), map.get("$map")) {
            (1, Some(Value::String(hex)), _) => {
                decode_value(&bytes_of_hex(hex)?, &NameTable::new())?
            }
            (1, _, Some(Value::Map(inner))) => unpacked_map(inner)?.into(),
            _ => unpacked_map(map)?.into(),
        },
        plain => plain.clone(),
    })
}

fn unpacked_map(map: &Map) -> Result<Map> {
    map.iter()
        .map(|(name, value)| Ok((name.clone(), unpacked(value)?)))
        .collect()
}

fn bytes_of_hex(hex: &str) -> Result<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) {
        bail!("`$` holds an odd number of hexadecimal digits");
    }
    digits
        .chunks_exact(2)
        .map(|two| Ok(u8::from_str_radix(std::str::from_utf8(two)?, 16)?))
        .collect()
}

/// Loads a dump into an empty database that is not used by others yet. `row` is called for each line.
pub fn read(db: &Database, text: &mut dyn BufRead, row: &mut dyn FnMut()) -> Result<Dumped> {
    let mut reader = Reading {
        db,
        transaction: db.store()?.begin(Access::Write).lift()?,
        pending: 0,
        pending_file_bytes: 0,
        files: files::Files::default(),
        nodes: HashMap::new(),
        schema: Vec::new(),
        dumped: Dumped::default(),
    };
    let (mut codec, mut line, mut ended) = (JsonReader::new(), String::new(), false);
    let mut number = 0;
    loop {
        line.clear();
        number += 1;
        let place = || format!("line {number} of the dump");
        if text.read_line(&mut line).with_context(place)? == 0 {
            break;
        }
        row();
        if ended {
            bail!("{}: there is data after the end", place());
        }
        let Value::Map(fields) = codec.read(line.trim_end()).with_context(place)? else {
            bail!("{}: an object was expected", place())
        };
        if number == 1 && !matches!(fields.get("isomer"), Some(Value::Int(PLAIN | CONVERGENT))) {
            bail!(
                "this is not a dump of format {PLAIN} or {CONVERGENT}: its first line is not {{\"isomer\":{PLAIN}}}"
            );
        }
        match fields.get("end") {
            Some(lines) if lines.as_int() != Some(number - 1) => {
                bail!("{}: the dump is incomplete: lines are missing", place())
            }
            Some(_) => ended = true,
            None => reader.take(&fields).map_err(plain).with_context(place)?,
        }
    }
    if !ended {
        bail!("the dump is incomplete: its last line is missing");
    }
    reader.finish().map_err(plain)
}

struct Reading<'d> {
    db: &'d Database,
    transaction: Transaction,
    pending: u64,
    pending_file_bytes: usize,
    files: files::Files,
    /// Maps the file's node numbers to the database's.
    nodes: HashMap<i64, NodeId>,
    schema: Vec<SchemaChange>,
    dumped: Dumped,
}

impl Reading<'_> {
    fn take(&mut self, fields: &Map) -> Result<()> {
        let data = &mut self.transaction;
        if let Some(id) = fields.get("node") {
            let labels = list(fields, "labels")?
                .iter()
                .map(|label| Ok(data.name_ids().intern_label(text(label)?)?))
                .collect::<Result<Vec<_>>>()?;
            let node = data
                .graph_mut()
                .create_node(&labels, &unpacked_map(map(fields, "properties")?)?)?;
            if fields.contains("convergent") {
                let convergent = list(fields, "convergent")?;
                convergent::make(data, ConvergentOwner::Node(node), convergent)?;
            }
            self.nodes.insert(integer(id)?, node);
            self.dumped.nodes += 1;
        } else if let Some(name) = fields.get("relationship") {
            let end = |name: &str| -> Result<NodeId> {
                let number = integer(fields.get(name).unwrap_or(&Value::Null))?;
                self.nodes
                    .get(&number)
                    .copied()
                    .ok_or_else(|| anyhow!("node {number} is not defined before"))
            };
            let (from, to) = (end("from")?, end("to")?);
            let rel_type = data.name_ids().intern_type(text(name)?)?;
            let properties = unpacked_map(map(fields, "properties")?)?;
            let relationship =
                data.graph_mut()
                    .create_relationship(rel_type, from, to, &properties)?;
            if fields.contains("convergent") {
                let convergent = list(fields, "convergent")?;
                let owner = ConvergentOwner::Relationship(relationship);
                convergent::make(data, owner, convergent)?;
            }
            self.dumped.relationships += 1;
        } else if let Some(bucket) = fields.get("bucket") {
            let kind = match field(fields, "kind")? {
                "map" => BucketKind::Map,
                "multi" => BucketKind::Multi,
                other => bail!("unknown kind of bucket `{other}`"),
            };
            data.kv_mut().create_bucket(
                text(bucket)?,
                BucketOptions::new(kind, fields.get("reversible") == Some(&Value::Bool(true))),
            )?;
        } else if let Some(bucket) = fields.get("in") {
            self.take_key(text(bucket)?, fields)?;
        } else if fields.contains("index") || fields.contains("constraint") {
            self.schema.push(schema_change(fields)?);
        } else if let Some(bytes) = self.files.take(data, fields)? {
            self.pending_file_bytes += bytes;
        } else if !fields.contains("isomer") {
            bail!("unknown kind of line");
        }
        self.pending += 1;
        if self.pending >= ROWS_A_TRANSACTION || self.pending_file_bytes >= FILE_BYTES_A_TRANSACTION
        {
            self.commit()?;
        }
        Ok(())
    }

    fn take_key(&mut self, bucket: &str, fields: &Map) -> Result<()> {
        let data = &mut self.transaction;
        if let Some(sequence) = fields.get("sequence") {
            let last = u64::try_from(integer(fields.get("last").unwrap_or(&Value::Null))?)?;
            return Ok(data
                .kv_mut()
                .sequence_skip_to(bucket, text(sequence)?, last)?);
        }
        let key = unpacked(fields.get("key").unwrap_or(&Value::Null))?;
        let value = unpacked(fields.get("value").unwrap_or(&Value::Null))?;
        let bytes = |value: &Value| {
            value
                .as_str()
                .map(str::as_bytes)
                .or(value.as_bytes())
                .map(<[u8]>::to_vec)
        };
        let multi = data
            .kv()
            .list_buckets()?
            .iter()
            .any(|(name, options)| &**name == bucket && options.kind == BucketKind::Multi);
        if multi {
            let (Some(key), Some(value)) = (bytes(&key), bytes(&value)) else {
                bail!("keys and values of this bucket are strings or bytes")
            };
            data.kv_mut().add(bucket, &key, &value)?;
        } else {
            let expiry = match fields.get("expires") {
                Some(time) => Expiry::At(u64::try_from(integer(time)?)?),
                None => Expiry::Never,
            };
            data.kv_mut().put_value(bucket, &key, &value, expiry)?;
        }
        self.dumped.keys += 1;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let next = self.db.store()?.begin(Access::Write)?;
        std::mem::replace(&mut self.transaction, next).commit()?;
        self.transaction = self.db.store()?.begin(Access::Write)?;
        self.pending = 0;
        self.pending_file_bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<Dumped> {
        self.commit()?;
        let mut schema = std::mem::take(&mut self.schema);
        // A constraint keeps an index, and is refused where there is one already.
        schema.sort_by_key(|change| matches!(change, SchemaChange::CreateIndex { .. }));
        for change in schema {
            match self.db.store()?.change_schema(change) {
                // Version 0.1 could have one index or constraint under two names, and an index over the properties of
                // a unique constraint: the second is left out.
                Err(DataError::SchemaExists {
                    clash: SchemaClash::Equivalent | SchemaClash::Index | SchemaClash::Constraint,
                    ..
                }) => {}
                outcome => drop(outcome?),
            }
        }
        self.dumped.files = self.files.count;
        Ok(self.dumped)
    }
}

fn schema_change(fields: &Map) -> Result<SchemaChange> {
    if fields.get("kind") == Some(&Value::from("keep endpoints")) {
        return Ok(SchemaChange::KeepEndpoints {
            name: Some(field(fields, "constraint")?.to_owned()),
            rel_type: field(fields, "type")?.to_owned(),
            if_not_exists: false,
        });
    }
    let scope = match fields.get("type") {
        Some(name) => ScopeName::rel_type(text(name)?),
        None => ScopeName::label(field(fields, "label")?),
    };
    if let Some(name) = fields.get("index") {
        let unique = fields.get("unique") == Some(&Value::Bool(true));
        let spec = IndexSpec {
            name: Some(text(name)?.to_owned()),
            scope,
            fields: index_fields(fields)?,
            unique,
        };
        return Ok(SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        });
    }
    let path = || names(list(fields, "path")?).map(FieldPath);
    let mut unique_fields = Vec::new();
    let kind = match field(fields, "kind")? {
        "unique" => {
            unique_fields = index_fields(fields)?;
            ConstraintKind::Unique { index: IndexId(0) }
        }
        "key" => {
            unique_fields = index_fields(fields)?;
            ConstraintKind::Key { index: IndexId(0) }
        }
        "required" => ConstraintKind::Required { path: path()? },
        "convergent" => {
            let of = field(fields, "of")?;
            ConstraintKind::Convergent {
                path: path()?,
                kind: ConvergentKind::by_name(of)
                    .ok_or_else(|| anyhow!("unknown kind of convergent field `{of}`"))?,
            }
        }
        "type" => ConstraintKind::Type {
            path: path()?,
            types: list(fields, "types")?
                .iter()
                .map(value_type)
                .collect::<Result<_>>()?,
        },
        "check" => ConstraintKind::Check {
            checks: list(fields, "checks")?
                .iter()
                .map(field_check)
                .collect::<Result<_>>()?,
        },
        "closed" => ConstraintKind::Closed {
            names: names(list(fields, "names")?)?,
        },
        other => bail!("unknown kind of constraint `{other}`"),
    };
    let name = Some(field(fields, "constraint")?.to_owned());
    Ok(SchemaChange::CreateConstraint {
        spec: ConstraintSpec {
            name,
            scope,
            kind,
            unique_fields,
        },
        if_not_exists: false,
    })
}

fn index_fields(fields: &Map) -> Result<Vec<IndexField>> {
    let one = |value: &Value| -> Result<IndexField> {
        let field = value
            .as_map()
            .ok_or_else(|| anyhow!("a field of an index is not an object"))?;
        Ok(IndexField {
            path: FieldPath(names(list(field, "path")?)?),
            each: field.get("each") == Some(&Value::Bool(true)),
        })
    };
    list(fields, "fields")?.iter().map(one).collect()
}

fn value_type(value: &Value) -> Result<ValueType> {
    use ValueType as T;
    const ALL: [ValueType; 15] = [
        T::Bool,
        T::Int,
        T::Float,
        T::Number,
        T::String,
        T::Bytes,
        T::List,
        T::Map,
        T::Date,
        T::LocalTime,
        T::ZonedTime,
        T::LocalDateTime,
        T::ZonedDateTime,
        T::Duration,
        T::Point,
    ];
    let number = integer(value)?;
    ALL.into_iter()
        .find(|one| *one as i64 == number)
        .ok_or_else(|| anyhow!("unknown type number {number}"))
}

fn names(items: &[Value]) -> Result<Vec<std::sync::Arc<str>>> {
    items.iter().map(|item| Ok(text(item)?.into())).collect()
}

fn field<'m>(fields: &'m Map, name: &str) -> Result<&'m str> {
    text(
        fields
            .get(name)
            .ok_or_else(|| anyhow!("`{name}` is missing"))?,
    )
}

fn list<'m>(fields: &'m Map, name: &str) -> Result<&'m [Value]> {
    fields
        .get(name)
        .and_then(Value::as_list)
        .ok_or_else(|| anyhow!("`{name}` is not a list"))
}

fn map<'m>(fields: &'m Map, name: &str) -> Result<&'m Map> {
    fields
        .get(name)
        .and_then(Value::as_map)
        .ok_or_else(|| anyhow!("`{name}` is not an object"))
}

fn text(value: &Value) -> Result<&str> {
    value
        .as_str()
        .ok_or_else(|| anyhow!("a string was expected, not {}", value.type_name()))
}

fn integer(value: &Value) -> Result<i64> {
    value
        .as_int()
        .ok_or_else(|| anyhow!("an integer was expected, not {}", value.type_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives() {
        let values = [
            Value::Float(f64::NAN),
            Value::Float(-0.0),
            Value::Float(1.0),
            Value::Int(i64::MIN),
            vec![0u8, 255].into(),
            Value::Date("2024-02-29".parse().expect("a date")),
            params! { "$" => "x", "a" => params! { "$map" => 1 } }.into(),
            vec![Value::Null, params! { "$" => vec![1u8] }.into()].into(),
        ];
        for value in values {
            let text = json::to_string(&packed(&value).expect("packed")).expect("JSON");
            let back = unpacked(&json::parse(&text).expect("JSON")).expect("unpacked");
            assert_eq!(back, value, "{text}");
        }
    }

    #[test]
    fn a_dump_gives_the_same_database_again() {
        let db = Database::open_in_memory().expect("a database");
        db.query("CREATE INDEX ages FOR (p:Person) ON (p.age)")
            .expect("an index");
        db.query("CREATE CONSTRAINT names FOR (p:Person) REQUIRE p.name IS UNIQUE")
            .expect("a constraint");
        for on_relationships in [
            "CREATE INDEX since FOR ()-[r:KNOWS]-() ON (r.since, r.tags[])",
            "CREATE CONSTRAINT number FOR ()-[r:KNOWS]-() REQUIRE r.number IS UNIQUE",
            "CREATE CONSTRAINT dated FOR ()-[r:KNOWS]-() REQUIRE r.since IS NOT NULL",
        ] {
            db.query(on_relationships).expect("a schema change");
        }
        let rules = vec![
            FieldCheck {
                path: FieldPath::top("age"),
                check: Check::Range {
                    min: Bound::Included(0.into()),
                    max: Bound::Excluded(150.0.into()),
                },
            },
            FieldCheck {
                path: FieldPath::top("name"),
                check: Check::Length {
                    min: Some(1),
                    max: None,
                },
            },
        ];
        let spec = ConstraintSpec {
            name: Some("rules".into()),
            scope: ScopeName::label("Person"),
            kind: ConstraintKind::Check { checks: rules },
            unique_fields: Vec::new(),
        };
        db.store()
            .and_then(|store| {
                let create = SchemaChange::CreateConstraint {
                    spec,
                    if_not_exists: false,
                };
                store.change_schema(create).lift()
            })
            .expect("a constraint");
        db.query("CREATE (a:Person {_key: 'ada', name: 'Ada', age: 36, born: date('1815-12-10')})-[:KNOWS {since: 1833}]->(:Thing)-[:OF]->(a)").expect("records");
        db.transact(|tx| {
            tx.bucket("s").put("k", "v")?;
            tx.bucket("s").put([255u8], 7)?;
            tx.bucket("s").next_number("n")?;
            let options = BucketOptions::multi_value();
            tx.bucket("m").create(options)?;
            tx.bucket("m").add("k", "1")?;
            tx.bucket("m").add("k", "2")
        })
        .expect("buckets");
        let mut first = Vec::new();
        let dumped = write(&db, &mut first).expect("a dump");
        assert_eq!(
            dumped,
            Dumped {
                nodes: 2,
                relationships: 2,
                keys: 4,
                files: 0
            }
        );
        let other = Database::open_in_memory().expect("a database");
        assert_eq!(
            read(&other, &mut first.as_slice(), &mut || ()).expect("it is read"),
            dumped
        );
        let mut second = Vec::new();
        write(&other, &mut second).expect("a dump");
        let lines = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        assert_eq!(lines(&first), lines(&second));
        let shown = "SHOW CONSTRAINTS YIELD * RETURN *";
        let rows = |db: &Database| format!("{:?}", db.query(shown).expect("rows").rows());
        assert!(
            rows(&db).contains("RELATIONSHIP_UNIQUENESS"),
            "{}",
            rows(&db)
        );
        assert_eq!(rows(&db), rows(&other));
        assert_eq!(
            other
                .transact(|tx| tx.bucket("s").next_number("n"))
                .expect("a number"),
            2
        );
    }

    /// Version 0.1 accepted a unique constraint over the properties of an index. Its dump gives the constraint, whose
    /// index serves the same queries.
    #[test]
    fn a_dump_with_an_index_under_a_constraint_keeps_the_constraint() {
        let dump = [
            r#"{"isomer":1}"#,
            r#"{"node":1,"labels":["P"],"properties":{"_key":"a","name":"Ada"}}"#,
            r#"{"index":"plain","label":"P","fields":[{"path":["name"],"each":false}],"unique":false}"#,
            r#"{"constraint":"names","label":"P","kind":"unique","fields":[{"path":["name"],"each":false}]}"#,
            r#"{"end":4}"#,
        ]
        .join("\n");
        let db = Database::open_in_memory().expect("a database");
        read(&db, &mut dump.as_bytes(), &mut || ()).expect("it is read");
        let names = |query: &str| -> Vec<String> {
            let found = db.query(query).expect("rows");
            found.deserialize().expect("names")
        };
        assert_eq!(names("SHOW CONSTRAINTS YIELD name"), ["names"]);
        assert_eq!(names("SHOW INDEXES YIELD name"), ["names"]);
        assert!(db.query("CREATE (:P {name: 'Ada'})").is_err());
    }

    #[test]
    fn a_dump_that_is_not_whole_is_refused() {
        let db = Database::open_in_memory().expect("a database");
        db.query("CREATE (:A), (:B)").expect("nodes");
        let mut dump = Vec::new();
        write(&db, &mut dump).expect("a dump");
        let text = String::from_utf8(dump).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let refused = |text: String, part: &str| {
            let other = Database::open_in_memory().expect("a database");
            let message = format!(
                "{:#}",
                read(&other, &mut text.as_bytes(), &mut || ()).expect_err(part)
            );
            assert!(message.contains(part), "{message}");
        };
        refused(lines[..lines.len() - 1].join("\n"), "last line is missing");
        refused(
            [&lines[..1], &lines[2..]].concat().join("\n"),
            "lines are missing",
        );
        refused(lines[1..].join("\n"), "this is not a dump");
        refused(text.replace("\"labels\"", "\"labelz\""), "`labels`");
        refused(format!("{text}x"), "there is data after the end");
    }
}
