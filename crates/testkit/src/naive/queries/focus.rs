//! Query shapes with special plans: counts, groups and distinct ends of paths, sorts provided by an index,
//! joins, existence. Without predicates that filter out everything.

use super::graph::{LABELS, TYPES};
use super::{Kind, Maker};

/// Properties with indexes, and others.
const FIELDS: [&str; 10] = ["v", "s", "f", "d.x", "m", "t", "z", "h", "du", "i"];

impl Maker<'_> {
    /// A query of one of these shapes.
    pub(super) fn focused(&mut self) -> String {
        match self.random.below(11) {
            0 | 1 => self.counted_walk(),
            2 => self.extremes(),
            3 | 4 => self.sorted(),
            5 => self.ends(),
            6 => self.grouped(),
            7 => self.closed(),
            8 => self.joined(),
            9 => self.existing(),
            _ => self.grouped_walk(),
        }
    }

    fn maybe_label(&mut self) -> String {
        match self.once_in(2) {
            true => format!(":{}", self.random.pick(&LABELS)),
            false => String::new(),
        }
    }

    fn link(&mut self, name: &str) -> String {
        let types = match self.random.below(4) {
            0 => String::new(),
            1 => format!(":{}|{}", self.random.pick(&TYPES), self.random.pick(&TYPES)),
            _ => format!(":{}", self.random.pick(&TYPES)),
        };
        let (left, right) = *self
            .random
            .pick(&[("-", "->"), ("-", "->"), ("<-", "-"), ("-", "-")]);
        format!("{left}[{name}{types}]{right}")
    }

    /// `(a)-->(b)-->(c)`, of one to three links.
    fn walk(&mut self) -> (String, Vec<&'static str>) {
        let mut text = format!("(a{})", self.maybe_label());
        let mut nodes = vec!["a"];
        for (node, name) in [("b", "r"), ("c", "q"), ("d", "p")]
            .into_iter()
            .take(1 + self.random.below(3) as usize)
        {
            let (link, label) = (
                self.link(name),
                if self.once_in(3) {
                    self.maybe_label()
                } else {
                    String::new()
                },
            );
            text = format!("{text}{link}({node}{label})");
            nodes.push(node);
        }
        (text, nodes)
    }

    fn filter(&mut self, nodes: &[&str]) -> String {
        if !self.once_in(3) {
            return String::new();
        }
        let node = *self.random.pick(nodes);
        let comparison = self.pick(&["=", "<>", "<", ">=", "<="]);
        match self.random.below(4) {
            0 => format!(" WHERE {node}.v {comparison} {}", self.random.below(4)),
            1 => format!(" WHERE {node}.s {comparison} {}", self.leaf(Kind::Text)),
            2 => format!(" WHERE {node}.i <> a.i"),
            _ => format!(" WHERE {node}.v {comparison} a.v"),
        }
    }

    fn counted_walk(&mut self) -> String {
        let (walk, nodes) = self.walk();
        let (filter, last) = (self.filter(&nodes), nodes[nodes.len() - 1]);
        let count = match self.random.below(6) {
            0 => format!("count(DISTINCT {last}) AS x"),
            1 => format!("count({last}.v) AS x, count(*) AS y"),
            2 => format!("sum({last}.v) AS x, min({last}.s) AS y"),
            3 => format!("collect(DISTINCT {last}.v) AS x"),
            4 => "count(r) AS x, count(DISTINCT r) AS y".to_owned(),
            _ => "count(*) AS x".to_owned(),
        };
        let key = match self.random.below(5) {
            0 => "a, ".to_owned(),
            1 => "a.v AS k, ".to_owned(),
            2 => format!("{last} AS k, "),
            3 => "b.s AS k, a AS l, ".to_owned(),
            _ => String::new(),
        };
        format!("MATCH {walk}{filter} RETURN {key}{count}")
    }

    fn extremes(&mut self) -> String {
        let (label, field, other) = (
            self.maybe_label(),
            *self.random.pick(&FIELDS),
            *self.random.pick(&FIELDS),
        );
        let filter = self.filter(&["a"]);
        match self.random.below(4) {
            3 => format!("MATCH (a{label}){filter} RETURN sum(a.du) AS x, max(a.{field}) AS y"),
            0 => format!("MATCH (a{label}){filter} RETURN min(a.{field}) AS x"),
            1 => format!("MATCH (a{label}){filter} RETURN max(a.{field}) AS x, count(*) AS c"),
            _ => format!(
                "MATCH (a{label}){filter} RETURN count(*) AS c, count(a.{field}) AS x, count(DISTINCT a.{other}) AS y"
            ),
        }
    }

    fn sorted(&mut self) -> String {
        let (label, field, other) = (
            self.maybe_label(),
            *self.random.pick(&FIELDS),
            *self.random.pick(&FIELDS),
        );
        let (one, two) = (self.pick(&["", " DESC"]), self.pick(&["", " DESC"]));
        let filter = self.filter(&["a"]);
        let link = match self.once_in(3) {
            true => format!("{}(b)", self.link("r")),
            false => String::new(),
        };
        let (skip, limit) = (self.random.below(3), self.random.below(4));
        let page = match self.random.below(4) {
            0 => String::new(),
            1 => format!(" SKIP {skip} LIMIT {limit}"),
            _ => format!(" LIMIT {limit}"),
        };
        let order = match self.once_in(2) {
            true => format!("a.{field}{one}"),
            false => format!("a.{field}{one}, a.{other}{two}"),
        };
        match self.once_in(4) {
            true => format!(
                "MATCH (a{label}){filter} WITH a ORDER BY a.{field}{one}, a.i{two}{page} MATCH (a){}(b) RETURN a.i AS x, b.i AS y",
                self.link("")
            ),
            false => format!(
                "MATCH (a{label}){link}{filter} RETURN a.{field} AS x, a.i AS y ORDER BY {order}{page}"
            ),
        }
    }

    fn ends(&mut self) -> String {
        let (from, to) = (self.maybe_label(), self.maybe_label());
        let types = format!(":{}|{}", self.random.pick(&TYPES), self.random.pick(&TYPES));
        let (left, right) = *self.random.pick(&[("-", "->"), ("<-", "-"), ("-", "-")]);
        let least = self.random.below(3);
        let length = match self.once_in(4) {
            true => "*".to_owned(),
            false => format!("*{least}..{}", least + 1 + self.random.below(2)),
        };
        let walk = format!("(a{from}){left}[{types}{length}]{right}(b{to})");
        match self.random.below(5) {
            0 => format!("MATCH {walk} RETURN DISTINCT b.i AS x"),
            1 => format!("MATCH {walk} RETURN count(DISTINCT b) AS x"),
            2 => format!("MATCH {walk} RETURN a, count(DISTINCT b) AS x, count(*) AS y"),
            3 => format!("MATCH {walk} WHERE a <> b RETURN DISTINCT a.i AS x, b"),
            _ => format!("MATCH {walk} WITH DISTINCT a, b RETURN a.v AS x, collect(b.i) AS y"),
        }
    }

    fn grouped(&mut self) -> String {
        let (label, field, other) = (
            self.maybe_label(),
            *self.random.pick(&FIELDS),
            *self.random.pick(&FIELDS),
        );
        let filter = self.filter(&["a"]);
        let order = self.pick(&[
            "",
            " ORDER BY c DESC, x",
            " ORDER BY x LIMIT 2",
            " ORDER BY c, x SKIP 1",
        ]);
        let more = match self.once_in(2) {
            true => format!(", max(a.{other}) AS y"),
            false => String::new(),
        };
        format!("MATCH (a{label}){filter} RETURN a.{field} AS x, count(*) AS c{more}{order}")
    }

    fn grouped_walk(&mut self) -> String {
        let (walk, nodes) = self.walk();
        let filter = self.filter(&nodes);
        let bound = self.random.below(3);
        let order = self.pick(&["", " ORDER BY c DESC, x", " ORDER BY c DESC, x LIMIT 2"]);
        format!(
            "MATCH {walk}{filter} WITH a, count(b) AS c WHERE c > {bound} RETURN a.i AS x, c{order}"
        )
    }

    fn closed(&mut self) -> String {
        let (label, one, two, three) = (
            self.maybe_label(),
            self.link("r"),
            self.link("q"),
            self.link(""),
        );
        match self.random.below(3) {
            0 => format!("MATCH (a{label}){one}(b){two}(a) RETURN a.i AS x, b.i AS y"),
            1 => format!("MATCH (a{label}){one}(b){two}(c){three}(a) RETURN count(*) AS x"),
            _ => format!(
                "MATCH (a{label}){one}(b) MATCH (a){two}(b) RETURN a.i AS x, b.i AS y, r = q AS z"
            ),
        }
    }

    fn joined(&mut self) -> String {
        let (one, two, field) = (
            self.maybe_label(),
            self.maybe_label(),
            *self.random.pick(&FIELDS),
        );
        let comparison = self.pick(&["=", "=", "=", "<", "<>"]);
        let link = match self.once_in(2) {
            true => format!("{}(c)", self.link("r")),
            false => String::new(),
        };
        match self.random.below(3) {
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

    fn existing(&mut self) -> String {
        let (label, link, other) = (self.maybe_label(), self.link(""), self.link(""));
        let inner = self.maybe_label();
        let not = self.pick(&["", "NOT "]);
        match self.random.below(4) {
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
}
