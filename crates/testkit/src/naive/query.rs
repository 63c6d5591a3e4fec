//! The queries that brute force supports, and their text.

use std::fmt;

use super::graph::{LABELS, TYPES};

/// A variable's number. Nodes are `a`, `b`, …; relationships `r0`, `r1`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variable {
    /// Number of a node.
    Node(usize),
    /// Number of a relationship.
    Relationship(usize),
    /// Number of a list of relationships.
    Walk(usize),
}

/// A query: clauses, then what is returned.
#[derive(Clone, Debug)]
pub struct Query {
    /// In order.
    pub clauses: Vec<Clause>,
    /// The variables in scope at the end.
    pub scope: Vec<Variable>,
    /// The returned expression over them.
    pub result: Returned,
}

/// The kinds of results.
#[derive(Clone, Copy, Debug)]
pub enum Returned {
    /// All variables.
    Rows,
    /// Number of rows.
    Count,
    /// Number of rows per value of the first variable.
    CountByFirst,
    /// Number of distinct values of the last variable.
    CountDistinctLast,
    /// Distinct combinations of values.
    Distinct,
    /// Distinct combinations of nodes.
    DistinctNodes,
}

/// One clause.
#[derive(Clone, Debug)]
pub enum Clause {
    /// `[OPTIONAL] MATCH paths [WHERE condition]`
    Match {
        /// Whether a row without a match is kept.
        optional: bool,
        /// The paths.
        paths: Vec<Path>,
        /// The condition.
        condition: Option<Condition>,
    },
    /// `WITH [DISTINCT] variables`
    With {
        /// Whether duplicate rows are removed.
        distinct: bool,
        /// The kept variables.
        variables: Vec<Variable>,
    },
}

/// `(…)-[…]-(…)…`
#[derive(Clone, Debug)]
pub struct Path {
    /// The first node.
    pub start: NodePattern,
    /// Relationships and the nodes they lead to.
    pub steps: Vec<(RelationshipPattern, NodePattern)>,
}

/// `(a:A {v: 1})`
#[derive(Clone, Debug)]
pub struct NodePattern {
    /// By name.
    pub variable: Option<Variable>,
    /// By index into [`LABELS`]; whether it must have it.
    pub label: Option<(usize, bool)>,
    /// The property `v`.
    pub v: Option<i64>,
}

/// `-[r:T|U*1..2 {w: 1}]->`
#[derive(Clone, Debug)]
pub struct RelationshipPattern {
    /// By name; a [`Variable::Walk`] if there is a length.
    pub variable: Option<Variable>,
    /// By index into [`TYPES`]; any if empty.
    pub types: Vec<usize>,
    /// Left to right, right to left, or either.
    pub direction: Direction,
    /// Minimum and maximum number of relationships.
    pub length: Option<(u64, u64)>,
    /// The property `w`.
    pub w: Option<i64>,
}

/// Direction of a relationship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `-->`
    Right,
    /// `<--`
    Left,
    /// `--`
    Either,
}

/// A condition, true, false or unknown.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `a.v < b.v` and its like.
    Compare(Variable, Comparison, Variable),
    /// `a.v < 1` and its like.
    CompareTo(Variable, Comparison, i64),
    /// `a = b` or `a <> b`.
    Same(Variable, bool, Variable),
    /// `a:A`
    HasLabel(Variable, usize),
    /// `a IS NULL`
    IsNull(Variable),
    /// Whether such a path exists.
    Exists(Path),
    /// Conjunction.
    And(Box<Condition>, Box<Condition>),
    /// Disjunction.
    Or(Box<Condition>, Box<Condition>),
    /// Negation of the disjunction.
    Not(Box<Condition>),
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "{}", char::from(b'a' + *number as u8)),
            Self::Relationship(number) => write!(f, "r{number}"),
            Self::Walk(number) => write!(f, "w{number}"),
        }
    }
}

impl Variable {
    /// The column that identifies its value.
    fn shown(self) -> String {
        match self {
            Self::Walk(_) => format!("[x IN {self} | x.i]"),
            _ => format!("{self}.i"),
        }
    }

    /// The name of its property with numbers.
    fn number(self) -> String {
        match self {
            Self::Node(_) => format!("{self}.v"),
            _ => format!("{self}.w"),
        }
    }
}

impl Query {
    /// The nodes in scope at the end.
    pub fn nodes(&self) -> Vec<Variable> {
        let nodes = self.scope.iter().copied();
        nodes
            .filter(|name| matches!(name, Variable::Node(_)))
            .collect()
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for clause in &self.clauses {
            write!(f, "{clause} ")?;
        }
        let all = |variables: &[Variable]| {
            variables
                .iter()
                .map(|one| one.shown())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (first, last) = (self.scope.first(), self.scope.last());
        match (self.result, first, last) {
            (Returned::Rows, Some(_), _) => write!(f, "RETURN {}", all(&self.scope)),
            (Returned::Distinct, Some(_), _) => write!(f, "RETURN DISTINCT {}", all(&self.scope)),
            (Returned::DistinctNodes, _, _) if !self.nodes().is_empty() => {
                write!(f, "RETURN DISTINCT {}", all(&self.nodes()))
            }
            (Returned::CountByFirst, Some(first), _) => {
                write!(f, "RETURN {}, count(*)", first.shown())
            }
            (Returned::CountDistinctLast, _, Some(last)) => {
                write!(f, "RETURN count(DISTINCT {last})")
            }
            _ => f.write_str("RETURN count(*)"),
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Match {
                optional,
                paths,
                condition,
            } => {
                f.write_str(if *optional {
                    "OPTIONAL MATCH "
                } else {
                    "MATCH "
                })?;
                let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
                f.write_str(&paths.join(", "))?;
                condition
                    .as_ref()
                    .map_or(Ok(()), |condition| write!(f, " WHERE {condition}"))
            }
            Self::With {
                distinct,
                variables,
            } => {
                let names: Vec<String> = variables.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "WITH {}{}",
                    if *distinct { "DISTINCT " } else { "" },
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        self.steps
            .iter()
            .try_for_each(|(relationship, node)| write!(f, "{relationship}{node}"))
    }
}

fn optional(value: Option<impl fmt::Display>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

impl fmt::Display for NodePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self
            .label
            .map(|(label, has)| format!(":{}{}", if has { "" } else { "!" }, LABELS[label]));
        let v = self.v.map(|v| format!(" {{v: {v}}}"));
        write!(
            f,
            "({}{}{})",
            optional(self.variable),
            optional(label),
            optional(v)
        )
    }
}

impl fmt::Display for RelationshipPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&str> = self.types.iter().map(|name| TYPES[*name]).collect();
        let types = (!types.is_empty()).then(|| format!(":{}", types.join("|")));
        let length = self.length.map(|(least, most)| format!("*{least}..{most}"));
        let w = self.w.map(|w| format!(" {{w: {w}}}"));
        let left = if self.direction == Direction::Left {
            "<"
        } else {
            ""
        };
        let right = if self.direction == Direction::Right {
            ">"
        } else {
            ""
        };
        write!(
            f,
            "{left}-[{}{}{}{}]-{right}",
            optional(self.variable),
            optional(types),
            optional(length),
            optional(w)
        )
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(a, comparison, b) => {
                write!(f, "{} {comparison} {}", a.number(), b.number())
            }
            Self::CompareTo(a, comparison, number) => {
                write!(f, "{} {comparison} {number}", a.number())
            }
            Self::Same(a, same, b) => write!(f, "{a} {} {b}", if *same { "=" } else { "<>" }),
            Self::HasLabel(a, label) => write!(f, "{a}:{}", LABELS[*label]),
            Self::IsNull(a) => write!(f, "{a} IS NULL"),
            Self::Exists(path) => write!(f, "EXISTS {{ {path} }}"),
            Self::And(a, b) => write!(f, "({a} AND {b})"),
            Self::Or(a, b) => write!(f, "({a} OR {b})"),
            Self::Not(a) => write!(f, "NOT ({a})"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
        })
    }
}
