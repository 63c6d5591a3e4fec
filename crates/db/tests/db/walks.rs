//! Quantified paths, selectors and lightest paths, compared with an exhaustive search.

use isomer_db::{
    Database, ErrorKind, Limits, Query, QueryOptions, Value,
    internals::{
        DatabaseInternals as _,
        views::{AdjacencySide, ViewKind, ViewState},
    },
};

use crate::place;

const NODES: usize = 5;

/// A small random graph: relationships with a type and a weight.
struct Graph {
    edges: Vec<(usize, usize, char, i64)>,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound) as usize
    }
}

impl Graph {
    fn random(random: &mut Random) -> Self {
        let count = 4 + random.below(6);
        let edges = (0..count)
            .map(|_| {
                let kind = if random.below(3) == 0 { 'L' } else { 'K' };
                (
                    random.below(NODES as u64),
                    random.below(NODES as u64),
                    kind,
                    random.below(6) as i64,
                )
            })
            .collect();
        Self { edges }
    }

    fn database(&self) -> Database {
        let db = place::open_empty().unwrap();
        let nodes: Vec<String> = (0..NODES)
            .map(|at| format!("(n{at}:N {{i: {at}, v: {}}})", at * 7 % 5))
            .collect();
        let edges = self
            .edges
            .iter()
            .enumerate()
            .map(|(at, (from, to, kind, w))| {
                format!("(n{from})-[:{kind} {{i: {at}, w: {w}}}]->(n{to})")
            });
        let all: Vec<String> = nodes.into_iter().chain(edges).collect();
        db.query(&format!("CREATE {}", all.join(", "))).unwrap();
        db
    }

    /// All walks from `from` that repeat no relationship, as lists of relationships; `steps` says which edge may be
    /// used as which step, from which end.
    fn trails(&self, from: usize, allows: &dyn Fn(&Trail, usize, bool) -> bool) -> Vec<Trail> {
        let mut done = Vec::new();
        let mut open = vec![Trail {
            edges: Vec::new(),
            nodes: vec![from],
        }];
        while let Some(trail) = open.pop() {
            let at = *trail.nodes.last().unwrap();
            for (edge, (source, target, ..)) in self.edges.iter().enumerate() {
                if trail.edges.contains(&edge) {
                    continue;
                }
                let ways = [(*source, *target, true), (*target, *source, false)];
                for (start, end, forward) in ways {
                    let is_loop_again = source == target && !forward;
                    if start == at && !is_loop_again && allows(&trail, edge, forward) {
                        let mut longer = trail.clone();
                        longer.edges.push(edge);
                        longer.nodes.push(end);
                        open.push(longer);
                    }
                }
            }
            done.push(trail);
        }
        done
    }
}

#[derive(Clone, Debug)]
struct Trail {
    edges: Vec<usize>,
    nodes: Vec<usize>,
}

/// The first column of all rows, sorted.
fn column(db: &Database, text: &str) -> Vec<Vec<i64>> {
    let result = db
        .query(text)
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut rows: Vec<Vec<i64>> = result
        .rows()
        .iter()
        .map(|row| match &row.values()[0] {
            Value::List(items) => items.iter().map(|item| item.as_int().unwrap()).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    rows.sort();
    rows
}

fn ids(trails: impl Iterator<Item = Vec<usize>>) -> Vec<Vec<i64>> {
    let mut all: Vec<Vec<i64>> = trails
        .map(|edges| edges.into_iter().map(|edge| edge as i64).collect())
        .collect();
    all.sort();
    all
}

/// A pattern under test: its text between `(x)` and `(y)`, its edges, and its lengths.
struct Case {
    pattern: &'static str,
    allows: fn(&Graph, &Trail, usize, bool) -> bool,
    accepts: fn(usize) -> bool,
}

fn value(node: usize) -> usize {
    node * 7 % 5
}

const CASES: &[Case] = &[
    Case {
        pattern: "((a)-[:K]->(b))+",
        allows: |graph, _, edge, forward| forward && graph.edges[edge].2 == 'K',
        accepts: |length| length >= 1,
    },
    Case {
        pattern: "((a)-[:K]->(b)-[:L]->(c)){1,2}",
        allows: |graph, trail, edge, forward| {
            let kind = if trail.edges.len() % 2 == 0 { 'K' } else { 'L' };
            forward && graph.edges[edge].2 == kind && trail.edges.len() < 4
        },
        accepts: |length| length == 2 || length == 4,
    },
    Case {
        pattern: "((a)-[r]-(b) WHERE a.v <= b.v)*",
        allows: |graph, trail, edge, forward| {
            let (source, target, ..) = graph.edges[edge];
            let (from, to) = if forward {
                (source, target)
            } else {
                (target, source)
            };
            assert_eq!(*trail.nodes.last().unwrap(), from);
            value(from) <= value(to)
        },
        accepts: |_| true,
    },
    Case {
        pattern: "((a)-[r WHERE r.w > 0]->(b:N WHERE b.v <> 2)){2,3}",
        allows: |graph, trail, edge, forward| {
            let (_, target, _, w) = graph.edges[edge];
            forward && w > 0 && value(target) != 2 && trail.edges.len() < 3
        },
        accepts: |length| length == 2 || length == 3,
    },
    Case {
        pattern: "-[:K]->(m)((a)<-[]-(b)){0,2}",
        allows: |graph, trail, edge, forward| match trail.edges.len() {
            0 => forward && graph.edges[edge].2 == 'K',
            length => length < 3 && (!forward || graph.edges[edge].0 == graph.edges[edge].1),
        },
        accepts: |length| length >= 1,
    },
];

#[test]
fn walks_agree_with_trying_everything() {
    let mut random = Random(20_261_121);
    let mut compared = 0;
    for _ in 0..10 {
        let graph = Graph::random(&mut random);
        let db = graph.database();
        for case in CASES {
            let allows = |trail: &Trail, edge: usize, forward: bool| {
                (case.allows)(&graph, trail, edge, forward)
            };
            for from in 0..NODES {
                let mut all = graph.trails(from, &allows);
                all.retain(|trail| (case.accepts)(trail.edges.len()));
                let edges = "RETURN [r IN relationships(p) | r.i] AS v";
                let text = format!("MATCH p = (x:N {{i: {from}}}){}(y:N) {edges}", case.pattern);
                let expected = ids(all.iter().map(|trail| trail.edges.clone()));
                assert_eq!(column(&db, &text), expected, "{text} {:?}", graph.edges);
                for to in 0..NODES {
                    let ends = format!("(x:N {{i: {from}}}){}(y:N {{i: {to}}})", case.pattern);
                    let mut between: Vec<&Trail> = all
                        .iter()
                        .filter(|trail| trail.nodes.last() == Some(&to))
                        .collect();
                    between.sort_by_key(|trail| trail.edges.len());
                    check_ends(&db, &ends, &between, &graph);
                    compared += between.len();
                }
            }
        }
    }
    assert!(compared > 300, "only {compared} walks were compared");
}

/// Compares the results between two ends, all of them and with selectors. `between` is sorted by length.
fn check_ends(db: &Database, ends: &str, between: &[&Trail], graph: &Graph) {
    let edges = "RETURN [r IN relationships(p) | r.i] AS v";
    let text = format!("MATCH p = {ends} {edges}");
    let expected = ids(between.iter().map(|trail| trail.edges.clone()));
    assert_eq!(column(db, &text), expected, "{text} {:?}", graph.edges);
    for k in [1, 2, 4] {
        let text = format!("MATCH p = SHORTEST {k} {ends} {edges}");
        let found = column(db, &text);
        let lengths = |all: &[Vec<i64>]| {
            let mut lengths: Vec<usize> = all.iter().map(Vec::len).collect();
            lengths.sort_unstable();
            lengths
        };
        let shortest = ids(between.iter().take(k).map(|trail| trail.edges.clone()));
        assert_eq!(
            lengths(&found),
            lengths(&shortest),
            "{text} {:?}",
            graph.edges
        );
        assert!(found.iter().all(|one| expected.contains(one)), "{text}");
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{text}");

        let mut groups: Vec<usize> = between.iter().map(|trail| trail.edges.len()).collect();
        groups.dedup();
        groups.truncate(k);
        let kept = between
            .iter()
            .filter(|trail| groups.contains(&trail.edges.len()));
        let text = format!("MATCH p = SHORTEST {k} GROUPS {ends} {edges}");
        let expected = ids(kept.map(|trail| trail.edges.clone()));
        assert_eq!(column(db, &text), expected, "{text} {:?}", graph.edges);
    }
}

/// Views of all relationships and their weights.
fn make_views(db: &Database) {
    let catalog = db.store().unwrap().catalog();
    let weight = catalog.prop_id("w").unwrap();
    for kind in ["K", "L"].iter().filter_map(|name| catalog.type_id(name)) {
        for side in [AdjacencySide::Out, AdjacencySide::In] {
            let made = db.views().make(&ViewKind::Adjacency(kind, side));
            made.unwrap();
        }
        let weights = ViewKind::RelColumn(kind, [weight].into());
        db.views().make(&weights).unwrap();
    }
}

/// The weights of the lightest paths that repeat no node.
#[test]
fn lightest_paths_agree_with_trying_everything() {
    let mut random = Random(7);
    let mut compared = 0;
    for round in 0..12 {
        let graph = Graph::random(&mut random);
        let db = graph.database();
        // Over views, or over rows as long as no views are built.
        if round % 2 == 0 {
            make_views(&db);
        }
        for (direction, both) in [("outgoing", false), ("both", true)] {
            for from in 0..NODES {
                let allows = |trail: &Trail, edge: usize, forward: bool| {
                    let (source, target, ..) = graph.edges[edge];
                    let to = if forward { target } else { source };
                    (forward || both) && !trail.nodes.contains(&to)
                };
                let all = graph.trails(from, &allows);
                for to in 0..NODES {
                    let mut weights: Vec<f64> = all
                        .iter()
                        .filter(|trail| trail.nodes.last() == Some(&to))
                        .map(|trail| {
                            trail
                                .edges
                                .iter()
                                .map(|edge| graph.edges[*edge].3 as f64)
                                .sum()
                        })
                        .collect();
                    weights.sort_by(f64::total_cmp);
                    for k in [1, 3, 50] {
                        let text = format!(
                            "MATCH (x:N {{i: {from}}}), (y:N {{i: {to}}})
                             CALL algo.shortestPaths(x, y, {k}, {{weight: 'w', direction: '{direction}'}}) YIELD rank, path, weight
                             RETURN rank, weight, size(nodes(path)) AS nodes"
                        );
                        let rows = db.query(&text).unwrap();
                        let found: Vec<f64> = rows
                            .rows()
                            .iter()
                            .map(|row| row.value("weight").unwrap().to_f64().unwrap())
                            .collect();
                        let expected: Vec<f64> = weights.iter().copied().take(k).collect();
                        assert_eq!(found, expected, "{text} {:?}", graph.edges);
                        compared += found.len();
                    }
                }
            }
        }
    }
    assert!(compared > 300, "only {compared} paths were compared");
}

/// Walks longer than the execution allows are an error, from rows and from views: a partial result is never returned.
#[test]
fn no_walk_is_cut_short_in_silence() {
    let db = place::open_empty().unwrap();
    db.query("CREATE (:N {i: 0})-[:R]->(:N {i: 1})-[:R]->(:N {i: 2})-[:R]->(:N {i: 3})-[:R]->(:N {i: 4})")
    .unwrap();
    let query = "MATCH (a:N {i: 0})-[:R*]->(b) RETURN count(DISTINCT b) AS c";
    let ask = |steps: u64| {
        let mut limits = Limits::default();
        limits.path_steps = steps;
        db.query(Query::new(query).options(&QueryOptions::new().limits(limits)))
    };
    for _ in ["rows", "views"] {
        assert_eq!(ask(3).unwrap_err().kind(), ErrorKind::Limit);
        let all = ask(9).unwrap().deserialize::<i64>().unwrap();
        assert_eq!(all, [4]);
        make_adjacency(&db);
    }
}

/// Whether two nodes are connected is looked up from one end: the reverse view is not built for that.
#[test]
fn a_pair_of_nodes_asks_for_the_view_of_one_side() {
    let db = place::open_empty().unwrap();
    for text in [
        "UNWIND range(1, 50) AS i CREATE (:N {_key: i})",
        "MATCH (a:N), (b:N) CREATE (a)-[:R]->(b)",
    ] {
        db.query(text).unwrap();
    }
    let query = "MATCH (:N {_key: 1})-[:R]->(:N {_key: 2}) RETURN 1";
    for _ in ["rows", "views"] {
        let plan = db.query(&format!("PROFILE {query}")).unwrap();
        assert!(plan.plan().unwrap().contains("ExpandInto"), "{plan:?}");
        assert_eq!(db.query(query).unwrap().len(), 1);
        db.views().wait_ready();
    }
    let known = db.views().status();
    let sides = known.iter().filter_map(|view| match view.kind {
        ViewKind::Adjacency(_, side) if view.state == ViewState::Standing => Some(side),
        _ => None,
    });
    assert_eq!(sides.collect::<Vec<_>>(), [AdjacencySide::Out]);
}

/// Builds the views of all relationships.
fn make_adjacency(db: &Database) {
    let store = db.store().unwrap();
    for (type_id, _) in store.catalog().types() {
        for side in isomer_db::internals::views::AdjacencySide::BOTH {
            let kind = isomer_db::internals::views::ViewKind::Adjacency(type_id, side);
            db.views().make(&kind).unwrap();
        }
    }
}
