//! Atoms: the operands of operators.

use std::sync::Arc;

use super::pattern::PatternUse;
use super::query::QueryPosition;
use super::{Context, PResult, Parser};
use crate::Span;
use crate::ast::{
    CaseBranch, Clause, Expr, ExprKind, Literal, MapEntry, MapProjectionItem, Match, QualifiedName,
    QuantifierKind, Query, SingleQuery, SubqueryKind, UnionKind,
};
use crate::error::{Detail, ParseError};
use crate::lexer::{quoted_name_value, string_value};
use crate::token::{InvalidToken, Keyword, Symbol, TokenKind};

impl Parser<'_> {
    pub(super) fn atom(&mut self) -> PResult<Expr> {
        match self.peek() {
            TokenKind::Integer | TokenKind::Float => self.number(None),
            TokenKind::String => {
                let value = string_value(self.token_text());
                Ok(self.literal_token(Literal::String(value.into())))
            }
            TokenKind::Parameter => self.parameter(),
            TokenKind::Symbol(Symbol::LeftParen) => self.parenthesis(),
            TokenKind::Symbol(Symbol::LeftBracket) => self.bracket(),
            TokenKind::Symbol(Symbol::LeftBrace) => self.map_literal(),
            TokenKind::Keyword(keyword) => self.keyword_atom(keyword),
            TokenKind::Name | TokenKind::QuotedName => self.named(),
            TokenKind::Invalid(InvalidToken::Number) => {
                Err(self.invalid_token(InvalidToken::Number))
            }
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn literal_token(&mut self, literal: Literal) -> Expr {
        Expr::new(ExprKind::Literal(literal), self.advance())
    }

    fn keyword_atom(&mut self, keyword: Keyword) -> PResult<Expr> {
        let is_call = self.is_at(1, Symbol::LeftParen);
        let is_subquery = self.is_at(1, Symbol::LeftBrace) && !self.is_at(2, Symbol::Dot);
        match keyword {
            Keyword::Null => Ok(self.literal_token(Literal::Null)),
            Keyword::True => Ok(self.literal_token(Literal::Bool(true))),
            Keyword::False => Ok(self.literal_token(Literal::Bool(false))),
            Keyword::Case => self.case(),
            Keyword::Exists if is_subquery => self.subquery(SubqueryKind::Exists),
            Keyword::Count if is_subquery => self.subquery(SubqueryKind::Count),
            Keyword::Collect if is_subquery => self.subquery(SubqueryKind::Collect),
            Keyword::Count if is_call && self.is_at(2, Symbol::Star) => self.count_star(),
            Keyword::All if is_call && self.is_element_of() => {
                self.quantifier_call(QuantifierKind::All)
            }
            Keyword::Any if is_call && self.is_element_of() => {
                self.quantifier_call(QuantifierKind::Any)
            }
            Keyword::None if is_call && self.is_element_of() => {
                self.quantifier_call(QuantifierKind::None)
            }
            Keyword::Single if is_call && self.is_element_of() => {
                self.quantifier_call(QuantifierKind::Single)
            }
            Keyword::Reduce if is_call && self.is_at(3, Symbol::Equal) => self.reduce(),
            Keyword::ShortestPath | Keyword::AllShortestPaths if is_call => {
                let path = self.shortest_path_function()?;
                let span = path.span;
                Ok(Expr::new(ExprKind::ShortestPath(Box::new(path)), span))
            }
            // `set.add(…)`
            Keyword::Set if self.is_at(1, Symbol::Dot) && self.is_at(3, Symbol::LeftParen) => {
                self.named()
            }
            _ if self.is_variable_at(0) => self.named(),
            _ => Err(self.unexpected("an expression")),
        }
    }

    // ---- constants and names ----

    /// A number, with an optional leading minus that is part of the literal.
    pub(super) fn number(&mut self, minus: Option<Span>) -> PResult<Expr> {
        let start = minus.unwrap_or(self.span());
        let is_float = self.peek() == TokenKind::Float;
        let span = self.span();
        let literal = match is_float {
            true => {
                Literal::Float(self.unsigned_float()? * if minus.is_some() { -1.0 } else { 1.0 })
            }
            false => {
                let magnitude = i128::from(self.unsigned_integer()?);
                let number = if minus.is_some() {
                    -magnitude
                } else {
                    magnitude
                };
                let number = i64::try_from(number).map_err(|_| self.integer_overflow(span))?;
                Literal::Int(number)
            }
        };
        Ok(Expr::new(ExprKind::Literal(literal), self.since(start)))
    }

    fn unsigned_float(&mut self) -> PResult<f64> {
        let text = self.token_text();
        let span = self.advance();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(ParseError::new(
                Detail::FloatingPointOverflow,
                span,
                format!("{text} is above the largest float"),
            )
            .with_hint("floats reach up to about 1.8e308")),
        }
    }

    /// The current token as an unsigned number of up to 64 bits.
    pub(super) fn unsigned_integer(&mut self) -> PResult<u64> {
        let text = self.token_text();
        let span = self.advance();
        let (digits, radix) = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&text[2..], 16),
            [b'0', b'o' | b'O', ..] => (&text[2..], 8),
            _ => (text, 10),
        };
        u64::from_str_radix(digits, radix).map_err(|_| self.integer_overflow(span))
    }

    fn integer_overflow(&self, span: Span) -> ParseError {
        let number: String = span.slice(self.text).chars().take(40).collect();
        ParseError::new(
            Detail::IntegerOverflow,
            span,
            format!("{number} does not fit into 64 bits"),
        )
        .with_hint(
            "integers reach from -9223372036854775808 to 9223372036854775807; add `.0` for a float",
        )
    }

    pub(super) fn parameter(&mut self) -> PResult<Expr> {
        let text = self.token_text().get(1..).unwrap_or("");
        let name = match text.starts_with('`') {
            true => Arc::from(quoted_name_value(text)),
            false => Arc::from(text),
        };
        Ok(Expr::new(ExprKind::Parameter(name), self.advance()))
    }

    /// A variable, a function call, or a map projection.
    fn named(&mut self) -> PResult<Expr> {
        let mut parts = 1;
        while self.is_at(2 * parts - 1, Symbol::Dot)
            && matches!(
                self.peek_at(2 * parts),
                TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_)
            )
        {
            parts += 1;
        }
        if self.is_at(2 * parts - 1, Symbol::LeftParen) {
            return self.function(parts);
        }
        if self.is_at(1, Symbol::LeftBrace) {
            return self.map_projection();
        }
        let variable = self.variable()?;
        Ok(Expr::new(ExprKind::Variable(variable.name), variable.span))
    }

    fn function(&mut self, parts: usize) -> PResult<Expr> {
        let start = self.span();
        let mut name = QualifiedName {
            parts: vec![self.take_name()],
            span: start,
        };
        for _ in 1..parts {
            self.advance();
            name.parts.push(self.take_name());
        }
        name.span = self.since(start);
        self.expect(Symbol::LeftParen)?;
        let distinct = self.eat_keyword(Keyword::Distinct);
        let takes_pattern = parts == 1 && name.parts[0].name.eq_ignore_ascii_case("exists");
        let arguments = match takes_pattern {
            true => self.arguments(Self::predicate)?,
            false => self.arguments(Self::expression)?,
        };
        self.grow()?;
        Ok(Expr::new(
            ExprKind::Function {
                name,
                distinct,
                arguments,
            },
            self.since(start),
        ))
    }

    /// Arguments up to and including the closing parenthesis.
    pub(super) fn arguments(
        &mut self,
        argument: fn(&mut Self) -> PResult<Expr>,
    ) -> PResult<Vec<Expr>> {
        if self.eat(Symbol::RightParen) {
            return Ok(Vec::new());
        }
        let arguments = self.comma_separated(argument)?;
        match self.is(Symbol::RightParen) {
            true => self.advance(),
            false => return Err(self.unexpected("`,` or `)`")),
        };
        Ok(arguments)
    }

    fn count_star(&mut self) -> PResult<Expr> {
        let start = self.advance();
        self.advance();
        self.advance();
        self.expect(Symbol::RightParen)?;
        Ok(Expr::new(ExprKind::CountStar, self.since(start)))
    }

    // ---- maps ----

    pub(super) fn map_literal(&mut self) -> PResult<Expr> {
        let start = self.expect(Symbol::LeftBrace)?;
        let mut entries = Vec::new();
        if !self.is(Symbol::RightBrace) {
            entries = self.comma_separated(Self::map_entry)?;
        }
        self.close_brace()?;
        self.grow()?;
        Ok(Expr::new(ExprKind::Map(entries), self.since(start)))
    }

    fn map_entry(&mut self) -> PResult<MapEntry> {
        let key = self.name("the name of a property")?;
        self.expect(Symbol::Colon)?;
        Ok(MapEntry {
            key,
            value: self.expression()?,
        })
    }

    fn close_brace(&mut self) -> PResult<()> {
        match self.eat(Symbol::RightBrace) {
            true => Ok(()),
            false => Err(self.unexpected("`,` or `}`")),
        }
    }

    fn map_projection(&mut self) -> PResult<Expr> {
        let variable = self.variable()?;
        let start = variable.span;
        self.expect(Symbol::LeftBrace)?;
        let mut items = Vec::new();
        if !self.is(Symbol::RightBrace) {
            items = self.comma_separated(Self::map_projection_item)?;
        }
        self.close_brace()?;
        self.grow()?;
        Ok(Expr::new(
            ExprKind::MapProjection { variable, items },
            self.since(start),
        ))
    }

    fn map_projection_item(&mut self) -> PResult<MapProjectionItem> {
        if self.eat(Symbol::Dot) {
            return match self.eat(Symbol::Star) {
                true => Ok(MapProjectionItem::AllProperties),
                false => self
                    .name("the name of a property, or `*`")
                    .map(MapProjectionItem::Property),
            };
        }
        match self.is_at(1, Symbol::Colon) {
            true => self.map_entry().map(MapProjectionItem::Entry),
            false => self.variable().map(MapProjectionItem::Variable),
        }
    }

    // ---- lists ----

    /// A list, a list comprehension or a pattern comprehension.
    fn bracket(&mut self) -> PResult<Expr> {
        let start = self.span();
        let is_named_path = self.is_variable_at(1)
            && self.is_at(2, Symbol::Equal)
            && self.is_at(3, Symbol::LeftParen);
        if self.is_variable_at(1)
            && self.is_keyword_at(2, Keyword::In)
            && !self.not_patterns.contains(&self.at)
        {
            return self.list_comprehension();
        }
        let is_path = match is_named_path {
            true => self.is_path_from(self.at + 3),
            false => self.is_at(1, Symbol::LeftParen) && self.is_path_from(self.at + 1),
        };
        if is_path && let Some(comprehension) = self.attempt_pattern(Self::pattern_comprehension)? {
            return Ok(comprehension);
        }
        self.advance();
        let mut elements = Vec::new();
        if !self.is(Symbol::RightBracket) {
            elements = self.comma_separated(Self::expression)?;
        }
        if !self.eat(Symbol::RightBracket) {
            return Err(self.unexpected("`,` or `]`"));
        }
        self.grow()?;
        Ok(Expr::new(ExprKind::List(elements), self.since(start)))
    }

    fn list_comprehension(&mut self) -> PResult<Expr> {
        let (open, height) = (self.at, self.height);
        let start = self.advance();
        let variable = self.variable()?;
        self.expect_keyword(Keyword::In)?;
        let list = Box::new(self.expression_before_bar()?);
        if self.is(Symbol::Comma) {
            // `[x IN list, …]` is a list of booleans, not a comprehension.
            self.not_patterns.insert(open);
            (self.at, self.height) = (open, height);
            return self.bracket();
        }
        let predicate = match self.eat_keyword(Keyword::Where) {
            true => Some(Box::new(self.predicate_before_bar()?)),
            false => None,
        };
        let projection = match self.eat(Symbol::Bar) {
            true => Some(Box::new(self.expression()?)),
            false => None,
        };
        if !self.eat(Symbol::RightBracket) {
            return Err(self.unexpected_word("WHERE, `|` or `]`", &[Keyword::Where]));
        }
        self.grow()?;
        Ok(Expr::new(
            ExprKind::ListComprehension {
                variable,
                list,
                predicate,
                projection,
            },
            self.since(start),
        ))
    }

    fn pattern_comprehension(&mut self) -> PResult<Expr> {
        let start = self.advance();
        let path = Box::new(self.path_pattern(PatternUse::Match)?);
        let predicate = match self.eat_keyword(Keyword::Where) {
            true => Some(Box::new(self.predicate_before_bar()?)),
            false => None,
        };
        self.expect(Symbol::Bar)?;
        let projection = Box::new(self.expression()?);
        self.expect(Symbol::RightBracket)?;
        self.grow()?;
        Ok(Expr::new(
            ExprKind::PatternComprehension {
                path,
                predicate,
                projection,
            },
            self.since(start),
        ))
    }

    /// Whether `(variable IN` follows the current word.
    fn is_element_of(&self) -> bool {
        self.is_variable_at(2) && self.is_keyword_at(3, Keyword::In)
    }

    fn quantifier_call(&mut self, kind: QuantifierKind) -> PResult<Expr> {
        self.nested(|parser| {
            let start = parser.advance();
            parser.advance();
            let variable = parser.variable()?;
            parser.advance();
            let list = Box::new(parser.expression()?);
            let predicate = match parser.eat_keyword(Keyword::Where) {
                true => Some(Box::new(parser.predicate()?)),
                false => None,
            };
            if !parser.eat(Symbol::RightParen) {
                return Err(parser.unexpected_word("WHERE or `)`", &[Keyword::Where]));
            }
            parser.grow()?;
            Ok(Expr::new(
                ExprKind::Quantifier {
                    kind,
                    variable,
                    list,
                    predicate,
                },
                parser.since(start),
            ))
        })
    }

    fn reduce(&mut self) -> PResult<Expr> {
        let start = self.advance();
        self.advance();
        let accumulator = self.variable()?;
        self.expect(Symbol::Equal)?;
        let initial = Box::new(self.expression()?);
        self.expect(Symbol::Comma)?;
        let variable = self.variable()?;
        self.expect_keyword(Keyword::In)?;
        let list = Box::new(self.expression_before_bar()?);
        self.expect(Symbol::Bar)?;
        let step = Box::new(self.expression()?);
        self.expect(Symbol::RightParen)?;
        self.grow()?;
        Ok(Expr::new(
            ExprKind::Reduce {
                accumulator,
                initial,
                variable,
                list,
                step,
            },
            self.since(start),
        ))
    }

    // ---- CASE ----

    fn case(&mut self) -> PResult<Expr> {
        let context = Context {
            end_ends: true,
            bar_ends: false,
            ..self.context
        };
        self.within(context, Self::case_body)
    }

    fn case_body(&mut self) -> PResult<Expr> {
        let start = self.advance();
        let subject = match self.is_keyword(Keyword::When) {
            true => None,
            false => Some(Box::new(self.expression()?)),
        };
        let mut branches = Vec::new();
        while self.eat_keyword(Keyword::When) {
            let when = match subject {
                Some(_) => self.expression()?,
                None => self.predicate()?,
            };
            self.expect_keyword(Keyword::Then)?;
            branches.push(CaseBranch {
                when,
                then: self.expression()?,
            });
        }
        if branches.is_empty() {
            return Err(self.unexpected_word("WHEN", &[Keyword::When]));
        }
        let otherwise = match self.eat_keyword(Keyword::Else) {
            true => Some(Box::new(self.expression()?)),
            false => None,
        };
        if !self.eat_keyword(Keyword::End) {
            return Err(self.unexpected_word(
                "WHEN, ELSE or END",
                &[Keyword::When, Keyword::Else, Keyword::End],
            ));
        }
        self.grow()?;
        Ok(Expr::new(
            ExprKind::Case {
                subject,
                branches,
                otherwise,
            },
            self.since(start),
        ))
    }

    // ---- parentheses ----

    /// A pattern used as a predicate, or an expression in parentheses.
    fn parenthesis(&mut self) -> PResult<Expr> {
        if self.is_path_from(self.at)
            && let Some(pattern) = self.attempt_pattern(Self::pattern_as_predicate)?
        {
            if self.context.is_predicate {
                return Ok(pattern);
            }
            let message = "a pattern is a predicate and has no value here";
            return Err(
                ParseError::new(Detail::UnexpectedSyntax, pattern.span, message).with_hint(
                    "use EXISTS { … }, COUNT { … } or a comprehension `[pattern | value]`",
                ),
            );
        }
        self.advance();
        let inner = self.parenthesized()?;
        match self.eat(Symbol::RightParen) {
            true => Ok(inner),
            false => Err(self.unexpected_word("`)`", super::AFTER_EXPRESSION)),
        }
    }

    fn pattern_as_predicate(&mut self) -> PResult<Expr> {
        let path = self.path_pattern(PatternUse::Match)?;
        let span = path.span;
        Ok(Expr::new(ExprKind::PatternPredicate(Box::new(path)), span))
    }

    /// Lookahead: whether a relationship pattern seems to follow the parenthesis that opens at this token.
    fn is_path_from(&mut self, open: usize) -> bool {
        // Memo of `attempt_pattern`: this parenthesis was tried before.
        if self.not_patterns.contains(&open) {
            return false;
        }
        let closing = self.closing(open);
        let behind = closing + 1 - self.at.min(closing + 1);
        // `((` after the closing parenthesis starts a quantified path.
        let is_group =
            self.is_at(behind, Symbol::LeftParen) && self.is_at(behind + 1, Symbol::LeftParen);
        closing > open && (is_group || self.is_relationship_start_at(behind))
    }

    /// Speculatively parses a pattern. On failure it rewinds the token position and records the opening
    /// parenthesis in `not_patterns`, so that nested parentheses are not tried twice: without the record, `n`
    /// nested levels would cost 2^n attempts.
    fn attempt_pattern(&mut self, parse: fn(&mut Self) -> PResult<Expr>) -> PResult<Option<Expr>> {
        let (at, height) = (self.at, self.height);
        match self.nested(parse) {
            Ok(pattern) => Ok(Some(pattern)),
            // A limit is an error in any reading of the text: trying another one would only cost time.
            Err(error) if error.detail == Detail::LimitExceeded => Err(error),
            Err(error) => {
                if self
                    .failed_pattern
                    .as_ref()
                    .is_none_or(|other| other.span.start < error.span.start)
                {
                    self.failed_pattern = Some(error);
                }
                // Rewind: the caller parses the same tokens as an expression.
                (self.at, self.height) = (at, height);
                let open = (at..self.tokens.len())
                    .find(|&token| self.tokens[token].kind == TokenKind::Symbol(Symbol::LeftParen));
                self.not_patterns.extend(open);
                Ok(None)
            }
        }
    }

    /// The token that closes the bracket opened by this token; 0 if it is not closed. Built once per text, in
    /// one pass.
    fn closing(&mut self, open: usize) -> usize {
        let tokens = self.tokens;
        let closings = self.closings.get_or_insert_with(|| {
            let mut closings = vec![0; tokens.len()];
            let mut opened = Vec::new();
            for (at, token) in tokens.iter().enumerate() {
                match token.kind {
                    TokenKind::Symbol(
                        Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace,
                    ) => opened.push(at),
                    TokenKind::Symbol(
                        Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace,
                    ) => {
                        if let Some(open) = opened.pop() {
                            closings[open] = at;
                        }
                    }
                    _ => {}
                }
            }
            closings
        });
        closings.get(open).copied().unwrap_or(0)
    }

    // ---- subqueries ----

    fn subquery(&mut self, kind: SubqueryKind) -> PResult<Expr> {
        self.nested(|parser| {
            let start = parser.advance();
            parser.expect(Symbol::LeftBrace)?;
            let is_pattern = parser.is(Symbol::LeftParen)
                || (parser.is_variable_at(0) && parser.is_at(1, Symbol::Equal))
                || matches!(
                    parser.peek(),
                    TokenKind::Keyword(
                        Keyword::Shortest
                            | Keyword::ShortestPath
                            | Keyword::AllShortestPaths
                            | Keyword::Any
                            | Keyword::All
                    )
                );
            let query = match is_pattern && kind != SubqueryKind::Collect {
                true => parser.subquery_pattern()?,
                false => parser.query(QueryPosition::Expression(kind))?,
            };
            parser.expect(Symbol::RightBrace)?;
            parser.grow()?;
            Ok(Expr::new(
                ExprKind::Subquery {
                    kind,
                    query: Box::new(query),
                },
                parser.since(start),
            ))
        })
    }

    /// `pattern [WHERE predicate]`, the short form of a `MATCH`.
    fn subquery_pattern(&mut self) -> PResult<Query> {
        let start = self.span();
        let context = Context {
            is_read_only: true,
            ..Context::default()
        };
        let (pattern, predicate) = self.within(context, |parser| {
            let pattern = parser.pattern(PatternUse::Match)?;
            let predicate = match parser.eat_keyword(Keyword::Where) {
                true => Some(parser.predicate()?),
                false => None,
            };
            Ok((pattern, predicate))
        })?;
        let span = self.since(start);
        let clauses = vec![Clause::Match(Match {
            optional: false,
            pattern,
            predicate,
            span,
        })];
        Ok(Query {
            branches: vec![SingleQuery { clauses, span }],
            union: UnionKind::default(),
            span,
        })
    }
}
