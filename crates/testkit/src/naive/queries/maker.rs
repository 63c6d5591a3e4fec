//! The state while a query is generated.

use crate::random::Random;

/// The kind of a variable or an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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

/// State while a query is generated.
pub(super) struct Maker<'r> {
    pub(super) random: &'r mut Random,
    pub(super) scope: Vec<(String, Kind)>,
    pub(super) next: usize,
    pub(super) risky: bool,
    /// Whether a wrong type may be inserted.
    pub(super) ill: bool,
    /// Whether expressions may contain subqueries: not inside a subquery.
    pub(super) nested: bool,
    /// Whether the graph may have changed.
    pub(super) wrote: bool,
}

impl Maker<'_> {
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.random.once_in(times)
    }

    pub(super) fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        let at = self.random.below(choices.len() as u64) as usize;
        choices[at]
    }

    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    /// A variable of a kind, if there is one.
    pub(super) fn known(&mut self, kind: Kind) -> Option<String> {
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

    pub(super) fn add(&mut self, name: &str, kind: Kind) {
        if !self.scope.iter().any(|(known, _)| known == name) {
            self.scope.push((name.to_owned(), kind));
        }
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
}
