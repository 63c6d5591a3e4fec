//! Random clauses, and queries built from them.

use super::graph::{LABELS, TYPES};
use super::{Kind, Maker};

/// Kinds of columns.
const COLUMNS: [Kind; 10] = [
    Kind::Int,
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bool,
    Kind::Ints,
    Kind::Date,
    Kind::DateTime,
    Kind::Duration,
    Kind::Any,
];

impl Maker<'_> {
    /// Reads, perhaps writes, and a result.
    pub(super) fn query(&mut self) -> String {
        if self.once_in(18) {
            return self.union();
        }
        let mut clauses = Vec::new();
        let writes = self.once_in(3);
        let readings = *self.random.pick(&[1, 1, 1, 2, 2, 3]);
        for at in 0..readings {
            let clause = self.reading(at > 0);
            clauses.push(clause);
            if self.once_in(3) && !self.scope.is_empty() {
                clauses.push(self.with());
            }
        }
        if writes {
            for _ in 0..1 + self.random.below(2) {
                let clause = self.writing();
                clauses.push(clause);
            }
            if self.once_in(4) {
                clauses.push("WITH *".into());
                let clause = self.reading(true);
                clauses.push(clause);
                clauses.push(self.result());
                return clauses.join(" ");
            }
        }
        let ends_in_with = clauses
            .last()
            .is_some_and(|clause| clause.contains(" WITH "));
        if !writes || ends_in_with || !self.once_in(3) {
            clauses.push(self.result());
        }
        clauses.join(" ")
    }

    fn union(&mut self) -> String {
        let all = self.pick(&["", " ALL"]);
        let kinds = [*self.random.pick(&COLUMNS), *self.random.pick(&COLUMNS)];
        let branch = |maker: &mut Self| {
            maker.scope.clear();
            let reading = maker.reading(false);
            let (a, b) = (maker.expression(kinds[0], 2), maker.expression(kinds[1], 2));
            format!("{reading} RETURN {a} AS a, {b} AS b")
        };
        let (first, second) = (branch(self), branch(self));
        format!("{first} UNION{all} {second}")
    }

    fn reading(&mut self, later: bool) -> String {
        match self.random.below(12) {
            0 | 1 => {
                let list = self.expression(Kind::Ints, 2);
                let name = self.fresh("u");
                self.add(&name, Kind::Int);
                format!("UNWIND {list} AS {name}")
            }
            2 if later && !self.scope.is_empty() => self.subquery(),
            _ => {
                let optional = if later && self.once_in(3) {
                    "OPTIONAL "
                } else {
                    ""
                };
                let pattern = self.pattern();
                let condition = match self.once_in(3) {
                    true => format!(" WHERE {}", self.where_condition()),
                    false => String::new(),
                };
                format!("{optional}MATCH {pattern}{condition}")
            }
        }
    }

    /// `CALL { … }` that reads.
    fn subquery(&mut self) -> String {
        let outside = self.scope.clone();
        let Some(node) = self.known(Kind::Node) else {
            return self.reading(false);
        };
        self.scope.retain(|(name, _)| *name == node);
        let pattern = self.pattern();
        let condition = match self.once_in(2) {
            true => format!(" WHERE {}", self.condition(2)),
            false => String::new(),
        };
        let name = self.fresh("q");
        let (value, kind) = match self.random.below(3) {
            0 => ("count(*)".to_owned(), Kind::Int),
            1 => (format!("sum({})", self.expression(Kind::Int, 1)), Kind::Int),
            _ => (self.expression(Kind::Int, 2), Kind::Int),
        };
        self.scope = outside;
        self.add(&name, kind);
        match self.once_in(2) {
            true => {
                format!("CALL ({node}) {{ MATCH {pattern}{condition} RETURN {value} AS {name} }}")
            }
            false => format!(
                "CALL {{ WITH {node} MATCH {pattern}{condition} RETURN {value} AS {name} }}"
            ),
        }
    }

    fn with(&mut self) -> String {
        if self.once_in(6) {
            let condition = self.condition(2);
            return format!("WITH * WHERE {condition}");
        }
        let (items, scope) = match self.once_in(3) {
            true => self.aggregates(),
            false => self.columns(),
        };
        let distinct = if self.once_in(3) { "DISTINCT " } else { "" };
        self.scope = scope;
        let paging = if self.once_in(4) {
            self.total_order()
        } else {
            String::new()
        };
        let often = if paging.is_empty() { 4 } else { 2 };
        let condition = match (self.once_in(often), self.known(Kind::Node)) {
            (true, Some(node)) if self.once_in(2) => format!(" WHERE {node}.v > 0"),
            (true, _) => format!(" WHERE {}", self.condition(2)),
            (false, _) => String::new(),
        };
        format!("WITH {distinct}{items}{paging}{condition}")
    }

    /// Columns of variables and expressions, and the resulting scope.
    fn columns(&mut self) -> (String, Vec<(String, Kind)>) {
        let mut items = Vec::new();
        let mut scope = Vec::new();
        for (name, kind) in self.scope.clone() {
            if !self.once_in(3) {
                items.push(name.clone());
                scope.push((name, kind));
            }
        }
        let more = if items.is_empty() {
            1
        } else {
            self.random.below(3)
        };
        for _ in 0..more {
            let kind = *self.random.pick(&COLUMNS);
            let name = self.fresh("c");
            items.push(format!("{} AS {name}", self.expression(kind, 3)));
            scope.push((name, kind));
        }
        (items.join(", "), scope)
    }

    /// Grouping keys and aggregations, and the resulting scope.
    fn aggregates(&mut self) -> (String, Vec<(String, Kind)>) {
        let mut items = Vec::new();
        let mut scope = Vec::new();
        for _ in 0..self.random.below(3) {
            let known = self.known(Kind::Node);
            match known {
                Some(name) if self.once_in(2) && !scope.iter().any(|(other, _)| *other == name) => {
                    items.push(name.clone());
                    scope.push((name, Kind::Node));
                }
                _ => {
                    let kind = *self.random.pick(&COLUMNS);
                    let name = self.fresh("k");
                    items.push(format!("{} AS {name}", self.expression(kind, 2)));
                    scope.push((name, kind));
                }
            }
        }
        for _ in 0..1 + self.random.below(3) {
            let (text, kind) = self.aggregate();
            let name = self.fresh("a");
            items.push(format!("{text} AS {name}"));
            scope.push((name, kind));
        }
        (items.join(", "), scope)
    }

    fn aggregate(&mut self) -> (String, Kind) {
        let distinct = if self.once_in(4) { "DISTINCT " } else { "" };
        let variable = match self.scope.is_empty() {
            true => "1".to_owned(),
            false => self.random.pick(&self.scope).0.clone(),
        };
        let int = self.expression(Kind::Int, 2);
        match self.random.below(13) {
            0..=2 => ("count(*)".into(), Kind::Int),
            3 | 4 => (format!("count({distinct}{variable})"), Kind::Int),
            5 => (format!("sum({distinct}{int})"), Kind::Int),
            6 => (format!("avg({int})"), Kind::Float),
            7 => (format!("min({int})"), Kind::Int),
            8 => (
                format!("max({distinct}{})", self.expression(Kind::Text, 1)),
                Kind::Text,
            ),
            9 => (format!("collect({distinct}{int})"), Kind::Ints),
            10 => (
                format!("percentileDisc({int}, 0.{})", self.random.below(10)),
                Kind::Int,
            ),
            11 => match self.once_in(2) {
                true => (format!("stDev({int})"), Kind::Float),
                false => (format!("percentileCont({int}, 0.5)"), Kind::Float),
            },
            _ => (format!("max({})", self.expression(Kind::Any, 1)), Kind::Any),
        }
    }

    /// A total order over everything in scope, so that a page is deterministic.
    fn total_order(&mut self) -> String {
        let mut keys = Vec::new();
        for (name, kind) in self.scope.clone() {
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
                if self.once_in(3) {
                    format!("{key} DESC")
                } else {
                    key
                }
            })
            .collect();
        if keys.is_empty() {
            return String::new();
        }
        format!(" ORDER BY {}{}", keys.join(", "), self.page())
    }

    fn page(&mut self) -> String {
        let skip = match self.once_in(3) {
            true => format!(" SKIP {}", self.random.below(3)),
            false => String::new(),
        };
        let limit = match self.once_in(2) {
            true => format!(" LIMIT {}", self.random.below(4)),
            false => String::new(),
        };
        format!("{skip}{limit}")
    }

    fn result(&mut self) -> String {
        let aggregates = self.once_in(3);
        let before = self.scope.clone();
        let (items, scope) = match aggregates {
            true => self.aggregates(),
            false => self.columns(),
        };
        let distinct = if self.once_in(4) { "DISTINCT " } else { "" };
        let order = match self.once_in(3) {
            false => String::new(),
            true => {
                self.scope = scope.clone();
                if !aggregates && distinct.is_empty() && self.once_in(2) {
                    self.scope = before;
                }
                let kind =
                    *self
                        .random
                        .pick(&[Kind::Int, Kind::Int, Kind::Text, Kind::Any, Kind::Float]);
                let first = match (aggregates, scope.first()) {
                    (true, Some((name, Kind::Node))) => format!("{name}.v"),
                    (true, Some((name, _))) => name.clone(),
                    _ if self.scope.is_empty() => "1".into(),
                    _ => {
                        let was = std::mem::replace(&mut self.nested, true);
                        let text = self.expression(kind, 1);
                        self.nested = was;
                        text
                    }
                };
                let way = self.pick(&["", " DESC"]);
                format!(" ORDER BY {first}{way}{}", self.page())
            }
        };
        self.scope = scope;
        format!("RETURN {distinct}{items}{order}")
    }

    fn writing(&mut self) -> String {
        self.wrote = true;
        let node = self.known(Kind::Node);
        let relationship = self.known(Kind::Relationship);
        match (self.random.below(14), node, relationship) {
            (0 | 1, Some(node), _) => {
                let field = *self.random.pick(&[
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
                format!("SET {node}.{} = {}", field.0, self.expression(field.1, 2))
            }
            (2, Some(node), _) => {
                let label = *self.random.pick(&LABELS);
                format!("SET {node}:{label}")
            }
            (3, Some(node), _) => {
                format!(
                    "SET {node} += {{v: {}, s: {}}}",
                    self.expression(Kind::Int, 1),
                    self.leaf(Kind::Text)
                )
            }
            (4, Some(node), _) => {
                let label = *self.random.pick(&LABELS);
                format!(
                    "REMOVE {node}:{label}, {node}.{}",
                    self.pick(&["v", "s", "d.y"])
                )
            }
            (5, _, Some(one)) => match self.once_in(2) {
                true => format!("SET {one}.w = {}", self.expression(Kind::Int, 1)),
                false => {
                    let text = format!("DELETE {one}");
                    self.scope
                        .retain(|(name, kind)| *name != one && self_contained(*kind));
                    self.forget(text)
                }
            },
            (6, Some(node), _) => {
                let detach = if self.once_in(4) {
                    self.risky = true;
                    ""
                } else {
                    "DETACH "
                };
                let text = format!("{detach}DELETE {node}");
                self.forget(text)
            }
            (7 | 8, Some(node), _) => {
                let (t, name) = (*self.random.pick(&TYPES), self.fresh("n"));
                let label = *self.random.pick(&LABELS);
                let text = format!(
                    "CREATE ({node})-[:{t} {{w: {}}}]->({name}:{label} {{v: {}}})",
                    self.leaf(Kind::Int),
                    self.expression(Kind::Int, 1)
                );
                self.add(&name, Kind::Node);
                text
            }
            (9, Some(node), _) => {
                let t = *self.random.pick(&TYPES);
                let other = self.known(Kind::Node).unwrap_or_else(|| node.clone());
                let name = self.fresh("r");
                let (left, right) = *self.random.pick(&[("-", "->"), ("-", "-"), ("<-", "-")]);
                // A null end is an error if the relationship has to be created.
                self.risky = true;
                let text = format!(
                    "MERGE ({node}){left}[{name}:{t}]{right}({other}) ON CREATE SET {name}.w = 7 ON MATCH SET {name}.w = 8"
                );
                self.add(&name, Kind::Relationship);
                text
            }
            (10 | 11, _, _) => {
                let (label, name) = (*self.random.pick(&LABELS), self.fresh("n"));
                let value = match self.once_in(3) {
                    true => {
                        self.risky = true;
                        self.expression(Kind::Int, 1)
                    }
                    false => format!("{}", self.random.below(5)),
                };
                let text = format!(
                    "MERGE ({name}:{label} {{v: {value}}}) ON CREATE SET {name}.s = 'new' ON MATCH SET {name}.b = true"
                );
                self.add(&name, Kind::Node);
                text
            }
            (12, Some(node), _) => {
                let list = self.expression(Kind::Ints, 1);
                let x = self.fresh("x");
                let inner = self.inside(&x, Kind::Int, |maker| match maker.once_in(2) {
                    true => format!("SET {node}.v = {x}"),
                    false => format!("CREATE (:{} {{v: {x}}})", maker.pick(&LABELS)),
                });
                format!("FOREACH ({x} IN {list} | {inner})")
            }
            _ => {
                let (label, name) = (*self.random.pick(&LABELS), self.fresh("n"));
                let text = format!(
                    "CREATE ({name}:{label} {{v: {}, s: {}}})",
                    self.expression(Kind::Int, 1),
                    self.leaf(Kind::Text)
                );
                self.add(&name, Kind::Node);
                text
            }
        }
    }

    /// Removes variables that may refer to deleted entities.
    fn forget(&mut self, text: String) -> String {
        let plain: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, kind)| self_contained(*kind))
            .map(|(name, _)| name.clone())
            .collect();
        self.scope.retain(|(_, kind)| self_contained(*kind));
        match plain.is_empty() {
            true => {
                let name = self.fresh("c");
                self.add(&name, Kind::Int);
                format!("{text} WITH count(*) AS {name}")
            }
            false => format!("{text} WITH {}", plain.join(", ")),
        }
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
