//! `apoc.meta.graph`, `apoc.meta.subGraph`, `apoc.schema.*`, `apoc.meta.cypher.*`: the schema, for libraries that
//! describe it to language models. Virtual nodes and relationships of APOC are maps here.

use std::{collections::HashSet, sync::Arc};

use isomer_data::{GraphRead, RecordScope};
use isomer_plan::expr::StaticType;
use isomer_value::{GroupKey, LabelId, Map, NodeId, Value};

use super::arguments::{Arguments, MAP, invalid};
use crate::{
    error::Result,
    procedure::{
        CallContext,
        schema_facts::{ValueName, ends},
        table::{FunctionRow, ProcedureRow},
    },
    value_size::value_bytes,
};

/// Nodes read at once.
const PAGE: usize = 1_024;
/// Nodes of a label that are read to estimate how many distinct values an indexed property has.
const SAMPLE: usize = 10_000;

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow::reads(
        "apoc.meta.graph",
        "config: MAP? = {}",
        "nodes: LIST, relationships: LIST",
        "labels with their counts and the relationship types between them, as maps; reads all relationships",
        |args, call| graph("apoc.meta.graph", args, call),
    ),
    ProcedureRow::reads(
        "apoc.meta.subGraph",
        "config: MAP?",
        "nodes: LIST, relationships: LIST",
        "the same for the {labels, rels}, without {excludes}",
        |args, call| graph("apoc.meta.subGraph", args, call),
    ),
    ProcedureRow::reads(
        "apoc.schema.nodes",
        "config: MAP? = {}",
        "name: STRING, label: STRING, properties: LIST, status: STRING, type: STRING, failure: STRING, \
         populationProgress: FLOAT, size: INTEGER, valuesSelectivity: FLOAT, userDescription: STRING",
        "the indexes on nodes; the share of distinct values is that of the first 10,000 nodes of the label",
        nodes,
    ),
    ProcedureRow::reads(
        "apoc.schema.properties.distinct",
        "label: STRING, key: STRING",
        "value: LIST",
        "the distinct values of a property of the nodes with a label; reads all of them",
        |args, call| {
            let args = Arguments::new("apoc.schema.properties.distinct", args);
            let (label, key) = (
                args.text(0)?.unwrap_or_default(),
                args.text(1)?.unwrap_or_default(),
            );
            let id = call.reader().catalog().label_id(label);
            let mut found = DistinctValues::default();
            if let Some(id) = id {
                found.read(call, id, key, usize::MAX)?;
            }
            call.emit(vec![found.values.into()])
        },
    ),
];

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.any.property",
        "thing: ANY, key: STRING",
        StaticType::Any,
        "the value of a key of a map",
        |args| {
            let args = Arguments::new("apoc.any.property", args);
            let key = args.text(1)?.unwrap_or_default();
            let map = args.map(0)?;
            Ok(map
                .and_then(|map| map.get(key))
                .cloned()
                .unwrap_or_default())
        },
    ),
    FunctionRow::new(
        "apoc.meta.cypher.type",
        "value: ANY",
        StaticType::String,
        "the name of the type of a value, such as INTEGER or LIST OF STRING",
        |args| Ok(type_name(args.first().unwrap_or(&Value::Null)).into()),
    ),
    FunctionRow::new(
        "apoc.meta.cypher.types",
        "props: MAP?",
        MAP,
        "the names of the types of the values of a map",
        |args| {
            let map = Arguments::new("apoc.meta.cypher.types", args).map(0)?;
            let entries = map.into_iter().flat_map(Map::iter);
            let types = entries.map(|(name, value)| (name.clone(), type_name(value).into()));
            Ok(Value::from(Map::from_iter(types)))
        },
    ),
];

fn type_name(value: &Value) -> String {
    let Value::List(items) = value else {
        return ValueName::of(value).apoc.to_owned();
    };
    let kinds: HashSet<&str> = items.iter().map(|item| ValueName::of(item).apoc).collect();
    let mut kinds = kinds.into_iter();
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) => format!("LIST OF {kind}"),
        _ => "LIST OF ANY".to_owned(),
    }
}

// ---- graph ----------------------------------------------------------------------------------------------------------

/// Which labels and types a call asks for.
struct Selection {
    labels: Option<HashSet<Arc<str>>>,
    types: Option<HashSet<Arc<str>>>,
    excluded: HashSet<Arc<str>>,
}

impl Selection {
    fn of(procedure: &str, config: &Map) -> Result<Self> {
        let names = |keys: &[&str]| -> Result<Option<HashSet<Arc<str>>>> {
            let Some(value) = keys.iter().find_map(|key| config.get(key)) else {
                return Ok(None);
            };
            let items = value.as_list().unwrap_or_default().iter();
            let texts = items.map(|item| match item {
                Value::String(text) => Ok(text.clone()),
                _ => Err(invalid(
                    procedure,
                    format!("`{}` must be a list of names", keys[0]),
                )),
            });
            let texts = texts.collect::<Result<HashSet<_>>>()?;
            Ok((!texts.is_empty()).then_some(texts))
        };
        let excluded = [
            names(&["excludes", "excludeLabels"])?,
            names(&["excludeRels"])?,
        ];
        Ok(Self {
            labels: names(&["labels", "includeLabels"])?,
            types: names(&["rels", "includeRels"])?,
            excluded: excluded.into_iter().flatten().flatten().collect(),
        })
    }

    fn has(chosen: &Option<HashSet<Arc<str>>>, excluded: &HashSet<Arc<str>>, name: &str) -> bool {
        chosen.as_ref().is_none_or(|chosen| chosen.contains(name)) && !excluded.contains(name)
    }

    fn has_label(&self, name: &str) -> bool {
        Self::has(&self.labels, &self.excluded, name)
    }

    fn has_type(&self, name: &str) -> bool {
        Self::has(&self.types, &self.excluded, name)
    }
}

fn integer(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn graph(procedure: &str, args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let config = args
        .first()
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let selection = Selection::of(procedure, &config)?;
    let mut nodes: Vec<Value> = Vec::new();
    for (id, name) in call.reader().catalog().labels() {
        let count = call.reader().node_count(Some(id))?;
        if count > 0 && selection.has_label(&name) {
            let node = [("name", Value::String(name)), ("count", integer(count))];
            nodes.push(Map::from_iter(node).into());
        }
    }
    let found = ends(call, usize::MAX)?;
    let chosen = found.into_iter().filter(|((source, name, target), _)| {
        selection.has_type(name) && selection.has_label(source) && selection.has_label(target)
    });
    let relationships = chosen.map(|((source, name, target), count)| -> Value {
        Map::from_iter([
            ("type", Value::String(name)),
            ("count", integer(count)),
            ("start", Value::String(source)),
            ("end", Value::String(target)),
        ])
        .into()
    });
    let relationships = relationships.collect();
    call.emit(vec![Value::from(nodes), relationships])
}

// ---- indexes --------------------------------------------------------------------------------------------------------

fn nodes(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let catalog = call.reader().catalog();
    for index in catalog.indexes() {
        let RecordScope::Label(label_id) = index.scope else {
            continue;
        };
        let Some(label) = catalog.label_name(label_id) else {
            continue;
        };
        let names: Vec<Arc<str>> = index
            .fields
            .iter()
            .filter_map(|field| field.path.0.first().cloned())
            .collect();
        let (size, selectivity) = match names.as_slice() {
            [name] if !index.unique => {
                let mut found = DistinctValues::default();
                found.read(call, label_id, name, SAMPLE)?;
                let share = found.values.len() as f64 / found.count.max(1) as f64;
                (call.reader().node_count(Some(label_id))?, share)
            }
            _ => (call.reader().node_count(Some(label_id))?, 1.0),
        };
        let list = names.join(",");
        let properties: Value = names.into_iter().map(Value::String).collect();
        let kind = if index.unique { "UNIQUENESS" } else { "RANGE" };
        call.emit(vec![
            format!(":{label}({list})").into(),
            Value::String(label.clone()),
            properties,
            "ONLINE".into(),
            kind.into(),
            "NO FAILURE".into(),
            100.0.into(),
            integer(size),
            selectivity.into(),
            format!("index `{}`", index.name).into(),
        ])?;
    }
    Ok(())
}

/// The distinct values of a property, in the order of their first occurrence.
#[derive(Default)]
struct DistinctValues {
    seen: HashSet<GroupKey>,
    values: Vec<Value>,
    /// Nodes that have the property.
    count: u64,
}

impl DistinctValues {
    /// Reads at most `most` nodes of a label.
    fn read(
        &mut self,
        call: &mut CallContext<'_>,
        label: LabelId,
        key: &str,
        mut most: usize,
    ) -> Result<()> {
        let mut after = None;
        let mut page: Vec<NodeId> = Vec::new();
        while most > 0 {
            page.clear();
            let reader = call.reader();
            reader.scan_nodes(Some(label), after, PAGE.min(most), &mut page)?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some(*last);
            most = most.saturating_sub(page.len());
            let mut contents = Vec::with_capacity(page.len());
            reader.node_contents(&page, &mut contents)?;
            call.tick(page.len())?;
            for content in contents.into_iter().flatten() {
                let Some(value) = content.properties.get(key).filter(|value| !value.is_null())
                else {
                    continue;
                };
                self.count += 1;
                if self.seen.insert(GroupKey(value.clone())) {
                    call.hold(2 * value_bytes(value))?;
                    self.values.push(value.clone());
                }
            }
        }
        Ok(())
    }
}
