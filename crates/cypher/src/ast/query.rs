//! Queries and their clauses.

use super::{Expr, Ident, LabelExpr, PathPattern, Pattern, QualifiedName};
use crate::{SourceText, Span};

/// One or more single queries joined by `UNION`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegularQuery {
    /// The single queries in order; at least one.
    pub branches: Vec<SingleQuery>,
    /// How the branches are joined; meaningless for a single branch. The two kinds never mix in one query.
    pub union: UnionKind,
    /// Source span.
    pub span: Span,
}

/// Whether a union keeps duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnionKind {
    /// `UNION`: duplicates are removed.
    #[default]
    Distinct,
    /// `UNION ALL`: duplicates are kept.
    All,
}

/// A list of clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleQuery {
    /// The clauses; at least one.
    pub clauses: Vec<Clause>,
    /// Source span.
    pub span: Span,
}

impl RegularQuery {
    /// Whether a clause of it, or of a `CALL { … }` inside, changes data. Procedures are not looked into.
    pub fn updates(&self) -> bool {
        let mut clauses = self.branches.iter().flat_map(|branch| &branch.clauses);
        clauses.any(|clause| match clause {
            Clause::Subquery(subquery) => subquery.query.updates(),
            clause => clause.is_update(),
        })
    }

    /// The procedure call that is the whole query; its arguments may come from the parameters, and its
    /// columns are the result.
    pub fn standalone_call(&self) -> Option<&CallProcedure> {
        match self.branches.as_slice() {
            [SingleQuery { clauses, .. }] => match clauses.as_slice() {
                [Clause::Call(call)] => Some(call),
                _ => None,
            },
            _ => None,
        }
    }
}

/// One clause of a single query.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// `[OPTIONAL] MATCH`
    Match(Match),
    /// `UNWIND`
    Unwind(Unwind),
    /// `WITH`
    With(With),
    /// `RETURN`
    Return(Return),
    /// `CREATE`
    Create(Create),
    /// `MERGE`
    Merge(Merge),
    /// `SET`
    Set(Set),
    /// `REMOVE`
    Remove(Remove),
    /// `[DETACH] DELETE`
    Delete(Delete),
    /// `FOREACH`
    Foreach(Foreach),
    /// `CALL procedure(…)`
    Call(CallProcedure),
    /// `CALL { … }`
    Subquery(CallSubquery),
    /// `LOAD CSV`
    LoadCsv(LoadCsv),
    /// `FINISH`: the end of a query without a result.
    Finish(Span),
}

impl Clause {
    /// Source span.
    pub fn span(&self) -> Span {
        match self {
            Self::Match(clause) => clause.span,
            Self::Unwind(clause) => clause.span,
            Self::With(clause) => clause.span,
            Self::Return(clause) => clause.span,
            Self::Create(clause) => clause.span,
            Self::Merge(clause) => clause.span,
            Self::Set(clause) => clause.span,
            Self::Remove(clause) => clause.span,
            Self::Delete(clause) => clause.span,
            Self::Foreach(clause) => clause.span,
            Self::Call(clause) => clause.span,
            Self::Subquery(clause) => clause.span,
            Self::LoadCsv(clause) => clause.span,
            Self::Finish(span) => *span,
        }
    }

    /// Whether the clause itself changes data: `CREATE MERGE SET REMOVE DELETE FOREACH`. Does not look into
    /// procedures or subqueries.
    pub fn is_update(&self) -> bool {
        matches!(
            self,
            Self::Create(_)
                | Self::Merge(_)
                | Self::Set(_)
                | Self::Remove(_)
                | Self::Delete(_)
                | Self::Foreach(_)
        )
    }
}

/// Whether the paths of one `MATCH` may use a relationship more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchMode {
    /// `DIFFERENT RELATIONSHIPS`, also if no mode is written.
    #[default]
    DifferentRelationships,
    /// `REPEATABLE ELEMENTS`
    RepeatableElements,
}

/// `[OPTIONAL] MATCH [mode] pattern [hints] [WHERE predicate]`
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// Whether a row without a match is kept, with nulls.
    pub optional: bool,
    /// Whether relationships may repeat.
    pub mode: MatchMode,
    /// The paths to match together.
    pub pattern: Pattern,
    /// How the planner should find them.
    pub hints: Vec<Hint>,
    /// The predicate; part of the match, which matters for `OPTIONAL MATCH`.
    pub predicate: Option<Expr>,
    /// Source span.
    pub span: Span,
}

/// A hint of a `MATCH` to the planner.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// What it asks for.
    pub kind: HintKind,
    /// Source span.
    pub span: Span,
}

/// What a hint asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum HintKind {
    /// `USING [RANGE | TEXT | POINT] INDEX [SEEK] n:Label(a, b)`
    Index {
        /// The node or relationship.
        variable: Ident,
        /// Its label or type.
        label: Ident,
        /// The properties of the index; at least one.
        properties: Vec<Ident>,
    },
    /// `USING SCAN n:Label`
    Scan {
        /// The node or relationship.
        variable: Ident,
        /// Its label or type.
        label: Ident,
    },
    /// `USING JOIN ON n, m`
    Join(Vec<Ident>),
}

impl Hint {
    /// The variables that it is about.
    pub fn variables(&self) -> &[Ident] {
        match &self.kind {
            HintKind::Index { variable, .. } | HintKind::Scan { variable, .. } => {
                std::slice::from_ref(variable)
            }
            HintKind::Join(variables) => variables,
        }
    }
}

/// `UNWIND list AS variable`, `FOR variable IN list WITH ORDINALITY position`
#[derive(Clone, Debug, PartialEq)]
pub struct Unwind {
    /// The list.
    pub list: Expr,
    /// The variable bound to each element; one row per element.
    pub variable: Ident,
    /// The position of each element.
    pub position: Option<ListPosition>,
    /// Source span.
    pub span: Span,
}

/// `WITH ORDINALITY variable` or `WITH OFFSET variable` of a `FOR`
#[derive(Clone, Debug, PartialEq)]
pub struct ListPosition {
    /// The variable bound to the position.
    pub variable: Ident,
    /// The position of the first element: 1 for `ORDINALITY`, 0 for `OFFSET`.
    pub first: i64,
}

/// `WITH … [WHERE predicate]`
#[derive(Clone, Debug, PartialEq)]
pub struct With {
    /// The projection to the next clause.
    pub projection: Projection,
    /// The predicate on the projected rows, after ordering and paging.
    pub predicate: Option<Expr>,
    /// Source span.
    pub span: Span,
}

/// `RETURN …`
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The result.
    pub projection: Projection,
    /// Source span.
    pub span: Span,
}

/// The body shared by `WITH` and `RETURN`.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// Whether duplicate rows are removed.
    pub distinct: bool,
    /// `*`: all variables in scope, before `items`.
    pub star: bool,
    /// The columns written out.
    pub items: Vec<ProjectionItem>,
    /// `ORDER BY`; empty if there is none.
    pub order_by: Vec<SortItem>,
    /// `SKIP`
    pub skip: Option<Expr>,
    /// `LIMIT`
    pub limit: Option<Expr>,
    /// Source span, after the keyword.
    pub span: Span,
}

/// One column: `expression [AS alias]`
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectionItem {
    /// What is computed.
    pub expr: Expr,
    /// The alias.
    pub alias: Option<Ident>,
    /// The expression as written, which names the column if there is no alias.
    pub text: SourceText,
    /// Source span.
    pub span: Span,
}

impl ProjectionItem {
    /// The column's name: its alias, or its expression as written.
    pub fn column(&self) -> &std::sync::Arc<str> {
        self.alias
            .as_ref()
            .map_or(&self.text.0, |alias| &alias.name)
    }
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct SortItem {
    /// The sort key.
    pub expr: Expr,
    /// Whether the order is descending.
    pub descending: bool,
    /// Source span.
    pub span: Span,
}

/// `CREATE pattern`
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The paths to make.
    pub pattern: Pattern,
    /// Source span.
    pub span: Span,
}

/// `MERGE path [ON CREATE SET …] [ON MATCH SET …]`
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The path to match, or else to create as a whole.
    pub path: PathPattern,
    /// The actions, in order.
    pub actions: Vec<MergeAction>,
    /// Source span.
    pub span: Span,
}

/// One `ON CREATE SET` or `ON MATCH SET`.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeAction {
    /// When the action runs.
    pub event: MergeEvent,
    /// The items to set.
    pub items: Vec<SetItem>,
    /// Source span.
    pub span: Span,
}

/// When a merge action runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeEvent {
    /// The path was created.
    Create,
    /// The path was matched.
    Match,
}

/// `SET item, …`
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// What is set, in order.
    pub items: Vec<SetItem>,
    /// Source span.
    pub span: Span,
}

/// One item of `SET`.
#[derive(Clone, Debug, PartialEq)]
pub enum SetItem {
    /// `n.a = value`, also nested (`n.a.b`), of an expression (`(CASE … END).a`) and by subscript (`n['a']`).
    Property {
        /// An [`ExprKind::Property`](super::ExprKind::Property) or [`ExprKind::Index`](super::ExprKind::Index).
        target: Expr,
        /// The new value; null removes the property.
        value: Expr,
    },
    /// `n = map`: all properties are replaced.
    Replace {
        /// The node or relationship.
        variable: Ident,
        /// A map, node or relationship.
        value: Expr,
    },
    /// `n += map`: the map's properties are added or replaced, those that are null removed.
    Merge {
        /// The node or relationship.
        variable: Ident,
        /// A map, node or relationship.
        value: Expr,
    },
    /// `n:A:B`, `n:$(expression)`
    Labels {
        /// The node.
        variable: Ident,
        /// The labels to add; see [`LabelExpr::as_labels`].
        labels: LabelExpr,
    },
}

/// `REMOVE item, …`
#[derive(Clone, Debug, PartialEq)]
pub struct Remove {
    /// What is removed, in order.
    pub items: Vec<RemoveItem>,
    /// Source span.
    pub span: Span,
}

/// One item of `REMOVE`.
#[derive(Clone, Debug, PartialEq)]
pub enum RemoveItem {
    /// `n.a`: an [`ExprKind::Property`](super::ExprKind::Property) or [`ExprKind::Index`](super::ExprKind::Index).
    Property(Expr),
    /// `n:A:B`, `n:$(expression)`
    Labels {
        /// The node.
        variable: Ident,
        /// The labels to remove; see [`LabelExpr::as_labels`].
        labels: LabelExpr,
    },
}

/// `[DETACH] DELETE expression, …`
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Whether a node's relationships are deleted with it.
    pub detach: bool,
    /// Nodes, relationships and paths.
    pub targets: Vec<Expr>,
    /// Source span.
    pub span: Span,
}

/// `FOREACH (variable IN list | updates)`
#[derive(Clone, Debug, PartialEq)]
pub struct Foreach {
    /// The variable bound to each element in turn.
    pub variable: Ident,
    /// The list.
    pub list: Expr,
    /// Updating clauses; at least one.
    pub clauses: Vec<Clause>,
    /// Source span.
    pub span: Span,
}

/// `[OPTIONAL] CALL name[(arguments)] [YIELD …]`
#[derive(Clone, Debug, PartialEq)]
pub struct CallProcedure {
    /// Whether a row for which the procedure gives none is kept, with nulls.
    pub optional: bool,
    /// The procedure.
    pub name: QualifiedName,
    /// The arguments; `None` without parentheses: a standalone call then takes them from the parameters of
    /// the same names.
    pub arguments: Option<Vec<Expr>>,
    /// The columns that are kept.
    pub yields: Option<Yield>,
    /// Source span.
    pub span: Span,
}

/// `YIELD items [WHERE predicate]`
#[derive(Clone, Debug, PartialEq)]
pub struct Yield {
    /// The columns.
    pub items: YieldItems,
    /// The condition on them.
    pub predicate: Option<Expr>,
    /// Source span.
    pub span: Span,
}

/// The columns of a `YIELD`.
#[derive(Clone, Debug, PartialEq)]
pub enum YieldItems {
    /// No `YIELD`, only a `WHERE`: the default columns of a `SHOW`.
    Default,
    /// `YIELD *`: all of them; standalone calls only.
    Star,
    /// `YIELD -`: none of them.
    Nothing,
    /// `YIELD a, b AS c`
    Named(Vec<YieldItem>),
}

/// One column of a `YIELD`.
#[derive(Clone, Debug, PartialEq)]
pub struct YieldItem {
    /// The column's name in the procedure.
    pub column: Ident,
    /// The variable it is bound to; the column's name if absent.
    pub alias: Option<Ident>,
}

impl YieldItem {
    /// The variable that the column is bound to.
    pub fn variable(&self) -> &Ident {
        self.alias.as_ref().unwrap_or(&self.column)
    }
}

/// `[OPTIONAL] CALL [(imports)] { query } [IN … TRANSACTIONS …]`
#[derive(Clone, Debug, PartialEq)]
pub struct CallSubquery {
    /// Whether a row for which the query gives none is kept, with nulls.
    pub optional: bool,
    /// The outer variables visible to the query.
    pub imports: SubqueryImports,
    /// The query.
    pub query: RegularQuery,
    /// How the query runs in separate transactions, if it does.
    pub transactions: Option<InTransactions>,
    /// Source span.
    pub span: Span,
}

/// `IN [count CONCURRENT] TRANSACTIONS [OF count ROWS] [ON ERROR …] [REPORT STATUS AS variable]`
#[derive(Clone, Debug, PartialEq)]
pub struct InTransactions {
    /// `CONCURRENT`: how many transactions run at once.
    pub concurrency: Option<Concurrency>,
    /// Input rows of one transaction; 1,000 if absent.
    pub batch_rows: Option<Expr>,
    /// What an error in one of them does.
    pub on_error: OnBatchError,
    /// The variable that receives the outcome of the row's transaction.
    pub status: Option<Ident>,
    /// Source span.
    pub span: Span,
}

/// How many transactions of a subquery run at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Concurrency {
    /// `IN CONCURRENT TRANSACTIONS`: the database chooses.
    Default,
    /// `IN 3 CONCURRENT TRANSACTIONS`
    Count(Expr),
}

/// What an error in one transaction of a subquery does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnBatchError {
    /// `ON ERROR FAIL`: the statement fails. What earlier transactions committed stays.
    #[default]
    Fail,
    /// `ON ERROR CONTINUE`: the rows of the transaction get nulls, and the next transaction begins.
    Continue,
    /// `ON ERROR BREAK`: the rows of the transaction and all later rows get nulls.
    Break,
}

/// Which outer variables are visible to a `CALL { … }`.
#[derive(Clone, Debug, PartialEq)]
pub enum SubqueryImports {
    /// `CALL { … }`: those that an importing first `WITH` names.
    ByWith,
    /// `CALL (*) { … }`: all.
    Star,
    /// `CALL (a, b) { … }`: these; may be none.
    Named(Vec<Ident>),
}

/// `LOAD CSV [WITH HEADERS] FROM source AS variable [FIELDTERMINATOR ';']`
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCsv {
    /// Whether each row is a map keyed by the header line rather than a list.
    pub with_headers: bool,
    /// The file.
    pub source: Expr,
    /// The variable bound to each row.
    pub variable: Ident,
    /// The character between fields, `,` if absent.
    pub field_terminator: Option<Expr>,
    /// Source span.
    pub span: Span,
}
