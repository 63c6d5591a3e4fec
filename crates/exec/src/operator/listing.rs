//! `SHOW`: rows about the catalog, the running queries, and the program that runs the database.
//!
//! Columns and words (`ONLINE`, `RANGE`, `UNIQUENESS`) are those of Neo4j, since its libraries compare them.

use std::sync::Arc;

use isomer_data::{
    BucketKind, Catalog, Constraint, ConstraintKind, FieldPath, GraphRead, IndexDef, IndexState,
    RecordScope, ValueType,
};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
    function::{Aggregation, Function as Builtin},
    physical::Op,
    schema::Listing,
};
use isomer_value::{Duration, IndexId, Map, Value, jiff};

use super::{Argument, Child, Operate, OperatorRef, input::RowInput, scan::misplaced};
use crate::{
    chunk::Chunk, column::Column, context::Cx, describe, error::Result, host, procedure::Procedure,
};

/// The operator.
pub(super) struct Show {
    op_ref: OperatorRef,
    input: RowInput,
}

impl Show {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
        }
    }
}

impl Operate for Show {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Show { show, slots, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if !self.input.advance(cx)? {
            return Ok(None);
        }
        let rows = shown_rows(*show, cx)?;
        let mut columns: Vec<Vec<Value>> = slots
            .iter()
            .map(|_| Vec::with_capacity(rows.len()))
            .collect();
        let count = rows.len();
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.push(cell);
            }
        }
        let mut chunk = self.input.repeat(&op_ref, count);
        for (slot, values) in slots.iter().zip(columns) {
            chunk.set(*slot, Column::Values(values));
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The rows of `SHOW`, one value per field of [`Listing::fields`].
fn shown_rows(show: Listing, cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>> {
    let catalog = cx.tx.catalog();
    // Names stay in the catalog after their last use, and may never have been used: these are not shown.
    let used = |counted: Result<(Arc<str>, u64)>| match counted {
        Ok((_, 0)) => None,
        Ok((name, count)) => {
            let count = Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
            Some(Ok(vec![Value::String(name), count]))
        }
        Err(error) => Some(Err(error)),
    };
    Ok(match show {
        Listing::Indexes => catalog
            .indexes()
            .iter()
            .map(|index| index_row(&catalog, index))
            .collect(),
        Listing::Constraints => constraints(&catalog, cx),
        Listing::Labels => catalog
            .labels()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.reader().node_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
        Listing::Types => catalog
            .types()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.reader().relationship_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
        Listing::Properties => {
            let mut names: Vec<Arc<str>> =
                catalog.props().into_iter().map(|(_, name)| name).collect();
            names.sort_unstable();
            names
                .into_iter()
                .map(|name| vec![Value::String(name)])
                .collect()
        }
        Listing::Buckets => cx
            .tx
            .kv()
            .list_buckets()?
            .into_iter()
            .map(|(name, options)| {
                let kind = match (options.kind, options.reversible) {
                    (BucketKind::Multi, _) => "multi-value",
                    (BucketKind::Map, true) => "reversible",
                    (BucketKind::Map, false) => "plain",
                };
                vec![Value::String(name), kind.into()]
            })
            .collect(),
        Listing::Functions => functions(cx),
        Listing::Procedures => procedures(cx),
        Listing::Conflicts => cx
            .tx
            .replication()
            .conflicts()?
            .into_iter()
            .map(|conflict| {
                vec![
                    conflict.kind.name().into(),
                    conflict.id.map_or(Value::Null, |id| Value::Int(id as i64)),
                    Value::from(conflict.record),
                    Value::from(conflict.field),
                    conflict.value,
                    Value::from(conflict.others),
                ]
            })
            .collect(),
        Listing::Queries => cx.run.host.running.as_ref().map_or(Vec::new(), |running| {
            // Without the user.
            running
                .list()
                .into_iter()
                .map(|row| row[..5].to_vec())
                .collect()
        }),
        Listing::Transactions => transactions(cx),
        Listing::Databases
        | Listing::DefaultDatabase
        | Listing::HomeDatabase
        | Listing::Users
        | Listing::CurrentUser
        | Listing::Settings => host::listing(&cx.run.host.program, show)?,
    })
}

fn scope_value(catalog: &Catalog, scope: RecordScope) -> Value {
    catalog.scope_name(scope).map_or(Value::Null, Value::String)
}

/// The column `entityType`.
fn entity_type(scope: RecordScope) -> Value {
    match scope {
        RecordScope::Label(_) => "NODE".into(),
        RecordScope::Type(_) => "RELATIONSHIP".into(),
    }
}

/// The pattern after `FOR`, whose variable is `n` or `r`.
fn scope_pattern(catalog: &Catalog, scope: RecordScope) -> Option<String> {
    let name = quoted(&catalog.scope_name(scope)?);
    Some(match scope {
        RecordScope::Label(_) => format!("(n:{name})"),
        RecordScope::Type(_) => format!("()-[r:{name}]-()"),
    })
}

/// The row of an index. Properties read as `CREATE INDEX` declares them.
fn index_row(catalog: &Catalog, index: &IndexDef) -> Vec<Value> {
    let fields = index.fields.iter();
    let fields: Vec<Value> = fields.map(|field| field.to_string().into()).collect();
    let (state, percent) = match index.state {
        IndexState::Building => ("POPULATING", 0.0),
        IndexState::Ready => ("ONLINE", 100.0),
    };
    let mut constraints = catalog.constraints().iter();
    let owner = constraints.find(|constraint| constraint.kind.index() == Some(index.id));
    let label = scope_value(catalog, index.scope);
    let options: Map = [
        ("indexProvider", Value::from("range-1.0")),
        ("indexConfig", Map::new().into()),
    ]
    .into_iter()
    .collect();
    let statement = match owner {
        Some(constraint) => constraint_statement(catalog, constraint),
        None => Some(format!(
            "CREATE {}INDEX {} FOR {} ON ({})",
            if index.unique { "UNIQUE " } else { "RANGE " },
            quoted(&index.name),
            scope_pattern(catalog, index.scope).unwrap_or_default(),
            index_properties(index)
        )),
    };
    vec![
        Value::Int(i64::from(index.id.0)),
        Value::String(index.name.clone()),
        state.into(),
        Value::Float(percent),
        "RANGE".into(),
        entity_type(index.scope),
        vec![label.clone()].into(),
        fields.into(),
        "range-1.0".into(),
        owner.map_or(Value::Null, |owner| Value::String(owner.name.clone())),
        // Reads of indexes are not counted.
        Value::Null,
        Value::Null,
        Value::Null,
        options.into(),
        "".into(),
        statement.map_or(Value::Null, Value::from),
        label,
        Value::Bool(index.unique),
    ]
}

/// The fields of an index as `CREATE INDEX` declares them.
fn index_properties(index: &IndexDef) -> String {
    let fields = index.fields.iter().map(|field| {
        let elements = if field.each { "[]" } else { "" };
        format!("{}{elements}", property(index.scope, &field.path))
    });
    fields.collect::<Vec<_>>().join(", ")
}

fn property(scope: RecordScope, path: &FieldPath) -> String {
    let names = path.0.iter().map(|name| format!(".{}", quoted(name)));
    let variable = match scope {
        RecordScope::Label(_) => "n",
        RecordScope::Type(_) => "r",
    };
    format!("{variable}{}", names.collect::<String>())
}

/// A name in backquotes.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The rows of `SHOW CONSTRAINTS`.
fn constraints(catalog: &Catalog, cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let rules = catalog.constraints().iter().enumerate();
    let rules = rules.map(|(at, constraint)| {
        let rule = rule(catalog, constraint);
        let label = scope_value(catalog, constraint.scope);
        let index = constraint.kind.index().and_then(|id| catalog.index(id));
        vec![
            Value::Int(at as i64 + 1),
            Value::String(constraint.name.clone()),
            rule.word.into(),
            entity_type(constraint.scope),
            vec![label.clone()].into(),
            rule.properties.into(),
            index.map_or(Value::Null, |index| Value::String(index.name.clone())),
            rule.property_type.map_or(Value::Null, Value::from),
            Value::Null,
            constraint_statement(catalog, constraint).map_or(Value::Null, Value::from),
            label,
        ]
    });
    let first_keeper = catalog.constraints().len() as i64 + 1;
    let keepers = cx.tx.store().endpoint_keepers().into_iter().enumerate();
    let keepers = keepers.map(|(at, keeper)| {
        let statement = format!(
            "CREATE CONSTRAINT {} FOR ()-[r:{}]-() REQUIRE KEEP ENDPOINTS",
            quoted(&keeper.name),
            quoted(&keeper.rel_type)
        );
        let rel_type = Value::String(keeper.rel_type);
        vec![
            Value::Int(first_keeper + at as i64),
            Value::String(keeper.name),
            "KEEP_ENDPOINTS".into(),
            "RELATIONSHIP".into(),
            vec![rel_type.clone()].into(),
            Value::empty_list(),
            Value::Null,
            Value::Null,
            Value::Null,
            statement.into(),
            rel_type,
        ]
    });
    rules.chain(keepers).collect()
}

/// What a constraint requires, as listings say it.
struct ShownRule {
    word: &'static str,
    properties: Vec<Value>,
    property_type: Option<String>,
}

fn rule(catalog: &Catalog, constraint: &Constraint) -> ShownRule {
    let of_nodes = constraint.scope.label().is_some();
    let of = |word, properties, property_type| ShownRule {
        word,
        properties,
        property_type,
    };
    let one = |path: &FieldPath| vec![path.to_string().into()];
    let indexed = |index: IndexId| {
        let fields = catalog.index(index).map_or(&[][..], |index| &index.fields);
        let paths = fields.iter().map(|field| field.path.to_string().into());
        paths.collect()
    };
    // Neo4j's words, which libraries compare.
    let word = |nodes: &'static str, relationships: &'static str| match of_nodes {
        true => nodes,
        false => relationships,
    };
    match &constraint.kind {
        ConstraintKind::Unique { index } => of(
            word("UNIQUENESS", "RELATIONSHIP_UNIQUENESS"),
            indexed(*index),
            None,
        ),
        ConstraintKind::Key { index } => {
            of(word("NODE_KEY", "RELATIONSHIP_KEY"), indexed(*index), None)
        }
        ConstraintKind::Required { path } => of(
            word("NODE_PROPERTY_EXISTENCE", "RELATIONSHIP_PROPERTY_EXISTENCE"),
            one(path),
            None,
        ),
        ConstraintKind::Type { path, types } => of(
            word("NODE_PROPERTY_TYPE", "RELATIONSHIP_PROPERTY_TYPE"),
            one(path),
            Some(ValueType::declaration(types)),
        ),
        ConstraintKind::Check { checks } => {
            let paths = checks.iter().map(|check| check.path.to_string().into());
            of("CHECK", paths.collect(), None)
        }
        ConstraintKind::Convergent { path, kind } => {
            of("CONVERGENT", one(path), Some(kind.name().to_owned()))
        }
        ConstraintKind::Closed { names } => {
            let names = names.iter().map(|name| Value::String(name.clone()));
            of("CLOSED", names.collect(), None)
        }
    }
}

/// The statement that creates a constraint; none if the language has none.
fn constraint_statement(catalog: &Catalog, constraint: &Constraint) -> Option<String> {
    let indexed = |index: IndexId| {
        let fields = catalog.index(index)?.fields.iter();
        let paths = fields.map(|field| property(constraint.scope, &field.path));
        Some(format!("({})", paths.collect::<Vec<_>>().join(", ")))
    };
    let requirement = match &constraint.kind {
        ConstraintKind::Unique { index } => format!("{} IS UNIQUE", indexed(*index)?),
        ConstraintKind::Key { index } => {
            let of = match constraint.scope {
                RecordScope::Label(_) => "NODE",
                RecordScope::Type(_) => "RELATIONSHIP",
            };
            format!("{} IS {of} KEY", indexed(*index)?)
        }
        ConstraintKind::Required { path } => {
            format!("{} IS NOT NULL", property(constraint.scope, path))
        }
        ConstraintKind::Type { path, types } => {
            let types = ValueType::declaration(types);
            format!("{} IS :: {types}", property(constraint.scope, path))
        }
        ConstraintKind::Convergent { path, kind } => {
            let path = property(constraint.scope, path);
            format!("{path} IS CONVERGENT {}", kind.name())
        }
        ConstraintKind::Check { .. } | ConstraintKind::Closed { .. } => return None,
    };
    let pattern = scope_pattern(catalog, constraint.scope)?;
    Some(format!(
        "CREATE CONSTRAINT {} FOR {pattern} REQUIRE {requirement}",
        quoted(&constraint.name)
    ))
}

/// The rows of `SHOW TRANSACTIONS`: running queries, each with its transaction.
fn transactions(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let database = match &cx.run.host.program {
        Some(host) => Value::String(host.database_name()),
        None => Value::Null,
    };
    let now = jiff::Timestamp::now();
    let row = |[id, text, elapsed_ms, _, bytes, user]: [Value; 6]| {
        let number = id.as_int().unwrap_or_default();
        let elapsed_ms = elapsed_ms.as_int().unwrap_or_default();
        let elapsed = jiff::SignedDuration::from_millis(elapsed_ms);
        let started = now.checked_sub(elapsed).unwrap_or(now);
        vec![
            database.clone(),
            format!("{}{number}", host::TRANSACTION_PREFIX).into(),
            format!("query-{number}").into(),
            "".into(),
            "".into(),
            user,
            text,
            started.to_string().into(),
            "Running".into(),
            Value::from(elapsed_duration(elapsed_ms)),
            Map::new().into(),
            bytes,
        ]
    };
    let running = cx
        .run
        .host
        .running
        .iter()
        .flat_map(|running| running.list());
    running.map(row).collect()
}

fn elapsed_duration(ms: i64) -> Duration {
    Duration {
        seconds: ms / 1_000,
        nanos: i32::try_from(ms % 1_000 * 1_000_000).unwrap_or_default(),
        ..Duration::default()
    }
}

/// `argumentDescription` and `returnDescription` of fields.
fn field_descriptions(fields: &[ProcedureField]) -> Value {
    let describe = |field: &ProcedureField| -> Value {
        let mut map: Map = [
            ("name", Value::String(field.name.clone())),
            ("type", kind_name(&field.kind).into()),
            (
                "description",
                format!("{} :: {}", field.name, kind_name(&field.kind)).into(),
            ),
            ("isDeprecated", Value::Bool(false)),
        ]
        .into_iter()
        .collect();
        if let Some(default) = &field.default {
            map.insert("default", default.clone());
        }
        map.into()
    };
    fields.iter().map(describe).collect()
}

/// The rows of `SHOW PROCEDURES`.
fn procedures(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let row = |procedure: &dyn Procedure| {
        let signature: &ProcedureSignature = procedure.signature();
        let fields = |fields: &[ProcedureField]| {
            let fields = fields.iter();
            let fields =
                fields.map(|field| format!("{} :: {}", field.name, kind_name(&field.kind)));
            fields.collect::<Vec<_>>().join(", ")
        };
        let (parameters, results) = (fields(&signature.parameters), fields(&signature.results));
        let (mode, is_admin) = match signature.mode {
            ProcedureMode::Read => ("READ", false),
            ProcedureMode::Write => ("WRITE", false),
            ProcedureMode::Schema => ("SCHEMA", false),
            ProcedureMode::Admin => ("DBMS", true),
        };
        let description = procedure
            .description()
            .or_else(|| describe::procedure(&signature.name));
        vec![
            Value::String(signature.name.clone()),
            description.map_or(Value::Null, Value::from),
            mode.into(),
            Value::Bool(false),
            format!("{}({parameters}) :: ({results})", signature.name).into(),
            field_descriptions(&signature.parameters),
            field_descriptions(&signature.results),
            Value::Bool(is_admin),
            Value::Null,
            Value::Null,
            Value::Bool(false),
            Value::Null,
            Map::from_iter([("deprecated", Value::Bool(false))]).into(),
        ]
    };
    let procedures = cx.run.registry.procedures().into_iter();
    procedures.map(|procedure| row(&**procedure)).collect()
}

/// A function, as listed.
struct ShownFunction<'a> {
    name: &'a str,
    category: &'static str,
    signature: String,
    kind: &'a StaticType,
    description: Value,
    is_built_in: bool,
    arguments: Value,
}

impl From<ShownFunction<'_>> for Vec<Value> {
    fn from(function: ShownFunction<'_>) -> Self {
        let result = match function.kind {
            StaticType::Temporal => temporal_name(function.name).to_owned(),
            kind => kind_name(kind),
        };
        vec![
            function.name.into(),
            function.category.into(),
            function.description,
            format!("{} :: {result}", function.signature).into(),
            Value::Bool(function.is_built_in),
            function.arguments,
            result.into(),
            Value::Bool(function.category == AGGREGATING),
            Value::Null,
            Value::Null,
            Value::Bool(false),
            Value::Null,
        ]
    }
}

const AGGREGATING: &str = "Aggregating";
const SCALAR: &str = "Scalar";

/// The rows of `SHOW FUNCTIONS`.
fn functions(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let named = |names: &[&str]| -> Value {
        let named = |name: &&str| Map::from_iter([("name", Value::from(*name))]).into();
        names.iter().map(named).collect()
    };
    let built_in = Builtin::ALL.iter().map(|function| {
        ShownFunction {
            name: function.name(),
            category: SCALAR,
            signature: function.signature(),
            kind: &function.kind(),
            description: function.description().into(),
            is_built_in: true,
            arguments: named(function.parameters()),
        }
        .into()
    });
    let available = Aggregation::ALL
        .iter()
        .filter(|function| **function != Aggregation::ProjectGraph || cfg!(feature = "algorithms"));
    let aggregations = available.map(|function| {
        ShownFunction {
            name: function.name(),
            category: AGGREGATING,
            signature: function.signature(),
            kind: &function.kind(),
            description: function.description().into(),
            is_built_in: true,
            arguments: named(function.parameters()),
        }
        .into()
    });
    let registered = cx.run.registry.functions().into_iter().map(|function| {
        let signature = function.signature();
        let parameters = signature.parameters.iter();
        let parameters: Vec<String> = parameters
            .map(|field| format!("{} :: {}", field.name, kind_name(&field.kind)))
            .collect();
        ShownFunction {
            name: &signature.name,
            category: SCALAR,
            signature: format!("{}({})", signature.name, parameters.join(", ")),
            kind: &signature.result,
            description: function.description().map_or(Value::Null, Value::from),
            is_built_in: false,
            arguments: field_descriptions(&signature.parameters),
        }
        .into()
    });
    built_in.chain(aggregations).chain(registered).collect()
}

/// The type of what a temporal function gives, by its name: `date.truncate`.
fn temporal_name(function: &str) -> &'static str {
    match function.split('.').next() {
        Some("date") => "DATE",
        Some("time") => "ZONED TIME",
        Some("localtime") => "LOCAL TIME",
        Some("datetime") => "ZONED DATETIME",
        Some("localdatetime") => "LOCAL DATETIME",
        Some("duration") => "DURATION",
        _ => "TEMPORAL",
    }
}

fn kind_name(kind: &StaticType) -> String {
    let name = match kind {
        StaticType::List(of) => return format!("LIST<{}>", kind_name(of)),
        StaticType::Any => "ANY",
        StaticType::Node => "NODE",
        StaticType::Relationship => "RELATIONSHIP",
        StaticType::Path => "PATH",
        StaticType::Map => "MAP",
        StaticType::Boolean => "BOOLEAN",
        StaticType::Integer => "INTEGER",
        StaticType::Float => "FLOAT",
        StaticType::Number => "NUMBER",
        StaticType::String => "STRING",
        StaticType::Bytes => "BYTES",
        StaticType::Temporal => "TEMPORAL",
        StaticType::Point => "POINT",
    };
    name.to_owned()
}
