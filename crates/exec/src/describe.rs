//! What functions and procedures are for, in a line each: for `SHOW FUNCTIONS` and `SHOW PROCEDURES`.

/// Built-in functions: name, parameters, what they give.
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
    ("elementId", "entity", "the same as text"),
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
        "an integer from a number, boolean or text; null from other text",
    ),
    (
        "toFloat",
        "value",
        "a float from a number or text; null from other text",
    ),
    (
        "toBoolean",
        "value",
        "a boolean from text, an integer or a boolean; null from other text",
    ),
    (
        "toString",
        "value",
        "text from a number, boolean, text or temporal value",
    ),
    (
        "toIntegerOrNull",
        "value",
        "as toInteger, null from what that refuses",
    ),
    (
        "toFloatOrNull",
        "value",
        "as toFloat, null from what that refuses",
    ),
    (
        "toBooleanOrNull",
        "value",
        "as toBoolean, null from what that refuses",
    ),
    (
        "toStringOrNull",
        "value",
        "as toString, null from what that refuses",
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
    ("reverse", "list or text", "the same backwards"),
    (
        "size",
        "list or text",
        "the number of elements or characters",
    ),
    ("length", "path", "the number of its relationships"),
    ("nodes", "path", "its nodes"),
    ("relationships", "path", "its relationships"),
    ("isEmpty", "list, map or text", "whether nothing is in it"),
    ("abs", "number", "its distance from 0"),
    ("ceil", "number", "the least whole number that is no less"),
    (
        "floor",
        "number",
        "the greatest whole number that is no more",
    ),
    (
        "round",
        "number, [precision], [mode]",
        "the nearest number with so many decimals",
    ),
    ("sign", "number", "-1, 0 or 1"),
    ("rand", "", "a random float from 0 to below 1"),
    ("isNaN", "number", "whether it is no number"),
    ("e", "", "the base of natural logarithms"),
    ("pi", "", "the circumference of a circle of diameter 1"),
    ("exp", "number", "e to its power"),
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
    ("toLower", "text", "in small letters"),
    ("toUpper", "text", "in capitals"),
    ("lower", "text", "in small letters"),
    ("upper", "text", "in capitals"),
    ("trim", "text", "without blanks at both ends"),
    ("lTrim", "text", "without blanks at its start"),
    ("rTrim", "text", "without blanks at its end"),
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
    ("point.distance", "a, b", "how far two points are apart"),
    ("distance", "a, b", "how far two points are apart"),
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
        "cut off below a unit, then with these fields",
    ),
    (
        "time.truncate",
        "unit, [value], [fields]",
        "cut off below a unit, then with these fields",
    ),
    (
        "localtime.truncate",
        "unit, [value], [fields]",
        "cut off below a unit, then with these fields",
    ),
    (
        "datetime.truncate",
        "unit, [value], [fields]",
        "cut off below a unit, then with these fields",
    ),
    (
        "localdatetime.truncate",
        "unit, [value], [fields]",
        "cut off below a unit, then with these fields",
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
        "the value under a key of a bucket; null where there is none",
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
        "whether a file or folder stands there",
    ),
    (
        "file.size",
        "path",
        "the bytes of a file; null where there is none",
    ),
    (
        "file.text",
        "path",
        "a file as text; null where there is none",
    ),
    (
        "file.bytes",
        "path, [offset], [length]",
        "bytes of a file; null where there is none",
    ),
    (
        "convergent.kind",
        "entity, path",
        "what the convergent field at a path is; null where there is none",
    ),
    (
        "convergent.value",
        "entity, path",
        "the value of the convergent field at a path; null where there is none",
    ),
    (
        "convergent.contains",
        "entity, path, value",
        "whether the convergent set at a path has an element, without loading the set",
    ),
    (
        "convergent.size",
        "entity, path",
        "how many elements the convergent set at a path has, or fields the map",
    ),
    (
        "convergent.page",
        "entity, path, after, limit",
        "elements of the convergent set at a path behind `after` (null: from the first), in their order",
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

/// Aggregations: name, parameters, what they give.
const AGGREGATIONS: &[(&str, &str, &str)] = &[
    ("count(*)", "", "the number of rows"),
    ("count", "value", "the number of values that are not null"),
    ("sum", "number or duration", "the sum; 0 of nothing"),
    ("avg", "number or duration", "the mean; null of nothing"),
    ("min", "value", "the first in the order of values"),
    ("max", "value", "the last in the order of values"),
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
        "a percentile, a value that occurs",
    ),
];

/// Procedures: name, what they give or do.
const PROCEDURES: &[(&str, &str)] = &[
    (
        "kv.put",
        "puts a value under a key of a bucket; null takes the key out",
    ),
    ("kv.delete", "takes a key out of a bucket"),
    (
        "kv.deleteRange",
        "takes the keys of a bucket out that lie in a range",
    ),
    (
        "kv.deletePrefix",
        "takes the keys of a bucket out that begin with something",
    ),
    ("kv.scan", "pairs of a bucket in the order of their keys"),
    ("kv.prefix", "pairs whose keys begin with something"),
    (
        "kv.seek",
        "the first pairs whose keys are a key or a later one",
    ),
    ("kv.next", "the pairs behind a key, or the first ones"),
    (
        "kv.previous",
        "the pairs before a key, the nearest first, or the last ones",
    ),
    (
        "kv.getMany",
        "the values under several keys, in their order, in one batch",
    ),
    (
        "file.write",
        "puts a file with this content, in place of one that is there",
    ),
    (
        "file.append",
        "writes behind the end of a file, which is made where nothing is",
    ),
    (
        "file.createFolder",
        "makes a folder, and those that it is in",
    ),
    (
        "file.move",
        "moves a file, or a folder with all that is in it",
    ),
    ("file.remove", "removes a file, or a folder that is empty"),
    (
        "file.removeAll",
        "removes a file, or a folder with all that is in it",
    ),
    ("file.list", "what a folder holds, by name"),
    (
        "db.statistics",
        "what the planner knows: how labels, relationships and values are spread",
    ),
    (
        "algo.shortestPath",
        "a path of least weight between two nodes; towards the target (A*) where nodes have positions",
    ),
    (
        "algo.shortestPaths",
        "the k paths of least weight between two nodes that visit no node twice",
    ),
    (
        "algo.betweenness",
        "how many shortest paths lead through each node, sampled if asked for",
    ),
    ("algo.closeness", "how near each node is to all others"),
    ("algo.degree", "how many relationships each node has"),
    (
        "algo.distances",
        "the least weight from one or several nodes to each node",
    ),
    (
        "algo.kCore",
        "the largest k such that the node is in a part where all have k neighbours",
    ),
    (
        "algo.labelPropagation",
        "communities by majority among neighbours",
    ),
    ("algo.louvain", "communities of high modularity"),
    (
        "algo.pageRank",
        "how often a random walk comes to each node",
    ),
    (
        "algo.stronglyConnected",
        "parts in which every node leads to every other",
    ),
    (
        "algo.triangles",
        "triangles at each node, and its clustering coefficient",
    ),
    (
        "algo.weaklyConnected",
        "parts that hang together whatever the direction",
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
