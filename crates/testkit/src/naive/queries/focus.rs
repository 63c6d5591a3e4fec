//! Query shapes with special plans: counts, groups and distinct ends of paths, sorts provided by an index,
//! joins, existence, seeks of relationships, unions of seeks, conditions that fail for rows that others drop. Without
//! predicates that filter out everything.

use super::expression::leaf;
use super::graph::{LABELS, TYPES};
use super::maker::{Kind, Maker};

/// Properties with indexes, and others.
const FIELDS: [&str; 10] = ["v", "s", "f", "d.x", "m", "t", "z", "h", "du", "i"];

/// A query of one of these shapes.
pub(super) fn focused(maker: &mut Maker<'_>) -> String {
    match maker.random.below(20) {
        15 | 16 => repeated(maker),
        17 => hinted(maker),
        18 | 19 => guarded(maker),
        0 | 1 => counted_walk(maker),
        2 => extremes(maker),
        3 | 4 => sorted(maker),
        5 => ends(maker),
        6 => grouped(maker),
        7 => closed(maker),
        8 => joined(maker),
        9 => existing(maker),
        10 | 11 => sought_links(maker),
        12 | 13 => alternatives(maker),
        _ => grouped_walk(maker),
    }
}

/// Walks that may use a relationship several times, and elements with their positions.
fn repeated(maker: &mut Maker<'_>) -> String {
    let (first, second) = (maybe_label(maker), maybe_label(maker));
    let one = link(maker, "r");
    let many = match maker.random.below(3) {
        0 => link(maker, "q") + "{1,3}",
        1 => link(maker, "q") + "{0,2}",
        _ => format!("((l){}(m)){{1,2}}", link(maker, "q")),
    };
    let mode = *maker.random.pick(&["", "", "WALK ", "TRAIL ", "ACYCLIC "]);
    match maker.random.below(4) {
        0 => format!(
            "MATCH REPEATABLE ELEMENTS {mode}(a{first}){many}(b{second}) RETURN a.i AS x, b.i AS y, size(q) AS z"
        ),
        1 => format!(
            "MATCH REPEATABLE ELEMENTS {mode}(a{first}){one}(b){many}(c{second}) RETURN a.i AS x, c.i AS y, r IN q AS z"
        ),
        2 => format!(
            "MATCH REPEATABLE ELEMENTS (a{first}){one}(b), {mode}(b){many}(c) RETURN b.i AS x, count(*) AS y"
        ),
        _ => format!(
            "MATCH (a{first}) FOR k IN [a.v, a.s, null] WITH ORDINALITY n MATCH (a){one}(b) RETURN b.i AS x, k, n"
        ),
    }
}

/// A condition that is false or null wherever [`fragile`] of the same node would fail: for 0, and for values of other
/// types than numbers. A plan may test both for nodes that the rest of the pattern drops.
fn guard(maker: &mut Maker<'_>, node: &str) -> String {
    match maker.random.below(6) {
        0 => format!("{node}.v > 0"),
        1 => format!("{node}.v IN [1, 2, 3]"),
        2 => format!("NOT {node}.v <= 0"),
        // These cost more than what they protect.
        3 => format!("size([x IN [{node}.v, {node}.i] WHERE x = {node}.v AND x > 0]) > 0"),
        4 => format!("any(x IN [{node}.v, {node}.v] WHERE x > 0)"),
        _ => format!("{node}.v >= 1"),
    }
}

/// A condition that fails for a node whose `v` is 0.
fn fragile(maker: &mut Maker<'_>, node: &str) -> String {
    match maker.random.below(6) {
        0 => format!("6 % {node}.v = 0"),
        1 => format!("NOT 6 / {node}.v < 3"),
        2 => format!("6 / {node}.v IN [2, 3, null]"),
        3 => format!("({node}.i < 3 OR 6 / {node}.v > 2)"),
        4 => format!("toString(6 / {node}.v) <> '3'"),
        _ => format!("6 / {node}.v > {}", maker.random.below(4)),
    }
}

/// A condition that succeeds for every row, or none.
fn sound(maker: &mut Maker<'_>, node: &str) -> String {
    match maker.random.below(4) {
        0 => format!("{node}.s = {} AND ", leaf(maker, Kind::Text)),
        1 => format!("{node}.i <> {} AND ", maker.random.below(4)),
        _ => String::new(),
    }
}

/// Conditions that would fail for rows that the conditions before them drop: none of these queries may fail.
fn guarded(maker: &mut Maker<'_>) -> String {
    let (one, two) = (maybe_label(maker), maybe_label(maker));
    let (r, q) = (link(maker, "r"), link(maker, "q"));
    let node = maker.pick(&["a", "b"]);
    let (guard, fragile) = (guard(maker, node), fragile(maker, node));
    let (first, second) = (sound(maker, "a"), sound(maker, "b"));
    match maker.random.below(13) {
        0 => format!(
            "MATCH (a{one}){r}(b{two}) WHERE {first}{guard} AND {second}{fragile} RETURN a.i AS x, b.i AS y"
        ),
        1 => format!(
            "MATCH (a{one}){r}(b{two}) WITH a, b WHERE {first}{guard} WITH a, b WHERE {second}{fragile} RETURN a.i AS x, b.i AS y"
        ),
        2 => format!(
            "MATCH (a{one}) WHERE {first}a.v > 0 MATCH (a){r}(b{two}) WHERE {second}6 / a.v > 2 RETURN a.i AS x, b.i AS y"
        ),
        3 => format!(
            "MATCH (a{one}){r}(b{two}) WHERE {first}a.v <> b.v WITH a, b WHERE {second}6 / (a.v - b.v) > 1 RETURN a.i AS x, b.i AS y"
        ),
        4 => format!(
            "MATCH (a{one}){r}(b{two}) WHERE a.v > b.v AND b.v >= 0 MATCH (b){q}(c) WHERE {second}6 / (a.v - b.v) <= c.v RETURN a.i AS x, c.i AS y"
        ),
        5 => format!(
            "MATCH (a{one}) OPTIONAL MATCH (a){r}(b{two}) WHERE {second}b.v > 0 AND 6 / b.v > 1 RETURN a.i AS x, b.i AS y"
        ),
        6 => format!(
            "MATCH (a{one}) WHERE EXISTS {{ (a){r}(b) }} AND 6 / COUNT {{ (a){r}(b) }} > 1 RETURN a.i AS x"
        ),
        7 => format!(
            "MATCH (a{one}) WHERE {first}a.v > 0 MATCH (b{two}) WHERE b.v = 6 / a.v RETURN a.i AS x, b.i AS y"
        ),
        8 => format!(
            "MATCH (a{one}) WHERE {first}a.v > 0 MATCH (a)((l){q}(m) WHERE 6 / a.v > 1){{1,2}}(b{two}) RETURN a.i AS x, b.i AS y"
        ),
        9 => format!(
            "MATCH (a{one}) WHERE {first}a.v > 0 MATCH (b{two}) WHERE {second}b.v > 0 MATCH (a){r}(b) WHERE 6 / (a.v * b.v) > 0 RETURN a.i AS x, b.i AS y"
        ),
        10 => format!(
            "MATCH (a{one}){r}(b{two}) WITH DISTINCT a, b WHERE {guard} WITH a, b ORDER BY a.i, b.i WHERE {second}{fragile} RETURN a.i AS x, b.i AS y"
        ),
        11 => format!(
            "UNWIND [0, 1, 2, null] AS k MATCH (a{one}) WHERE k <> 0 AND {first}a.v = 6 / k RETURN k, a.i AS x"
        ),
        _ => {
            format!("MATCH (a{one}) WHERE a.i = 1 OR (a.v > 0 AND a.f > 6 / a.v) RETURN a.i AS x")
        }
    }
}

/// Patterns with hints that every plan can follow.
fn hinted(maker: &mut Maker<'_>) -> String {
    let (first, second) = (*maker.random.pick(&LABELS), *maker.random.pick(&LABELS));
    let (one, two) = (link(maker, "r"), link(maker, "q"));
    let field = *maker.random.pick(&["v", "s", "i"]);
    let value = match field {
        "s" => "'a'".to_owned(),
        _ => maker.random.below(3).to_string(),
    };
    match maker.random.below(4) {
        0 => format!(
            "MATCH (a:{first}){one}(b:{second}) USING SCAN b:{second} WHERE a.{field} = {value} RETURN a.i AS x, b.i AS y"
        ),
        1 => format!(
            "MATCH (a:{first}){one}(b:{second}) USING SCAN a:{first} USING SCAN b:{second} RETURN a.i AS x, b.i AS y"
        ),
        2 => format!(
            "MATCH (a:{first}){one}(b){two}(c:{second}) USING JOIN ON b RETURN a.i AS x, c.i AS y, count(*) AS z"
        ),
        _ => format!(
            "MATCH (a:{first}){one}(b:{second}) USING INDEX b:{second}({field}) WHERE b.{field} = {value} RETURN a.i AS x, b.i AS y"
        ),
    }
}

fn maybe_label(maker: &mut Maker<'_>) -> String {
    match maker.once_in(2) {
        true => format!(":{}", maker.random.pick(&LABELS)),
        false => String::new(),
    }
}

fn link(maker: &mut Maker<'_>, name: &str) -> String {
    let types = match maker.random.below(4) {
        0 => String::new(),
        1 => format!(
            ":{}|{}",
            maker.random.pick(&TYPES),
            maker.random.pick(&TYPES)
        ),
        _ => format!(":{}", maker.random.pick(&TYPES)),
    };
    let (left, right) = *maker
        .random
        .pick(&[("-", "->"), ("-", "->"), ("<-", "-"), ("-", "-")]);
    format!("{left}[{name}{types}]{right}")
}

/// `(a)-->(b)-->(c)`, of one to three links.
fn walk(maker: &mut Maker<'_>) -> (String, Vec<&'static str>) {
    let mut text = format!("(a{})", maybe_label(maker));
    let mut nodes = vec!["a"];
    for (node, name) in [("b", "r"), ("c", "q"), ("d", "p")]
        .into_iter()
        .take(1 + maker.random.below(3) as usize)
    {
        let (link, label) = (
            link(maker, name),
            if maker.once_in(3) {
                maybe_label(maker)
            } else {
                String::new()
            },
        );
        text = format!("{text}{link}({node}{label})");
        nodes.push(node);
    }
    (text, nodes)
}

fn filter(maker: &mut Maker<'_>, nodes: &[&str]) -> String {
    if !maker.once_in(3) {
        return String::new();
    }
    let node = *maker.random.pick(nodes);
    let comparison = maker.pick(&["=", "<>", "<", ">=", "<="]);
    match maker.random.below(4) {
        0 => format!(" WHERE {node}.v {comparison} {}", maker.random.below(4)),
        1 => format!(" WHERE {node}.s {comparison} {}", leaf(maker, Kind::Text)),
        2 => format!(" WHERE {node}.i <> a.i"),
        _ => format!(" WHERE {node}.v {comparison} a.v"),
    }
}

fn counted_walk(maker: &mut Maker<'_>) -> String {
    let (walk, nodes) = walk(maker);
    let (filter, last) = (filter(maker, &nodes), nodes[nodes.len() - 1]);
    let count = match maker.random.below(6) {
        0 => format!("count(DISTINCT {last}) AS x"),
        1 => format!("count({last}.v) AS x, count(*) AS y"),
        2 => format!("sum({last}.v) AS x, min({last}.s) AS y"),
        3 => format!("collect(DISTINCT {last}.v) AS x"),
        4 => "count(r) AS x, count(DISTINCT r) AS y".to_owned(),
        _ => "count(*) AS x".to_owned(),
    };
    let key = match maker.random.below(5) {
        0 => "a, ".to_owned(),
        1 => "a.v AS k, ".to_owned(),
        2 => format!("{last} AS k, "),
        3 => "b.s AS k, a AS l, ".to_owned(),
        _ => String::new(),
    };
    format!("MATCH {walk}{filter} RETURN {key}{count}")
}

fn extremes(maker: &mut Maker<'_>) -> String {
    let (label, field, other) = (
        maybe_label(maker),
        *maker.random.pick(&FIELDS),
        *maker.random.pick(&FIELDS),
    );
    let filter = filter(maker, &["a"]);
    match maker.random.below(4) {
        3 => format!("MATCH (a{label}){filter} RETURN sum(a.du) AS x, max(a.{field}) AS y"),
        0 => format!("MATCH (a{label}){filter} RETURN min(a.{field}) AS x"),
        1 => format!("MATCH (a{label}){filter} RETURN max(a.{field}) AS x, count(*) AS c"),
        _ => format!(
            "MATCH (a{label}){filter} RETURN count(*) AS c, count(a.{field}) AS x, count(DISTINCT a.{other}) AS y"
        ),
    }
}

fn sorted(maker: &mut Maker<'_>) -> String {
    let (label, field, other) = (
        maybe_label(maker),
        *maker.random.pick(&FIELDS),
        *maker.random.pick(&FIELDS),
    );
    let (one, two) = (maker.pick(&["", " DESC"]), maker.pick(&["", " DESC"]));
    let filter = filter(maker, &["a"]);
    let further = match maker.once_in(3) {
        true => format!("{}(b)", link(maker, "r")),
        false => String::new(),
    };
    let (skip, limit) = (maker.random.below(3), maker.random.below(4));
    let page = match maker.random.below(4) {
        0 => String::new(),
        1 => format!(" SKIP {skip} LIMIT {limit}"),
        _ => format!(" LIMIT {limit}"),
    };
    let order = match maker.once_in(2) {
        true => format!("a.{field}{one}"),
        false => format!("a.{field}{one}, a.{other}{two}"),
    };
    match maker.once_in(4) {
        true => format!(
            "MATCH (a{label}){filter} WITH a ORDER BY a.{field}{one}, a.i{two}{page} MATCH (a){}(b) RETURN a.i AS x, b.i AS y",
            link(maker, "")
        ),
        false => format!(
            "MATCH (a{label}){further}{filter} RETURN a.{field} AS x, a.i AS y ORDER BY {order}{page}"
        ),
    }
}

fn ends(maker: &mut Maker<'_>) -> String {
    let (from, to) = (maybe_label(maker), maybe_label(maker));
    let types = format!(
        ":{}|{}",
        maker.random.pick(&TYPES),
        maker.random.pick(&TYPES)
    );
    let (left, right) = *maker.random.pick(&[("-", "->"), ("<-", "-"), ("-", "-")]);
    let least = maker.random.below(3);
    let length = match maker.once_in(4) {
        true => "*".to_owned(),
        false => format!("*{least}..{}", least + 1 + maker.random.below(2)),
    };
    let walk = format!("(a{from}){left}[{types}{length}]{right}(b{to})");
    match maker.random.below(5) {
        0 => format!("MATCH {walk} RETURN DISTINCT b.i AS x"),
        1 => format!("MATCH {walk} RETURN count(DISTINCT b) AS x"),
        2 => format!("MATCH {walk} RETURN a, count(DISTINCT b) AS x, count(*) AS y"),
        3 => format!("MATCH {walk} WHERE a <> b RETURN DISTINCT a.i AS x, b"),
        _ => format!("MATCH {walk} WITH DISTINCT a, b RETURN a.v AS x, collect(b.i) AS y"),
    }
}

fn grouped(maker: &mut Maker<'_>) -> String {
    let (label, field, other) = (
        maybe_label(maker),
        *maker.random.pick(&FIELDS),
        *maker.random.pick(&FIELDS),
    );
    let filter = filter(maker, &["a"]);
    let order = maker.pick(&[
        "",
        " ORDER BY c DESC, x",
        " ORDER BY x LIMIT 2",
        " ORDER BY c, x SKIP 1",
    ]);
    let more = match maker.once_in(2) {
        true => format!(", max(a.{other}) AS y"),
        false => String::new(),
    };
    format!("MATCH (a{label}){filter} RETURN a.{field} AS x, count(*) AS c{more}{order}")
}

fn grouped_walk(maker: &mut Maker<'_>) -> String {
    let (walk, nodes) = walk(maker);
    let filter = filter(maker, &nodes);
    let bound = maker.random.below(3);
    let order = maker.pick(&["", " ORDER BY c DESC, x", " ORDER BY c DESC, x LIMIT 2"]);
    format!(
        "MATCH {walk}{filter} WITH a, count(b) AS c WHERE c > {bound} RETURN a.i AS x, c{order}"
    )
}

fn closed(maker: &mut Maker<'_>) -> String {
    let (label, one, two, three) = (
        maybe_label(maker),
        link(maker, "r"),
        link(maker, "q"),
        link(maker, ""),
    );
    match maker.random.below(3) {
        0 => format!("MATCH (a{label}){one}(b){two}(a) RETURN a.i AS x, b.i AS y"),
        1 => format!("MATCH (a{label}){one}(b){two}(c){three}(a) RETURN count(*) AS x"),
        _ => format!(
            "MATCH (a{label}){one}(b) MATCH (a){two}(b) RETURN a.i AS x, b.i AS y, r = q AS z"
        ),
    }
}

fn joined(maker: &mut Maker<'_>) -> String {
    let (one, two, field) = (
        maybe_label(maker),
        maybe_label(maker),
        *maker.random.pick(&FIELDS),
    );
    let comparison = maker.pick(&["=", "=", "=", "<", "<>"]);
    let link = match maker.once_in(2) {
        true => format!("{}(c)", link(maker, "r")),
        false => String::new(),
    };
    match maker.random.below(3) {
        0 => format!(
            "MATCH (a{one}), (b{two}){link} WHERE a.{field} {comparison} b.{field} RETURN a.i AS x, b.i AS y"
        ),
        1 => format!(
            "MATCH (a{one}) MATCH (b{two}){link} WHERE a.{field} {comparison} b.{field} AND a <> b RETURN count(*) AS x"
        ),
        _ => format!(
            "MATCH (a{one}) OPTIONAL MATCH (b{two}){link} WHERE a.{field} {comparison} b.{field} RETURN a.i AS x, count(b) AS y"
        ),
    }
}

fn existing(maker: &mut Maker<'_>) -> String {
    let (label, link, other) = (maybe_label(maker), link(maker, ""), link(maker, ""));
    let inner = maybe_label(maker);
    let not = maker.pick(&["", "NOT "]);
    match maker.random.below(4) {
        0 => format!("MATCH (a{label}) WHERE {not}EXISTS {{ (a){link}(b{inner}) }} RETURN a"),
        1 => format!(
            "MATCH (a{label}) WHERE {not}(a){link}() RETURN a.i AS x, COUNT {{ (a){other}() }} AS y"
        ),
        2 => format!(
            "MATCH (a{label}){other}(b) WHERE {not}EXISTS {{ MATCH (b){link}(c{inner}) WHERE c.v = a.v }} RETURN a.i AS x, b.i AS y"
        ),
        _ => format!(
            "MATCH (a{label}) OPTIONAL MATCH (a){link}(b{inner}) OPTIONAL MATCH (b){other}(c) RETURN a.i AS x, b.i AS y, count(c) AS z"
        ),
    }
}

/// A test of an indexed property of a node or relationship.
fn sought(maker: &mut Maker<'_>, variable: &str, number: &str) -> String {
    match maker.random.below(9) {
        0 | 1 => format!("{variable}.{number} = {}", maker.random.below(4)),
        2 => format!("{variable}.i = {}", maker.random.below(6)),
        3 => format!("{variable}.s = {}", leaf(maker, Kind::Text)),
        4 => format!(
            "{variable}.{number} IN [{}, {}, null]",
            maker.random.below(4),
            maker.random.below(4)
        ),
        5 => format!("{variable}.i > {}", maker.random.below(6)),
        6 => format!("{variable}.s STARTS WITH {}", leaf(maker, Kind::Text)),
        7 => format!(
            "{variable}.{number} = {} AND {variable}.s = {}",
            maker.random.below(4),
            leaf(maker, Kind::Text)
        ),
        _ => format!(
            "{} <= {variable}.{number} < {}",
            maker.random.below(2),
            1 + maker.random.below(3)
        ),
    }
}

/// Tests joined by `OR`, or one of them.
fn alternative_tests(maker: &mut Maker<'_>, variable: &str, number: &str) -> String {
    let count = 1 + maker.random.below(3);
    let tests: Vec<String> = (0..count)
        .map(|_| sought(maker, variable, number))
        .collect();
    tests.join(" OR ")
}

/// Relationships that an index may find first.
fn sought_links(maker: &mut Maker<'_>) -> String {
    let (from, to) = (maybe_label(maker), maybe_label(maker));
    let one = link(maker, "r");
    let tests = alternative_tests(maker, "r", "w");
    let further = match maker.random.below(4) {
        0 => format!("{}(c)", link(maker, "q")),
        1 => format!(", (c{})", maybe_label(maker)),
        _ => String::new(),
    };
    let (field, way) = (maker.pick(&["w", "s", "i"]), maker.pick(&["", " DESC"]));
    match maker.random.below(8) {
        0 => format!("MATCH (a{from}){one}(b{to}){further} WHERE {tests} RETURN count(*) AS x"),
        1 => format!(
            "MATCH (a{from}){one}(b{to}) WHERE {tests} RETURN r.{field} AS x, a.i AS y, b.i AS z ORDER BY r.{field}{way}, r.i, a.i"
        ),
        2 => format!(
            "MATCH ()-[r:T]->() WHERE r.{field} IS NOT NULL RETURN r.{field} AS x ORDER BY x{way} LIMIT 2"
        ),
        3 => format!("MATCH ()-[r:T]->() RETURN min(r.{field}) AS x"),
        4 => format!(
            "MATCH (a{from}) OPTIONAL MATCH (a)-->(b), ()-[r:T]->(c) WHERE r.w = b.v RETURN a.i AS x, b.i AS y, c.i AS z"
        ),
        5 => format!(
            "UNWIND [0, 2, null, 1] AS k MATCH (a){one}(b) WHERE r.w = k RETURN k, a.i AS x, b.i AS y"
        ),
        6 => format!(
            "MATCH (a{from}) WHERE EXISTS {{ MATCH ()-[r:T]->(b) WHERE r.w = a.v }} RETURN a.i AS x"
        ),
        _ => format!(
            "MATCH (a{from}){one}(b{to}){further} WHERE {tests} RETURN a.i AS x, b.i AS y, r.i AS z"
        ),
    }
}

/// Nodes of which an index may find each alternative.
fn alternatives(maker: &mut Maker<'_>) -> String {
    let label = match maker.random.below(4) {
        0 => ":A|B".to_owned(),
        1 => ":B|C".to_owned(),
        2 => String::new(),
        _ => format!(":{}", maker.random.pick(&LABELS)),
    };
    let tests = alternative_tests(maker, "a", "v");
    let more = match maker.random.below(4) {
        0 => format!(" OR a:{} AND a.v = 1", maker.random.pick(&LABELS)),
        1 => format!(" OR a:{}", maker.random.pick(&LABELS)),
        _ => String::new(),
    };
    match maker.random.below(5) {
        0 => format!("MATCH (a{label}) WHERE {tests}{more} RETURN count(*) AS x, min(a.i) AS y"),
        1 => {
            let link = link(maker, "r");
            format!("MATCH (a{label}){link}(b) WHERE {tests}{more} RETURN a.i AS x, b.i AS y")
        }
        2 => format!(
            "MATCH (b{}) OPTIONAL MATCH (a{label}) WHERE a.v = b.v OR a.i = b.i RETURN b.i AS x, a.i AS y",
            maybe_label(maker)
        ),
        3 => format!(
            "UNWIND [1, 0, null] AS k MATCH (a{label}) WHERE a.v = k OR a.s = 'a' RETURN k, a.i AS x"
        ),
        _ => format!(
            "MATCH (a{label}) WHERE {tests}{more} RETURN a.i AS x ORDER BY a.v, a.i LIMIT 3"
        ),
    }
}
