//! Expressions.

use std::sync::Arc;

use super::{Ident, LabelExpr, PathPattern, QualifiedName, RegularQuery};
use crate::Span;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The kind.
    pub kind: ExprKind,
    /// Source span, without enclosing parentheses.
    pub span: Span,
}

impl Expr {
    /// An expression with its span.
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
    /// `{a: 1}`; of duplicate keys the last one counts.
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
        /// The operand.
        operand: Box<Expr>,
    },
    /// A binary operator: `a + b` and so on.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Its left side.
        left: Box<Expr>,
        /// Its right side.
        right: Box<Expr>,
    },
    /// `a + b - c …`: a long chain of left-associative operators of one precedence. Two or more operators,
    /// all of `+ - ||` or all of `* / %`, and one operand more. Shorter chains are nested
    /// [`ExprKind::Binary`]s.
    ArithmeticChain {
        /// The operands.
        operands: Vec<Expr>,
        /// The operators between them.
        operators: Vec<BinaryOp>,
    },
    /// `a < b <= c`: a conjunction over neighbouring pairs. Two or more operators, all comparisons, and one
    /// operand more. A single comparison is a [`ExprKind::Binary`].
    ComparisonChain {
        /// The operands.
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
        /// The operand.
        operand: Box<Expr>,
        /// `IS NOT NULL`
        negated: bool,
    },
    /// `a IS [NOT] :: TYPE`
    IsTyped {
        /// The operand.
        operand: Box<Expr>,
        /// The type.
        value_type: TypeExpr,
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
        /// The subject that each `WHEN` is compared with; without it each `WHEN` is a predicate.
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
        /// The function; function names are case-insensitive.
        name: QualifiedName,
        /// `DISTINCT` before the arguments; for aggregates only.
        distinct: bool,
        /// The arguments.
        arguments: Vec<Expr>,
    },
    /// `[variable IN list WHERE predicate | projection]`
    ListComprehension {
        /// The variable bound to each element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// The filter; absent, every element is kept.
        predicate: Option<Box<Expr>>,
        /// The projection; absent, the element itself.
        projection: Option<Box<Expr>>,
    },
    /// `[path = (a)-->(b) WHERE predicate | projection]`
    PatternComprehension {
        /// The pattern, with its variable.
        path: Box<PathPattern>,
        /// The filter; absent, every match is kept.
        predicate: Option<Box<Expr>>,
        /// The projection of each match.
        projection: Box<Expr>,
    },
    /// A quantifier: `all(variable IN list WHERE predicate)` and so on.
    Quantifier {
        /// The kind of quantifier.
        kind: QuantifierKind,
        /// The variable bound to each element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// The predicate; absent, the element itself.
        predicate: Option<Box<Expr>>,
    },
    /// `reduce(accumulator = initial, variable IN list | step)`
    Reduce {
        /// The accumulator.
        accumulator: Ident,
        /// Its initial value.
        initial: Box<Expr>,
        /// The variable bound to each element.
        variable: Ident,
        /// The list.
        list: Box<Expr>,
        /// The accumulator's next value.
        step: Box<Expr>,
    },
    /// `variable {.a, .*, b: expression, c}`
    MapProjection {
        /// A map, node or relationship.
        variable: Ident,
        /// The entries of the map.
        items: Vec<MapProjectionItem>,
    },
    /// `(a)-->(b)` as a predicate: whether such a path exists.
    PatternPredicate(Box<PathPattern>),
    /// `shortestPath(…)`, `allShortestPaths(…)` as a value; the selector says which.
    ShortestPath(Box<PathPattern>),
    /// `EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`
    Subquery {
        /// The kind of subquery.
        kind: SubqueryKind,
        /// The query; sees all outer variables. That of `EXISTS` and `COUNT` may lack a `RETURN`.
        query: Box<RegularQuery>,
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
    /// The predicate, or the value compared with the subject.
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

/// The kind of quantifier: how many elements must satisfy the predicate.
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

/// The kind of subquery expression.
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
pub enum TypeExpr {
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
    List(Box<TypeExpr>),
    /// `type NOT NULL`
    NotNull(Box<TypeExpr>),
    /// `type | type`; two or more.
    Union(Vec<TypeExpr>),
}
