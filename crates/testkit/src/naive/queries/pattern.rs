//! Random patterns.

use super::expression::expression;
use super::graph::{LABELS, TYPES};
use super::maker::{Kind, Maker};

/// A pattern of one or two paths. The variables that it names are in scope afterwards.
pub(super) fn pattern(maker: &mut Maker<'_>) -> String {
    let mut used = Vec::new();
    let first = path(maker, true, &mut used);
    match maker.once_in(4) {
        true => format!("{first}, {}", path(maker, true, &mut used)),
        false => first,
    }
}

/// A path. `names`: whether it may declare variables. `used`: relationships named in the clause so far.
pub(super) fn path(maker: &mut Maker<'_>, names: bool, used: &mut Vec<String>) -> String {
    if names && maker.once_in(24) {
        return shortest(maker);
    }
    let mut text = node(maker, names);
    let steps = match maker.random.below(10) {
        0 => 0,
        1..=6 => 1,
        7 | 8 => 2,
        _ => 3,
    };
    let mut added = Vec::new();
    for _ in 0..steps {
        let step = match maker.once_in(24) {
            true => quantified(maker, names, &mut added),
            false => relationship(maker, names, used, &mut added),
        };
        let node = node(maker, names);
        text = format!("{text}{step}{node}");
    }
    for (name, kind) in added {
        maker.add(&name, kind);
    }
    if names && steps > 0 && maker.once_in(12) {
        text = format!("{} {text}", maker.pick(&["ACYCLIC", "SIMPLE", "TRAIL"]));
    }
    if names && steps > 0 && maker.once_in(8) {
        let path = maker.fresh("p");
        maker.add(&path, Kind::Path);
        return format!("{path} = {text}");
    }
    text
}

fn shortest(maker: &mut Maker<'_>) -> String {
    let (from, to) = (node(maker, true), node(maker, true));
    let path = maker.fresh("p");
    let types = types(maker);
    let (left, right) = arrow(maker);
    let text = match maker.random.below(6) {
        0 => format!("{path} = ALL SHORTEST {from}{left}[{types}]{right}+{to}"),
        1 => format!("{path} = ANY {from}{left}[{types}]{right}{{1,3}}{to}"),
        2 => format!("{path} = SHORTEST 1 {from}{left}[{types}]{right}+{to}"),
        3 => format!("{path} = SHORTEST 2 {from}{left}[{types}]{right}{{1,4}}{to}"),
        4 => format!("{path} = SHORTEST 2 GROUPS {from}{left}[{types}]{right}{{1,4}}{to}"),
        _ => format!("{path} = ALL SHORTEST {from}{left}[{types}]{right}{{0,3}}{to}"),
    };
    maker.add(&path, Kind::Path);
    text
}

fn arrow(maker: &mut Maker<'_>) -> (&'static str, &'static str) {
    *maker
        .random
        .pick(&[("-", "->"), ("-", "->"), ("<-", "-"), ("-", "-")])
}

fn types(maker: &mut Maker<'_>) -> String {
    let names: Vec<&str> = TYPES
        .iter()
        .filter(|_| maker.random.once_in(6))
        .copied()
        .collect();
    match names.is_empty() {
        true => String::new(),
        false if maker.once_in(12) => format!(":!{}", names[0]),
        false if maker.once_in(12) => format!(":$any(['{}'])", names.join("', '")),
        false => format!(":{}", names.join("|")),
    }
}

pub(super) fn label(maker: &mut Maker<'_>) -> String {
    let one = *maker.random.pick(&LABELS);
    let other = *maker.random.pick(&LABELS);
    match maker.random.below(12) {
        9 => format!(":$('{one}')"),
        10 => format!(":$any(['{one}', '{other}'])"),
        11 => format!(":{one}|!$all(['{one}', '{other}'])"),
        0 => format!(":!{one}"),
        1 => format!(":{one}|{other}"),
        2 => format!(":{one}&!{other}"),
        3 => ":%".into(),
        4 => format!(":{one}:{other}"),
        _ => format!(":{one}"),
    }
}

fn node(maker: &mut Maker<'_>, names: bool) -> String {
    let known = maker.known(Kind::Node);
    let name = match (names, known) {
        (true, Some(known)) if maker.once_in(3) => Some(known),
        (false, Some(known)) if !maker.once_in(3) => Some(known),
        (true, _) if !maker.once_in(5) => Some(maker.fresh("n")),
        _ => None,
    };
    let label = if maker.once_in(5) {
        label(maker)
    } else {
        String::new()
    };
    let properties = match maker.random.below(45) {
        0 => " {v: 1}".to_owned(),
        1 => format!(" {{v: {}}}", expression(maker, Kind::Int, 1)),
        2 => " {s: 'a'}".to_owned(),
        3 => format!(" {{_key: 'k{}'}}", maker.random.below(5)),
        4 => format!(" {{i: {}}}", maker.random.below(5)),
        _ => String::new(),
    };
    let condition = match &name {
        Some(name) if maker.once_in(25) => format!(" WHERE {name}.v > {}", maker.random.below(3)),
        _ => String::new(),
    };
    let text = format!(
        "({}{label}{properties}{condition})",
        name.as_deref().unwrap_or_default()
    );
    if let Some(name) = name {
        maker.add(&name, Kind::Node);
    }
    text
}

fn relationship(
    maker: &mut Maker<'_>,
    names: bool,
    used: &mut Vec<String>,
    added: &mut Vec<(String, Kind)>,
) -> String {
    let (left, right) = arrow(maker);
    let types = types(maker);
    let length = maker.once_in(5).then(|| {
        let least = maker.random.below(3);
        match maker.random.below(5) {
            0 => "*".to_owned(),
            1 => format!("*{least}"),
            2 => format!("*..{}", 1 + maker.random.below(3)),
            _ => format!("*{least}..{}", least + maker.random.below(3)),
        }
    });
    let known = maker
        .known(Kind::Relationship)
        .filter(|name| !used.contains(name));
    let name = match (names, &length, known) {
        (true, None, Some(known)) if maker.once_in(4) => Some(known),
        (true, _, _) if maker.once_in(2) => Some(maker.fresh("r")),
        _ => None,
    };
    let properties = match maker.random.below(36) {
        0 => " {w: 1}".to_owned(),
        1 if length.is_none() => format!(" {{w: {}}}", expression(maker, Kind::Int, 1)),
        _ => String::new(),
    };
    let condition = match &name {
        Some(name) if maker.once_in(20) => format!(" WHERE {name}.w > 0"),
        _ => String::new(),
    };
    if let Some(name) = &name {
        used.push(name.clone());
        let kind = if length.is_some() {
            Kind::Relationships
        } else {
            Kind::Relationship
        };
        added.push((name.clone(), kind));
    }
    format!(
        "{left}[{}{types}{}{properties}{condition}]{right}",
        name.unwrap_or_default(),
        length.unwrap_or_default()
    )
}

/// A path repeated; its variables are lists outside.
fn quantified(maker: &mut Maker<'_>, names: bool, added: &mut Vec<(String, Kind)>) -> String {
    let (left, right) = arrow(maker);
    let types = types(maker);
    let least = maker.random.below(3);
    let most = (least + maker.random.below(2)).max(1);
    if maker.once_in(2) {
        return format!("{left}[{types}]{right}{{{least},{most}}}");
    }
    let (a, r, b) = match names {
        true => (maker.fresh("g"), maker.fresh("h"), maker.fresh("g")),
        false => (String::new(), String::new(), String::new()),
    };
    let condition = match names && maker.once_in(2) {
        true => format!(" WHERE {a}.v <= {b}.v OR {r}.w > 0"),
        false => String::new(),
    };
    if names {
        added.push((a.clone(), Kind::Nodes));
        added.push((r.clone(), Kind::Relationships));
        added.push((b.clone(), Kind::Nodes));
    }
    let further = match maker.once_in(4) {
        true => format!("-[:{}]->()", maker.random.pick(&TYPES)),
        false => String::new(),
    };
    format!("(({a}){left}[{r}{types}]{right}({b}){further}{condition}){{{least},{most}}}")
}
