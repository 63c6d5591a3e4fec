//! What the data itself says about its schema: labels, types, and the names and types of properties, found by reading.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use isomer_data::{Catalog, ConstraintKind, GraphRead, RecordScope, RelRow};
use isomer_value::{LabelId, Map, NodeContent, NodeId, RelationshipContent, TypeId, Value};

use super::CallContext;
use crate::error::Result;

/// Records read at once.
const PAGE: usize = 1_024;

/// A kind of value, under the names that Neo4j's procedures and APOC have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValueName {
    /// As in `db.schema.nodeTypeProperties()`: `Long`; of list elements without `Array`.
    pub neo4j: &'static str,
    /// As in `apoc.meta.cypher.type()`: `INTEGER`.
    pub apoc: &'static str,
    pub is_list: bool,
}

impl ValueName {
    pub fn of(value: &Value) -> Self {
        if let Value::List(items) = value {
            let inner = items.first().map(Self::of);
            return Self {
                neo4j: inner.map_or("Any", |inner| inner.neo4j),
                apoc: "LIST",
                is_list: true,
            };
        }
        let (neo4j, apoc) = match value {
            Value::Null => ("Any", "NULL"),
            Value::Bool(_) => ("Boolean", "BOOLEAN"),
            Value::Int(_) => ("Long", "INTEGER"),
            Value::Float(_) => ("Double", "FLOAT"),
            Value::String(_) => ("String", "STRING"),
            Value::Bytes(_) => ("ByteArray", "LIST"),
            Value::Date(_) => ("Date", "DATE"),
            Value::LocalTime(_) => ("LocalTime", "LOCAL_TIME"),
            Value::ZonedTime(_) => ("Time", "TIME"),
            Value::LocalDateTime(_) => ("LocalDateTime", "LOCAL_DATE_TIME"),
            Value::ZonedDateTime(_) => ("DateTime", "DATE_TIME"),
            Value::Duration(_) => ("Duration", "DURATION"),
            Value::Point(_) => ("Point", "POINT"),
            Value::Node(_) => ("Node", "NODE"),
            Value::Relationship(_) => ("Relationship", "RELATIONSHIP"),
            Value::Path(_) => ("Path", "PATH"),
            _ => ("Map", "MAP"),
        };
        Self {
            neo4j,
            apoc,
            is_list: false,
        }
    }

    /// The name in Neo4j's procedures.
    pub fn neo4j_name(self) -> String {
        match self.is_list {
            true => format!("{}Array", self.neo4j),
            false => self.neo4j.to_owned(),
        }
    }
}

/// A property of some records.
#[derive(Clone, Debug, Default)]
pub(super) struct PropertyFacts {
    /// How many have it.
    pub present: u64,
    pub kinds: BTreeSet<ValueName>,
}

/// Records of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordFacts {
    pub count: u64,
    pub properties: BTreeMap<Arc<str>, PropertyFacts>,
}

impl RecordFacts {
    pub fn add(&mut self, properties: &Map) {
        self.count += 1;
        for (name, value) in properties.iter() {
            let facts = match self.properties.get_mut(name) {
                Some(facts) => facts,
                None => self.properties.entry(name.clone()).or_default(),
            };
            facts.present += 1;
            facts.kinds.insert(ValueName::of(value));
        }
    }
}

/// Visits the nodes of a label, or all, at most `most`.
pub(super) fn each_node(
    call: &mut CallContext<'_>,
    label: Option<LabelId>,
    most: usize,
    visit: &mut dyn FnMut(NodeId, &NodeContent),
) -> Result<()> {
    let (mut after, mut left) = (None, most);
    let (mut ids, mut contents) = (Vec::new(), Vec::new());
    while left > 0 {
        ids.clear();
        contents.clear();
        let reader = call.reader();
        reader.scan_nodes(label, after, PAGE.min(left), &mut ids)?;
        let Some(last) = ids.last() else {
            break;
        };
        after = Some(*last);
        left -= ids.len();
        reader.node_contents(&ids, &mut contents)?;
        for (id, content) in ids.iter().zip(&contents) {
            if let Some(content) = content {
                visit(*id, content);
            }
        }
        call.tick(ids.len())?;
    }
    Ok(())
}

/// Called with a relationship, its content, and the labels of its ends.
type VisitRelationship<'v> = dyn FnMut(&RelRow, &RelationshipContent, [&[LabelId]; 2]) + 'v;

/// Visits the relationships of a type, or all, at most `most`.
pub(super) fn each_relationship(
    call: &mut CallContext<'_>,
    rel_type: Option<TypeId>,
    most: usize,
    visit: &mut VisitRelationship<'_>,
) -> Result<()> {
    let (mut after, mut left) = (None, most);
    let (mut rows, mut contents) = (Vec::new(), Vec::new());
    let mut labels = [
        isomer_data::NodeLabels::new(),
        isomer_data::NodeLabels::new(),
    ];
    while left > 0 {
        rows.clear();
        contents.clear();
        let reader = call.reader();
        reader.scan_relationships(rel_type, after, PAGE.min(left), &mut rows)?;
        let Some(last) = rows.last() else {
            break;
        };
        after = Some(last.id);
        left -= rows.len();
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        reader.relationship_contents(&ids, &mut contents)?;
        let sources: Vec<NodeId> = rows.iter().map(|row| row.source).collect();
        let targets: Vec<NodeId> = rows.iter().map(|row| row.target).collect();
        for (labels, ends) in labels.iter_mut().zip([sources, targets]) {
            labels.clear();
            reader.node_labels(&ends, labels)?;
        }
        for (at, (row, content)) in rows.iter().zip(&contents).enumerate() {
            if let Some(content) = content {
                visit(row, content, [labels[0].of(at), labels[1].of(at)]);
            }
        }
        call.tick(rows.len())?;
    }
    Ok(())
}

/// The names of some labels, sorted.
pub(super) fn label_names(catalog: &Catalog, labels: &[LabelId]) -> Vec<Arc<str>> {
    let mut names: Vec<_> = labels
        .iter()
        .filter_map(|label| catalog.label_name(*label))
        .collect();
    names.sort_unstable();
    names
}

/// Whether a constraint requires a value of a property of each record of one of the scopes.
pub(super) fn is_required(catalog: &Catalog, scopes: &[RecordScope], property: &str) -> bool {
    catalog.constraints().iter().any(|constraint| {
        let covers = scopes.contains(&constraint.scope);
        let requires = match &constraint.kind {
            ConstraintKind::Required { path } => path.0.len() == 1 && *path.0[0] == *property,
            ConstraintKind::Key { index } => catalog.index(*index).is_some_and(|index| {
                let mut fields = index.fields.iter();
                fields.any(|field| field.path.0.len() == 1 && *field.path.0[0] == *property)
            }),
            _ => false,
        };
        covers && requires
    })
}

fn types(facts: &PropertyFacts) -> Value {
    facts
        .kinds
        .iter()
        .map(|kind| kind.neo4j_name().into())
        .collect()
}

/// A name in the notation of `nodeType` and `relType`.
fn quoted(names: &[Arc<str>]) -> String {
    names
        .iter()
        .map(|name| format!(":`{}`", name.replace('`', "``")))
        .collect()
}

/// `db.schema.nodeTypeProperties()`
pub(super) fn node_type_properties(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let mut found: BTreeMap<Vec<Arc<str>>, RecordFacts> = BTreeMap::new();
    each_node(call, None, usize::MAX, &mut |_, content| {
        let labels = content.labels.to_vec();
        found.entry(labels).or_default().add(&content.properties);
    })?;
    let catalog = call.reader().catalog();
    for (labels, facts) in found {
        let scopes = labels.iter().filter_map(|label| catalog.label_id(label));
        let scopes: Vec<RecordScope> = scopes.map(RecordScope::Label).collect();
        let node_type = Value::from(quoted(&labels));
        let names: Value = labels.iter().cloned().map(Value::String).collect();
        if facts.properties.is_empty() {
            let nothing = [Value::Null, Value::Null, false.into()];
            let row = [node_type, names].into_iter().chain(nothing);
            call.emit(row.collect())?;
            continue;
        }
        for (property, about) in facts.properties {
            let mandatory = is_required(&catalog, &scopes, &property);
            call.emit(vec![
                node_type.clone(),
                names.clone(),
                Value::String(property),
                types(&about),
                mandatory.into(),
            ])?;
        }
    }
    Ok(())
}

/// `db.schema.relTypeProperties()`
pub(super) fn rel_type_properties(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let mut found: BTreeMap<Arc<str>, RecordFacts> = BTreeMap::new();
    each_relationship(call, None, usize::MAX, &mut |_, content, _| {
        let facts = found.entry(content.type_name.clone()).or_default();
        facts.add(&content.properties);
    })?;
    let catalog = call.reader().catalog();
    for (name, facts) in found {
        let scope = catalog.type_id(&name).map(RecordScope::Type);
        let rel_type = Value::from(quoted(&[name]));
        if facts.properties.is_empty() {
            call.emit(vec![rel_type, Value::Null, Value::Null, false.into()])?;
            continue;
        }
        for (property, about) in facts.properties {
            let mandatory = is_required(&catalog, scope.as_slice(), &property);
            call.emit(vec![
                rel_type.clone(),
                Value::String(property),
                types(&about),
                mandatory.into(),
            ])?;
        }
    }
    Ok(())
}

/// Names of two labels and of the type of relationships between them.
pub(super) type Ends = (Arc<str>, Arc<str>, Arc<str>);

/// How many relationships of each type there are between each two labels: source, type, target.
pub(super) fn ends(call: &mut CallContext<'_>, most: usize) -> Result<BTreeMap<Ends, u64>> {
    let catalog = call.reader().catalog();
    let mut found: BTreeMap<Ends, u64> = BTreeMap::new();
    each_relationship(call, None, most, &mut |_, content, [sources, targets]| {
        for source in label_names(&catalog, sources) {
            for target in label_names(&catalog, targets) {
                let ends = (source.clone(), content.type_name.clone(), target);
                *found.entry(ends).or_default() += 1;
            }
        }
    })?;
    Ok(found)
}

/// `db.schema.visualization()`
pub(super) fn visualization(_: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let catalog = call.reader().catalog();
    let mut nodes: Vec<Value> = Vec::new();
    for (id, name) in catalog.labels() {
        if call.reader().node_count(Some(id))? == 0 {
            continue;
        }
        let indexes = catalog
            .indexes()
            .iter()
            .filter(|index| index.scope == id.into());
        let indexes: Value = indexes
            .map(|index| Value::String(index.name.clone()))
            .collect();
        let constraints = catalog.constraints().iter();
        let constraints: Value = constraints
            .filter(|constraint| constraint.scope == id.into())
            .map(|constraint| Value::String(constraint.name.clone()))
            .collect();
        let node = Map::from_iter([
            ("name", Value::String(name)),
            ("indexes", indexes),
            ("constraints", constraints),
        ]);
        nodes.push(node.into());
    }
    let found = ends(call, usize::MAX)?;
    let relationships = found.into_keys().map(|(source, name, target)| -> Value {
        Map::from_iter([
            ("name", Value::String(name)),
            ("start", Value::String(source)),
            ("end", Value::String(target)),
        ])
        .into()
    });
    let relationships = relationships.collect();
    call.emit(vec![Value::from(nodes), relationships])
}
