//! Random expressions of a requested kind.

use super::graph::{LABELS, TYPES};
use super::{Kind, Maker};

/// All kinds of property values.
const PLAIN: [Kind; 11] = [
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bool,
    Kind::Ints,
    Kind::Map,
    Kind::Date,
    Kind::DateTime,
    Kind::LocalTime,
    Kind::Duration,
    Kind::Any,
];

impl Maker<'_> {
    /// An expression of a kind; occasionally of another one, if the query may be ill-typed.
    pub(super) fn expression(&mut self, kind: Kind, depth: u32) -> String {
        let mut kind = kind;
        if self.ill && self.once_in(14) {
            self.risky = true;
            kind = *self.random.pick(&PLAIN);
        }
        if depth == 0 || self.once_in(4) {
            return self.leaf(kind);
        }
        if self.once_in(12) {
            return self.of_any_kind(kind, depth - 1);
        }
        match kind {
            Kind::Int => self.int(depth - 1),
            Kind::Float => self.float(depth - 1),
            Kind::Text => self.text(depth - 1),
            Kind::Bool => self.condition(depth),
            Kind::Ints => self.ints(depth - 1),
            Kind::Texts => self.texts(depth - 1),
            Kind::Map => self.map(depth - 1),
            Kind::Any => {
                let kind = *self.random.pick(&PLAIN);
                self.expression(kind, depth - 1)
            }
            Kind::Date
            | Kind::LocalTime
            | Kind::Time
            | Kind::LocalDateTime
            | Kind::DateTime
            | Kind::Duration => self.temporal(kind, depth - 1),
            _ => self.leaf(kind),
        }
    }

    /// A predicate for `WHERE`.
    pub(super) fn condition(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.leaf(Kind::Bool);
        }
        let depth = depth - 1;
        self.test(depth)
    }

    /// A pattern as a predicate, which only `WHERE` accepts.
    pub(super) fn where_condition(&mut self) -> String {
        let condition = self.condition(3);
        let Some(node) = self.known(Kind::Node).filter(|_| self.random.once_in(8)) else {
            return condition;
        };
        let (name, join, not) = (
            *self.random.pick(&TYPES),
            self.pick(&["AND", "OR"]),
            self.pick(&["", "NOT "]),
        );
        format!("({condition}) {join} {not}({node})-[:{name}]->()")
    }

    fn test(&mut self, depth: u32) -> String {
        let comparison = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.below(25) {
            22..=24 => self.temporal_test(depth),
            0..=3 => format!(
                "{} {comparison} {}",
                self.expression(Kind::Int, depth),
                self.expression(Kind::Int, depth)
            ),
            4 => format!(
                "{} {comparison} {}",
                self.expression(Kind::Text, depth),
                self.expression(Kind::Text, depth)
            ),
            5 => {
                let kind = *self.random.pick(&PLAIN);
                format!(
                    "{} {comparison} {}",
                    self.expression(kind, depth),
                    self.expression(Kind::Any, depth)
                )
            }
            6 => {
                let test = self.pick(&["STARTS WITH", "ENDS WITH", "CONTAINS"]);
                format!(
                    "{} {test} {}",
                    self.expression(Kind::Text, depth),
                    self.leaf(Kind::Text)
                )
            }
            7 => format!(
                "({} IN {})",
                self.expression(Kind::Int, depth),
                self.expression(Kind::Ints, depth)
            ),
            8 => {
                let kind = *self.random.pick(&PLAIN);
                let not = self.pick(&["", "NOT "]);
                format!("{} IS {not}NULL", self.leaf(kind))
            }
            9 => {
                let join = self.pick(&["AND", "OR", "XOR"]);
                format!(
                    "({} {join} {})",
                    self.expression(Kind::Bool, depth),
                    self.expression(Kind::Bool, depth)
                )
            }
            10 => format!("NOT ({})", self.expression(Kind::Bool, depth)),
            11 | 12 => match (self.known(Kind::Node), self.known(Kind::Node)) {
                (Some(a), Some(b)) if self.once_in(2) => {
                    format!("{a} {} {b}", self.pick(&["=", "<>"]))
                }
                (Some(a), _) => {
                    let label = self.label();
                    format!("({a}{label})")
                }
                _ => self.leaf(Kind::Bool),
            },
            13 => {
                let quantifier = self.pick(&["all", "any", "none", "single"]);
                let x = self.fresh("x");
                let list = self.expression(Kind::Ints, depth);
                let inner = self.inside(&x, Kind::Int, |maker| maker.expression(Kind::Bool, depth));
                format!("{quantifier}({x} IN {list} WHERE {inner})")
            }
            14 => {
                let chain = self.pick(&["<", "<=", "="]);
                let (a, b, c) = (
                    self.leaf(Kind::Int),
                    self.leaf(Kind::Int),
                    self.leaf(Kind::Int),
                );
                format!("{a} {chain} {b} <= {c}")
            }
            15 => {
                let kind = *self.random.pick(&PLAIN);
                let wanted = self.pick(&[
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
                format!("({} IS :: {wanted})", self.expression(kind, depth))
            }
            16 if self.known(Kind::Relationship).is_some() => {
                let one = self.known(Kind::Relationship).unwrap_or_default();
                let name = *self.random.pick(&TYPES);
                match self.once_in(2) {
                    true => format!("type({one}) = '{name}'"),
                    false => format!("{one}:{name}"),
                }
            }
            17 | 18 if !self.nested && self.known(Kind::Node).is_some() => {
                let pattern = self.inner_path();
                let not = self.pick(&["", "NOT "]);
                let inner = self.inner_condition();
                format!("{not}EXISTS {{ {pattern}{inner} }}")
            }
            19 => format!(
                "{} = {}",
                self.expression(Kind::Map, depth),
                self.expression(Kind::Map, depth)
            ),
            20 => format!(
                "{} {comparison} {}",
                self.expression(Kind::Ints, depth),
                self.expression(Kind::Ints, depth)
            ),
            _ => format!(
                "{} {comparison} {}",
                self.expression(Kind::Float, depth),
                self.expression(Kind::Float, depth)
            ),
        }
    }

    /// A path of a subquery, which declares no variables.
    fn inner_path(&mut self) -> String {
        let was = std::mem::replace(&mut self.nested, true);
        let path = self.path(false, &mut Vec::new());
        self.nested = was;
        path
    }

    fn inner_condition(&mut self) -> String {
        if !self.once_in(3) {
            return String::new();
        }
        let was = std::mem::replace(&mut self.nested, true);
        let condition = self.condition(1);
        self.nested = was;
        format!(" WHERE {condition}")
    }

    /// A text generated with one more variable in scope.
    pub(super) fn inside(
        &mut self,
        name: &str,
        kind: Kind,
        make: impl FnOnce(&mut Self) -> String,
    ) -> String {
        self.scope.push((name.to_owned(), kind));
        let was = std::mem::replace(&mut self.nested, true);
        let text = make(self);
        self.nested = was;
        self.scope.retain(|(known, _)| known != name);
        text
    }

    /// Expressions of any kind: `CASE`, `coalesce`, an element.
    fn of_any_kind(&mut self, kind: Kind, depth: u32) -> String {
        let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
        match self.random.below(5) {
            0 => format!(
                "CASE WHEN {} THEN {a} ELSE {b} END",
                self.expression(Kind::Bool, depth)
            ),
            1 => format!(
                "CASE {} WHEN {} THEN {a} END",
                self.leaf(Kind::Int),
                self.leaf(Kind::Int)
            ),
            2 => format!("coalesce({a}, {b})"),
            3 => format!("[{a}, {b}][{}]", self.random.below(3)),
            _ => format!("nullIf({a}, {b})"),
        }
    }

    fn int(&mut self, depth: u32) -> String {
        match self.random.below(18) {
            16 | 17 => self.component(depth),
            0..=2 => {
                let op = self.pick(&["+", "-", "*"]);
                format!(
                    "({} {op} {})",
                    self.expression(Kind::Int, depth),
                    self.expression(Kind::Int, depth)
                )
            }
            3 => {
                let op = self.pick(&["/", "%"]);
                let divisor = match self.ill && self.once_in(3) {
                    true => {
                        self.risky = true;
                        self.leaf(Kind::Int)
                    }
                    false => format!("{}", 1 + self.random.below(3)),
                };
                format!("({} {op} {divisor})", self.expression(Kind::Int, depth))
            }
            4 => format!("size({})", self.expression(Kind::Ints, depth)),
            5 => format!("size({})", self.expression(Kind::Text, depth)),
            6 => format!("abs({})", self.expression(Kind::Int, depth)),
            7 => format!("toInteger({})", self.expression(Kind::Float, depth)),
            8 => format!("head({})", self.expression(Kind::Ints, depth)),
            9 => format!("last({})", self.expression(Kind::Ints, depth)),
            10 => {
                let x = self.fresh("x");
                let list = self.expression(Kind::Ints, depth);
                format!("reduce(acc = 0, {x} IN {list} | acc + {x})")
            }
            11 => match (self.known(Kind::Path), self.known(Kind::Relationships)) {
                (Some(path), _) => format!("length({path})"),
                (_, Some(list)) => format!("size({list})"),
                _ => self.leaf(Kind::Int),
            },
            12 | 13 if !self.nested && self.known(Kind::Node).is_some() => {
                let pattern = self.inner_path();
                let inner = self.inner_condition();
                format!("COUNT {{ {pattern}{inner} }}")
            }
            14 if self.known(Kind::Node).is_some() => {
                let node = self.known(Kind::Node).unwrap_or_default();
                format!("size(labels({node}))")
            }
            15 if self.ill => {
                self.risky = true;
                format!("({} + 9223372036854775806)", self.leaf(Kind::Int))
            }
            _ => format!("-({})", self.expression(Kind::Int, depth)),
        }
    }

    fn float(&mut self, depth: u32) -> String {
        match self.random.below(6) {
            0 => format!(
                "({} + {})",
                self.expression(Kind::Float, depth),
                self.expression(Kind::Int, depth)
            ),
            1 => format!("({} * 0.5)", self.expression(Kind::Int, depth)),
            2 => format!("toFloat({})", self.expression(Kind::Int, depth)),
            3 => format!("floor({})", self.expression(Kind::Float, depth)),
            4 => format!("({} / 2.0)", self.expression(Kind::Float, depth)),
            _ => format!("round({})", self.expression(Kind::Float, depth)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        match self.random.below(10) {
            9 => {
                let kind = self.temporal_kind();
                format!("toString({})", self.expression(kind, depth))
            }
            0 => format!(
                "({} + {})",
                self.expression(Kind::Text, depth),
                self.expression(Kind::Text, depth)
            ),
            1 => format!("toUpper({})", self.expression(Kind::Text, depth)),
            2 => format!("toString({})", self.expression(Kind::Int, depth)),
            3 => format!(
                "substring({}, {})",
                self.expression(Kind::Text, depth),
                self.random.below(3)
            ),
            4 => format!("left({}, 1)", self.expression(Kind::Text, depth)),
            5 => format!(
                "replace({}, 'a', {})",
                self.expression(Kind::Text, depth),
                self.leaf(Kind::Text)
            ),
            6 => format!("reverse({})", self.expression(Kind::Text, depth)),
            7 => match self.known(Kind::Relationship) {
                Some(one) => format!("type({one})"),
                None => format!("trim({})", self.expression(Kind::Text, depth)),
            },
            _ => format!(
                "({} || {})",
                self.expression(Kind::Text, depth),
                self.leaf(Kind::Text)
            ),
        }
    }

    fn ints(&mut self, depth: u32) -> String {
        match self.random.below(10) {
            0 => format!(
                "[{}, {}]",
                self.expression(Kind::Int, depth),
                self.expression(Kind::Int, depth)
            ),
            1 => format!("range({}, {})", self.random.below(3), self.random.below(5)),
            2 | 3 => {
                let x = self.fresh("x");
                let list = self.expression(Kind::Ints, depth);
                let condition =
                    self.inside(&x, Kind::Int, |maker| maker.expression(Kind::Bool, depth));
                let value = self.inside(&x, Kind::Int, |maker| maker.expression(Kind::Int, depth));
                match self.random.below(3) {
                    0 => format!("[{x} IN {list} WHERE {condition}]"),
                    1 => format!("[{x} IN {list} | {value}]"),
                    _ => format!("[{x} IN {list} WHERE {condition} | {value}]"),
                }
            }
            4 => format!("tail({})", self.expression(Kind::Ints, depth)),
            5 => format!(
                "({} + {})",
                self.expression(Kind::Ints, depth),
                self.expression(Kind::Ints, depth)
            ),
            6 => format!(
                "{}[{}..{}]",
                self.leaf(Kind::Ints),
                self.random.below(2),
                self.random.below(4)
            ),
            7 => match (
                self.known(Kind::Relationships),
                self.known(Kind::Nodes),
                self.known(Kind::Path),
            ) {
                (Some(list), _, _) if self.once_in(2) => format!("[y IN {list} | y.w]"),
                (_, Some(list), _) => format!("[y IN {list} | y.v]"),
                (_, _, Some(path)) => format!("[y IN nodes({path}) | y.v]"),
                _ => format!("reverse({})", self.expression(Kind::Ints, depth)),
            },
            8 if !self.nested && self.known(Kind::Node).is_some() => {
                let node = self.known(Kind::Node).unwrap_or_default();
                let label = *self.random.pick(&LABELS);
                match self.once_in(2) {
                    true => format!("[({node})-->(y:{label}) | y.i]"),
                    false => format!("COLLECT {{ MATCH ({node})-[y]-() RETURN y.w ORDER BY y.w }}"),
                }
            }
            _ => format!("[{}]", self.expression(Kind::Int, depth)),
        }
    }

    fn texts(&mut self, depth: u32) -> String {
        match (self.random.below(3), self.known(Kind::Node)) {
            (0, Some(node)) => format!("labels({node})"),
            (1, _) => format!("split({}, 'a')", self.expression(Kind::Text, depth)),
            _ => format!(
                "[{}, {}]",
                self.expression(Kind::Text, depth),
                self.leaf(Kind::Text)
            ),
        }
    }

    fn map(&mut self, depth: u32) -> String {
        match (self.random.below(3), self.known(Kind::Node)) {
            (0, Some(node)) => format!(
                "{node} {{.v, .s, x: {}}}",
                self.expression(Kind::Int, depth)
            ),
            (1, Some(node)) => format!("properties({node})"),
            _ => format!(
                "{{x: {}, y: {{z: {}}}}}",
                self.expression(Kind::Int, depth),
                self.leaf(Kind::Text)
            ),
        }
    }

    /// A variable, a property, a literal.
    pub(super) fn leaf(&mut self, kind: Kind) -> String {
        if self.once_in(3)
            && let Some(name) = self.known(kind)
        {
            return name;
        }
        if !self.once_in(4)
            && let Some(text) = self.field(kind)
        {
            return text;
        }
        if self.once_in(20) {
            return "null".into();
        }
        match kind {
            Kind::Int => format!("{}", self.random.below(4)),
            Kind::Float => format!("{}.5", self.random.below(4)),
            Kind::Text => self.pick(&["'a'", "'b'", "'ab'", "''", "'é'"]).to_owned(),
            Kind::Bool => self.pick(&["true", "false"]).to_owned(),
            Kind::Ints => self
                .pick(&["[1, 2]", "[]", "[0, 1, 2, 1]", "[null, 1]"])
                .to_owned(),
            Kind::Texts => self.pick(&["['a', 'b']", "[]"]).to_owned(),
            Kind::Map => self
                .pick(&["{x: 1, y: {z: 'a'}}", "{x: 0, y: {z: 'b'}}"])
                .to_owned(),
            Kind::Date
            | Kind::LocalTime
            | Kind::Time
            | Kind::LocalDateTime
            | Kind::DateTime
            | Kind::Duration => self.temporal_literal(kind),
            Kind::Any => self
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
                self.known(kind).unwrap_or_else(|| "null".into())
            }
            Kind::Nodes | Kind::Relationships => self.known(kind).unwrap_or_else(|| "[]".into()),
        }
    }

    /// A property of that kind.
    fn field(&mut self, kind: Kind) -> Option<String> {
        if kind == Kind::Int
            && self.once_in(3)
            && let Some(one) = self.known(Kind::Relationship)
        {
            let field = self.pick(&["w", "i"]);
            return Some(format!("{one}.{field}"));
        }
        let node = self.known(Kind::Node)?;
        let field = match kind {
            Kind::Int => self.pick(&["v", "v", "v", "i", "d.x"]),
            Kind::Float => "f",
            Kind::Text => self.pick(&["s", "s", "d.y.z", "_key"]),
            Kind::Bool => "b",
            Kind::Ints => "l",
            Kind::Map => "d",
            Kind::Date => "t",
            Kind::DateTime => "z",
            Kind::LocalTime => "h",
            Kind::Duration => "du",
            Kind::Any => self.pick(&["m", "m", "v", "s", "z", "missing"]),
            _ => return None,
        };
        Some(format!("{node}.{field}"))
    }
}
