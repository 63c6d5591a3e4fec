//! One-line descriptions of procedures, for `SHOW PROCEDURES`.

/// Procedures: name, description.
const PROCEDURES: &[(&str, &str)] = &[
    (
        "kv.put",
        "writes a value under a key of a bucket; null deletes the key",
    ),
    ("kv.delete", "deletes a key from a bucket"),
    ("kv.deleteRange", "deletes the keys of a bucket in a range"),
    (
        "kv.deletePrefix",
        "deletes the keys of a bucket that begin with a prefix",
    ),
    ("kv.scan", "pairs of a bucket in the order of their keys"),
    ("kv.prefix", "pairs whose keys begin with a prefix"),
    ("kv.seek", "the first pairs whose keys are a key or greater"),
    ("kv.next", "the pairs after a key, or the first ones"),
    (
        "kv.previous",
        "the pairs before a key, the nearest first, or the last ones",
    ),
    (
        "kv.getMany",
        "the values under several keys, in their order, in one batch",
    ),
    ("file.write", "creates or replaces a file with this content"),
    (
        "file.append",
        "appends to a file, which is created if the path is free",
    ),
    (
        "file.createFolder",
        "creates a folder and its missing parents",
    ),
    ("file.move", "moves a file, or a folder with its content"),
    ("file.remove", "removes a file, or an empty folder"),
    (
        "file.removeAll",
        "removes a file, or a folder with its content",
    ),
    ("file.list", "the entries of a folder, by name"),
    (
        "db.awaitIndex",
        "waits until an index is complete, at most the seconds given or 300",
    ),
    (
        "db.awaitIndexes",
        "waits until all indexes are complete, at most the seconds given or 300",
    ),
    (
        "db.statistics",
        "the planner's statistics on labels, relationships and values",
    ),
    (
        "algo.shortestPath",
        "a path of least weight between two nodes; by A* if nodes have positions",
    ),
    (
        "algo.shortestPaths",
        "the k paths of least weight between two nodes that repeat no node",
    ),
    (
        "algo.betweenness",
        "how many shortest paths lead through each node, optionally sampled",
    ),
    ("algo.closeness", "how close each node is to all others"),
    ("algo.degree", "how many relationships each node has"),
    (
        "algo.distances",
        "the least weight from one or several nodes to each node",
    ),
    (
        "algo.kCore",
        "the largest k such that the node is in a subgraph in which all nodes have k neighbours",
    ),
    (
        "algo.labelPropagation",
        "communities by majority among neighbours",
    ),
    ("algo.louvain", "communities of high modularity"),
    (
        "algo.pageRank",
        "the share of a random walk's visits to each node",
    ),
    (
        "algo.stronglyConnected",
        "components in which every node reaches every other",
    ),
    (
        "algo.triangles",
        "triangles at each node, and its clustering coefficient",
    ),
    (
        "algo.weaklyConnected",
        "components that are connected in any direction",
    ),
];

/// Description of a procedure of the language.
pub(crate) fn procedure(name: &str) -> Option<&'static str> {
    PROCEDURES
        .iter()
        .find(|(one, _)| *one == name)
        .map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use crate::procedure::Registry;

    #[test]
    fn every_procedure_is_described() {
        for known in Registry::with_builtins().procedures() {
            let name = &known.signature().name;
            let described = known.description().or_else(|| super::procedure(name));
            assert!(described.is_some(), "{name}");
        }
    }
}
