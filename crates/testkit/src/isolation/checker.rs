//! Searches for cycles, class by class.

use std::collections::BTreeMap;

use super::{
    anomaly::{Anomaly, Class},
    graph::{Colours, Components, Edge, Graph, Scratch},
    history::{History, Outcome},
    versions::{Dependencies, RT, RW, RW_PREDICATE, WR, WW},
};

/// Anomalies reported per class; further ones are only counted.
const TOLD: usize = 10;
/// Cycle searches per class of edges: a broken database shows an anomaly long before.
const MAX_SEARCHES: usize = 500;

/// Result of checking a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Committed transactions.
    pub committed: usize,
    /// Dependencies between them, of all kinds.
    pub dependencies: usize,
    /// The anomalies; only the first few of each class.
    pub anomalies: Vec<Anomaly>,
    /// Number of anomalies per class, including unreported ones.
    pub counts: BTreeMap<Class, usize>,
}

impl Report {
    /// The classes that were found, sorted.
    pub fn classes(&self) -> Vec<Class> {
        self.counts.keys().copied().collect()
    }

    fn add(&mut self, anomaly: Anomaly) {
        let count = self.counts.entry(anomaly.class).or_default();
        *count += 1;
        if *count <= TOLD {
            self.anomalies.push(anomaly);
        }
    }

    fn is_full(&self, class: Class) -> bool {
        self.counts.get(&class).is_some_and(|count| *count >= TOLD)
    }
}

/// Finds every class of anomaly in `history`. Cost: O(events + dependencies), and one search per reported
/// cycle.
pub fn check(history: &History) -> Report {
    let mut dependencies = Dependencies::new(history);
    let committed = (0..history.txns.len() as u32)
        .filter(|txn| dependencies.is_committed(*txn))
        .count();
    let mut report = Report {
        committed,
        dependencies: dependencies.edges.len(),
        ..Report::default()
    };
    dependencies
        .anomalies
        .drain(..)
        .for_each(|anomaly| report.add(anomaly));

    let mut edges = std::mem::take(&mut dependencies.edges);
    let node_count = add_real_time(history, &dependencies, &mut edges);
    let search = Search {
        history,
        graph: Graph::new(node_count, edges),
    };
    search.write_cycles(&mut report);
    search.information_flow(&mut report);
    search.anti_dependencies(&mut report);
    search.predicates(&mut report);
    if report.counts.is_empty() {
        search.real_time(&mut report);
    }
    report
}

/// Adds a chain of time points, so that `n` transactions need 3 `n` edges for their real-time order instead
/// of `n`².
fn add_real_time(
    history: &History,
    dependencies: &Dependencies<'_>,
    edges: &mut Vec<Edge>,
) -> usize {
    let count = history.txns.len() as u32;
    let committed: Vec<u32> = (0..count)
        .filter(|txn| dependencies.is_committed(*txn))
        .collect();
    // A transaction with an unknown outcome may have taken effect after its client gave up.
    let known = committed
        .iter()
        .filter(|txn| history.txns[**txn as usize].outcome == Outcome::Committed);
    let mut ends: Vec<(u64, u32)> = known
        .map(|txn| (history.txns[*txn as usize].end, *txn))
        .collect();
    ends.sort_unstable();
    let moment = |at: usize| count + at as u32;
    let mut edge = |from, to| {
        edges.push(Edge {
            from,
            to,
            colour: RT,
            label: 0,
        })
    };
    for (at, (_, txn)) in ends.iter().enumerate() {
        edge(*txn, moment(at));
        if at > 0 {
            edge(moment(at - 1), moment(at));
        }
    }
    for txn in committed {
        let ended = ends.partition_point(|(end, _)| *end < history.txns[txn as usize].begin);
        if ended > 0 {
            edge(moment(ended - 1), txn);
        }
    }
    count as usize + ends.len()
}

struct Search<'a> {
    history: &'a History,
    graph: Graph,
}

impl Search<'_> {
    fn write_cycles(&self, report: &mut Report) {
        self.through(WW, WW, report, |_| Class::G0);
    }

    fn information_flow(&self, report: &mut Report) {
        self.through(WR, WW | WR, report, |_| Class::G1c);
    }

    /// Cycles through an anti-dependency on one object: with one of them first, then with several.
    fn anti_dependencies(&self, report: &mut Report) {
        let all = WW | WR | RW;
        let components = self.graph.components(all);
        let mut scratch = Scratch::default();
        for edge in self.on_cycles(RW, &components) {
            if report.is_full(Class::GSingle) && report.is_full(Class::WriteSkew) {
                break;
            }
            // Both overwrote the same version of one object, and the cycle has no other edges.
            let same_object = |walk: &[Edge]| {
                walk.iter()
                    .all(|step| step.colour & (WW | RW) != 0 && step.label == edge.label)
            };
            if let Some(walk) =
                self.graph
                    .walk(edge.to, edge.from, WW | WR, &components, &mut scratch)
            {
                let class = if same_object(&walk) {
                    Class::LostUpdate
                } else {
                    Class::GSingle
                };
                report.add(self.describe(class, edge, &walk));
            } else if let Some(walk) =
                self.graph
                    .walk(edge.to, edge.from, all, &components, &mut scratch)
            {
                let class = if same_object(&walk) {
                    Class::LostUpdate
                } else {
                    Class::WriteSkew
                };
                report.add(self.describe(class, edge, &walk));
            }
        }
    }

    fn predicates(&self, report: &mut Report) {
        self.through(RW_PREDICATE, WW | WR | RW | RW_PREDICATE, report, |_| {
            Class::Phantom
        });
    }

    fn real_time(&self, report: &mut Report) {
        self.through(
            WW | WR | RW | RW_PREDICATE,
            WW | WR | RW | RW_PREDICATE | RT,
            report,
            |_| Class::Stale,
        );
    }

    /// Reports a shortest cycle through each edge of colour `through` (the first few), over edges of `over`.
    fn through(
        &self,
        through: Colours,
        over: Colours,
        report: &mut Report,
        class: impl Fn(&[Edge]) -> Class,
    ) {
        let components = self.graph.components(over);
        let mut scratch = Scratch::default();
        for edge in self.on_cycles(through, &components) {
            let Some(walk) = self
                .graph
                .walk(edge.to, edge.from, over, &components, &mut scratch)
            else {
                continue;
            };
            let class = class(&walk);
            report.add(self.describe(class, edge, &walk));
            if report.is_full(class) {
                break;
            }
        }
    }

    fn on_cycles<'s>(
        &'s self,
        colours: Colours,
        components: &'s Components,
    ) -> impl Iterator<Item = &'s Edge> {
        let edges = self.graph.edges().iter();
        edges
            .filter(move |edge| edge.colour & colours != 0 && components.has_cycle(edge))
            .take(MAX_SEARCHES)
    }

    fn describe(&self, class: Class, first: &Edge, walk: &[Edge]) -> Anomaly {
        let count = self.history.txns.len() as u32;
        let mut story = String::new();
        for edge in std::iter::once(first).chain(walk) {
            // Time points lie between transactions and have no transaction number.
            if edge.from < count {
                story.push_str(&format!("T{} ", edge.from));
            }
            let object = || &self.history.objects[edge.label as usize];
            match edge.colour {
                WW => story.push_str(&format!("-ww {}-> ", object())),
                WR => story.push_str(&format!("-wr {}-> ", object())),
                RW => story.push_str(&format!("-rw {}-> ", object())),
                RW_PREDICATE => story.push_str(&format!("-rw, predicate {}-> ", object())),
                _ if edge.from < count => story.push_str("-ended before-> "),
                _ => {}
            }
        }
        story.push_str(&format!("T{}", first.from));
        Anomaly { class, story }
    }
}
