//! Graph algorithms as procedures: `algo.*`.
//!
//! Each reads the chosen subgraph once, into rows of dense numbers, and returns one row per node. All take a map of
//! options; `labels` and `types` choose the subgraph (by default everything).

use std::sync::Arc;

use isomer_algorithms::{
    Louvain, NO_NODE, PageRank, Resources, Sample, SparseRows, StepCounter, betweenness, closeness,
    core_numbers, distances, label_propagation, louvain, page_rank, strong, triangles, weak,
};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::{NodeId, Value};

use super::{
    CallContext, Procedure, Registry,
    network::{Choice, FollowDirection, Network},
    settings::{Settings, refused},
};
use crate::{error::Result, function::node_value, limits::Stop};

/// Registers the procedures.
pub(super) fn register(registry: &mut Registry) {
    for algorithm in ALL {
        let signature = Arc::new(algorithm.signature());
        registry.add_procedure(Arc::new(AlgorithmProcedure {
            algorithm,
            signature,
        }));
    }
}

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Betweenness,
    Closeness,
    Degree,
    Distances,
    KCore,
    LabelPropagation,
    Louvain,
    PageRank,
    Strong,
    Triangles,
    Weak,
}

const ALL: [Algorithm; 11] = [
    Algorithm::Betweenness,
    Algorithm::Closeness,
    Algorithm::Degree,
    Algorithm::Distances,
    Algorithm::KCore,
    Algorithm::LabelPropagation,
    Algorithm::Louvain,
    Algorithm::PageRank,
    Algorithm::Strong,
    Algorithm::Triangles,
    Algorithm::Weak,
];

const DIRECTED: [FollowDirection; 3] = [
    FollowDirection::Outgoing,
    FollowDirection::Incoming,
    FollowDirection::Both,
];
const UNDIRECTED: [FollowDirection; 3] = [
    FollowDirection::Both,
    FollowDirection::Outgoing,
    FollowDirection::Incoming,
];

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Betweenness => "algo.betweenness",
            Self::Closeness => "algo.closeness",
            Self::Degree => "algo.degree",
            Self::Distances => "algo.distances",
            Self::KCore => "algo.kCore",
            Self::LabelPropagation => "algo.labelPropagation",
            Self::Louvain => "algo.louvain",
            Self::PageRank => "algo.pageRank",
            Self::Strong => "algo.stronglyConnected",
            Self::Triangles => "algo.triangles",
            Self::Weak => "algo.weaklyConnected",
        }
    }

    /// The result per node.
    fn results(self) -> &'static [(&'static str, StaticType)] {
        match self {
            Self::Betweenness | Self::Closeness | Self::PageRank => &[("score", StaticType::Float)],
            Self::Degree => &[("degree", StaticType::Integer)],
            Self::Distances => &[
                ("distance", StaticType::Float),
                ("previous", StaticType::Node),
            ],
            Self::KCore => &[("core", StaticType::Integer)],
            Self::LabelPropagation | Self::Louvain => &[("community", StaticType::Integer)],
            Self::Strong | Self::Weak => &[("component", StaticType::Integer)],
            Self::Triangles => &[
                ("triangles", StaticType::Integer),
                ("coefficient", StaticType::Float),
            ],
        }
    }

    /// Names of all its options.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Betweenness => &[
                "labels",
                "types",
                "direction",
                "samples",
                "seed",
                "normalized",
            ],
            Self::Closeness | Self::Degree => &["labels", "types", "direction"],
            Self::Distances => &["labels", "types", "direction", "weight", "defaultWeight"],
            Self::KCore | Self::Strong | Self::Triangles | Self::Weak => &["labels", "types"],
            Self::LabelPropagation => &[
                "labels",
                "types",
                "direction",
                "weight",
                "defaultWeight",
                "iterations",
                "seed",
            ],
            Self::Louvain => &[
                "labels",
                "types",
                "weight",
                "defaultWeight",
                "resolution",
                "tolerance",
                "levels",
                "seed",
            ],
            Self::PageRank => &[
                "labels",
                "types",
                "direction",
                "weight",
                "defaultWeight",
                "damping",
                "tolerance",
                "iterations",
                "sources",
            ],
        }
    }

    /// The accepted directions, the default first.
    fn directions(self) -> &'static [FollowDirection] {
        match self {
            Self::Betweenness
            | Self::Closeness
            | Self::Degree
            | Self::Distances
            | Self::PageRank => &DIRECTED,
            Self::LabelPropagation => &UNDIRECTED,
            Self::KCore | Self::Louvain | Self::Triangles => &UNDIRECTED[..1],
            Self::Strong | Self::Weak => &DIRECTED[..1],
        }
    }

    fn signature(self) -> ProcedureSignature {
        let field = |name: &str, kind: StaticType, nullable| ProcedureField {
            name: name.into(),
            kind,
            nullable,
            default: None,
        };
        let mut parameters = Vec::new();
        if let Self::Distances = self {
            parameters.push(field("source", StaticType::Node, false));
        }
        parameters.push(ProcedureField {
            default: Some(Value::Null),
            ..field("options", StaticType::Map, true)
        });
        let mut results = vec![field("node", StaticType::Node, false)];
        for (name, kind) in self.results() {
            results.push(field(name, kind.clone(), *name == "previous"));
        }
        ProcedureSignature {
            name: self.name().into(),
            parameters,
            results,
            mode: ProcedureMode::Read,
        }
    }
}

struct AlgorithmProcedure {
    algorithm: Algorithm,
    signature: Arc<ProcedureSignature>,
}

impl Procedure for AlgorithmProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let name = self.algorithm.name();
        let settings = Settings::new(
            name,
            arguments.last().unwrap_or(&Value::Null),
            self.algorithm.options(),
        )?;
        let choice = Choice::of(name, &settings, self.algorithm.directions())?;
        let plan = Plan::of(self.algorithm, &settings, arguments)?;
        let network = Network::load(name, &choice, call)?;
        plan.run(name, choice.direction, network, call)
    }
}

/// The parsed options: validated before the graph is read, so that an invalid option costs nothing.
enum Plan {
    Betweenness { sample: Sample, normalized: bool },
    Closeness,
    Degree,
    Distances { source: NodeId },
    KCore,
    LabelPropagation { iterations: usize, seed: u64 },
    Louvain(Louvain),
    PageRank(PageRank, Vec<NodeId>),
    Strong,
    Triangles,
    Weak,
}

impl Plan {
    fn of(algorithm: Algorithm, settings: &Settings<'_>, arguments: &[Value]) -> Result<Self> {
        let seed = || {
            let seed = settings.integer("seed", 0, i64::MIN..=i64::MAX)?;
            Ok::<_, crate::ExecError>(seed as u64)
        };
        let count = |name, default, least| {
            let count = settings.integer(name, default, least..=i64::from(u32::MAX))?;
            Ok::<_, crate::ExecError>(count as usize)
        };
        Ok(match algorithm {
            Algorithm::Betweenness => Self::Betweenness {
                sample: if settings.is_given("samples") {
                    Sample::Some {
                        count: count("samples", 1, 1)?,
                        seed: seed()?,
                    }
                } else {
                    seed()?;
                    Sample::All
                },
                normalized: settings.boolean("normalized", false)?,
            },
            Algorithm::Closeness => Self::Closeness,
            Algorithm::Degree => Self::Degree,
            Algorithm::Distances => match arguments.first() {
                Some(Value::Node(source)) => Self::Distances { source: source.id },
                _ => return Err(refused(algorithm.name(), "`source` is a node")),
            },
            Algorithm::KCore => Self::KCore,
            Algorithm::LabelPropagation => Self::LabelPropagation {
                iterations: count("iterations", 20, 1)?,
                seed: seed()?,
            },
            Algorithm::Louvain => Self::Louvain(Louvain {
                resolution: settings.float("resolution", 1.0, 0.0..=f64::MAX)?,
                tolerance: settings.float("tolerance", 1e-7, 0.0..=f64::MAX)?,
                levels: count("levels", 20, 1)?,
                seed: seed()?,
            }),
            Algorithm::PageRank => Self::PageRank(
                PageRank {
                    damping: settings.float("damping", 0.85, 0.0..=1.0)?,
                    tolerance: settings.float("tolerance", 1e-7, 0.0..=f64::MAX)?,
                    iterations: count("iterations", 100, 1)?,
                    sources: Vec::new(),
                },
                settings.nodes("sources")?,
            ),
            Algorithm::Strong => Self::Strong,
            Algorithm::Triangles => Self::Triangles,
            Algorithm::Weak => Self::Weak,
        })
    }

    fn run(
        self,
        name: &str,
        direction: FollowDirection,
        network: Network,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let Network { nodes, rows } = &network;
        let number = |node: NodeId| {
            network.number(node).ok_or_else(|| {
                refused(
                    name,
                    format!("node {node} is not among the nodes chosen: `labels` leaves it out"),
                )
            })
        };
        match self {
            Self::Betweenness { sample, normalized } => {
                let rows = simple(rows, call)?;
                let undirected = direction == FollowDirection::Both;
                let scores = work(call, |work| {
                    betweenness(&rows, undirected, sample, normalized, work)
                })?;
                give(nodes, scores.into_iter().map(Value::Float), call)
            }
            Self::Closeness => {
                let scores = work(call, |work| closeness(rows, work))?;
                give(nodes, scores.into_iter().map(Value::Float), call)
            }
            Self::Degree => {
                let degrees = (0..nodes.len() as u32).map(|node| rows.degree(node) as i64);
                give(nodes, degrees.map(Value::Int), call)
            }
            Self::Distances { source } => {
                let source = number(source)?;
                let reached = work(call, |work| distances(rows, source, work))?;
                reached.into_iter().try_for_each(|one| {
                    let previous = match one.previous {
                        NO_NODE => Value::Null,
                        node => node_value(nodes[node as usize]),
                    };
                    call.emit(vec![
                        node_value(nodes[one.node as usize]),
                        Value::Float(one.distance),
                        previous,
                    ])
                })
            }
            Self::KCore => {
                let rows = simple(rows, call)?;
                let cores = work(call, |work| core_numbers(&rows, work))?;
                give(nodes, cores.into_iter().map(integer), call)
            }
            Self::LabelPropagation { iterations, seed } => {
                let groups = work(call, |work| label_propagation(rows, iterations, seed, work))?;
                give(nodes, groups.into_iter().map(integer), call)
            }
            Self::Louvain(settings) => {
                let groups = work(call, |work| louvain(rows, &settings, work))?;
                give(nodes, groups.into_iter().map(integer), call)
            }
            Self::PageRank(mut settings, sources) => {
                settings.sources = sources.into_iter().map(number).collect::<Result<_>>()?;
                call.hold(rows.bytes())?;
                let back = rows.reversed(&mut StepCounter::new(&call.stop()))?;
                let scores = work(call, |work| page_rank(rows, &back, &settings, work))?;
                give(nodes, scores.into_iter().map(Value::Float), call)
            }
            Self::Strong => {
                let groups = work(call, |work| strong(rows, work))?;
                give(nodes, groups.into_iter().map(integer), call)
            }
            Self::Triangles => {
                let rows = simple(rows, call)?;
                let found = work(call, |work| triangles(&rows, work))?;
                nodes.iter().zip(found).try_for_each(|(node, found)| {
                    call.emit(vec![
                        node_value(*node),
                        Value::Int(found.count as i64),
                        Value::Float(found.coefficient),
                    ])
                })
            }
            Self::Weak => {
                let groups = work(call, |work| weak(rows, work))?;
                give(nodes, groups.into_iter().map(integer), call)
            }
        }
    }
}

fn integer(number: u32) -> Value {
    Value::Int(number.into())
}

/// The rows with duplicates and self loops removed.
pub(super) fn simple(rows: &SparseRows, call: &mut CallContext<'_>) -> Result<SparseRows> {
    call.hold(rows.bytes())?;
    rows.simple(&mut StepCounter::new(&call.stop()))
}

/// Runs an algorithm; its memory is released when it ends.
pub(super) fn work<T>(
    call: &mut CallContext<'_>,
    job: impl FnOnce(&mut Resources<'_, Stop>) -> Result<T>,
) -> Result<T> {
    let stop = call.stop();
    let mut held = 0;
    let mut hold = |bytes| {
        call.hold(bytes)?;
        held += bytes;
        Ok(())
    };
    let outcome = job(&mut Resources::new(stop, &mut hold));
    call.release(held);
    outcome
}

/// One row per node.
fn give(
    nodes: &[NodeId],
    figures: impl Iterator<Item = Value>,
    call: &mut CallContext<'_>,
) -> Result<()> {
    nodes
        .iter()
        .zip(figures)
        .try_for_each(|(node, figure)| call.emit(vec![node_value(*node), figure]))
}
