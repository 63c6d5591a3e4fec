//! One-line descriptions of functions and procedures, for `SHOW FUNCTIONS` and `SHOW PROCEDURES`.

/// Built-in functions: name, parameters, description.
const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("coalesce", "value, …", "the first value that is not null"),
    (
        "nullIf",
        "a, b",
        "null if the two are equal, otherwise the first",
    ),
    (
        "id",
        "entity",
        "the number of a node or relationship in this database",
    ),
    (
        "elementId",
        "entity",
        "its identifier for clients, `4:database:number` of a node and `5:database:number` of a relationship; when compared with a \
         text, the number alone is accepted as well",
    ),
    ("type", "relationship", "the name of its type"),
    ("startNode", "relationship", "the node where it starts"),
    ("endNode", "relationship", "the node where it ends"),
    ("labels", "node", "its labels, sorted"),
    ("keys", "entity or map", "the names of its properties"),
    ("properties", "entity or map", "its properties as a map"),
    ("exists", "property", "whether it is not null"),
    (
        "degree",
        "node, [type], [direction]",
        "how many relationships a node has",
    ),
    ("valueType", "value", "the name of a value's type"),
    (
        "timestamp",
        "",
        "milliseconds since 1970-01-01, at the start of the statement",
    ),
    ("randomUUID", "", "a random identifier"),
    (
        "toInteger",
        "value",
        "an integer from a number, boolean or text; null if the text is not a number",
    ),
    (
        "toFloat",
        "value",
        "a float from a number or text; null if the text is not a number",
    ),
    (
        "toBoolean",
        "value",
        "a boolean from text, an integer or a boolean; null if the text is neither true nor false",
    ),
    (
        "toString",
        "value",
        "text from a number, boolean, text or temporal value",
    ),
    (
        "toIntegerOrNull",
        "value",
        "like toInteger, but null instead of an error",
    ),
    (
        "toFloatOrNull",
        "value",
        "like toFloat, but null instead of an error",
    ),
    (
        "toBooleanOrNull",
        "value",
        "like toBoolean, but null instead of an error",
    ),
    (
        "toStringOrNull",
        "value",
        "like toString, but null instead of an error",
    ),
    ("toIntegerList", "list", "toIntegerOrNull of each element"),
    ("toFloatList", "list", "toFloatOrNull of each element"),
    ("toBooleanList", "list", "toBooleanOrNull of each element"),
    ("toStringList", "list", "toStringOrNull of each element"),
    ("head", "list", "the first element"),
    ("last", "list", "the last element"),
    ("tail", "list", "all elements but the first"),
    (
        "range",
        "start, end, [step]",
        "the integers from start to end, both included",
    ),
    (
        "reverse",
        "list or text",
        "the elements or characters in reverse order",
    ),
    (
        "size",
        "list or text",
        "the number of elements or characters",
    ),
    ("length", "path", "the number of its relationships"),
    ("nodes", "path", "its nodes"),
    ("relationships", "path", "its relationships"),
    ("isEmpty", "list, map or text", "whether it is empty"),
    ("abs", "number", "its absolute value"),
    (
        "ceil",
        "number",
        "the smallest integer that is not less than it",
    ),
    (
        "floor",
        "number",
        "the greatest integer that is not greater than it",
    ),
    (
        "round",
        "number, [precision], [mode]",
        "rounded to this number of decimal places",
    ),
    ("sign", "number", "-1, 0 or 1"),
    ("rand", "", "a random float from 0 to below 1"),
    ("isNaN", "number", "whether it is NaN (not a number)"),
    ("e", "", "the base of natural logarithms"),
    (
        "pi",
        "",
        "the ratio of a circle's circumference to its diameter",
    ),
    ("exp", "number", "e raised to this power"),
    ("log", "number", "its natural logarithm"),
    ("log10", "number", "its logarithm to base 10"),
    ("sqrt", "number", "its square root"),
    ("sin", "radians", "sine"),
    ("cos", "radians", "cosine"),
    ("tan", "radians", "tangent"),
    ("cot", "radians", "cotangent"),
    ("asin", "number", "the angle with this sine"),
    ("acos", "number", "the angle with this cosine"),
    ("atan", "number", "the angle with this tangent"),
    ("atan2", "y, x", "the angle of a point"),
    ("degrees", "radians", "an angle in degrees"),
    ("radians", "degrees", "an angle in radians"),
    ("haversin", "radians", "half of the versine"),
    ("toLower", "text", "in lower case"),
    ("toUpper", "text", "in upper case"),
    ("lower", "text", "in lower case"),
    ("upper", "text", "in upper case"),
    ("trim", "text", "without whitespace at both ends"),
    ("lTrim", "text", "without whitespace at its start"),
    ("rTrim", "text", "without whitespace at its end"),
    (
        "bTrim",
        "text, [characters]",
        "without these characters at both ends",
    ),
    ("left", "text, length", "its first characters"),
    ("right", "text, length", "its last characters"),
    (
        "substring",
        "text, start, [length]",
        "a part of it, counted from 0",
    ),
    (
        "replace",
        "text, search, replacement",
        "with every occurrence replaced",
    ),
    (
        "split",
        "text, delimiter",
        "its parts between the delimiters",
    ),
    ("char_length", "text", "the number of characters"),
    ("point", "map", "a point from its coordinates"),
    ("point.distance", "a, b", "the distance between two points"),
    ("distance", "a, b", "the distance between two points"),
    (
        "date",
        "[value]",
        "a date: now, from text, from a map or from another temporal value",
    ),
    ("time", "[value]", "a time with an offset"),
    ("localtime", "[value]", "a time without an offset"),
    ("datetime", "[value]", "a date and time with a zone"),
    ("localdatetime", "[value]", "a date and time without a zone"),
    ("duration", "value", "a duration from text or a map"),
    (
        "date.truncate",
        "unit, [value], [fields]",
        "truncated to a unit, then with these fields set",
    ),
    (
        "time.truncate",
        "unit, [value], [fields]",
        "truncated to a unit, then with these fields set",
    ),
    (
        "localtime.truncate",
        "unit, [value], [fields]",
        "truncated to a unit, then with these fields set",
    ),
    (
        "datetime.truncate",
        "unit, [value], [fields]",
        "truncated to a unit, then with these fields set",
    ),
    (
        "localdatetime.truncate",
        "unit, [value], [fields]",
        "truncated to a unit, then with these fields set",
    ),
    (
        "datetime.fromepoch",
        "seconds, nanoseconds",
        "an instant counted from 1970-01-01",
    ),
    (
        "datetime.fromepochmillis",
        "milliseconds",
        "an instant counted from 1970-01-01",
    ),
    (
        "duration.between",
        "a, b",
        "from one to the other, in months, days and seconds",
    ),
    (
        "duration.inMonths",
        "a, b",
        "from one to the other, in whole months",
    ),
    (
        "duration.inDays",
        "a, b",
        "from one to the other, in whole days",
    ),
    (
        "duration.inSeconds",
        "a, b",
        "from one to the other, in seconds",
    ),
    (
        "kv.get",
        "bucket, key",
        "the value under a key of a bucket; null if there is none",
    ),
    ("kv.exists", "bucket, key", "whether a bucket has a key"),
    (
        "kv.key",
        "parts",
        "bytes that sort as the parts do: a key of a bucket",
    ),
    ("kv.keyParts", "key", "the parts of such a key, as a list"),
    (
        "file.exists",
        "path",
        "whether a file or folder exists at a path",
    ),
    (
        "file.size",
        "path",
        "the size of a file in bytes; null if it does not exist",
    ),
    (
        "file.text",
        "path",
        "the content of a file as text; null if it does not exist",
    ),
    (
        "file.bytes",
        "path, [offset], [length]",
        "bytes of a file; null if it does not exist",
    ),
    (
        "convergent.kind",
        "entity, path",
        "the kind of the convergent field at a path; null if there is none",
    ),
    (
        "convergent.value",
        "entity, path",
        "the value of the convergent field at a path; null if there is none",
    ),
    (
        "convergent.contains",
        "entity, path, value",
        "whether the convergent set at a path has an element, without loading the set",
    ),
    (
        "convergent.size",
        "entity, path",
        "the number of elements of the convergent set, or fields of the map, at a path",
    ),
    (
        "convergent.page",
        "entity, path, after, limit",
        "elements of the convergent set at a path after `after` (null: from the first), in order",
    ),
    ("date.transaction", "[zone]", "when the transaction began"),
    ("date.statement", "[zone]", "when the statement began"),
    ("date.realtime", "[zone]", "at this moment"),
    ("time.transaction", "[zone]", "when the transaction began"),
    ("time.statement", "[zone]", "when the statement began"),
    ("time.realtime", "[zone]", "at this moment"),
    (
        "localtime.transaction",
        "[zone]",
        "when the transaction began",
    ),
    ("localtime.statement", "[zone]", "when the statement began"),
    ("localtime.realtime", "[zone]", "at this moment"),
    (
        "datetime.transaction",
        "[zone]",
        "when the transaction began",
    ),
    ("datetime.statement", "[zone]", "when the statement began"),
    ("datetime.realtime", "[zone]", "at this moment"),
    (
        "localdatetime.transaction",
        "[zone]",
        "when the transaction began",
    ),
    (
        "localdatetime.statement",
        "[zone]",
        "when the statement began",
    ),
    ("localdatetime.realtime", "[zone]", "at this moment"),
];

/// Aggregations: name, parameters, description.
const AGGREGATIONS: &[(&str, &str, &str)] = &[
    ("count(*)", "", "the number of rows"),
    ("count", "value", "the number of values that are not null"),
    (
        "sum",
        "number or duration",
        "the sum; 0 if there are no values",
    ),
    (
        "avg",
        "number or duration",
        "the mean; null if there are no values",
    ),
    ("min", "value", "the smallest value"),
    ("max", "value", "the greatest value"),
    (
        "collect",
        "value",
        "the values that are not null, as a list",
    ),
    ("stDev", "number", "the standard deviation of a sample"),
    ("stDevP", "number", "the standard deviation of a population"),
    (
        "percentileCont",
        "number, share",
        "a percentile, interpolated",
    ),
    (
        "percentileDisc",
        "number, share",
        "a percentile, the nearest value that occurs",
    ),
];

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

/// Parameters and description of a built-in function.
pub(crate) fn function(name: &str) -> Option<(&'static str, &'static str)> {
    find(FUNCTIONS, name)
}

/// Parameters and description of an aggregation.
pub(crate) fn aggregation(name: &str) -> Option<(&'static str, &'static str)> {
    find(AGGREGATIONS, name)
}

fn find(
    known: &[(&str, &'static str, &'static str)],
    name: &str,
) -> Option<(&'static str, &'static str)> {
    known
        .iter()
        .find(|(one, ..)| *one == name)
        .map(|(_, parameters, text)| (*parameters, *text))
}

/// Description of a procedure of the language.
pub(crate) fn procedure(name: &str) -> Option<&'static str> {
    PROCEDURES
        .iter()
        .find(|(one, _)| *one == name)
        .map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use isomer_plan::function::{Aggregation, Function};

    use crate::procedure::Registry;

    #[test]
    fn everything_that_can_be_called_is_described() {
        for known in Function::ALL {
            assert!(super::function(known.name()).is_some(), "{}", known.name());
        }
        for known in Aggregation::ALL {
            assert!(
                super::aggregation(known.name()).is_some(),
                "{}",
                known.name()
            );
        }
        for known in Registry::with_builtins().procedures() {
            let name = &known.signature().name;
            assert!(super::procedure(name).is_some(), "{name}");
        }
        assert_eq!(super::FUNCTIONS.len(), Function::ALL.len());
        assert_eq!(super::AGGREGATIONS.len(), Aggregation::ALL.len());
    }
}
