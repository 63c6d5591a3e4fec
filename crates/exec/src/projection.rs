//! Graphs in memory, which `gds.graph.project` makes: the graphs of a database by name, and what they hold.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use isomer_algorithms::SparseRows;
use isomer_data::{MemoryKind, Reservation, Transaction, Version};
use isomer_plan::Plan;
use isomer_value::{Map, NodeId, Value};
use parking_lot::Mutex;

use crate::{error::Result, value_size::value_bytes};

/// Selections whose rows are kept, so that repeated calls do not build them again.
const KEPT_SELECTIONS: usize = 4;

/// What a database does for the procedures that run statements or hold graphs.
pub trait StatementPlanner: Send + Sync {
    /// Plans a text for the transaction.
    fn plan(&self, text: &str, transaction: &Transaction) -> Result<Arc<Plan>>;
    /// The graphs in memory.
    fn graphs(&self) -> &GraphCatalog;
}

/// The named graphs in memory of one database, each visible to the user that made it. They are gone when the database
/// is closed.
#[derive(Default)]
pub struct GraphCatalog(Mutex<BTreeMap<GraphKey, Arc<ProjectedGraph>>>);

/// User and name.
type GraphKey = (Arc<str>, Arc<str>);

impl GraphCatalog {
    /// Without graphs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all graphs. A running algorithm keeps its graph until it ends.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn get(&self, user: &Arc<str>, name: &Arc<str>) -> Option<Arc<ProjectedGraph>> {
        let key = (user.clone(), name.clone());
        self.0.lock().get(&key).cloned()
    }

    /// Adds a graph; false if the user has one of this name.
    pub(crate) fn add(&self, user: &Arc<str>, graph: Arc<ProjectedGraph>) -> bool {
        let key = (user.clone(), graph.name.clone());
        let mut graphs = self.0.lock();
        if graphs.contains_key(&key) {
            return false;
        }
        graphs.insert(key, graph);
        true
    }

    pub(crate) fn remove(&self, user: &Arc<str>, name: &Arc<str>) -> Option<Arc<ProjectedGraph>> {
        let key = (user.clone(), name.clone());
        self.0.lock().remove(&key)
    }

    /// The graphs of a user, by name.
    pub(crate) fn of_user(&self, user: &Arc<str>) -> Vec<Arc<ProjectedGraph>> {
        let graphs = self.0.lock();
        let own = graphs.iter().filter(|((owner, _), _)| owner == user);
        own.map(|(_, graph)| graph.clone()).collect()
    }
}

impl std::fmt::Debug for GraphCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.0.lock().len();
        f.debug_struct("GraphCatalog")
            .field("graphs", &count)
            .finish()
    }
}

/// What a projection has gathered.
pub(crate) struct GatheredGraph {
    /// Ascending, without repetitions.
    pub(crate) nodes: Vec<NodeId>,
    /// Per label its nodes, as dense numbers, ascending.
    pub(crate) labels: BTreeMap<Arc<str>, Vec<u32>>,
    pub(crate) types: BTreeMap<Arc<str>, TypeEdges>,
    pub(crate) properties: BTreeMap<Arc<str>, NodeColumn>,
    pub(crate) configuration: Map,
}

/// A property of the nodes of a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeColumn {
    /// A value per node: integers, floats, or lists of them; null for a node that does not have the property.
    pub(crate) values: Vec<Value>,
    /// Whether an algorithm has computed it.
    pub(crate) is_computed: bool,
}

impl NodeColumn {
    fn bytes(&self) -> usize {
        self.values.iter().map(value_bytes).sum()
    }

    /// Its type, as `gds.graph.list` shows it.
    fn about(&self) -> String {
        let kind = match self.values.iter().find(|value| !value.is_null()) {
            Some(Value::Int(_)) => "Integer (DefaultValue(-9223372036854775808)",
            Some(Value::List(items)) => match items.first() {
                Some(Value::Int(_)) => "List of Integer (DefaultValue(null)",
                _ => "List of Float (DefaultValue(null)",
            },
            _ => "Float (DefaultValue(NaN)",
        };
        let state = match self.is_computed {
            true => "TRANSIENT",
            false => "PERSISTENT",
        };
        format!("{kind}, {state})")
    }
}

/// A part of the database, copied when it was projected.
pub(crate) struct ProjectedGraph {
    pub(crate) name: Arc<str>,
    /// Ascending; the index is the dense number.
    pub(crate) nodes: Vec<NodeId>,
    /// Per label its nodes, ascending.
    pub(crate) labels: BTreeMap<Arc<str>, Vec<u32>>,
    pub(crate) types: BTreeMap<Arc<str>, TypeEdges>,
    pub(crate) version: Version,
    pub(crate) made_at: SystemTime,
    /// What it was made of, as `gds.graph.list` shows it.
    pub(crate) configuration: Map,
    kept: Mutex<MutableState>,
}

/// What changes of a graph: its properties of nodes, and rows of recent selections; and the memory of the whole graph.
struct MutableState {
    properties: BTreeMap<Arc<str>, Arc<NodeColumn>>,
    modified_at: SystemTime,
    selections: Vec<(Selection, Arc<Selected>)>,
    reservation: Reservation,
    bytes_of_graph: usize,
}

/// Relationships of one type. An undirected one is stored once in each direction.
#[derive(Default)]
pub(crate) struct TypeEdges {
    pub(crate) is_undirected: bool,
    /// Dense numbers.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// Per property a value for each pair; NaN where there is none.
    pub(crate) properties: BTreeMap<Arc<str>, Vec<f64>>,
}

impl TypeEdges {
    fn bytes(&self) -> usize {
        self.pairs.len() * (size_of::<(u32, u32)>() + self.properties.len() * size_of::<f64>())
    }
}

/// The part of a graph that an algorithm runs on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// All nodes if empty.
    pub(crate) labels: Vec<Arc<str>>,
    /// All types if empty.
    pub(crate) types: Vec<Arc<str>>,
    /// Property with the weights; every relationship weighs 1 without it.
    pub(crate) weight: Option<Arc<str>>,
}

/// A selected part of a graph.
pub(crate) struct Selected {
    /// Ascending; the index is the dense number.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) rows: SparseRows,
    /// Whether every relationship is stored in both directions.
    pub(crate) is_undirected: bool,
}

impl Selected {
    /// The dense number of a node.
    pub(crate) fn number(&self, node: NodeId) -> Option<u32> {
        let at = self.nodes.binary_search(&node).ok()?;
        Some(at as u32)
    }

    fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<NodeId>() + self.rows.bytes()
    }
}

impl ProjectedGraph {
    /// A graph of what was gathered, with its memory reserved in the budget of the database.
    pub(crate) fn new(
        name: Arc<str>,
        gathered: GatheredGraph,
        transaction: &Transaction,
    ) -> Result<Self> {
        let labels = gathered.labels.values();
        let labels: usize = labels.map(|nodes| nodes.len() * size_of::<u32>()).sum();
        let edges: usize = gathered.types.values().map(TypeEdges::bytes).sum();
        let columns: usize = gathered.properties.values().map(NodeColumn::bytes).sum();
        let bytes = gathered.nodes.len() * size_of::<NodeId>() + labels + edges + columns;
        let memory = transaction.store().memory();
        let mut reservation = memory.reservation(MemoryKind::Queries);
        reservation
            .grow(bytes)
            .map_err(isomer_data::DataError::from)?;
        let made_at = SystemTime::now();
        let properties = gathered.properties.into_iter();
        let properties = properties.map(|(name, column)| (name, Arc::new(column)));
        Ok(Self {
            name,
            nodes: gathered.nodes,
            labels: gathered.labels,
            types: gathered.types,
            version: transaction.version(),
            made_at,
            configuration: gathered.configuration,
            kept: Mutex::new(MutableState {
                properties: properties.collect(),
                modified_at: made_at,
                selections: Vec::new(),
                reservation,
                bytes_of_graph: bytes,
            }),
        })
    }

    /// A part that was selected recently.
    pub(crate) fn recent(&self, selection: &Selection) -> Option<Arc<Selected>> {
        self.kept.lock().find(selection)
    }

    /// Keeps a selected part, if the budget has room for it.
    pub(crate) fn keep(&self, selection: Selection, selected: Arc<Selected>) {
        self.kept.lock().keep(selection, selected);
    }

    /// A property of its nodes.
    pub(crate) fn property(&self, name: &str) -> Option<Arc<NodeColumn>> {
        self.kept.lock().properties.get(name).cloned()
    }

    /// The names of the properties of its nodes.
    pub(crate) fn property_names(&self) -> Vec<Arc<str>> {
        self.kept.lock().properties.keys().cloned().collect()
    }

    /// Adds a property of its nodes; false if it has one of this name. An error if the budget has no room for it.
    pub(crate) fn add_property(&self, name: Arc<str>, column: NodeColumn) -> Result<bool> {
        let mut kept = self.kept.lock();
        if kept.properties.contains_key(&name) {
            return Ok(false);
        }
        kept.reserve(column.bytes())?;
        kept.properties.insert(name, Arc::new(column));
        kept.modified_at = SystemTime::now();
        Ok(true)
    }

    /// Removes a property of its nodes.
    pub(crate) fn remove_property(&self, name: &str) -> Option<Arc<NodeColumn>> {
        let mut kept = self.kept.lock();
        let removed = kept.properties.remove(name)?;
        let bytes = removed.bytes();
        kept.bytes_of_graph -= bytes;
        let smaller = kept.reservation.bytes() - bytes;
        // A smaller reservation is never refused.
        let _ = kept.reservation.resize(smaller);
        kept.modified_at = SystemTime::now();
        Some(removed)
    }

    /// When a property was added or removed last.
    pub(crate) fn modified_at(&self) -> SystemTime {
        self.kept.lock().modified_at
    }

    /// Number of relationships; undirected ones count twice.
    pub(crate) fn relationship_count(&self) -> usize {
        self.types.values().map(|edges| edges.pairs.len()).sum()
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.lock().reservation.bytes()
    }

    /// Labels and types with their properties, as `gds.graph.list` shows them.
    pub(crate) fn schema(&self) -> Map {
        let properties = self.kept.lock().properties.clone();
        let labels = self.labels.iter().map(|(label, nodes)| {
            let of_label = properties.iter().filter(|(_, column)| {
                let mut values = nodes.iter().map(|node| &column.values[*node as usize]);
                values.any(|value| !value.is_null())
            });
            let about = of_label.map(|(name, column)| (name.clone(), Value::from(column.about())));
            (label.clone(), Value::from(about.collect::<Map>()))
        });
        let types = self.types.iter().map(|(name, edges)| {
            let properties = edges.properties.keys().map(|property| {
                let about = "Float (DefaultValue(NaN), PERSISTENT, Aggregation.NONE)";
                (property.clone(), Value::from(about))
            });
            (name.clone(), Value::from(properties.collect::<Map>()))
        });
        let mut schema = Map::new();
        schema.insert("graphProperties", Map::new().into());
        schema.insert("nodes", labels.collect::<Map>().into());
        schema.insert("relationships", types.collect::<Map>().into());
        schema
    }
}

impl MutableState {
    fn find(&mut self, selection: &Selection) -> Option<Arc<Selected>> {
        let at = self
            .selections
            .iter()
            .position(|(known, _)| known == selection)?;
        // The latest is the last.
        let found = self.selections.remove(at);
        let selected = found.1.clone();
        self.selections.push(found);
        Some(selected)
    }

    /// Reserves memory for a part of the graph; selections make room for it.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let more = self.reservation.bytes() + bytes;
        if self.reservation.resize(more).is_err() {
            self.selections.clear();
            let resized = self.reservation.resize(self.bytes_of_graph + bytes);
            resized.map_err(isomer_data::DataError::from)?;
        }
        self.bytes_of_graph += bytes;
        Ok(())
    }

    /// Keeps a selection if the budget has room for it.
    fn keep(&mut self, selection: Selection, selected: Arc<Selected>) {
        if self.selections.len() == KEPT_SELECTIONS {
            self.selections.remove(0);
        }
        self.selections.push((selection, selected));
        let rows: usize = self
            .selections
            .iter()
            .map(|(_, selected)| selected.bytes())
            .sum();
        if self.reservation.resize(self.bytes_of_graph + rows).is_err() {
            self.selections.clear();
            // A smaller reservation is never refused.
            let _ = self.reservation.resize(self.bytes_of_graph);
        }
    }
}
