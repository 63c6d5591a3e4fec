//! Clauses.

use std::sync::Arc;

use super::pattern::PatternUse;
use super::query::{QueryPosition, clause_name};
use super::{CLAUSES, PResult, Parser};
use crate::ast::{
    CallSubquery, Clause, Create, Delete, Expr, ExprKind, Foreach, Ident, LabelExpr, Literal,
    LoadCsv, Match, Merge, MergeAction, MergeEvent, ProcedureCall, Projection, ProjectionItem,
    QualifiedName, Remove, RemoveItem, Return, Set, SetItem, SortItem, SubqueryImports, Unwind,
    With, Yield, YieldItem, YieldItems,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};
use crate::{SourceText, Span};

impl Parser<'_> {
    /// Parses one clause; the current token starts one.
    pub(super) fn clause(&mut self) -> PResult<Clause> {
        let start = self.span();
        let TokenKind::Keyword(keyword) = self.peek() else {
            return Err(self.unexpected_word("a clause", CLAUSES));
        };
        match keyword {
            Keyword::Match | Keyword::Optional => self.match_clause(start),
            Keyword::Unwind => self.unwind(start),
            Keyword::With => self.with(start),
            Keyword::Return => self.return_clause(start),
            Keyword::Create => self.create(start),
            Keyword::Merge => self.merge(start),
            Keyword::Set => self.set(start),
            Keyword::Remove => self.remove(start),
            Keyword::Delete | Keyword::Detach => self.delete(start),
            Keyword::Foreach => self.nested(|parser| parser.foreach(start)),
            Keyword::Call => self.call(start),
            Keyword::Load => self.load_csv(start),
            _ => Err(self.unexpected_word("a clause", CLAUSES)),
        }
    }

    pub(super) fn optional_where(&mut self) -> PResult<Option<Expr>> {
        match self.eat_keyword(Keyword::Where) {
            true => self.predicate().map(Some),
            false => Ok(None),
        }
    }

    fn match_clause(&mut self, start: Span) -> PResult<Clause> {
        let optional = self.eat_keyword(Keyword::Optional);
        self.expect_keyword(Keyword::Match)?;
        let pattern = self.pattern(PatternUse::Match)?;
        let predicate = self.optional_where()?;
        Ok(Clause::Match(Match {
            optional,
            pattern,
            predicate,
            span: self.since(start),
        }))
    }

    fn unwind(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let list = self.expression()?;
        self.expect_keyword(Keyword::As)?;
        let variable = self.variable()?;
        Ok(Clause::Unwind(Unwind {
            list,
            variable,
            span: self.since(start),
        }))
    }

    fn with(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let projection = self.projection()?;
        let predicate = self.optional_where()?;
        Ok(Clause::With(With {
            projection,
            predicate,
            span: self.since(start),
        }))
    }

    fn return_clause(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let projection = self.projection()?;
        Ok(Clause::Return(Return {
            projection,
            span: self.since(start),
        }))
    }

    fn projection(&mut self) -> PResult<Projection> {
        let start = self.span();
        let distinct = self.eat_keyword(Keyword::Distinct);
        let star = self.eat(Symbol::Star);
        let items = match star && !self.eat(Symbol::Comma) {
            true => Vec::new(),
            false => self.comma_separated(Self::projection_item)?,
        };
        let order_by = match self.eat_keyword(Keyword::Order) {
            true => {
                self.expect_keyword(Keyword::By)?;
                self.comma_separated(Self::sort_item)?
            }
            false => Vec::new(),
        };
        let skip = match self.is_keyword(Keyword::Skip) || self.is_keyword(Keyword::Offset) {
            true => Some(self.row_count()?),
            false => None,
        };
        let limit = match self.is_keyword(Keyword::Limit) {
            true => Some(self.row_count()?),
            false => None,
        };
        Ok(Projection {
            distinct,
            star,
            items,
            order_by,
            skip,
            limit,
            span: self.since(start),
        })
    }

    fn projection_item(&mut self) -> PResult<ProjectionItem> {
        let start = self.span();
        let expr = self.expression()?;
        let span = self.since(start);
        let text = SourceText(Arc::from(span.slice(self.text)));
        let alias = match self.eat_keyword(Keyword::As) {
            true => Some(self.variable()?),
            false => None,
        };
        Ok(ProjectionItem {
            expr,
            alias,
            text,
            span: self.since(start),
        })
    }

    fn sort_item(&mut self) -> PResult<SortItem> {
        let start = self.span();
        let expr = self.expression()?;
        let descending = self.eat_keyword(Keyword::Desc) || self.eat_keyword(Keyword::Descending);
        if !descending {
            let _ = self.eat_keyword(Keyword::Asc) || self.eat_keyword(Keyword::Ascending);
        }
        Ok(SortItem {
            expr,
            descending,
            span: self.since(start),
        })
    }

    /// The expression after `SKIP` or `LIMIT`.
    fn row_count(&mut self) -> PResult<Expr> {
        let keyword = self.token_text().to_ascii_uppercase();
        self.advance();
        let count = self.expression()?;
        let wrong = |detail, what: &str| {
            Err(ParseError::new(
                detail,
                count.span,
                format!("{keyword} takes {what}"),
            ))
        };
        match &count.kind {
            ExprKind::Literal(Literal::Int(number)) if *number < 0 => {
                wrong(Detail::NegativeIntegerArgument, "a non-negative integer")
            }
            ExprKind::Literal(Literal::Int(_)) => Ok(count),
            ExprKind::Literal(_) => wrong(Detail::InvalidArgumentType, "an integer"),
            _ => Ok(count),
        }
    }

    fn create(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let pattern = self.pattern(PatternUse::Create)?;
        Ok(Clause::Create(Create {
            pattern,
            span: self.since(start),
        }))
    }

    fn merge(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let path = self.path_pattern(PatternUse::Merge)?;
        let mut actions = Vec::new();
        while self.is_keyword(Keyword::On) {
            let start = self.advance();
            let event = match self.peek() {
                TokenKind::Keyword(Keyword::Create) => MergeEvent::Create,
                TokenKind::Keyword(Keyword::Match) => MergeEvent::Match,
                _ => {
                    return Err(
                        self.unexpected_word("CREATE or MATCH", &[Keyword::Create, Keyword::Match])
                    );
                }
            };
            self.advance();
            self.expect_keyword(Keyword::Set)?;
            let items = self.comma_separated(Self::set_item)?;
            actions.push(MergeAction {
                event,
                items,
                span: self.since(start),
            });
        }
        Ok(Clause::Merge(Merge {
            path,
            actions,
            span: self.since(start),
        }))
    }

    fn set(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let items = self.comma_separated(Self::set_item)?;
        Ok(Clause::Set(Set {
            items,
            span: self.since(start),
        }))
    }

    fn set_item(&mut self) -> PResult<SetItem> {
        if self.is_variable_at(0) {
            match self.peek_at(1) {
                TokenKind::Symbol(Symbol::Equal) => {
                    let variable = self.variable()?;
                    self.advance();
                    return Ok(SetItem::Replace {
                        variable,
                        value: self.expression()?,
                    });
                }
                TokenKind::Symbol(Symbol::PlusEqual) => {
                    let variable = self.variable()?;
                    self.advance();
                    return Ok(SetItem::Merge {
                        variable,
                        value: self.expression()?,
                    });
                }
                TokenKind::Symbol(Symbol::Colon) => {
                    let (variable, labels) = self.variable_with_labels()?;
                    return Ok(SetItem::Labels { variable, labels });
                }
                _ => {}
            }
        }
        let target = self.property_target()?;
        self.expect(Symbol::Equal)?;
        Ok(SetItem::Property {
            target,
            value: self.expression()?,
        })
    }

    fn variable_with_labels(&mut self) -> PResult<(Ident, Vec<Ident>)> {
        let variable = self.variable()?;
        let labels = self.label_expression()?;
        Ok((variable, self.plain_labels(&labels)?))
    }

    /// The names of `:A:B`, where no other label expression is allowed.
    fn plain_labels(&self, labels: &LabelExpr) -> PResult<Vec<Ident>> {
        let names = labels.as_conjunction().ok_or_else(|| {
            ParseError::new(
                Detail::UnexpectedSyntax,
                labels.span,
                "SET and REMOVE take plain labels, not a label expression",
            )
            .with_hint("list the labels: `:A:B`")
        })?;
        Ok(names.into_iter().cloned().collect())
    }

    /// `n.a`, `n.a.b`, `n['a']`, `(…).a`
    fn property_target(&mut self) -> PResult<Expr> {
        let target = self.nested(Self::operand)?;
        match target.kind {
            ExprKind::Property { .. } | ExprKind::Index { .. } => Ok(target),
            _ => Err(ParseError::new(
                Detail::UnexpectedSyntax,
                target.span,
                "only a property can be set or removed here",
            )
            .with_hint("write `n.name`, or `n` with `=`, `+=` or `:Label`")),
        }
    }

    fn remove(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        let items = self.comma_separated(|parser| {
            if parser.is_variable_at(0) && parser.is_at(1, Symbol::Colon) {
                let (variable, labels) = parser.variable_with_labels()?;
                return Ok(RemoveItem::Labels { variable, labels });
            }
            parser.property_target().map(RemoveItem::Property)
        })?;
        Ok(Clause::Remove(Remove {
            items,
            span: self.since(start),
        }))
    }

    fn delete(&mut self, start: Span) -> PResult<Clause> {
        let detach = self.eat_keyword(Keyword::Detach);
        self.expect_keyword(Keyword::Delete)?;
        let targets = self.comma_separated(Self::expression)?;
        for target in &targets {
            if matches!(target.kind, ExprKind::HasLabels { .. }) {
                return Err(ParseError::new(
                    Detail::InvalidDelete,
                    target.span,
                    "DELETE deletes nodes and relationships, not labels",
                )
                .with_hint("use REMOVE to remove labels"));
            }
        }
        Ok(Clause::Delete(Delete {
            detach,
            targets,
            span: self.since(start),
        }))
    }

    fn foreach(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        self.expect(Symbol::LeftParen)?;
        let variable = self.variable()?;
        self.expect_keyword(Keyword::In)?;
        let list = self.expression_before_bar()?;
        self.expect(Symbol::Bar)?;
        let mut clauses = Vec::new();
        while !self.is(Symbol::RightParen) || clauses.is_empty() {
            let clause = self.clause()?;
            if !clause.is_update() {
                let message = format!(
                    "{} inside FOREACH, which only changes data",
                    clause_name(&clause)
                );
                return Err(ParseError::new(
                    Detail::InvalidClauseComposition,
                    clause.span(),
                    message,
                )
                .with_hint("use UNWIND, or CALL { … }, where rows are read"));
            }
            clauses.push(clause);
        }
        self.expect(Symbol::RightParen)?;
        Ok(Clause::Foreach(Foreach {
            variable,
            list,
            clauses,
            span: self.since(start),
        }))
    }

    fn call(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        match self.peek() {
            TokenKind::Symbol(Symbol::LeftBrace) => {
                self.call_subquery(start, SubqueryImports::ByWith)
            }
            TokenKind::Symbol(Symbol::LeftParen) => {
                let imports = self.subquery_imports()?;
                self.call_subquery(start, imports)
            }
            _ => self.procedure_call(start).map(Clause::Call),
        }
    }

    fn subquery_imports(&mut self) -> PResult<SubqueryImports> {
        self.expect(Symbol::LeftParen)?;
        let imports = match self.peek() {
            TokenKind::Symbol(Symbol::Star) => {
                self.advance();
                SubqueryImports::Star
            }
            TokenKind::Symbol(Symbol::RightParen) => SubqueryImports::Named(Vec::new()),
            _ => SubqueryImports::Named(self.comma_separated(Self::variable)?),
        };
        self.expect(Symbol::RightParen)?;
        Ok(imports)
    }

    fn call_subquery(&mut self, start: Span, imports: SubqueryImports) -> PResult<Clause> {
        self.expect(Symbol::LeftBrace)?;
        let query = self.query(QueryPosition::Call)?;
        self.expect(Symbol::RightBrace)?;
        if self.is_keyword(Keyword::In) {
            return Err(ParseError::new(
                Detail::UnexpectedSyntax,
                self.span(),
                "CALL { … } IN TRANSACTIONS is not supported: a statement is one transaction",
            )
            .with_hint(
                "run the statement once per batch of rows, or load files with `isomer import`",
            ));
        }
        Ok(Clause::Subquery(CallSubquery {
            imports,
            query,
            span: self.since(start),
        }))
    }

    fn procedure_call(&mut self, start: Span) -> PResult<ProcedureCall> {
        let name_start = self.span();
        let mut parts = vec![self.name("the name of a procedure, or `{`")?];
        while self.eat(Symbol::Dot) {
            parts.push(self.name("the name of a procedure")?);
        }
        let name = QualifiedName {
            parts,
            span: self.since(name_start),
        };
        let arguments = match self.eat(Symbol::LeftParen) {
            true => Some(self.arguments(Self::expression)?),
            false => None,
        };
        let yields = match self.is_keyword(Keyword::Yield) {
            true => Some(self.yield_clause()?),
            false => None,
        };
        Ok(ProcedureCall {
            name,
            arguments,
            yields,
            span: self.since(start),
        })
    }

    pub(super) fn yield_clause(&mut self) -> PResult<Yield> {
        let start = self.advance();
        let items = match self.peek() {
            TokenKind::Symbol(Symbol::Star) => {
                self.advance();
                YieldItems::Star
            }
            TokenKind::Symbol(Symbol::Minus) => {
                self.advance();
                YieldItems::Nothing
            }
            _ => YieldItems::Named(self.comma_separated(|parser| {
                let column = parser.name("a column of the procedure")?;
                let alias = match parser.eat_keyword(Keyword::As) {
                    true => Some(parser.variable()?),
                    false => None,
                };
                Ok(YieldItem { column, alias })
            })?),
        };
        let predicate = self.optional_where()?;
        Ok(Yield {
            items,
            predicate,
            span: self.since(start),
        })
    }

    fn load_csv(&mut self, start: Span) -> PResult<Clause> {
        self.advance();
        self.expect_keyword(Keyword::Csv)?;
        let with_headers = self.eat_keyword(Keyword::With);
        if with_headers {
            self.expect_keyword(Keyword::Headers)?;
        }
        self.expect_keyword(Keyword::From)?;
        let source = self.expression()?;
        self.expect_keyword(Keyword::As)?;
        let variable = self.variable()?;
        let field_terminator = match self.eat_keyword(Keyword::FieldTerminator) {
            true => Some(self.expression()?),
            false => None,
        };
        Ok(Clause::LoadCsv(LoadCsv {
            with_headers,
            source,
            variable,
            field_terminator,
            span: self.since(start),
        }))
    }
}
