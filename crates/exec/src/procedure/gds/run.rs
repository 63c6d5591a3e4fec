//! The algorithms on graphs in memory: `gds.<algorithm>.stream|stats|mutate|write`.

use std::{sync::Arc, time::Instant};

use isomer_algorithms::{
    Louvain, NodeDistance, NodeRanks, PageRank, RandomProjection, Sample, SparseRows, StepCounter,
    betweenness, fast_random_projection, lightest_path, louvain, page_ranks, triangles, weak,
};
use isomer_data::GraphRead as _;
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::{
    Map, Node, NodeId, Path, RelId, Relationship, RelationshipContent, TypeId, Value,
};

use super::{
    arguments::{database, user},
    cypher::{from_queries, node_of},
    listing::missing,
    results::{distribution, sizes},
};
use crate::{
    error::{Result, shown},
    procedure::{
        CallContext, Procedure, Registry,
        algorithms::{simple, work},
        settings::{Settings, refused},
    },
    projection::{NodeColumn, ProjectedGraph, Selected, Selection},
};

/// Registers the procedures.
pub(super) fn register(registry: &mut Registry) {
    for (algorithm, modes) in ALL {
        for mode in *modes {
            let signature = Arc::new(algorithm.signature(*mode));
            registry.add_procedure(Arc::new(GraphProcedure {
                algorithm: *algorithm,
                mode: *mode,
                signature,
            }));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Betweenness,
    Dijkstra,
    FastRp,
    Louvain,
    PageRank,
    TriangleCount,
    Wcc,
}

/// What a procedure does with the results of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One row per node.
    Stream,
    /// One row with a summary.
    Stats,
    /// A property per node of the graph in memory, and one row with a summary.
    Mutate,
    /// A property per node, and one row with a summary.
    Write,
}

const EACH_MODE: &[Mode] = &[Mode::Stream, Mode::Stats, Mode::Mutate, Mode::Write];

impl Mode {
    /// The last part of the names of its procedures.
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Stats => "stats",
            Self::Mutate => "mutate",
            Self::Write => "write",
        }
    }

    /// The option that names the property of its results, and the field with the time that storing them took.
    fn property_option(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Stream | Self::Stats => None,
            Self::Mutate => Some(("mutateProperty", "mutateMillis")),
            Self::Write => Some(("writeProperty", "writeMillis")),
        }
    }
}

const ALL: &[(Algorithm, &[Mode])] = &[
    (Algorithm::Betweenness, EACH_MODE),
    (Algorithm::Dijkstra, &[Mode::Stream]),
    (Algorithm::FastRp, EACH_MODE),
    (Algorithm::Louvain, EACH_MODE),
    (Algorithm::PageRank, EACH_MODE),
    (Algorithm::TriangleCount, EACH_MODE),
    (Algorithm::Wcc, EACH_MODE),
];

/// Options of all algorithms. Threads and logs are not the caller's choice here.
const COMMON: [&str; 5] = [
    "nodeLabels",
    "relationshipTypes",
    "concurrency",
    "logProgress",
    "sudo",
];

/// Fields of a summary in addition to those of the algorithm.
const SUMMARY: [(&str, StaticType); 4] = [
    ("preProcessingMillis", StaticType::Integer),
    ("computeMillis", StaticType::Integer),
    ("postProcessingMillis", StaticType::Integer),
    ("configuration", StaticType::Map),
];

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Betweenness => "gds.betweenness",
            Self::Dijkstra => "gds.shortestPath.dijkstra",
            Self::FastRp => "gds.fastRP",
            Self::Louvain => "gds.louvain",
            Self::PageRank => "gds.pageRank",
            Self::TriangleCount => "gds.triangleCount",
            Self::Wcc => "gds.wcc",
        }
    }

    /// What it computes, in one line.
    fn description(self) -> &'static str {
        match self {
            Self::Betweenness => "betweenness centrality in a named graph",
            Self::Dijkstra => "the path of least cost between two nodes of a named graph",
            Self::FastRp => "embeddings of the nodes of a named graph by random projection",
            Self::Louvain => "communities of a named graph by the Louvain method",
            Self::PageRank => "PageRank in a named graph",
            Self::TriangleCount => {
                "the triangles of each node of a named graph, which must be undirected"
            }
            Self::Wcc => "the weakly connected components of a named graph",
        }
    }

    /// Its own options.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Betweenness => &["samplingSize", "samplingSeed"],
            Self::Dijkstra => &["sourceNode", "targetNode", "relationshipWeightProperty"],
            Self::FastRp => &[
                "relationshipWeightProperty",
                "embeddingDimension",
                "iterationWeights",
                "nodeSelfInfluence",
                "normalizationStrength",
                "randomSeed",
            ],
            Self::Louvain => &["relationshipWeightProperty", "maxLevels", "tolerance"],
            Self::PageRank => &[
                "relationshipWeightProperty",
                "dampingFactor",
                "maxIterations",
                "tolerance",
                "sourceNodes",
            ],
            Self::TriangleCount => &[],
            Self::Wcc => &[],
        }
    }

    /// The fields of a row per node, after `nodeId`.
    fn per_node(self) -> &'static [(&'static str, StaticType)] {
        match self {
            Self::Betweenness | Self::PageRank => &[("score", StaticType::Float)],
            Self::Louvain => &[
                ("communityId", StaticType::Integer),
                ("intermediateCommunityIds", StaticType::Any),
            ],
            Self::FastRp => &[("embedding", StaticType::Any)],
            Self::TriangleCount => &[("triangleCount", StaticType::Integer)],
            Self::Wcc => &[("componentId", StaticType::Integer)],
            Self::Dijkstra => &[],
        }
    }

    /// The fields of its summary.
    fn summary(self) -> &'static [(&'static str, StaticType)] {
        match self {
            Self::Betweenness => &[("centralityDistribution", StaticType::Map)],
            Self::PageRank => &[
                ("ranIterations", StaticType::Integer),
                ("didConverge", StaticType::Boolean),
                ("centralityDistribution", StaticType::Map),
            ],
            Self::Louvain => &[
                ("communityCount", StaticType::Integer),
                ("modularity", StaticType::Float),
                ("communityDistribution", StaticType::Map),
            ],
            Self::TriangleCount => &[
                ("globalTriangleCount", StaticType::Integer),
                ("nodeCount", StaticType::Integer),
            ],
            Self::FastRp => &[("nodeCount", StaticType::Integer)],
            Self::Wcc => &[
                ("componentCount", StaticType::Integer),
                ("componentDistribution", StaticType::Map),
            ],
            Self::Dijkstra => &[],
        }
    }

    fn signature(self, mode: Mode) -> ProcedureSignature {
        let field = |(name, kind): &(&str, StaticType)| ProcedureField {
            name: (*name).into(),
            kind: kind.clone(),
            nullable: matches!(kind, StaticType::Any),
            default: None,
        };
        let mut results: Vec<ProcedureField> = Vec::new();
        match (self, mode) {
            (Self::Dijkstra, _) => results.extend(PATH_FIELDS.iter().map(field)),
            (_, Mode::Stream) => {
                results.push(field(&("nodeId", StaticType::Integer)));
                results.extend(self.per_node().iter().map(field));
            }
            (_, Mode::Stats | Mode::Mutate | Mode::Write) => {
                results.extend(self.summary().iter().chain(&SUMMARY).map(field));
            }
        }
        if let Some((_, millis)) = mode.property_option() {
            results.push(field(&(millis, StaticType::Integer)));
            results.push(field(&("nodePropertiesWritten", StaticType::Integer)));
        }
        ProcedureSignature {
            name: format!("{}.{}", self.name(), mode.name()).into(),
            parameters: vec![
                field(&("graphName", StaticType::Any)),
                ProcedureField {
                    default: Some(Map::new().into()),
                    ..field(&("configuration", StaticType::Map))
                },
            ],
            results,
            mode: match mode {
                Mode::Write => ProcedureMode::Write,
                Mode::Stream | Mode::Stats | Mode::Mutate => ProcedureMode::Read,
            },
        }
    }
}

const PATH_FIELDS: [(&str, StaticType); 7] = [
    ("index", StaticType::Integer),
    ("sourceNode", StaticType::Integer),
    ("targetNode", StaticType::Integer),
    ("totalCost", StaticType::Float),
    ("nodeIds", StaticType::Any),
    ("costs", StaticType::Any),
    ("path", StaticType::Any),
];

struct GraphProcedure {
    algorithm: Algorithm,
    mode: Mode,
    signature: Arc<ProcedureSignature>,
}

impl Procedure for GraphProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn description(&self) -> Option<&'static str> {
        Some(self.algorithm.description())
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let started = Instant::now();
        let name: &str = &self.signature.name;
        let null = Value::Null;
        let (graph, given) = match (arguments.first(), arguments.get(1).unwrap_or(&null)) {
            // An anonymous graph: its queries are options.
            (Some(options @ Value::Map(_)), _) => (None, options),
            (Some(Value::String(graph)), given) => (Some(graph), given),
            (other, _) => {
                let given = shown(other.unwrap_or(&null));
                return Err(refused(
                    name,
                    format!("`graphName` is a string, not {given}"),
                ));
            }
        };
        let mut known = [self.algorithm.options(), &COMMON].concat();
        known.extend(self.mode.property_option().map(|(option, _)| option));
        if graph.is_none() {
            known.extend(["nodeQuery", "relationshipQuery"]);
        }
        let settings = Settings::new(name, given, &known)?;
        let options = Options::of(self.algorithm, self.mode, name, &settings)?;
        let selection = selection(&settings)?;
        let graph = match graph {
            Some(graph) => {
                let database = database(name, call)?;
                let found = database.planner.graphs().get(&user(call), graph);
                found.ok_or_else(|| missing(name, graph))?
            }
            None if self.mode == Mode::Mutate => {
                let why = "it needs a graph with a name: a graph without one is dropped at its end";
                return Err(refused(name, why));
            }
            None => Arc::new(unnamed_graph(name, &settings, call)?),
        };
        let selected = graph.select(name, selection, call)?;
        let prepared = started.elapsed();
        if let Options::Dijkstra { source, target } = options {
            return shortest_path(name, &selected, source, target, call);
        }
        let found = options.run(name, &selected, call)?;
        let nodes = &selected.nodes;
        if self.mode == Mode::Stream {
            return found.stream(nodes, call);
        }
        let computed = started.elapsed() - prepared;
        let mut row = found.summary(&selected);
        let millis = |time: std::time::Duration| Value::Int(time.as_millis() as i64);
        row.extend([
            millis(prepared),
            millis(computed),
            Value::Int(0),
            given.clone(),
        ]);
        if let Some((option, _)) = self.mode.property_option()
            && let Some(property) = settings.name(option)?
        {
            let begun = Instant::now();
            let count = match self.mode {
                Mode::Mutate => found.mutate(name, nodes, property, &graph, call)?,
                _ => found.write(nodes, &property, call)?,
            };
            row.extend([millis(begun.elapsed()), Value::Int(count as i64)]);
        }
        call.emit(row)
    }
}

/// The graph of two queries that are options of the call.
fn unnamed_graph(
    procedure: &str,
    settings: &Settings<'_>,
    call: &mut CallContext<'_>,
) -> Result<ProjectedGraph> {
    let (Some(nodes), Some(relationships)) = (
        settings.name("nodeQuery")?,
        settings.name("relationshipQuery")?,
    ) else {
        return Err(refused(
            procedure,
            "a graph without a name needs `nodeQuery` and `relationshipQuery`",
        ));
    };
    let name = "a graph without a name".into();
    from_queries(
        procedure,
        &name,
        [&nodes, &relationships],
        &Value::Null,
        call,
    )
}

fn selection(settings: &Settings<'_>) -> Result<Selection> {
    // `*` is everything, as is nothing.
    let names = |name| -> Result<Vec<Arc<str>>> {
        let names = settings.names(name)?;
        Ok(match names.iter().any(|name| &**name == "*") {
            true => Vec::new(),
            false => names,
        })
    };
    settings.integer("concurrency", 4, 1..=i64::from(u32::MAX))?;
    settings.boolean("logProgress", true)?;
    settings.boolean("sudo", false)?;
    Ok(Selection {
        labels: names("nodeLabels")?,
        types: names("relationshipTypes")?,
        weight: settings.name("relationshipWeightProperty")?,
    })
}

/// The parsed options of an algorithm: validated before the graph is selected.
enum Options {
    Betweenness(Sample),
    Dijkstra { source: NodeId, target: NodeId },
    FastRp(RandomProjection),
    Louvain(Louvain),
    PageRank(PageRank, Vec<NodeId>),
    TriangleCount,
    Wcc,
}

impl Options {
    fn of(
        algorithm: Algorithm,
        mode: Mode,
        procedure: &str,
        settings: &Settings<'_>,
    ) -> Result<Self> {
        let count = |name, default, least| {
            let count = settings.integer(name, default, least..=i64::from(u32::MAX))?;
            Ok::<_, crate::ExecError>(count as usize)
        };
        let node = |name: &str| {
            let value = settings.any(name).ok_or_else(|| {
                refused(
                    procedure,
                    format!("`{name}` is missing: it is a node or its id"),
                )
            })?;
            node_of(value).ok_or_else(|| {
                let why = format!("`{name}` takes a node or its id, not {}", shown(value));
                refused(procedure, why)
            })
        };
        if let Some((option, _)) = mode.property_option()
            && !settings.is_given(option)
        {
            return Err(refused(
                procedure,
                format!("`{option}` is missing: it names the property that gets the results"),
            ));
        }
        Ok(match algorithm {
            Algorithm::Betweenness => {
                let seed = settings.integer("samplingSeed", 0, i64::MIN..=i64::MAX)? as u64;
                Self::Betweenness(match settings.is_given("samplingSize") {
                    true => Sample::Some {
                        count: count("samplingSize", 1, 1)?,
                        seed,
                    },
                    false => Sample::All,
                })
            }
            Algorithm::Dijkstra => Self::Dijkstra {
                source: node("sourceNode")?,
                target: node("targetNode")?,
            },
            Algorithm::FastRp => {
                if !settings.is_given("embeddingDimension") {
                    return Err(refused(
                        procedure,
                        "`embeddingDimension` is missing: it is the number of values per node",
                    ));
                }
                Self::FastRp(RandomProjection {
                    dimension: count("embeddingDimension", 1, 1)?,
                    weights: settings.floats("iterationWeights", &[0.0, 1.0, 1.0])?,
                    own_weight: settings.float("nodeSelfInfluence", 0.0, f64::MIN..=f64::MAX)?,
                    degree_exponent: settings.float("normalizationStrength", 0.0, -16.0..=16.0)?,
                    seed: settings.integer("randomSeed", 0, i64::MIN..=i64::MAX)? as u64,
                })
            }
            Algorithm::Louvain => Self::Louvain(Louvain {
                resolution: 1.0,
                tolerance: settings.float("tolerance", 1e-4, 0.0..=f64::MAX)?,
                levels: count("maxLevels", 10, 1)?,
                seed: 0,
            }),
            Algorithm::PageRank => {
                let sources = match settings.any("sourceNodes") {
                    None => Vec::new(),
                    Some(Value::List(items)) => items.iter().filter_map(node_of).collect(),
                    Some(_) => vec![node("sourceNodes")?],
                };
                let pages = PageRank {
                    damping: settings.float("dampingFactor", 0.85, 0.0..=1.0)?,
                    tolerance: settings.float("tolerance", 1e-7, 0.0..=f64::MAX)?,
                    iterations: count("maxIterations", 20, 1)?,
                    sources: Vec::new(),
                };
                Self::PageRank(pages, sources)
            }
            Algorithm::TriangleCount => Self::TriangleCount,
            Algorithm::Wcc => Self::Wcc,
        })
    }

    fn run(
        self,
        procedure: &str,
        selected: &Selected,
        call: &mut CallContext<'_>,
    ) -> Result<NodeResults> {
        let rows = &selected.rows;
        Ok(match self {
            Self::Betweenness(sample) => {
                let simple = simple(rows, call)?;
                let undirected = selected.is_undirected;
                NodeResults::Scores(work(call, |work| {
                    betweenness(&simple, undirected, sample, false, work)
                })?)
            }
            Self::FastRp(settings) => NodeResults::Embeddings {
                values: work(call, |work| fast_random_projection(rows, &settings, work))?,
                dimension: settings.dimension,
            },
            Self::Louvain(settings) => {
                let both;
                let rows = match selected.is_undirected {
                    true => rows,
                    false => {
                        both = symmetric(rows, call)?;
                        &both
                    }
                };
                let groups = work(call, |work| louvain(rows, &settings, work))?;
                let modularity = modularity(rows, &groups);
                NodeResults::Communities { groups, modularity }
            }
            Self::PageRank(mut settings, sources) => {
                settings.sources = sources
                    .into_iter()
                    .map(|node| number(procedure, selected, node))
                    .collect::<Result<_>>()?;
                call.hold(rows.bytes())?;
                let back = rows.reversed(&mut StepCounter::new(&call.stop()))?;
                let ranks = work(call, |work| page_ranks(rows, &back, &settings, work))?;
                call.release(rows.bytes());
                NodeResults::Ranks(ranks)
            }
            Self::TriangleCount => {
                if !selected.is_undirected {
                    return Err(refused(
                        procedure,
                        "it requires undirected relationships: project them with `orientation: 'UNDIRECTED'`",
                    ));
                }
                let simple = simple(rows, call)?;
                let found = work(call, |work| triangles(&simple, work))?;
                NodeResults::Triangles(found.iter().map(|one| one.count).collect())
            }
            Self::Wcc => NodeResults::Components(work(call, |work| weak(rows, work))?),
            Self::Dijkstra { .. } => unreachable!("paths are emitted as they are found"),
        })
    }
}

/// The results of an algorithm, per node.
enum NodeResults {
    Scores(Vec<f64>),
    Ranks(NodeRanks),
    Communities { groups: Vec<u32>, modularity: f64 },
    Embeddings { values: Vec<f64>, dimension: usize },
    Components(Vec<u32>),
    Triangles(Vec<u64>),
}

impl NodeResults {
    /// The result of a node.
    fn of(&self, node: usize) -> Value {
        match self {
            Self::Scores(scores) | Self::Ranks(NodeRanks { scores, .. }) => {
                Value::Float(scores[node])
            }
            Self::Communities { groups, .. } | Self::Components(groups) => {
                Value::Int(groups[node].into())
            }
            Self::Embeddings { values, dimension } => {
                let own = &values[node * dimension..(node + 1) * dimension];
                own.iter().map(|one| Value::Float(*one)).collect()
            }
            Self::Triangles(counts) => Value::Int(counts[node] as i64),
        }
    }

    fn stream(&self, nodes: &[NodeId], call: &mut CallContext<'_>) -> Result<()> {
        for (at, node) in nodes.iter().enumerate() {
            let mut row = vec![Value::Int(node.0 as i64), self.of(at)];
            if matches!(self, Self::Communities { .. }) {
                row.push(Value::Null);
            }
            call.emit(row)?;
        }
        Ok(())
    }

    /// The fields of the summary that are the algorithm's own.
    fn summary(&self, selected: &Selected) -> Vec<Value> {
        let count = |groups: &[u32]| Value::Int(sizes(groups).len() as i64);
        match self {
            Self::Scores(scores) => vec![distribution(scores.clone())],
            Self::Ranks(ranks) => vec![
                Value::Int(ranks.iterations as i64),
                Value::Bool(ranks.converged),
                distribution(ranks.scores.clone()),
            ],
            Self::Communities { groups, modularity } => vec![
                count(groups),
                Value::Float(*modularity),
                distribution(sizes(groups)),
            ],
            Self::Embeddings { .. } => {
                vec![Value::Int(selected.nodes.len() as i64)]
            }
            Self::Components(groups) => vec![count(groups), distribution(sizes(groups))],
            Self::Triangles(counts) => {
                // Each is counted at its three corners.
                let total = counts.iter().sum::<u64>() / 3;
                let nodes = selected.nodes.len();
                vec![Value::Int(total as i64), Value::Int(nodes as i64)]
            }
        }
    }

    /// Sets a property of each node that still exists; returns how many there are.
    fn write(&self, nodes: &[NodeId], property: &str, call: &mut CallContext<'_>) -> Result<u64> {
        let mut written = 0;
        let mut exist = Vec::new();
        call.transaction.nodes_exist(nodes, &mut exist)?;
        for (at, node) in nodes.iter().enumerate().filter(|(at, _)| exist[*at]) {
            call.tick(1)?;
            let mut graph = call.transaction.graph_mut();
            graph.set_node_property(*node, &[property], self.of(at))?;
            written += 1;
        }
        call.counters.properties_set += written;
        Ok(written)
    }

    /// Adds a property to the graph in memory; returns how many nodes get a value.
    fn mutate(
        &self,
        procedure: &str,
        nodes: &[NodeId],
        property: Arc<str>,
        graph: &ProjectedGraph,
        call: &mut CallContext<'_>,
    ) -> Result<u64> {
        call.tick(nodes.len())?;
        let mut values = vec![Value::Null; graph.nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            if let Ok(number) = graph.nodes.binary_search(node) {
                values[number] = self.of(at);
            }
        }
        let column = NodeColumn {
            values,
            is_computed: true,
        };
        match graph.add_property(property.clone(), column)? {
            true => Ok(nodes.len() as u64),
            false => Err(refused(
                procedure,
                format!(
                    "nodes of the graph `{}` have a property `{property}` already: choose another `mutateProperty`, or \
                     remove it with gds.graph.nodeProperties.drop",
                    graph.name
                ),
            )),
        }
    }
}

fn number(procedure: &str, selected: &Selected, node: NodeId) -> Result<u32> {
    selected.number(node).ok_or_else(|| {
        let why =
            format!("node {node} is not in the graph, or its labels are not among `nodeLabels`");
        refused(procedure, why)
    })
}

/// The first id of relationships that exist in results only.
const VIRTUAL_RELATIONSHIPS: u64 = u64::MAX >> 1;

/// Emits the lightest path, if there is one. Its relationships are those of the graph in memory: they have a cost, and
/// no record in the database.
fn shortest_path(
    procedure: &str,
    selected: &Selected,
    source: NodeId,
    target: NodeId,
    call: &mut CallContext<'_>,
) -> Result<()> {
    let ends = (
        number(procedure, selected, source)?,
        number(procedure, selected, target)?,
    );
    let rows = &selected.rows;
    let path = work(call, |work| lightest_path(rows, ends.0, ends.1, work))?;
    let Some(path) = path else {
        return Ok(());
    };
    let node = |one: &NodeDistance| selected.nodes[one.node as usize];
    let id = |node: NodeId| Value::Int(node.0 as i64);
    let relationships = path.windows(2).enumerate().map(|(at, pair)| {
        let mut properties = Map::new();
        properties.insert("cost", Value::Float(pair[1].distance - pair[0].distance));
        Relationship {
            id: RelId(VIRTUAL_RELATIONSHIPS - at as u64),
            type_id: TypeId(u32::MAX),
            source: node(&pair[0]),
            target: node(&pair[1]),
            content: Some(Arc::new(RelationshipContent {
                type_name: "PATH_0".into(),
                properties,
            })),
        }
    });
    let walk = Path {
        nodes: path.iter().map(|one| Node::new(node(one))).collect(),
        relationships: relationships.collect(),
    };
    let total = path.last().map_or(0.0, |last| last.distance);
    call.emit(vec![
        Value::Int(0),
        id(source),
        id(target),
        Value::Float(total),
        path.iter().map(|one| id(node(one))).collect(),
        path.iter().map(|one| Value::Float(one.distance)).collect(),
        Value::from(walk),
    ])
}

/// The rows with each relationship in both directions.
fn symmetric(rows: &SparseRows, call: &mut CallContext<'_>) -> Result<SparseRows> {
    call.hold(rows.bytes() * 3)?;
    let stop = call.stop();
    let mut pace = StepCounter::new(&stop);
    let reversed = rows.reversed(&mut pace)?;
    rows.undirected(&reversed, &mut pace)
}

/// The modularity of communities (Newman and Girvan 2004): the share of weight within them, less what chance gives.
fn modularity(rows: &SparseRows, groups: &[u32]) -> f64 {
    let count = groups.iter().max().map_or(0, |most| *most as usize + 1);
    let (mut within, mut of_group, mut all) = (0.0, vec![0.0; count], 0.0);
    for (node, group) in groups.iter().enumerate() {
        for (other, weight) in rows.weighted(node as u32) {
            // A self loop is stored once and has two ends.
            let weight = if other as usize == node {
                2.0 * weight
            } else {
                weight
            };
            all += weight;
            of_group[*group as usize] += weight;
            if groups[other as usize] == *group {
                within += weight;
            }
        }
    }
    if all == 0.0 {
        return 0.0;
    }
    let chance: f64 = of_group
        .iter()
        .map(|weight| (weight / all) * (weight / all))
        .sum();
    within / all - chance
}
