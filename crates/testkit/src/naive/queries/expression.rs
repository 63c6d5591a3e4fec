//! Random expressions of a requested kind.

use super::graph::{LABELS, TYPES};
use super::maker::{Kind, Maker};
use super::pattern::{label, path};
use super::temporal::{component, temporal, temporal_kind, temporal_literal, temporal_test};

/// All kinds of property values.
const PLAIN: [Kind; 12] = [
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bool,
    Kind::Ints,
    Kind::Texts,
    Kind::Map,
    Kind::Date,
    Kind::DateTime,
    Kind::LocalTime,
    Kind::Duration,
    Kind::Any,
];

/// An expression of a kind; occasionally of another one, if the query may be ill-typed.
pub(super) fn expression(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
    let mut kind = kind;
    if maker.ill && maker.once_in(14) {
        maker.risky = true;
        kind = *maker.random.pick(&PLAIN);
    }
    if depth == 0 || maker.once_in(4) {
        return leaf(maker, kind);
    }
    if maker.once_in(12) {
        return of_any_kind(maker, kind, depth - 1);
    }
    match kind {
        Kind::Int => int(maker, depth - 1),
        Kind::Float => float(maker, depth - 1),
        Kind::Text => text(maker, depth - 1),
        Kind::Bool => condition(maker, depth),
        Kind::Ints => ints(maker, depth - 1),
        Kind::Texts => texts(maker, depth - 1),
        Kind::Map => map(maker, depth - 1),
        Kind::Any => {
            let kind = *maker.random.pick(&PLAIN);
            expression(maker, kind, depth - 1)
        }
        Kind::Date
        | Kind::LocalTime
        | Kind::Time
        | Kind::LocalDateTime
        | Kind::DateTime
        | Kind::Duration => temporal(maker, kind, depth - 1),
        _ => leaf(maker, kind),
    }
}

/// A predicate for `WHERE`.
pub(super) fn condition(maker: &mut Maker<'_>, depth: u32) -> String {
    if depth == 0 {
        return leaf(maker, Kind::Bool);
    }
    let depth = depth - 1;
    test(maker, depth)
}

/// A pattern as a predicate, which only `WHERE` accepts.
pub(super) fn where_condition(maker: &mut Maker<'_>) -> String {
    let condition = condition(maker, 3);
    let Some(node) = maker.known(Kind::Node).filter(|_| maker.random.once_in(8)) else {
        return condition;
    };
    let (name, join, not) = (
        *maker.random.pick(&TYPES),
        maker.pick(&["AND", "OR"]),
        maker.pick(&["", "NOT "]),
    );
    format!("({condition}) {join} {not}({node})-[:{name}]->()")
}

/// A boolean expression.
fn test(maker: &mut Maker<'_>, depth: u32) -> String {
    let comparison = maker.pick(&["=", "<>", "<", "<=", ">", ">="]);
    match maker.random.below(25) {
        22..=24 => temporal_test(maker, depth),
        0..=3 => compared(maker, comparison, Kind::Int, depth),
        4 => compared(maker, comparison, Kind::Text, depth),
        5 => {
            let kind = *maker.random.pick(&PLAIN);
            format!(
                "{} {comparison} {}",
                expression(maker, kind, depth),
                expression(maker, Kind::Any, depth)
            )
        }
        6 => {
            let test = maker.pick(&["STARTS WITH", "ENDS WITH", "CONTAINS"]);
            format!(
                "{} {test} {}",
                expression(maker, Kind::Text, depth),
                leaf(maker, Kind::Text)
            )
        }
        7 => format!(
            "({} IN {})",
            expression(maker, Kind::Int, depth),
            expression(maker, Kind::Ints, depth)
        ),
        8 => {
            let kind = *maker.random.pick(&PLAIN);
            let not = maker.pick(&["", "NOT "]);
            format!("{} IS {not}NULL", leaf(maker, kind))
        }
        9 => {
            let join = maker.pick(&["AND", "OR", "XOR"]);
            format!(
                "({} {join} {})",
                expression(maker, Kind::Bool, depth),
                expression(maker, Kind::Bool, depth)
            )
        }
        10 => format!("NOT ({})", expression(maker, Kind::Bool, depth)),
        11 | 12 => match (maker.known(Kind::Node), maker.known(Kind::Node)) {
            (Some(a), Some(b)) if maker.once_in(2) => {
                format!("{a} {} {b}", maker.pick(&["=", "<>"]))
            }
            (Some(a), _) => {
                let label = label(maker);
                format!("({a}{label})")
            }
            _ => leaf(maker, Kind::Bool),
        },
        13 => {
            let quantifier = maker.pick(&["all", "any", "none", "single"]);
            let x = maker.fresh("x");
            let list = expression(maker, Kind::Ints, depth);
            let inner = maker.inside(&x, Kind::Int, |maker| expression(maker, Kind::Bool, depth));
            format!("{quantifier}({x} IN {list} WHERE {inner})")
        }
        14 => {
            let chain = maker.pick(&["<", "<=", "="]);
            let (a, b, c) = (
                leaf(maker, Kind::Int),
                leaf(maker, Kind::Int),
                leaf(maker, Kind::Int),
            );
            format!("{a} {chain} {b} <= {c}")
        }
        15 => {
            let kind = *maker.random.pick(&PLAIN);
            let wanted = maker.pick(&[
                "INTEGER",
                "FLOAT",
                "STRING",
                "BOOLEAN",
                "LIST<INTEGER>",
                "MAP",
                "INTEGER | FLOAT",
                "STRING NOT NULL",
                "DATE",
                "ZONED DATETIME",
                "LOCAL TIME | DURATION",
                "ANY",
            ]);
            format!("({} IS :: {wanted})", expression(maker, kind, depth))
        }
        16 if maker.known(Kind::Relationship).is_some() => {
            let one = maker.known(Kind::Relationship).unwrap_or_default();
            let name = *maker.random.pick(&TYPES);
            match maker.once_in(2) {
                true => format!("type({one}) = '{name}'"),
                false => format!("{one}:{name}"),
            }
        }
        17 | 18 if !maker.nested && maker.known(Kind::Node).is_some() => {
            let pattern = inner_path(maker);
            let not = maker.pick(&["", "NOT "]);
            let inner = inner_condition(maker);
            format!("{not}EXISTS {{ {pattern}{inner} }}")
        }
        19 => compared(maker, "=", Kind::Map, depth),
        20 => compared(maker, comparison, Kind::Ints, depth),
        _ => compared(maker, comparison, Kind::Float, depth),
    }
}

/// Two expressions of one kind and a comparison between them.
fn compared(maker: &mut Maker<'_>, comparison: &str, kind: Kind, depth: u32) -> String {
    let (a, b) = (
        expression(maker, kind, depth),
        expression(maker, kind, depth),
    );
    format!("{a} {comparison} {b}")
}

/// A path of a subquery, which declares no variables.
fn inner_path(maker: &mut Maker<'_>) -> String {
    let was = std::mem::replace(&mut maker.nested, true);
    let path = path(maker, false, &mut Vec::new());
    maker.nested = was;
    path
}

fn inner_condition(maker: &mut Maker<'_>) -> String {
    if !maker.once_in(3) {
        return String::new();
    }
    let was = std::mem::replace(&mut maker.nested, true);
    let condition = condition(maker, 1);
    maker.nested = was;
    format!(" WHERE {condition}")
}

/// Expressions of any kind: `CASE`, `coalesce`, an element.
fn of_any_kind(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
    let (a, b) = (
        expression(maker, kind, depth),
        expression(maker, kind, depth),
    );
    match maker.random.below(5) {
        0 => format!(
            "CASE WHEN {} THEN {a} ELSE {b} END",
            expression(maker, Kind::Bool, depth)
        ),
        1 => format!(
            "CASE {} WHEN {} THEN {a} END",
            leaf(maker, Kind::Int),
            leaf(maker, Kind::Int)
        ),
        2 => format!("coalesce({a}, {b})"),
        3 => format!("[{a}, {b}][{}]", maker.random.below(3)),
        _ => format!("nullIf({a}, {b})"),
    }
}

fn int(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.random.below(18) {
        16 | 17 => component(maker, depth),
        0..=2 => {
            let op = maker.pick(&["+", "-", "*"]);
            format!(
                "({} {op} {})",
                expression(maker, Kind::Int, depth),
                expression(maker, Kind::Int, depth)
            )
        }
        3 => {
            let op = maker.pick(&["/", "%"]);
            let divisor = match maker.ill && maker.once_in(3) {
                true => {
                    maker.risky = true;
                    leaf(maker, Kind::Int)
                }
                false => format!("{}", 1 + maker.random.below(3)),
            };
            format!("({} {op} {divisor})", expression(maker, Kind::Int, depth))
        }
        4 => format!("size({})", expression(maker, Kind::Ints, depth)),
        5 => format!("size({})", expression(maker, Kind::Text, depth)),
        6 => format!("abs({})", expression(maker, Kind::Int, depth)),
        7 => format!("toInteger({})", expression(maker, Kind::Float, depth)),
        8 => format!("head({})", expression(maker, Kind::Ints, depth)),
        9 => format!("last({})", expression(maker, Kind::Ints, depth)),
        10 => {
            let x = maker.fresh("x");
            let list = expression(maker, Kind::Ints, depth);
            format!("reduce(acc = 0, {x} IN {list} | acc + {x})")
        }
        11 => match (maker.known(Kind::Path), maker.known(Kind::Relationships)) {
            (Some(path), _) => format!("length({path})"),
            (_, Some(list)) => format!("size({list})"),
            _ => leaf(maker, Kind::Int),
        },
        12 | 13 if !maker.nested && maker.known(Kind::Node).is_some() => {
            let pattern = inner_path(maker);
            let inner = inner_condition(maker);
            format!("COUNT {{ {pattern}{inner} }}")
        }
        14 if maker.known(Kind::Node).is_some() => {
            let node = maker.known(Kind::Node).unwrap_or_default();
            format!("size(labels({node}))")
        }
        15 if maker.ill => {
            maker.risky = true;
            format!("({} + 9223372036854775806)", leaf(maker, Kind::Int))
        }
        // Whole in parentheses: `(n) - -(n)` is a pattern.
        _ => format!("(-({}))", expression(maker, Kind::Int, depth)),
    }
}

fn float(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.random.below(6) {
        0 => format!(
            "({} + {})",
            expression(maker, Kind::Float, depth),
            expression(maker, Kind::Int, depth)
        ),
        1 => format!("({} * 0.5)", expression(maker, Kind::Int, depth)),
        2 => format!("toFloat({})", expression(maker, Kind::Int, depth)),
        3 => format!("floor({})", expression(maker, Kind::Float, depth)),
        4 => format!("({} / 2.0)", expression(maker, Kind::Float, depth)),
        _ => format!("round({})", expression(maker, Kind::Float, depth)),
    }
}

fn text(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.random.below(10) {
        9 => {
            let kind = temporal_kind(maker);
            format!("toString({})", expression(maker, kind, depth))
        }
        0 => format!(
            "({} + {})",
            expression(maker, Kind::Text, depth),
            expression(maker, Kind::Text, depth)
        ),
        1 => format!("toUpper({})", expression(maker, Kind::Text, depth)),
        2 => format!("toString({})", expression(maker, Kind::Int, depth)),
        3 => format!(
            "substring({}, {})",
            expression(maker, Kind::Text, depth),
            maker.random.below(3)
        ),
        4 => format!("left({}, 1)", expression(maker, Kind::Text, depth)),
        5 => format!(
            "replace({}, 'a', {})",
            expression(maker, Kind::Text, depth),
            leaf(maker, Kind::Text)
        ),
        6 => format!("reverse({})", expression(maker, Kind::Text, depth)),
        7 => match maker.known(Kind::Relationship) {
            Some(one) => format!("type({one})"),
            None => format!("trim({})", expression(maker, Kind::Text, depth)),
        },
        _ => format!(
            "({} || {})",
            expression(maker, Kind::Text, depth),
            leaf(maker, Kind::Text)
        ),
    }
}

fn ints(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.random.below(10) {
        0 => format!(
            "[{}, {}]",
            expression(maker, Kind::Int, depth),
            expression(maker, Kind::Int, depth)
        ),
        1 => format!(
            "range({}, {})",
            maker.random.below(3),
            maker.random.below(5)
        ),
        2 | 3 => {
            let x = maker.fresh("x");
            let list = expression(maker, Kind::Ints, depth);
            let condition =
                maker.inside(&x, Kind::Int, |maker| expression(maker, Kind::Bool, depth));
            let value = maker.inside(&x, Kind::Int, |maker| expression(maker, Kind::Int, depth));
            match maker.random.below(3) {
                0 => format!("[{x} IN {list} WHERE {condition}]"),
                1 => format!("[{x} IN {list} | {value}]"),
                _ => format!("[{x} IN {list} WHERE {condition} | {value}]"),
            }
        }
        4 => format!("tail({})", expression(maker, Kind::Ints, depth)),
        5 => format!(
            "({} + {})",
            expression(maker, Kind::Ints, depth),
            expression(maker, Kind::Ints, depth)
        ),
        6 => format!(
            "{}[{}..{}]",
            leaf(maker, Kind::Ints),
            maker.random.below(2),
            maker.random.below(4)
        ),
        7 => match (
            maker.known(Kind::Relationships),
            maker.known(Kind::Nodes),
            maker.known(Kind::Path),
        ) {
            (Some(list), _, _) if maker.once_in(2) => format!("[y IN {list} | y.w]"),
            (_, Some(list), _) => format!("[y IN {list} | y.v]"),
            (_, _, Some(path)) => format!("[y IN nodes({path}) | y.v]"),
            _ => format!("reverse({})", expression(maker, Kind::Ints, depth)),
        },
        8 if !maker.nested && maker.known(Kind::Node).is_some() => {
            let node = maker.known(Kind::Node).unwrap_or_default();
            let label = *maker.random.pick(&LABELS);
            match maker.once_in(2) {
                true => format!("[({node})-->(y:{label}) | y.i]"),
                false => format!("COLLECT {{ MATCH ({node})-[y]-() RETURN y.w ORDER BY y.w }}"),
            }
        }
        _ => format!("[{}]", expression(maker, Kind::Int, depth)),
    }
}

fn texts(maker: &mut Maker<'_>, depth: u32) -> String {
    match (maker.random.below(3), maker.known(Kind::Node)) {
        (0, Some(node)) => format!("labels({node})"),
        (1, _) => format!("split({}, 'a')", expression(maker, Kind::Text, depth)),
        _ => format!(
            "[{}, {}]",
            expression(maker, Kind::Text, depth),
            leaf(maker, Kind::Text)
        ),
    }
}

fn map(maker: &mut Maker<'_>, depth: u32) -> String {
    match (maker.random.below(3), maker.known(Kind::Node)) {
        (0, Some(node)) => format!(
            "{node} {{.v, .s, x: {}}}",
            expression(maker, Kind::Int, depth)
        ),
        (1, Some(node)) => format!("properties({node})"),
        _ => format!(
            "{{x: {}, y: {{z: {}}}}}",
            expression(maker, Kind::Int, depth),
            leaf(maker, Kind::Text)
        ),
    }
}

/// A variable, a property, a literal.
pub(super) fn leaf(maker: &mut Maker<'_>, kind: Kind) -> String {
    if maker.once_in(3)
        && let Some(name) = maker.known(kind)
    {
        return name;
    }
    if !maker.once_in(4)
        && let Some(text) = field(maker, kind)
    {
        return text;
    }
    if maker.once_in(20) {
        return "null".into();
    }
    match kind {
        Kind::Int => format!("{}", maker.random.below(4)),
        Kind::Float => format!("{}.5", maker.random.below(4)),
        Kind::Text => maker.pick(&["'a'", "'b'", "'ab'", "''", "'é'"]).to_owned(),
        Kind::Bool => maker.pick(&["true", "false"]).to_owned(),
        Kind::Ints => maker
            .pick(&["[1, 2]", "[]", "[0, 1, 2, 1]", "[null, 1]"])
            .to_owned(),
        Kind::Texts => maker.pick(&["['a', 'b']", "[]"]).to_owned(),
        Kind::Map => maker
            .pick(&["{x: 1, y: {z: 'a'}}", "{x: 0, y: {z: 'b'}}"])
            .to_owned(),
        Kind::Date
        | Kind::LocalTime
        | Kind::Time
        | Kind::LocalDateTime
        | Kind::DateTime
        | Kind::Duration => temporal_literal(maker, kind),
        Kind::Any => maker
            .pick(&[
                "1",
                "'a'",
                "1.5",
                "true",
                "[1]",
                "{x: 1}",
                "null",
                "1.0",
                "(0.0 / 0.0)",
            ])
            .to_owned(),
        Kind::Node | Kind::Relationship | Kind::Path => {
            maker.known(kind).unwrap_or_else(|| "null".into())
        }
        Kind::Nodes | Kind::Relationships => maker.known(kind).unwrap_or_else(|| "[]".into()),
    }
}

/// A property of that kind.
fn field(maker: &mut Maker<'_>, kind: Kind) -> Option<String> {
    if kind == Kind::Int
        && maker.once_in(3)
        && let Some(one) = maker.known(Kind::Relationship)
    {
        let field = maker.pick(&["w", "i"]);
        return Some(format!("{one}.{field}"));
    }
    let node = maker.known(Kind::Node)?;
    let field = match kind {
        Kind::Int => maker.pick(&["v", "v", "v", "i", "d.x"]),
        Kind::Float => "f",
        Kind::Text => maker.pick(&["s", "s", "d.y.z", "_key"]),
        Kind::Bool => "b",
        Kind::Ints => "l",
        Kind::Map => "d",
        Kind::Date => "t",
        Kind::DateTime => "z",
        Kind::LocalTime => "h",
        Kind::Duration => "du",
        Kind::Any => maker.pick(&["m", "m", "v", "s", "z", "missing"]),
        _ => return None,
    };
    Some(format!("{node}.{field}"))
}
