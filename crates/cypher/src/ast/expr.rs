//! Expressions.

use std::sync::Arc;

use super::{Ident, LabelExpr, PathPattern, QualifiedName, Query};
use crate::Span;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it says.
    pub kind: ExprKind,
    /// Where it stands, parentheses excluded.
    pub span: Span,
}

impl Expr {
    /// An expression at a place.
    pub fn new(kind: ExprKind, span: Span) -> Self {
        Self { kind, span }
    }

    /// The variable's name, if this is just a variable.
    pub fn as_variable(&self) -> Option<&Arc<str>> {
        match &self.kind {
            ExprKind::Variable(name) => Some(name),
            _ => None,
        }
    }
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// `$name`, `$0`
    Parameter(Arc<str>),
    /// A variable.
    Variable(Arc<str>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{a: 1}`; of equal keys the last counts.
    Map(Vec<MapEntry>),
    /// `base.key`
    Property {
        /// A map, node, relationship or temporal value.
        base: Box<Expr>,
        /// The name.
        key: Ident,
    },
    /// `base[index]`
    Index {
        /// A list, map, node or relationship.
        base: Box<Expr>,
        /// A position or a name.
        index: Box<Expr>,
    },
    /// `base[from..to]`
    Slice {
        /// A list.
        base: Box<Expr>,
        /// The first position, 0 if absent.
        from: Option<Box<Expr>>,
        /// One past the last position, the list's length if absent.
        to: Option<Box<Expr>>,
    },
    /// `-a`, `+a`, `NOT a`
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it applies to.
        operand: Box<Expr>,
    },
    /// `a + b` and its like.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Its left side.
        left: Box<Expr>,
        /// Its right side.
        right: Box<Expr>,
    },
    /// `a + b - c …`: a long chain of operators that bind alike, applied from the left. Two or more operators, all of
    /// `+ - ||` or all of `* / %`, and one operand more. Shorter chains are nested [`ExprKind::Binary`]s.
    ArithmeticChain {
        /// The operands.
        operands: Vec<Expr>,
        /// The operators between them.
        operators: Vec<BinaryOp>,
    },
    /// `a < b <= c`: each neighbouring pair is compared, all must hold. Two or more operators, all comparisons,
    /// and one operand more. A single comparison is a [`ExprKind::Binary`].
    ComparisonChain {
        /// What is compared.
        operands: Vec<Expr>,
        /// The operators between them.
        operators: Vec<BinaryOp>,
    },
    /// `a AND b AND c`; two or more.
    And(Vec<Expr>),
    /// `a OR b OR c`; two or more.
    Or(Vec<Expr>),
    /// `a XOR b XOR c`; two or more.
    Xor(Vec<Expr>),
    /// `a IS [NOT] NULL`
    IsNull {
        /// What is tested.
        operand: Box<Expr>,
        /// `IS NOT NULL`
        negated: bool,
    },
    /// `a IS [NOT] :: TYPE`
    IsTyped {
        /// What is tested.
        operand: Box<Expr>,
        /// The type.
        value_type: ValueType,
        /// `IS NOT ::`
        negated: bool,
    },
    /// `n:A:B`, `n:A|B`, `r:T`
    HasLabels {
        /// A node or relationship.
        operand: Box<Expr>,
        /// The condition.
        labels: LabelExpr,
    },
    /// `CASE [subject] WHEN … THEN … [ELSE …] END`
    Case {
        /// What each `WHEN` is compared with; without it each is a condition.
        subject: Option<Box<Expr>>,
        /// In order; at least one.
        branches: Vec<CaseBranch>,
        /// `ELSE`, null if absent.
        otherwise: Option<Box<Expr>>,
    },
    /// `count(*)`
    CountStar,
    /// `name([DISTINCT] arguments)`
    Function {
        /// The function; names of functions are compared without regard to case.
        name: QualifiedName,
        /// `DISTINCT` before the arguments; for aggregates only.
        distinct: bool,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// `[variable IN list WHERE predicate | projection]`
    ListComprehension {
        /// The element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// Which elements are kept; all if absent.
        predicate: Option<Box<Expr>>,
        /// What is made of them; the element itself if absent.
        projection: Option<Box<Expr>>,
    },
    /// `[path = (a)-->(b) WHERE predicate | projection]`
    PatternComprehension {
        /// The pattern, with its variable.
        path: Box<PathPattern>,
        /// Which matches are kept; all if absent.
        predicate: Option<Box<Expr>>,
        /// What is made of each.
        projection: Box<Expr>,
    },
    /// `all(variable IN list WHERE predicate)` and its like.
    Quantifier {
        /// How many must hold.
        kind: QuantifierKind,
        /// The element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// The condition; absent, the element itself is it.
        predicate: Option<Box<Expr>>,
    },
    /// `reduce(accumulator = initial, variable IN list | step)`
    Reduce {
        /// The value carried on.
        accumulator: Ident,
        /// Its first value.
        initial: Box<Expr>,
        /// The element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// Its next value.
        step: Box<Expr>,
    },
    /// `variable {.a, .*, b: expression, c}`
    MapProjection {
        /// A map, node or relationship.
        variable: Ident,
        /// What goes into the map.
        items: Vec<MapProjectionItem>,
    },
    /// `(a)-->(b)` as a condition: whether there is such a path.
    PatternPredicate(Box<PathPattern>),
    /// `shortestPath(…)`, `allShortestPaths(…)` as a value; the selector says which.
    ShortestPath(Box<PathPattern>),
    /// `EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`
    Subquery {
        /// What is asked of the query.
        kind: SubqueryKind,
        /// The query; sees all variables around it. That of `EXISTS` and `COUNT` may lack a `RETURN`.
        query: Box<Query>,
    },
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`, `0xff`, `0o17`, `-5`
    Int(i64),
    /// `1.5`, `.5`, `1e9`; always finite
    Float(f64),
    /// `'a'`, `"a"`; escapes replaced
    String(Arc<str>),
}

/// One entry of a map literal.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// The name.
    pub key: Ident,
    /// The value.
    pub value: Expr,
}

/// One item of a map projection.
#[derive(Clone, Debug, PartialEq)]
pub enum MapProjectionItem {
    /// `.a`
    Property(Ident),
    /// `.*`
    AllProperties,
    /// `a: expression`
    Entry(MapEntry),
    /// `a`: the variable under its own name.
    Variable(Ident),
}

/// One `WHEN … THEN …`.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseBranch {
    /// The condition, or what the subject is compared with.
    pub when: Expr,
    /// The result.
    pub then: Expr,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `NOT`
    Not,
    /// `-`
    Minus,
    /// `+`
    Plus,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `||`
    Concat,
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `IN`
    In,
    /// `STARTS WITH`
    StartsWith,
    /// `ENDS WITH`
    EndsWith,
    /// `CONTAINS`
    Contains,
    /// `=~`
    RegexMatch,
}

impl BinaryOp {
    /// Whether it is one of `= <> < <= > >=`.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::LessOrEqual
                | Self::Greater
                | Self::GreaterOrEqual
        )
    }
}

/// How many elements must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantifierKind {
    /// `all`
    All,
    /// `any`
    Any,
    /// `none`
    None,
    /// `single`
    Single,
}

/// What is asked of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubqueryKind {
    /// `EXISTS { … }`: whether it has a row.
    Exists,
    /// `COUNT { … }`: how many rows it has.
    Count,
    /// `COLLECT { … }`: its only column as a list.
    Collect,
}

/// A type as written in `IS ::` and in constraints.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// `ANY`
    Any,
    /// `NOTHING` or `NULL`
    Null,
    /// `BOOLEAN`, `BOOL`
    Boolean,
    /// `INTEGER`, `INT`
    Integer,
    /// `FLOAT`
    Float,
    /// `NUMBER`: integer or float
    Number,
    /// `STRING`
    String,
    /// `BYTES`
    Bytes,
    /// `DATE`
    Date,
    /// `LOCAL TIME`
    LocalTime,
    /// `ZONED TIME`, `TIME`
    ZonedTime,
    /// `LOCAL DATETIME`
    LocalDateTime,
    /// `ZONED DATETIME`, `DATETIME`
    ZonedDateTime,
    /// `DURATION`
    Duration,
    /// `POINT`
    Point,
    /// `MAP`
    Map,
    /// `NODE`
    Node,
    /// `RELATIONSHIP`
    Relationship,
    /// `PATH`
    Path,
    /// `LIST<type>`, `LIST`
    List(Box<ValueType>),
    /// `type NOT NULL`
    NotNull(Box<ValueType>),
    /// `type | type`; two or more.
    Union(Vec<ValueType>),
}
