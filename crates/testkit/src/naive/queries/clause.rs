//! Random clauses, and queries built from them.

use super::expression::{condition, expression, leaf, where_condition};
use super::graph::{LABELS, TYPES};
use super::maker::{Kind, Maker};
use super::pattern::pattern;

/// Kinds of columns.
const COLUMNS: [Kind; 11] = [
    Kind::Int,
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bool,
    Kind::Ints,
    Kind::Texts,
    Kind::Date,
    Kind::DateTime,
    Kind::Duration,
    Kind::Any,
];

/// Reads, perhaps writes, and a result.
pub(super) fn query(maker: &mut Maker<'_>) -> String {
    if maker.once_in(18) {
        return union(maker);
    }
    let mut clauses = Vec::new();
    let writes = maker.once_in(3);
    let readings = *maker.random.pick(&[1, 1, 1, 2, 2, 3]);
    for at in 0..readings {
        let clause = reading(maker, at > 0);
        clauses.push(clause);
        if maker.once_in(3) && !maker.scope.is_empty() {
            clauses.push(with(maker));
        }
    }
    if writes {
        for _ in 0..1 + maker.random.below(2) {
            let clause = writing(maker);
            clauses.push(clause);
        }
        if maker.once_in(4) {
            clauses.push("WITH *".into());
            let clause = reading(maker, true);
            clauses.push(clause);
            clauses.push(result(maker));
            return clauses.join(" ");
        }
    }
    let ends_in_with = clauses
        .last()
        .is_some_and(|clause| clause.contains(" WITH "));
    if !writes || ends_in_with || !maker.once_in(3) {
        clauses.push(result(maker));
    }
    clauses.join(" ")
}

fn union(maker: &mut Maker<'_>) -> String {
    let all = maker.pick(&["", " ALL"]);
    let kinds = [*maker.random.pick(&COLUMNS), *maker.random.pick(&COLUMNS)];
    let branch = |maker: &mut Maker<'_>| {
        maker.scope.clear();
        let reading = reading(maker, false);
        let (a, b) = (
            expression(maker, kinds[0], 2),
            expression(maker, kinds[1], 2),
        );
        format!("{reading} RETURN {a} AS a, {b} AS b")
    };
    let (first, second) = (branch(maker), branch(maker));
    format!("{first} UNION{all} {second}")
}

fn reading(maker: &mut Maker<'_>, later: bool) -> String {
    match maker.random.below(12) {
        0 | 1 => {
            let list = expression(maker, Kind::Ints, 2);
            let name = maker.fresh("u");
            maker.add(&name, Kind::Int);
            format!("UNWIND {list} AS {name}")
        }
        2 if later && !maker.scope.is_empty() => subquery(maker),
        _ => {
            let optional = if later && maker.once_in(3) {
                "OPTIONAL "
            } else {
                ""
            };
            let pattern = pattern(maker);
            let condition = match maker.once_in(3) {
                true => format!(" WHERE {}", where_condition(maker)),
                false => String::new(),
            };
            format!("{optional}MATCH {pattern}{condition}")
        }
    }
}

/// `CALL { … }` that reads.
fn subquery(maker: &mut Maker<'_>) -> String {
    let outside = maker.scope.clone();
    let Some(node) = maker.known(Kind::Node) else {
        return reading(maker, false);
    };
    maker.scope.retain(|(name, _)| *name == node);
    let pattern = pattern(maker);
    let condition = match maker.once_in(2) {
        true => format!(" WHERE {}", condition(maker, 2)),
        false => String::new(),
    };
    let name = maker.fresh("q");
    let (value, kind) = match maker.random.below(3) {
        0 => ("count(*)".to_owned(), Kind::Int),
        1 => (
            format!("sum({})", expression(maker, Kind::Int, 1)),
            Kind::Int,
        ),
        _ => (expression(maker, Kind::Int, 2), Kind::Int),
    };
    maker.scope = outside;
    maker.add(&name, kind);
    let optional = if maker.once_in(3) { "OPTIONAL " } else { "" };
    match maker.once_in(2) {
        true => {
            format!(
                "{optional}CALL ({node}) {{ MATCH {pattern}{condition} RETURN {value} AS {name} }}"
            )
        }
        false => {
            format!(
                "{optional}CALL {{ WITH {node} MATCH {pattern}{condition} RETURN {value} AS {name} }}"
            )
        }
    }
}

fn with(maker: &mut Maker<'_>) -> String {
    if maker.once_in(6) {
        let condition = condition(maker, 2);
        return format!("WITH * WHERE {condition}");
    }
    let (items, scope) = match maker.once_in(3) {
        true => aggregates(maker),
        false => columns(maker),
    };
    let distinct = if maker.once_in(3) { "DISTINCT " } else { "" };
    maker.scope = scope;
    let paging = if maker.once_in(4) {
        total_order(maker)
    } else {
        String::new()
    };
    let often = if paging.is_empty() { 4 } else { 2 };
    let condition = match (maker.once_in(often), maker.known(Kind::Node)) {
        (true, Some(node)) if maker.once_in(2) => format!(" WHERE {node}.v > 0"),
        (true, _) => format!(" WHERE {}", condition(maker, 2)),
        (false, _) => String::new(),
    };
    format!("WITH {distinct}{items}{paging}{condition}")
}

/// Columns of variables and expressions, and the resulting scope.
fn columns(maker: &mut Maker<'_>) -> (String, Vec<(String, Kind)>) {
    let mut items = Vec::new();
    let mut scope = Vec::new();
    for (name, kind) in maker.scope.clone() {
        if !maker.once_in(3) {
            items.push(name.clone());
            scope.push((name, kind));
        }
    }
    let more = if items.is_empty() {
        1
    } else {
        maker.random.below(3)
    };
    for _ in 0..more {
        let kind = *maker.random.pick(&COLUMNS);
        let name = maker.fresh("c");
        items.push(format!("{} AS {name}", expression(maker, kind, 3)));
        scope.push((name, kind));
    }
    (items.join(", "), scope)
}

/// Grouping keys and aggregations, and the resulting scope.
fn aggregates(maker: &mut Maker<'_>) -> (String, Vec<(String, Kind)>) {
    let mut items = Vec::new();
    let mut scope = Vec::new();
    for _ in 0..maker.random.below(3) {
        let known = maker.known(Kind::Node);
        match known {
            Some(name) if maker.once_in(2) && !scope.iter().any(|(other, _)| *other == name) => {
                items.push(name.clone());
                scope.push((name, Kind::Node));
            }
            _ => {
                let kind = *maker.random.pick(&COLUMNS);
                let name = maker.fresh("k");
                items.push(format!("{} AS {name}", expression(maker, kind, 2)));
                scope.push((name, kind));
            }
        }
    }
    for _ in 0..1 + maker.random.below(3) {
        let (text, kind) = aggregate(maker);
        let name = maker.fresh("a");
        items.push(format!("{text} AS {name}"));
        scope.push((name, kind));
    }
    (items.join(", "), scope)
}

fn aggregate(maker: &mut Maker<'_>) -> (String, Kind) {
    let distinct = if maker.once_in(4) { "DISTINCT " } else { "" };
    let variable = match maker.scope.is_empty() {
        true => "1".to_owned(),
        false => maker.random.pick(&maker.scope).0.clone(),
    };
    let int = expression(maker, Kind::Int, 2);
    match maker.random.below(13) {
        0..=2 => ("count(*)".into(), Kind::Int),
        3 | 4 => (format!("count({distinct}{variable})"), Kind::Int),
        5 => (format!("sum({distinct}{int})"), Kind::Int),
        6 => (format!("avg({int})"), Kind::Float),
        7 => (format!("min({int})"), Kind::Int),
        8 => (
            format!("max({distinct}{})", expression(maker, Kind::Text, 1)),
            Kind::Text,
        ),
        9 => (format!("collect({distinct}{int})"), Kind::Ints),
        10 => (
            format!("percentileDisc({int}, 0.{})", maker.random.below(10)),
            Kind::Int,
        ),
        11 => match maker.once_in(2) {
            true => (format!("stDev({int})"), Kind::Float),
            false => (format!("percentileCont({int}, 0.5)"), Kind::Float),
        },
        _ => (
            format!("max({})", expression(maker, Kind::Any, 1)),
            Kind::Any,
        ),
    }
}

/// A total order over everything in scope, so that a page is deterministic.
fn total_order(maker: &mut Maker<'_>) -> String {
    let mut keys = Vec::new();
    for (name, kind) in maker.scope.clone() {
        keys.push(match kind {
            Kind::Node | Kind::Relationship => format!("{name}.i"),
            Kind::Nodes | Kind::Relationships => format!("[o IN {name} | o.i]"),
            Kind::Path => format!("[o IN nodes({name}) | o.i]"),
            _ => name,
        });
    }
    let keys: Vec<String> = keys
        .into_iter()
        .map(|key| {
            if maker.once_in(3) {
                format!("{key} DESC")
            } else {
                key
            }
        })
        .collect();
    if keys.is_empty() {
        return String::new();
    }
    format!(" ORDER BY {}{}", keys.join(", "), page(maker))
}

fn page(maker: &mut Maker<'_>) -> String {
    let skip = match maker.once_in(3) {
        true => format!(" SKIP {}", maker.random.below(3)),
        false => String::new(),
    };
    let limit = match maker.once_in(2) {
        true => format!(" LIMIT {}", maker.random.below(4)),
        false => String::new(),
    };
    format!("{skip}{limit}")
}

fn result(maker: &mut Maker<'_>) -> String {
    let groups = maker.once_in(3);
    let before = maker.scope.clone();
    let (items, scope) = match groups {
        true => aggregates(maker),
        false => columns(maker),
    };
    let distinct = if maker.once_in(4) { "DISTINCT " } else { "" };
    let order = match maker.once_in(3) {
        false => String::new(),
        true => {
            maker.scope = scope.clone();
            if !groups && distinct.is_empty() && maker.once_in(2) {
                maker.scope = before;
            }
            let kind =
                *maker
                    .random
                    .pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Any, Kind::Float]);
            let first = match (groups, scope.first()) {
                (true, Some((name, Kind::Node))) => format!("{name}.v"),
                (true, Some((name, _))) => name.clone(),
                _ if maker.scope.is_empty() => "1".into(),
                _ => {
                    let was = std::mem::replace(&mut maker.nested, true);
                    let text = expression(maker, kind, 1);
                    maker.nested = was;
                    text
                }
            };
            let way = maker.pick(&["", " DESC"]);
            format!(" ORDER BY {first}{way}{}", page(maker))
        }
    };
    maker.scope = scope;
    format!("RETURN {distinct}{items}{order}")
}

fn writing(maker: &mut Maker<'_>) -> String {
    maker.wrote = true;
    let node = maker.known(Kind::Node);
    let relationship = maker.known(Kind::Relationship);
    match (maker.random.below(14), node, relationship) {
        (0 | 1, Some(node), _) => {
            let field = *maker.random.pick(&[
                ("v", Kind::Int),
                ("s", Kind::Text),
                ("f", Kind::Float),
                ("d.x", Kind::Int),
                ("l", Kind::Ints),
                ("t", Kind::Date),
                ("z", Kind::DateTime),
                ("h", Kind::LocalTime),
                ("du", Kind::Duration),
            ]);
            format!("SET {node}.{} = {}", field.0, expression(maker, field.1, 2))
        }
        (2, Some(node), _) => {
            let label = *maker.random.pick(&LABELS);
            format!("SET {node}:{}", computed(maker, label))
        }
        (3, Some(node), _) => {
            format!(
                "SET {node} += {{v: {}, s: {}}}",
                expression(maker, Kind::Int, 1),
                leaf(maker, Kind::Text)
            )
        }
        (4, Some(node), _) => {
            let label = *maker.random.pick(&LABELS);
            format!(
                "REMOVE {node}:{label}, {node}.{}",
                maker.pick(&["v", "s", "d.y"])
            )
        }
        (5, _, Some(one)) => match maker.once_in(2) {
            true => format!("SET {one}.w = {}", expression(maker, Kind::Int, 1)),
            false => {
                let text = format!("DELETE {one}");
                maker
                    .scope
                    .retain(|(name, kind)| *name != one && self_contained(*kind));
                forget(maker, text)
            }
        },
        (6, Some(node), _) => {
            let detach = if maker.once_in(4) {
                maker.risky = true;
                ""
            } else {
                "DETACH "
            };
            let text = format!("{detach}DELETE {node}");
            forget(maker, text)
        }
        (7 | 8, Some(node), _) => {
            let (t, name) = (*maker.random.pick(&TYPES), maker.fresh("n"));
            let label = *maker.random.pick(&LABELS);
            let (t, label) = (computed(maker, t), computed(maker, label));
            let text = format!(
                "CREATE ({node})-[:{t} {{w: {}}}]->({name}:{label} {{v: {}}})",
                leaf(maker, Kind::Int),
                expression(maker, Kind::Int, 1)
            );
            maker.add(&name, Kind::Node);
            text
        }
        (9, Some(node), _) => {
            let t = *maker.random.pick(&TYPES);
            let other = maker.known(Kind::Node).unwrap_or_else(|| node.clone());
            let name = maker.fresh("r");
            let (left, right) = *maker.random.pick(&[("-", "->"), ("-", "-"), ("<-", "-")]);
            // A null end is an error if the relationship has to be created.
            maker.risky = true;
            let text = format!(
                "MERGE ({node}){left}[{name}:{t}]{right}({other}) ON CREATE SET {name}.w = 7 ON MATCH SET {name}.w = 8"
            );
            maker.add(&name, Kind::Relationship);
            text
        }
        (10 | 11, _, _) => {
            let (label, name) = (*maker.random.pick(&LABELS), maker.fresh("n"));
            let label = computed(maker, label);
            let value = match maker.once_in(3) {
                true => {
                    maker.risky = true;
                    expression(maker, Kind::Int, 1)
                }
                false => format!("{}", maker.random.below(5)),
            };
            let text = format!(
                "MERGE ({name}:{label} {{v: {value}}}) ON CREATE SET {name}.s = 'new' ON MATCH SET {name}.b = true"
            );
            maker.add(&name, Kind::Node);
            text
        }
        (12, Some(node), _) => {
            let list = expression(maker, Kind::Ints, 1);
            let x = maker.fresh("x");
            let inner = maker.inside(&x, Kind::Int, |maker| match maker.once_in(2) {
                true => format!("SET {node}.v = {x}"),
                false => format!("CREATE (:{} {{v: {x}}})", maker.pick(&LABELS)),
            });
            format!("FOREACH ({x} IN {list} | {inner})")
        }
        _ => {
            let (label, name) = (*maker.random.pick(&LABELS), maker.fresh("n"));
            let text = format!(
                "CREATE ({name}:{label} {{v: {}, s: {}}})",
                expression(maker, Kind::Int, 1),
                leaf(maker, Kind::Text)
            );
            maker.add(&name, Kind::Node);
            text
        }
    }
}

/// A label or type as it is, or as a computed name.
fn computed(maker: &mut Maker<'_>, name: &str) -> String {
    match maker.random.below(8) {
        0 => format!("$('{name}')"),
        1 => format!("$(['{name}'])"),
        _ => name.to_owned(),
    }
}

/// Removes variables that may refer to deleted entities.
fn forget(maker: &mut Maker<'_>, text: String) -> String {
    let plain: Vec<String> = maker
        .scope
        .iter()
        .filter(|(_, kind)| self_contained(*kind))
        .map(|(name, _)| name.clone())
        .collect();
    maker.scope.retain(|(_, kind)| self_contained(*kind));
    match plain.is_empty() {
        true => {
            let name = maker.fresh("c");
            maker.add(&name, Kind::Int);
            format!("{text} WITH count(*) AS {name}")
        }
        false => format!("{text} WITH {}", plain.join(", ")),
    }
}

/// Whether a value of that kind contains no entities.
fn self_contained(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Node
            | Kind::Relationship
            | Kind::Nodes
            | Kind::Relationships
            | Kind::Path
            | Kind::Any
    )
}
