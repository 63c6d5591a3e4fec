//! Random graphs, schemas and whole queries, well-typed and ill-typed, from a seed.

mod clause;
mod expression;
mod focus;
pub mod graph;
mod pattern;
mod temporal;

use crate::random::Random;

/// The kind of a variable or an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node.
    Node,
    /// A relationship.
    Relationship,
    /// A list of nodes.
    Nodes,
    /// A list of relationships.
    Relationships,
    /// A path.
    Path,
    /// An integer.
    Int,
    /// A float.
    Float,
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// A list of integers.
    Ints,
    /// A list of strings.
    Texts,
    /// A map with the integer `x` and the map `y` with the string `z`.
    Map,
    /// A date.
    Date,
    /// A time of day.
    LocalTime,
    /// A time of day with an offset.
    Time,
    /// A date and a time of day.
    LocalDateTime,
    /// A date and a time of day with an offset.
    DateTime,
    /// A duration.
    Duration,
    /// A value of any type.
    Any,
}

/// A random query.
#[derive(Clone, Debug)]
pub struct Made {
    /// The text.
    pub text: String,
    /// Whether it may raise an error: it contains a value of a wrong type, or arithmetic that may overflow.
    /// Every other query must succeed.
    pub risky: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// State while a query is generated.
struct Maker<'r> {
    random: &'r mut Random,
    scope: Vec<(String, Kind)>,
    next: usize,
    risky: bool,
    /// Whether a wrong type may be inserted.
    ill: bool,
    /// Whether expressions may contain subqueries: not inside a subquery.
    nested: bool,
    /// Whether the graph may have changed.
    wrote: bool,
}

/// A query; one in `1 / writing` writes.
pub fn query(random: &mut Random) -> Made {
    let ill = random.once_in(6);
    let mut maker = Maker {
        random,
        scope: Vec::new(),
        next: 0,
        risky: false,
        ill,
        nested: false,
        wrote: false,
    };
    let text = match maker.once_in(3) {
        true => maker.focused(),
        false => maker.query(),
    };
    Made {
        text,
        risky: maker.risky,
        writes: maker.wrote,
    }
}

impl Maker<'_> {
    fn once_in(&mut self, times: u64) -> bool {
        self.random.once_in(times)
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        let at = self.random.below(choices.len() as u64) as usize;
        choices[at]
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    /// A variable of a kind, if there is one.
    fn known(&mut self, kind: Kind) -> Option<String> {
        let of_kind: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, other)| *other == kind)
            .map(|(name, _)| name.clone())
            .collect();
        match of_kind.is_empty() {
            true => None,
            false => Some(self.random.pick(&of_kind).clone()),
        }
    }

    fn add(&mut self, name: &str, kind: Kind) {
        if !self.scope.iter().any(|(known, _)| known == name) {
            self.scope.push((name.to_owned(), kind));
        }
    }
}
