//! Schema commands.

use super::{PResult, Parser};
use crate::Span;
use crate::ast::{
    ConstraintKind, CreateConstraint, CreateIndex, DropSchema, ExprKind, FieldPath, FieldStep,
    Ident, KillQuery, SchemaTarget, Show, ShowKind, StatementBody, Yield, YieldItems,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The words that kinds of convergent fields are spelled with.
const CONVERGENT_WORDS: [&str; 9] = [
    "COUNTER",
    "SET",
    "GROW",
    "REGISTER",
    "MULTI",
    "FLAG",
    "HLL",
    "MAP",
    "CONVERGENT",
];

impl Parser<'_> {
    /// Whether `CREATE` starts a schema command.
    pub(super) fn is_schema_command(&self) -> bool {
        matches!(
            self.peek_at(1),
            TokenKind::Keyword(Keyword::Unique | Keyword::Index | Keyword::Constraint)
        ) && !self.is_at(2, Symbol::Equal)
    }

    pub(super) fn create_schema(&mut self) -> PResult<StatementBody> {
        let start = self.advance();
        let unique = self.eat_keyword(Keyword::Unique);
        if !unique && self.eat_keyword(Keyword::Constraint) {
            return self
                .create_constraint(start)
                .map(StatementBody::CreateConstraint);
        }
        self.expect_keyword(Keyword::Index)?;
        let (name, if_not_exists) = self.schema_name()?;
        self.expect_keyword(Keyword::For)?;
        let target = self.schema_target()?;
        self.expect_keyword(Keyword::On)?;
        let fields = self.field_list(&target)?;
        Ok(StatementBody::CreateIndex(CreateIndex {
            unique,
            name,
            if_not_exists,
            target,
            fields,
            span: self.since(start),
        }))
    }

    /// `[name] [IF NOT EXISTS]`
    fn schema_name(&mut self) -> PResult<(Option<Ident>, bool)> {
        let is_if = self.is_keyword(Keyword::If) && self.is_keyword_at(1, Keyword::Not);
        let name = match self.is_keyword(Keyword::For) || is_if {
            true => None,
            false => Some(self.name("a name, IF NOT EXISTS or FOR")?),
        };
        let if_not_exists = self.eat_keyword(Keyword::If);
        if if_not_exists {
            self.expect_keyword(Keyword::Not)?;
            self.expect_keyword(Keyword::Exists)?;
        }
        Ok((name, if_not_exists))
    }

    /// `(n:Label)` or `()-[r:TYPE]-()`
    fn schema_target(&mut self) -> PResult<SchemaTarget> {
        self.expect(Symbol::LeftParen)?;
        if !self.eat(Symbol::RightParen) {
            let (variable, label) = self.variable_and_name("a label")?;
            self.expect(Symbol::RightParen)?;
            return Ok(SchemaTarget::Node { variable, label });
        }
        self.eat(Symbol::Less);
        self.expect(Symbol::Minus)?;
        self.expect(Symbol::LeftBracket)?;
        let (variable, rel_type) = self.variable_and_name("a relationship type")?;
        self.expect(Symbol::RightBracket)?;
        self.expect(Symbol::Minus)?;
        self.eat(Symbol::Greater);
        self.expect(Symbol::LeftParen)?;
        self.expect(Symbol::RightParen)?;
        Ok(SchemaTarget::Relationship { variable, rel_type })
    }

    fn variable_and_name(&mut self, expected: &str) -> PResult<(Ident, Ident)> {
        let variable = self.variable()?;
        self.expect(Symbol::Colon)?;
        Ok((variable, self.name(expected)?))
    }

    /// `(n.a, n.b)`, or one field without parentheses.
    fn field_list(&mut self, target: &SchemaTarget) -> PResult<Vec<FieldPath>> {
        if !self.eat(Symbol::LeftParen) {
            return Ok(vec![self.field(target)?]);
        }
        let fields = self.comma_separated(|parser| parser.field(target))?;
        match self.eat(Symbol::RightParen) {
            true => Ok(fields),
            false => Err(self.unexpected("`,` or `)`")),
        }
    }

    /// `n.a`, `n.b.c`, `n.tags[]`
    fn field(&mut self, target: &SchemaTarget) -> PResult<FieldPath> {
        let start = self.span();
        let variable = self.variable()?;
        let (SchemaTarget::Node {
            variable: declared, ..
        }
        | SchemaTarget::Relationship {
            variable: declared, ..
        }) = target;
        if variable != *declared {
            let message = format!(
                "`{}` is not the variable declared after FOR, which is `{}`",
                variable.name, declared.name
            );
            return Err(ParseError::new(
                Detail::UnexpectedSyntax,
                variable.span,
                message,
            ));
        }
        self.expect(Symbol::Dot)?;
        let mut steps = vec![FieldStep::Name(self.name("the name of a property")?)];
        loop {
            if self.eat(Symbol::Dot) {
                steps.push(FieldStep::Name(self.name("the name of a property")?));
            } else if self.is(Symbol::LeftBracket) && self.is_at(1, Symbol::RightBracket) {
                self.advance();
                self.advance();
                steps.push(FieldStep::Elements);
            } else {
                return Ok(FieldPath {
                    steps,
                    span: self.since(start),
                });
            }
        }
    }

    fn create_constraint(&mut self, start: Span) -> PResult<CreateConstraint> {
        let (name, if_not_exists) = self.schema_name()?;
        self.expect_keyword(Keyword::For)?;
        let target = self.schema_target()?;
        self.expect_keyword(Keyword::Require)?;
        let at = self.at;
        let kind = if self.eat_word("KEEP") && self.eat_word("ENDPOINTS") {
            ConstraintKind::KeepEndpoints
        } else {
            self.at = at;
            match self.field_constraint(&target) {
                Ok(Some(kind)) => kind,
                // None of the forms over fields: rewind and parse any predicate.
                _ => {
                    self.at = at;
                    ConstraintKind::Check(self.predicate()?)
                }
            }
        };
        Ok(CreateConstraint {
            name,
            if_not_exists,
            target,
            kind,
            span: self.since(start),
        })
    }

    /// `fields IS UNIQUE`, `IS NODE KEY`, `IS NOT NULL`, `IS :: TYPE`, up to the end of the statement.
    fn field_constraint(&mut self, target: &SchemaTarget) -> PResult<Option<ConstraintKind>> {
        let mut fields = self.field_list(target)?;
        if !self.eat_keyword(Keyword::Is) {
            return Ok(None);
        }
        let kind = if self.eat_keyword(Keyword::Unique) {
            ConstraintKind::Unique(fields)
        } else if self.is_keyword(Keyword::Node)
            || self.is_keyword(Keyword::Relationship)
            || self.is_keyword(Keyword::Key)
        {
            let _ = self.eat_keyword(Keyword::Node) || self.eat_keyword(Keyword::Relationship);
            self.expect_keyword(Keyword::Key)?;
            ConstraintKind::Key(fields)
        } else if fields.len() != 1 {
            return Ok(None);
        } else if self.eat_keyword(Keyword::Not) {
            self.expect_keyword(Keyword::Null)?;
            ConstraintKind::NotNull(fields.remove(0))
        } else if self.eat(Symbol::DoubleColon) || self.eat_word("TYPED") {
            ConstraintKind::Typed(fields.remove(0), self.value_type()?)
        } else if self.eat_word("CONVERGENT") {
            let mut words = Vec::new();
            while let Some(word) = CONVERGENT_WORDS.iter().find(|word| self.is_word(word)) {
                self.advance();
                words.push(*word);
            }
            ConstraintKind::Convergent(fields.remove(0), words.join(" ").into())
        } else {
            return Ok(None);
        };
        let is_end = matches!(
            self.peek(),
            TokenKind::End | TokenKind::Symbol(Symbol::Semicolon)
        );
        Ok(is_end.then_some(kind))
    }

    pub(super) fn drop_schema(&mut self) -> PResult<StatementBody> {
        let start = self.advance();
        let body = match self.peek() {
            TokenKind::Keyword(Keyword::Index) => StatementBody::DropIndex,
            TokenKind::Keyword(Keyword::Constraint) => StatementBody::DropConstraint,
            _ => {
                return Err(self.unexpected_word(
                    "INDEX or CONSTRAINT",
                    &[Keyword::Index, Keyword::Constraint],
                ));
            }
        };
        self.advance();
        let name = self.name("a name")?;
        let if_exists = self.eat_keyword(Keyword::If);
        if if_exists {
            self.expect_keyword(Keyword::Exists)?;
        }
        Ok(body(DropSchema {
            name,
            if_exists,
            span: self.since(start),
        }))
    }

    pub(super) fn show(&mut self) -> PResult<StatementBody> {
        let start = self.advance();
        let kinds = [
            (Keyword::Indexes, ShowKind::Indexes),
            (Keyword::Constraints, ShowKind::Constraints),
            (Keyword::Labels, ShowKind::Labels),
            (Keyword::Types, ShowKind::Types),
            (Keyword::Buckets, ShowKind::Buckets),
            (Keyword::Queries, ShowKind::Queries),
            (Keyword::Functions, ShowKind::Functions),
            (Keyword::Procedures, ShowKind::Procedures),
        ];
        let found = kinds.iter().find(|(keyword, _)| self.is_keyword(*keyword));
        let kind = match found {
            Some(&(_, kind)) => kind,
            None if self.is_word("PROPERTIES") => ShowKind::Properties,
            None if self.is_word("CONFLICTS") => ShowKind::Conflicts,
            None => {
                let words = kinds.map(|(keyword, _)| keyword);
                return Err(self.unexpected_word(
                    "INDEXES, CONSTRAINTS, LABELS, TYPES, PROPERTIES, BUCKETS, QUERIES, FUNCTIONS or PROCEDURES",
                    &words,
                ));
            }
        };
        self.advance();
        let yields = match self.peek() {
            TokenKind::Keyword(Keyword::Yield) => Some(self.yield_clause()?),
            TokenKind::Keyword(Keyword::Where) => {
                let start = self.span();
                Some(Yield {
                    items: YieldItems::Star,
                    predicate: self.optional_where()?,
                    span: self.since(start),
                })
            }
            _ => None,
        };
        Ok(StatementBody::Show(Show {
            kind,
            yields,
            span: self.since(start),
        }))
    }

    pub(super) fn kill_query(&mut self) -> PResult<StatementBody> {
        let start = self.advance();
        self.expect_keyword(Keyword::Query)?;
        let id = self.expression()?;
        match id.kind {
            ExprKind::Literal(_) | ExprKind::Parameter(_) => {
                Ok(StatementBody::KillQuery(KillQuery {
                    id,
                    span: self.since(start),
                }))
            }
            _ => Err(ParseError::new(
                Detail::UnexpectedSyntax,
                id.span,
                "KILL QUERY takes the id of a query",
            )
            .with_hint("SHOW QUERIES lists them")),
        }
    }
}
