//! Bound expressions: what the executor evaluates.
//!
//! Names are resolved: a variable is a [`SlotId`] of the row or a [`LocalId`] of an enclosing comprehension, a
//! parameter a [`ParamId`]. Labels, types and property names are references into the plan's
//! [`PlanNames`](crate::physical::PlanNames), which the executor resolves against the transaction's catalog when it
//! starts (and again when the statement itself adds names), so that a plan stays valid while names are added and
//! removed.

use std::sync::Arc;

pub use isomer_cypher::ast::{QuantifierKind, TypeExpr};
use isomer_value::Value;

use crate::function::{Aggregation, Function, Purity};

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// As a position in a vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

reference! {
    /// A column of the rows of one plan. Each slot is written by one operator (or by each branch of a union) and never
    /// reused for something else, so that a chunk may keep its columns in a vector indexed by slot.
    SlotId
}
reference! {
    /// A variable of a comprehension, quantifier, `reduce` or per-step predicate: lives while its body is evaluated for
    /// one element. Unique within a plan, below `Plan::local_count`.
    LocalId
}
reference! {
    /// A parameter: an index into `Plan::parameters`.
    ParamId
}
reference! {
    /// A label name: an index into `PlanNames::labels`.
    LabelRef
}
reference! {
    /// A relationship type's name: an index into `PlanNames::types`.
    TypeRef
}
reference! {
    /// A property name: an index into `PlanNames::properties`.
    PropRef
}
reference! {
    /// A function that the catalog registered: an index into `Plan::registered_functions`.
    RegisteredRef
}

/// The static kind of a value. `Any` if unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticType {
    /// Unknown.
    Any,
    /// A node or null.
    Node,
    /// A relationship or null.
    Relationship,
    /// A path or null.
    Path,
    /// A list of such elements, or null.
    List(Box<StaticType>),
    /// A map or null.
    Map,
    /// A boolean or null.
    Boolean,
    /// An integer or null.
    Integer,
    /// A float or null.
    Float,
    /// A number or null.
    Number,
    /// A string or null.
    String,
    /// Bytes or null.
    Bytes,
    /// A date, time, date-time or duration, or null.
    Temporal,
    /// A point or null.
    Point,
}

/// Binary arithmetic. `Add` also concatenates strings and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: integers divide towards zero
    Divide,
    /// `%`
    Modulo,
    /// `^`: always a float
    Power,
    /// `||`: concatenates two strings or two lists
    Concat,
}

/// Three-valued comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
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
}

/// Tests of strings; null unless both sides are strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringTest {
    /// `STARTS WITH`
    StartsWith,
    /// `ENDS WITH`
    EndsWith,
    /// `CONTAINS`
    Contains,
    /// `=~`: the whole string matches the regular expression
    Matches,
}

/// The result of a sub-plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubqueryResult {
    /// Whether there is a row: stops at the first.
    Exists,
    /// The number of rows.
    Count,
    /// The list of the values of this slot (nulls kept), in order of the rows.
    Collect(SlotId),
}

/// The position of an operator in `Plan::operators`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl OpId {
    /// As a position in a vector.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A sub-plan in an expression: `EXISTS { … }`, a pattern predicate, a pattern comprehension.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// What its rows become.
    pub kind: SubqueryResult,
    /// The root of the sub-plan, in the same arena; its leaf `Argument` reads the arguments' slots.
    pub root: OpId,
    /// The row handed to the sub-plan: each expression is evaluated outside and put into the slot inside.
    pub arguments: Vec<(SlotId, BoundExpr)>,
}

/// One entry of a map projection `base {.name, key: expr, .*}`.
#[derive(Clone, Debug, PartialEq)]
pub enum MapItem {
    /// `key: expr`, also `.name` and a bare variable.
    Entry(Arc<str>, BoundExpr),
    /// `.*`: all properties of the base; entries after it take precedence.
    All,
}

/// One step of a path to build: over the relationship (or list of relationships) in `relationship` to `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSegment {
    /// A slot with a relationship or, after a variable-length step, a list of relationships in the order of the walk.
    pub relationship: SlotId,
    /// The slot of the node where the step ends.
    pub node: SlotId,
}

/// A bound expression. Its depth is bounded by the parser's limit; `And`, `Or` and lists are flat, however long.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundExpr {
    /// A constant.
    Const(Value),
    /// A parameter.
    Param(ParamId),
    /// A column of the row.
    Slot(SlotId),
    /// The variable of an enclosing comprehension.
    Local(LocalId),
    /// `base.name` on a node, relationship, map or temporal value; null on null; type error on anything else, null if
    /// it is nested. Nested paths are nested properties: `n.addr.city`.
    Property {
        /// The entity or map.
        base: Box<BoundExpr>,
        /// The property name.
        name: PropRef,
        /// Whether the base is itself a path below a property: records may have values of other kinds there.
        nested: bool,
    },
    /// `base[index]`: a list's element (negative from the end), a map's or entity's property. With `nested`, null if
    /// the base has no such elements.
    Index {
        /// The list, map or entity.
        base: Box<BoundExpr>,
        /// Integer for lists, string for maps and entities.
        index: Box<BoundExpr>,
        /// As for [`BoundExpr::Property`].
        nested: bool,
    },
    /// `base[from..to]`.
    Slice {
        /// The list.
        base: Box<BoundExpr>,
        /// First position, from the start if absent.
        from: Option<Box<BoundExpr>>,
        /// One past the last position, to the end if absent.
        to: Option<Box<BoundExpr>>,
    },
    /// `[a, b, …]`
    List(Vec<BoundExpr>),
    /// `{name: expr, …}`; of duplicate names the last takes precedence.
    Map(Vec<(Arc<str>, BoundExpr)>),
    /// `base {.name, …}`: null if the base is null.
    MapProjection {
        /// A node, relationship or map.
        base: Box<BoundExpr>,
        /// What the map gets, in order.
        items: Vec<MapItem>,
    },
    /// `NOT x`, three-valued; type error unless boolean or null.
    Not(Box<BoundExpr>),
    /// Conjunction of two or more terms, three-valued.
    And(Vec<BoundExpr>),
    /// Disjunction of two or more terms, three-valued.
    Or(Vec<BoundExpr>),
    /// Exclusive or of two or more terms, three-valued.
    Xor(Vec<BoundExpr>),
    /// A comparison of two values. A chain `a < b < c` is a conjunction of these.
    Compare {
        /// Which.
        op: Comparison,
        /// Left side.
        left: Box<BoundExpr>,
        /// Right side.
        right: Box<BoundExpr>,
    },
    /// Binary arithmetic.
    Arith {
        /// Which.
        op: Arithmetic,
        /// Left side.
        left: Box<BoundExpr>,
        /// Right side.
        right: Box<BoundExpr>,
    },
    /// A long chain of arithmetic, applied from the left: one operator fewer than operands.
    ArithChain {
        /// The operands.
        operands: Vec<BoundExpr>,
        /// The operators between them.
        ops: Vec<Arithmetic>,
    },
    /// The inner expression with its position in the text, for run-time errors.
    At {
        /// What is evaluated.
        inner: Box<BoundExpr>,
        /// From and to, in bytes of the text that was planned.
        place: (u32, u32),
    },
    /// A condition that is tested before its turn, to drop rows early: its truth value, and true where its evaluation
    /// fails. The condition itself is tested again after all conditions that were written before it, and reports the
    /// error of a row that they leave.
    Early(Box<BoundExpr>),
    /// `-x`
    Negate(Box<BoundExpr>),
    /// `+x`: checks that x is a number.
    Plus(Box<BoundExpr>),
    /// A test of two strings.
    StringTest {
        /// Which.
        op: StringTest,
        /// The string.
        left: Box<BoundExpr>,
        /// The pattern.
        right: Box<BoundExpr>,
    },
    /// `item IN list`, three-valued; type error unless a list or null.
    In {
        /// The element looked for.
        item: Box<BoundExpr>,
        /// The list.
        list: Box<BoundExpr>,
    },
    /// `x IS NULL`
    IsNull(Box<BoundExpr>),
    /// `x IS NOT NULL`
    IsNotNull(Box<BoundExpr>),
    /// `x IS :: TYPE`; never null.
    IsTyped {
        /// What is tested.
        operand: Box<BoundExpr>,
        /// The type.
        value_type: TypeExpr,
    },
    /// The value itself if it is of this kind (only `Node`, `Relationship` and lists of them are used) or null; a type
    /// error otherwise. Used for a variable in a pattern whose kind is not known statically.
    Cast {
        /// The value.
        operand: Box<BoundExpr>,
        /// What it must be.
        kind: StaticType,
    },
    /// `n:A:B`: a node carries all labels (of an empty list: any label at all), or null if it is null. On a value of
    /// unknown kind that turns out to be a relationship, whether its type is the only name.
    HasLabels {
        /// The node.
        entity: Box<BoundExpr>,
        /// All of them.
        labels: Vec<LabelRef>,
    },
    /// `r:T`: a relationship is of one of the types, or null if it is null.
    HasType {
        /// The relationship.
        entity: Box<BoundExpr>,
        /// One of them.
        types: Vec<TypeRef>,
    },
    /// `CASE [subject] WHEN … THEN … ELSE … END`. With a subject, an arm is taken if `subject = when` is true; without
    /// one, if `when` is true.
    Case {
        /// What the arms are compared with.
        subject: Option<Box<BoundExpr>>,
        /// (when, then)
        arms: Vec<(BoundExpr, BoundExpr)>,
        /// Null if absent.
        otherwise: Option<Box<BoundExpr>>,
    },
    /// A built-in function; the number of arguments was checked.
    Call {
        /// Which.
        function: Function,
        /// Its arguments.
        arguments: Vec<BoundExpr>,
    },
    /// A function that the catalog registered.
    CallRegistered {
        /// Which.
        function: RegisteredRef,
        /// Its arguments.
        arguments: Vec<BoundExpr>,
        /// Whether two calls with the same arguments may have different results.
        is_volatile: bool,
    },
    /// `[x IN list WHERE predicate | result]`
    ListComprehension {
        /// The list; null gives null.
        list: Box<BoundExpr>,
        /// The element.
        local: LocalId,
        /// Keeps the elements for which it is true.
        predicate: Option<Box<BoundExpr>>,
        /// Maps an element; the element itself if absent.
        result: Option<Box<BoundExpr>>,
    },
    /// `all(x IN list WHERE predicate)` and its relatives.
    Quantifier {
        /// Which.
        kind: QuantifierKind,
        /// The list; null gives null.
        list: Box<BoundExpr>,
        /// The element.
        local: LocalId,
        /// The test.
        predicate: Box<BoundExpr>,
    },
    /// `reduce(accumulator = init, x IN list | step)`
    Reduce {
        /// Holds the result so far.
        accumulator: LocalId,
        /// Its first value.
        init: Box<BoundExpr>,
        /// The element.
        element: LocalId,
        /// The list; null gives null.
        list: Box<BoundExpr>,
        /// The next value of the accumulator.
        step: Box<BoundExpr>,
    },
    /// A sub-plan run for this row.
    Subquery(Box<Subquery>),
    /// A path from slots of the row; null if any of them is null.
    BuildPath {
        /// Where it starts.
        start: SlotId,
        /// The steps, in order of the pattern as written.
        steps: Vec<PathSegment>,
    },
}

/// A call of an aggregate function in an `Aggregate` operator.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// Which.
    pub function: Aggregation,
    /// Whether duplicates are ignored.
    pub distinct: bool,
    /// The aggregated value, then the percentile if there is one; empty for `count(*)`.
    pub arguments: Vec<BoundExpr>,
}

/// Calls a function for every direct sub-expression (of a sub-plan: its arguments), by shared or by exclusive
/// references.
macro_rules! visit_children {
    ($expr:ident, $visit:ident, $iter:ident) => {
        match $expr {
            BoundExpr::Const(_)
            | BoundExpr::Param(_)
            | BoundExpr::Slot(_)
            | BoundExpr::Local(_)
            | BoundExpr::BuildPath { .. } => {}
            BoundExpr::Property { base, .. } => $visit(base),
            BoundExpr::Index { base, index, .. } => {
                $visit(base);
                $visit(index);
            }
            BoundExpr::Slice { base, from, to } => {
                $visit(base);
                from.$iter().chain(to).for_each(|bound| $visit(bound));
            }
            BoundExpr::List(items)
            | BoundExpr::And(items)
            | BoundExpr::Or(items)
            | BoundExpr::Xor(items)
            | BoundExpr::ArithChain {
                operands: items, ..
            } => items.$iter().for_each($visit),
            BoundExpr::Map(entries) => entries.$iter().for_each(|(_, value)| $visit(value)),
            BoundExpr::MapProjection { base, items } => {
                $visit(base);
                for item in items {
                    if let MapItem::Entry(_, value) = item {
                        $visit(value);
                    }
                }
            }
            BoundExpr::Not(x)
            | BoundExpr::Early(x)
            | BoundExpr::Negate(x)
            | BoundExpr::Plus(x)
            | BoundExpr::IsNull(x)
            | BoundExpr::IsNotNull(x)
            | BoundExpr::At { inner: x, .. } => $visit(x),
            BoundExpr::IsTyped { operand, .. } | BoundExpr::Cast { operand, .. } => $visit(operand),
            BoundExpr::Compare { left, right, .. }
            | BoundExpr::Arith { left, right, .. }
            | BoundExpr::StringTest { left, right, .. }
            | BoundExpr::In {
                item: left,
                list: right,
            } => {
                $visit(left);
                $visit(right);
            }
            BoundExpr::HasLabels { entity, .. } | BoundExpr::HasType { entity, .. } => {
                $visit(entity)
            }
            BoundExpr::Case {
                subject,
                arms,
                otherwise,
            } => {
                subject.$iter().for_each(|x| $visit(x));
                for (when, then) in arms {
                    $visit(when);
                    $visit(then);
                }
                otherwise.$iter().for_each(|x| $visit(x));
            }
            BoundExpr::Call { arguments, .. } | BoundExpr::CallRegistered { arguments, .. } => {
                arguments.$iter().for_each($visit)
            }
            BoundExpr::ListComprehension {
                list,
                predicate,
                result,
                ..
            } => {
                $visit(list);
                predicate.$iter().chain(result).for_each(|x| $visit(x));
            }
            BoundExpr::Quantifier {
                list, predicate, ..
            } => {
                $visit(list);
                $visit(predicate);
            }
            BoundExpr::Reduce {
                init, list, step, ..
            } => {
                $visit(init);
                $visit(list);
                $visit(step);
            }
            BoundExpr::Subquery(subquery) => subquery
                .arguments
                .$iter()
                .for_each(|(_, value)| $visit(value)),
        }
    };
}

impl BoundExpr {
    /// Whether two evaluations for the same row may have different results. Sub-plans are not looked into.
    pub fn is_volatile(&self) -> bool {
        let mut found = match self {
            Self::Call { function, .. } => function.purity() == Purity::Volatile,
            Self::CallRegistered { is_volatile, .. } => *is_volatile,
            _ => false,
        };
        self.for_each_child(&mut |child| found |= child.is_volatile());
        found
    }

    /// Whether it has a sub-plan.
    pub(crate) fn has_subquery(&self) -> bool {
        let mut found = matches!(self, Self::Subquery(_));
        self.for_each_child(&mut |child| found |= child.has_subquery());
        found
    }

    /// The constant null.
    pub fn null() -> Self {
        Self::Const(Value::Null)
    }

    /// The conjunction of `terms`: `true` if there are none, the term itself if there is one.
    pub fn all_of(mut terms: Vec<BoundExpr>) -> Self {
        match terms.len() {
            0 => Self::Const(Value::Bool(true)),
            1 => terms.pop().expect("one term"),
            _ => Self::And(terms),
        }
    }

    /// The expression with its position; nested arithmetic has one position, that of the outermost expression.
    pub(crate) fn at(self, place: (u32, u32)) -> Self {
        Self::At {
            inner: Box::new(self),
            place,
        }
    }

    /// Arithmetic without its position, anything else unchanged.
    pub(crate) fn without_place(self) -> Self {
        match self {
            Self::At { inner, .. } if matches!(*inner, Self::Arith { .. }) => *inner,
            other => other,
        }
    }

    /// `left = right`
    pub fn equal(left: BoundExpr, right: BoundExpr) -> Self {
        Self::Compare {
            op: Comparison::Equal,
            left: Box::new(left),
            right: Box::new(right),
        }
    }

    /// `base.name` of a variable
    pub fn property(base: BoundExpr, name: PropRef) -> Self {
        Self::Property {
            base: Box::new(base),
            name,
            nested: false,
        }
    }

    /// `base.a.b`, of a variable
    pub fn path(base: BoundExpr, names: &[PropRef]) -> Self {
        let below = |base, (at, name): (usize, &PropRef)| Self::Property {
            base: Box::new(base),
            name: *name,
            nested: at > 0,
        };
        names.iter().enumerate().fold(base, below)
    }

    /// Calls `visit` for every direct sub-expression (of a sub-plan: its arguments).
    pub fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a BoundExpr)) {
        visit_children!(self, visit, iter)
    }

    /// Calls `visit` for every slot that the expression reads. Slots inside a sub-plan are not included: it receives
    /// values of this row through its arguments.
    pub fn for_each_slot(&self, visit: &mut dyn FnMut(SlotId)) {
        match self {
            Self::Slot(slot) => visit(*slot),
            Self::BuildPath { start, steps } => {
                visit(*start);
                for step in steps {
                    visit(step.relationship);
                    visit(step.node);
                }
            }
            other => other.for_each_child(&mut |child| child.for_each_slot(visit)),
        }
    }

    /// Like [`BoundExpr::for_each_child`].
    pub(crate) fn for_each_child_mut(&mut self, visit: &mut dyn FnMut(&mut BoundExpr)) {
        visit_children!(self, visit, iter_mut)
    }

    /// Calls `visit` for every local that it reads, at any depth.
    pub(crate) fn for_each_local(&self, visit: &mut dyn FnMut(LocalId)) {
        if let Self::Local(local) = self {
            visit(*local);
        }
        self.for_each_child(&mut |child| child.for_each_local(visit));
    }

    /// Replaces reads of `slot` by reads of `local`.
    pub(crate) fn slot_to_local(&mut self, slot: SlotId, local: LocalId) {
        match self {
            Self::Slot(read) if *read == slot => *self = Self::Local(local),
            other => other.for_each_child_mut(&mut |child| child.slot_to_local(slot, local)),
        }
    }

    /// Replaces one local by another.
    pub(crate) fn rename_local(&mut self, old: LocalId, new: LocalId) {
        match self {
            Self::Local(local) if *local == old => *local = new,
            other => other.for_each_child_mut(&mut |child| child.rename_local(old, new)),
        }
    }

    /// Whether it reads this slot.
    pub fn reads(&self, slot: SlotId) -> bool {
        let mut found = false;
        self.for_each_slot(&mut |read| found |= read == slot);
        found
    }
}
