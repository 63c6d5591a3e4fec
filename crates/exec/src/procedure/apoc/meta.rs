//! `apoc.meta.*`: the schema that the data has, from a sample of the nodes of each label.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use isomer_data::{Catalog, Direction, GraphRead, Neighbours, RecordScope};
use isomer_value::{LabelId, Map, NodeId, TypeId, Value};

use crate::{
    error::Result,
    procedure::{
        CallContext,
        schema_facts::{
            PropertyFacts, RecordFacts, each_node, each_relationship, is_required, label_names,
        },
        settings::refused,
        table::ProcedureRow,
    },
};

/// Nodes of each label and relationships of each type that are read by default.
const SAMPLE: usize = 1_000;

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow::reads(
        "apoc.meta.data",
        "config: MAP? = {}",
        "label: STRING, property: STRING, count: INTEGER, unique: BOOLEAN, index: BOOLEAN, existence: BOOLEAN, \
         type: STRING, array: BOOLEAN, sample: LIST, left: INTEGER, right: INTEGER, other: LIST, otherLabels: LIST, \
         elementType: STRING",
        "properties and relationships of each label and type, from {sample: 1000} records of each; -1 reads all",
        data,
    ),
    ProcedureRow::reads(
        "apoc.meta.schema",
        "config: MAP? = {}",
        "value: MAP",
        "the labels and types with their properties as one map, from {sample: 1000} records of each; -1 reads all",
        schema,
    ),
    ProcedureRow::reads(
        "apoc.meta.stats",
        "",
        "labelCount: INTEGER, relTypeCount: INTEGER, propertyKeyCount: INTEGER, nodeCount: INTEGER, relCount: INTEGER, \
         labels: MAP, relTypes: MAP, relTypesCount: MAP, stats: MAP",
        "numbers of nodes of each label and of relationships of each type; reads all relationships",
        stats,
    ),
];

/// How many records of each label and type a call reads.
fn sample(procedure: &str, args: &[Value]) -> Result<usize> {
    let config = args.first().and_then(Value::as_map);
    match config.and_then(|config| config.get("sample")) {
        None | Some(Value::Null) => Ok(SAMPLE),
        Some(Value::Int(-1)) => Ok(usize::MAX),
        Some(Value::Int(most @ 1..)) => Ok(usize::try_from(*most).unwrap_or(usize::MAX)),
        Some(_) => Err(refused(
            procedure,
            "`sample` takes a number of records from 1, or -1 for all",
        )),
    }
}

/// Relationships of one type and direction at the nodes of a label.
#[derive(Default)]
struct LinkFacts {
    /// Relationships in the sample.
    count: u64,
    /// Sampled nodes that have one.
    nodes: u64,
    /// Labels at the other ends.
    others: BTreeSet<Arc<str>>,
}

/// What a sample says about a label.
#[derive(Default)]
struct LabelFacts {
    records: RecordFacts,
    /// Other labels of the nodes.
    labels: BTreeSet<Arc<str>>,
    outgoing: BTreeMap<Arc<str>, LinkFacts>,
    incoming: BTreeMap<Arc<str>, LinkFacts>,
}

fn label_facts(call: &mut CallContext<'_>, label: LabelId, most: usize) -> Result<LabelFacts> {
    let mut facts = LabelFacts::default();
    let mut ids: Vec<NodeId> = Vec::new();
    each_node(call, Some(label), most, &mut |id, content| {
        facts.records.add(&content.properties);
        facts.labels.extend(content.labels.iter().cloned());
        ids.push(id);
    })?;
    let catalog = call.reader().catalog();
    for page in ids.chunks(1_024) {
        links(
            call,
            &catalog,
            page,
            Direction::Outgoing,
            &mut facts.outgoing,
        )?;
        links(
            call,
            &catalog,
            page,
            Direction::Incoming,
            &mut facts.incoming,
        )?;
    }
    Ok(facts)
}

/// Adds the relationships of some nodes in one direction.
fn links(
    call: &mut CallContext<'_>,
    catalog: &Catalog,
    page: &[NodeId],
    direction: Direction,
    found: &mut BTreeMap<Arc<str>, LinkFacts>,
) -> Result<()> {
    let mut neighbours = Neighbours::new();
    call.reader()
        .expand(page, direction, &[], &mut neighbours)?;
    let outgoing = direction == Direction::Outgoing;
    let other_ends: Vec<NodeId> = neighbours
        .rows()
        .iter()
        .map(|row| if outgoing { row.target } else { row.source })
        .collect();
    let mut labels = isomer_data::NodeLabels::new();
    call.reader().node_labels(&other_ends, &mut labels)?;
    call.tick(other_ends.len())?;
    let mut at = 0;
    for node in 0..neighbours.len() {
        let mut types_of_node = BTreeSet::new();
        for row in neighbours.of(node) {
            let other_labels = labels.of(at);
            at += 1;
            let Some(name) = catalog.type_name(row.type_id) else {
                continue;
            };
            let facts = found.entry(name.clone()).or_default();
            facts.count += 1;
            facts.others.extend(label_names(catalog, other_labels));
            if types_of_node.insert(name) {
                facts.nodes += 1;
            }
        }
    }
    Ok(())
}

fn type_facts(call: &mut CallContext<'_>, rel_type: TypeId, most: usize) -> Result<RecordFacts> {
    let mut facts = RecordFacts::default();
    each_relationship(call, Some(rel_type), most, &mut |_, content, _| {
        facts.add(&content.properties);
    })?;
    Ok(facts)
}

/// Whether a property of a label or type has an index, and whether its values are unique.
fn indexed(catalog: &Catalog, scope: RecordScope, property: &str) -> (bool, bool) {
    let mut found = (false, false);
    for index in catalog
        .indexes()
        .iter()
        .filter(|index| index.scope == scope)
    {
        let is_first = index
            .fields
            .first()
            .is_some_and(|field| field.path.0.len() == 1 && *field.path.0[0] == *property);
        found.0 |= is_first;
        found.1 |= is_first && index.unique && index.fields.len() == 1;
    }
    found
}

/// The type of a property, and whether it is a list: the first of several.
fn property_type(facts: &PropertyFacts) -> (&'static str, bool) {
    let kind = facts.kinds.first();
    kind.map_or(("NULL", false), |kind| (kind.apoc, kind.is_list))
}

fn integer(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn names(all: &BTreeSet<Arc<str>>) -> Value {
    all.iter().cloned().map(Value::String).collect()
}

/// The labels in use.
fn labels_in_use(call: &mut CallContext<'_>) -> Result<Vec<(LabelId, Arc<str>, u64)>> {
    let mut found = Vec::new();
    for (id, name) in call.reader().catalog().labels() {
        let count = call.reader().node_count(Some(id))?;
        if count > 0 {
            found.push((id, name, count));
        }
    }
    Ok(found)
}

/// The relationship types in use.
fn types_in_use(call: &mut CallContext<'_>) -> Result<Vec<(TypeId, Arc<str>, u64)>> {
    let mut found = Vec::new();
    for (id, name) in call.reader().catalog().types() {
        let count = call.reader().relationship_count(Some(id))?;
        if count > 0 {
            found.push((id, name, count));
        }
    }
    Ok(found)
}

/// A row of `apoc.meta.data`: a property of a label or type, or the relationships of one type from a label. Its columns
/// are those of [`PROCEDURES`], in order.
#[derive(Default)]
struct DataRow<'a> {
    /// The label or relationship type.
    owner: Arc<str>,
    /// The property, or the type of the relationships.
    property: Arc<str>,
    /// What the sample says about the relationships; `None` for a property.
    link: Option<&'a LinkFacts>,
    is_unique: bool,
    is_indexed: bool,
    is_required: bool,
    kind: &'static str,
    is_list: bool,
    /// Other labels of the nodes.
    other_labels: BTreeSet<Arc<str>>,
    /// What `owner` is the name of: `node` or `relationship`.
    element: &'static str,
}

impl DataRow<'_> {
    fn values(self) -> Vec<Value> {
        let none = LinkFacts::default();
        let link = self.link.unwrap_or(&none);
        vec![
            Value::String(self.owner),
            Value::String(self.property),
            integer(link.count),
            self.is_unique.into(),
            self.is_indexed.into(),
            self.is_required.into(),
            self.kind.into(),
            self.is_list.into(),
            Value::Null,
            integer(self.link.is_some().into()),
            integer(link.count.checked_div(link.nodes).unwrap_or(0)),
            names(&link.others),
            names(&self.other_labels),
            self.element.into(),
        ]
    }
}

fn data(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let most = sample("apoc.meta.data", args)?;
    let catalog = call.reader().catalog();
    for (id, label, _) in labels_in_use(call)? {
        let facts = label_facts(call, id, most)?;
        let others = facts.labels.iter().filter(|other| **other != label);
        let row = |property: &Arc<str>| DataRow {
            owner: label.clone(),
            property: property.clone(),
            other_labels: others.clone().cloned().collect(),
            element: "node",
            ..DataRow::default()
        };
        for (property, about) in &facts.records.properties {
            let (kind, is_list) = property_type(about);
            let (is_indexed, is_unique) = indexed(&catalog, id.into(), property);
            let is_required = is_required(&catalog, &[id.into()], property);
            let row = DataRow {
                is_unique,
                is_indexed,
                is_required,
                kind,
                is_list,
                ..row(property)
            };
            call.emit(row.values())?;
        }
        for (name, link) in &facts.outgoing {
            let row = DataRow {
                link: Some(link),
                kind: "RELATIONSHIP",
                is_list: link.count > link.nodes,
                ..row(name)
            };
            call.emit(row.values())?;
        }
    }
    for (id, name, _) in types_in_use(call)? {
        for (property, about) in &type_facts(call, id, most)?.properties {
            let (kind, is_list) = property_type(about);
            let (is_indexed, is_unique) = indexed(&catalog, id.into(), property);
            let row = DataRow {
                owner: name.clone(),
                property: property.clone(),
                is_unique,
                is_indexed,
                is_required: is_required(&catalog, &[id.into()], property),
                kind,
                is_list,
                element: "relationship",
                ..DataRow::default()
            };
            call.emit(row.values())?;
        }
    }
    Ok(())
}

/// The properties of a label or type, as `apoc.meta.schema` shows them.
fn properties(catalog: &Catalog, scope: RecordScope, facts: &RecordFacts) -> Map {
    let entry = |(property, about): (&Arc<str>, &PropertyFacts)| {
        let (kind, is_list) = property_type(about);
        let mut map = Map::from_iter([
            ("type", Value::from(kind)),
            ("array", is_list.into()),
            ("existence", is_required(catalog, &[scope], property).into()),
        ]);
        // As in APOC, only nodes have these two.
        if matches!(scope, RecordScope::Label(_)) {
            let (index, unique) = indexed(catalog, scope, property);
            map.insert("indexed", index.into());
            map.insert("unique", unique.into());
        }
        (property.clone(), Value::from(map))
    };
    Map::from_iter(facts.properties.iter().map(entry))
}

fn schema(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let most = sample("apoc.meta.schema", args)?;
    let catalog = call.reader().catalog();
    let mut made = Map::new();
    let mut of_types: BTreeMap<Arc<str>, Map> = BTreeMap::new();
    for (id, name, count) in types_in_use(call)? {
        let facts = type_facts(call, id, most)?;
        let about = properties(&catalog, id.into(), &facts);
        of_types.insert(name.clone(), about.clone());
        let shown = Map::from_iter([
            ("type", Value::from("relationship")),
            ("count", integer(count)),
            ("properties", about.into()),
        ]);
        made.insert(name, shown.into());
    }
    for (id, label, count) in labels_in_use(call)? {
        let facts = label_facts(call, id, most)?;
        let others: BTreeSet<_> = facts
            .labels
            .iter()
            .filter(|other| **other != label)
            .cloned()
            .collect();
        let mut relationships = Map::new();
        for (direction, links) in [("in", &facts.incoming), ("out", &facts.outgoing)] {
            for (name, link) in links {
                let about = of_types.get(name).cloned().unwrap_or_default();
                let shown = Map::from_iter([
                    ("direction", Value::from(direction)),
                    ("count", integer(link.count)),
                    ("labels", names(&link.others)),
                    ("properties", about.into()),
                ]);
                relationships.insert(name.clone(), shown.into());
            }
        }
        let shown = Map::from_iter([
            ("type", Value::from("node")),
            ("count", integer(count)),
            ("labels", names(&others)),
            (
                "properties",
                properties(&catalog, id.into(), &facts.records).into(),
            ),
            ("relationships", relationships.into()),
        ]);
        made.insert(label, shown.into());
    }
    call.emit(vec![made.into()])
}

fn stats(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let labels = labels_in_use(call)?;
    let types = types_in_use(call)?;
    let properties = call.reader().catalog().props().len() as u64;
    let nodes = call.reader().node_count(None)?;
    let relationships = call.reader().relationship_count(None)?;
    let of_labels = labels.iter();
    let of_labels =
        Map::from_iter(of_labels.map(|(_, name, count)| (name.clone(), integer(*count))));
    let of_types = types.iter();
    let of_types = Map::from_iter(of_types.map(|(_, name, count)| (name.clone(), integer(*count))));
    let mut patterns: BTreeMap<String, u64> = BTreeMap::new();
    for (_, name, count) in &types {
        patterns.insert(format!("()-[:{name}]->()"), *count);
    }
    let catalog = call.reader().catalog();
    each_relationship(call, None, usize::MAX, &mut |_, content, [from, to]| {
        let name = &content.type_name;
        for label in label_names(&catalog, from) {
            *patterns
                .entry(format!("(:{label})-[:{name}]->()"))
                .or_default() += 1;
        }
        for label in label_names(&catalog, to) {
            *patterns
                .entry(format!("()-[:{name}]->(:{label})"))
                .or_default() += 1;
        }
    })?;
    let patterns = Map::from_iter(
        patterns
            .into_iter()
            .map(|(pattern, count)| (pattern, integer(count))),
    );
    let counts = [
        ("labelCount", integer(labels.len() as u64)),
        ("relTypeCount", integer(types.len() as u64)),
        ("propertyKeyCount", integer(properties)),
        ("nodeCount", integer(nodes)),
        ("relCount", integer(relationships)),
        ("labels", of_labels.into()),
        ("relTypes", patterns.into()),
    ];
    let all = Map::from_iter(counts.clone());
    let mut row: Vec<Value> = counts.into_iter().map(|(_, value)| value).collect();
    row.push(of_types.into());
    row.push(all.into());
    call.emit(row)
}
