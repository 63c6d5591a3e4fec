//! Recursive-descent parser from tokens to a syntax tree; operators by precedence climbing.
//!
//! Two limits bound the stack depth of this pass and of those that follow. Recursion is counted
//! ([`Limits::max_nesting`]), and so is the height of every expression, which also grows by operators that
//! are chained rather than nested ([`Limits::max_height`]). `AND`, `OR`, `XOR` and comparisons chain in one
//! node and are limited only by the size of the text.

mod atom;
mod clause;
mod expr;
mod pattern;
mod query;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::ast::{Expr, Ident, Statement};
use crate::error::{Detail, ParseError};
use crate::lexer::{quoted_name_value, tokenize};
use crate::token::{InvalidToken, Keyword, Symbol, Token, TokenKind};
use crate::{Span, diagnostic, suggest};

/// Limits on the input.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of the text, in bytes.
    pub max_text_bytes: usize,
    /// Maximum nesting depth: parentheses, lists, subqueries and the like.
    pub max_nesting: u32,
    /// Maximum height of one expression's tree.
    pub max_height: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_text_bytes: 1 << 20,
            max_nesting: 200,
            max_height: 320,
        }
    }
}

/// Parses one statement, optionally followed by a semicolon, within the default [`Limits`].
pub fn parse(text: &str) -> Result<Statement, ParseError> {
    parse_within(text, Limits::default())
}

/// Parses one statement within the given limits.
pub fn parse_within(text: &str, limits: Limits) -> Result<Statement, ParseError> {
    run(text, limits, |parser| {
        let statement = parser.statement()?;
        parser.eat(Symbol::Semicolon);
        parser.expect_end("the end of the statement")?;
        Ok(statement)
    })
}

/// Parses one standalone expression, such as the predicate of a stored constraint.
pub fn parse_expression(text: &str) -> Result<Expr, ParseError> {
    run(text, Limits::default(), |parser| {
        let expr = parser.predicate()?;
        parser.expect_end("the end of the expression")?;
        Ok(expr)
    })
}

fn run<T>(
    text: &str,
    limits: Limits,
    parse: impl FnOnce(&mut Parser<'_>) -> PResult<T>,
) -> PResult<T> {
    if text.len() > limits.max_text_bytes {
        let message = format!(
            "the text is {} bytes, the limit is {}",
            text.len(),
            limits.max_text_bytes
        );
        return Err(
            ParseError::new(Detail::LimitExceeded, Span::new(0, 0), message)
                .with_hint("pass the data as parameters"),
        );
    }
    let tokens = tokenize(text);
    let mut parser = Parser::new(text, &tokens, limits);
    parse(&mut parser).map_err(|error| match parser.failed_pattern.take() {
        // Both readings of a parenthesis failed: report the one that got further, which is more likely the
        // intended one.
        Some(other) if other.span.start > error.span.start => other,
        _ => error,
    })
}

type PResult<T> = Result<T, ParseError>;

/// Keywords that may start a clause.
const CLAUSES: &[Keyword] = &[
    Keyword::Match,
    Keyword::Optional,
    Keyword::Unwind,
    Keyword::With,
    Keyword::Return,
    Keyword::Create,
    Keyword::Merge,
    Keyword::Set,
    Keyword::Remove,
    Keyword::Delete,
    Keyword::Detach,
    Keyword::Foreach,
    Keyword::Call,
    Keyword::Load,
];

/// Keywords that may follow an expression.
const AFTER_EXPRESSION: &[Keyword] = &[
    Keyword::Where,
    Keyword::And,
    Keyword::Or,
    Keyword::Xor,
    Keyword::As,
    Keyword::In,
    Keyword::Is,
    Keyword::Starts,
    Keyword::Ends,
    Keyword::Contains,
    Keyword::Order,
    Keyword::Skip,
    Keyword::Limit,
    Keyword::Union,
    Keyword::Yield,
];

/// Context of the current expression.
#[derive(Clone, Copy, Default)]
struct Context {
    /// Predicate position: a pattern tests for its existence.
    is_predicate: bool,
    /// A `|` ends the expression rather than joining labels.
    bar_ends: bool,
    /// An `END` ends the expression rather than naming a variable.
    end_ends: bool,
    /// Inside `EXISTS`, `COUNT` or `COLLECT`, which may not change data.
    is_read_only: bool,
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
    limits: Limits,
    depth: u32,
    /// Height of the highest tree parsed so far within the innermost scope; see [`Parser::enter`].
    height: u32,
    context: Context,
    /// For each opening bracket's token the closing one's, built on first use.
    closings: Option<Vec<usize>>,
    /// Memo of failed attempts: parentheses that do not start a pattern, and brackets that do not start a
    /// comprehension.
    not_patterns: HashSet<usize>,
    /// The error of the failed pattern attempt that got furthest.
    failed_pattern: Option<ParseError>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, tokens: &'t [Token], limits: Limits) -> Self {
        Self {
            text,
            tokens,
            at: 0,
            limits,
            depth: 0,
            height: 0,
            context: Context::default(),
            closings: None,
            not_patterns: HashSet::new(),
            failed_pattern: None,
        }
    }

    // ---- lookahead ----

    fn peek(&self) -> TokenKind {
        self.peek_at(0)
    }

    fn peek_at(&self, distance: usize) -> TokenKind {
        self.tokens
            .get(self.at + distance)
            .map_or(TokenKind::End, |token| token.kind)
    }

    /// The span of the current token.
    fn span(&self) -> Span {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(Span::default(), |token| token.span)
    }

    /// The span of the previous token.
    fn last_span(&self) -> Span {
        self.at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .map_or(Span::default(), |token| token.span)
    }

    /// From `start` to the end of the previous token.
    fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    fn token_text(&self) -> &'t str {
        self.span().slice(self.text)
    }

    fn is(&self, symbol: Symbol) -> bool {
        self.peek() == TokenKind::Symbol(symbol)
    }

    fn is_at(&self, distance: usize, symbol: Symbol) -> bool {
        self.peek_at(distance) == TokenKind::Symbol(symbol)
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == TokenKind::Keyword(keyword)
    }

    fn is_keyword_at(&self, distance: usize, keyword: Keyword) -> bool {
        self.peek_at(distance) == TokenKind::Keyword(keyword)
    }

    /// Whether the current token is this word, keyword or not, in any case.
    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Name | TokenKind::Keyword(_))
            && self.token_text().eq_ignore_ascii_case(word)
    }

    // ---- consuming ----

    fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn eat(&mut self, symbol: Symbol) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: Symbol) -> PResult<Span> {
        match self.is(symbol) {
            true => Ok(self.advance()),
            false => Err(self.unexpected(&format!("`{}`", symbol.text()))),
        }
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> PResult<Span> {
        match self.is_keyword(keyword) {
            true => Ok(self.advance()),
            false => Err(self.unexpected_word(keyword.text(), &[keyword])),
        }
    }

    fn expect_end(&mut self, expected: &str) -> PResult<()> {
        match self.peek() {
            TokenKind::End => Ok(()),
            _ if self.at > 0
                && self.tokens[self.at - 1].kind == TokenKind::Symbol(Symbol::Semicolon) =>
            {
                Err(self.unexpected(expected).with_hint(
                    "one statement at a time: run the text after the semicolon separately",
                ))
            }
            _ => {
                let mut candidates = AFTER_EXPRESSION.to_vec();
                candidates.extend_from_slice(CLAUSES);
                Err(self.unexpected_word(expected, &candidates))
            }
        }
    }

    /// A name that may be any word: of a property, label, type, procedure or index.
    fn name(&mut self, expected: &str) -> PResult<Ident> {
        match self.peek() {
            TokenKind::Name | TokenKind::Keyword(_) | TokenKind::QuotedName => Ok(self.take_name()),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn is_variable_at(&self, distance: usize) -> bool {
        match self.peek_at(distance) {
            TokenKind::Name | TokenKind::QuotedName => true,
            TokenKind::Keyword(Keyword::End) => !self.context.end_ends,
            TokenKind::Keyword(keyword) => !keyword.is_reserved(),
            _ => false,
        }
    }

    /// The name of a variable, which must not be a reserved word.
    fn variable(&mut self) -> PResult<Ident> {
        if self.is_variable_at(0) {
            return Ok(self.take_name());
        }
        let error = self.unexpected("a variable");
        Err(match self.peek() {
            TokenKind::Keyword(_) => {
                error.with_hint("a reserved word is a name only in backquotes")
            }
            _ => error,
        })
    }

    fn take_name(&mut self) -> Ident {
        let text = self.token_text();
        match self.peek() {
            TokenKind::QuotedName => Ident::new(quoted_name_value(text), self.advance()),
            _ => Ident::new(text, self.advance()),
        }
    }

    fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> PResult<T>,
    ) -> PResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Symbol::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    // ---- limits ----

    /// Enters one nesting level and returns the outer height for [`Parser::leave`]. The height inside is
    /// measured from zero and then merged into the enclosing scope, as one of its parts.
    fn enter(&mut self) -> PResult<u32> {
        if self.depth >= self.limits.max_nesting {
            return Err(self.too_deep());
        }
        self.depth += 1;
        Ok(std::mem::replace(&mut self.height, 0))
    }

    fn leave(&mut self, outer_height: u32) {
        self.depth -= 1;
        // Siblings do not add up: the height of a scope is that of its highest part.
        self.height = outer_height.max(self.height);
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> PResult<T>) -> PResult<T> {
        let outer = self.enter()?;
        let result = parse(self);
        self.leave(outer);
        result
    }

    fn too_deep(&self) -> ParseError {
        let message = format!("nested more than {} levels deep", self.limits.max_nesting);
        ParseError::new(Detail::LimitExceeded, self.span(), message)
            .with_hint("split the expression with WITH, or pass nested data as a parameter")
    }

    /// The expression just parsed becomes an operand of a tree one level higher.
    fn grow(&mut self) -> PResult<()> {
        self.height += 1;
        match self.height > self.limits.max_height {
            false => Ok(()),
            true => {
                let message = format!(
                    "more than {} operators depend on one another in one expression",
                    self.limits.max_height
                );
                Err(
                    ParseError::new(Detail::LimitExceeded, self.last_span(), message)
                        .with_hint("split the expression with WITH, or use a list and reduce()"),
                )
            }
        }
    }

    fn within<T>(
        &mut self,
        context: Context,
        parse: impl FnOnce(&mut Self) -> PResult<T>,
    ) -> PResult<T> {
        let outer = std::mem::replace(&mut self.context, context);
        let result = parse(self);
        self.context = outer;
        result
    }

    // ---- errors ----

    fn unexpected(&self, expected: &str) -> ParseError {
        let found = self.peek();
        match found {
            TokenKind::Invalid(reason) if reason != InvalidToken::Number => {
                return self.invalid_token(reason);
            }
            TokenKind::Symbol(
                symbol @ (Symbol::OtherDash | Symbol::OtherLess | Symbol::OtherGreater),
            ) => {
                let message = format!(
                    "found the character `{}`, expected {expected}",
                    self.token_text()
                );
                return ParseError::new(Detail::InvalidUnicodeCharacter, self.span(), message)
                    .with_hint(match symbol {
                        Symbol::OtherDash => "write a plain `-`",
                        _ => "write a plain `<` or `>`",
                    });
            }
            _ => {}
        }
        let message = format!("found {}, expected {expected}", self.found());
        let error = ParseError::new(Detail::UnexpectedSyntax, self.span(), message);
        match self.unexpected_hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// Like [`Parser::unexpected`], with a hint if the word resembles one of the candidates.
    fn unexpected_word(&self, expected: &str, candidates: &[Keyword]) -> ParseError {
        let error = self.unexpected(expected);
        if error.hint.is_some() || !matches!(self.peek(), TokenKind::Name | TokenKind::Keyword(_)) {
            return error;
        }
        match suggest::nearest(
            self.token_text(),
            candidates.iter().map(|keyword| keyword.text()),
        ) {
            Some(word) if !word.eq_ignore_ascii_case(self.token_text()) => {
                error.with_hint(format!("did you mean {word}?"))
            }
            _ => error,
        }
    }

    fn found(&self) -> String {
        const MAX_CHARS: usize = 40;
        match self.peek() {
            TokenKind::End => "the end of the text".into(),
            _ if self.token_text().chars().count() > MAX_CHARS => {
                format!(
                    "`{}…`",
                    self.token_text()
                        .chars()
                        .take(MAX_CHARS)
                        .collect::<String>()
                )
            }
            _ => format!("`{}`", self.token_text()),
        }
    }

    fn unexpected_hint(&self) -> Option<String> {
        use Symbol::{Ampersand, Bang, Bar, Equal, LeftBrace, LeftBracket, LeftParen};
        let before = self
            .at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .map(|token| token.kind);
        let hint = match self.peek() {
            TokenKind::End => {
                let open = self.unclosed_bracket()?;
                let (line, column) =
                    diagnostic::line_and_column(self.text, open.span.start as usize);
                return Some(format!(
                    "`{}` in line {line}, column {column} of the statement is not closed",
                    open.span.slice(self.text)
                ));
            }
            TokenKind::Symbol(Equal) if before == Some(TokenKind::Symbol(Equal)) => {
                "equality is written `=`"
            }
            TokenKind::Symbol(Bang) if self.is_at(1, Equal) => "inequality is written `<>`",
            TokenKind::Symbol(Ampersand) if self.is_at(1, Ampersand) => {
                "conjunction is written AND"
            }
            TokenKind::Symbol(Bar) => "disjunction of conditions is written OR",
            TokenKind::Symbol(LeftParen | LeftBracket | LeftBrace) | TokenKind::String
                if before == Some(TokenKind::String) =>
            {
                "a quote inside a string is written `\\'`"
            }
            _ => return None,
        };
        Some(hint.into())
    }

    /// The last bracket before the current token that is not closed.
    fn unclosed_bracket(&self) -> Option<Token> {
        let mut open = Vec::new();
        for token in &self.tokens[..self.at.min(self.tokens.len())] {
            match token.kind {
                TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace) => {
                    open.push(*token)
                }
                TokenKind::Symbol(
                    Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace,
                ) => {
                    open.pop();
                }
                _ => {}
            }
        }
        open.pop()
    }

    /// The error for an invalid token.
    fn invalid_token(&self, reason: InvalidToken) -> ParseError {
        let whole = self.span();
        let opening = Span::new(whole.start as usize, whole.start as usize + 1);
        let (detail, span, message, hint) = match reason {
            InvalidToken::UnclosedString => (
                Detail::UnexpectedSyntax,
                opening,
                "this string is not closed".into(),
                "end it with the quote that it starts with",
            ),
            InvalidToken::UnclosedName => (
                Detail::UnexpectedSyntax,
                opening,
                "this name is not closed".into(),
                "end it with a backquote",
            ),
            InvalidToken::UnclosedComment => (
                Detail::UnexpectedSyntax,
                opening,
                "this comment is not closed".into(),
                "end it with `*/`",
            ),
            InvalidToken::Number => (
                Detail::InvalidNumberLiteral,
                whole,
                format!("invalid number: {}", self.found()),
                "numbers are written 12, 1.5, 1e9, 0xff or 0o17; names that start with a digit need backquotes",
            ),
            InvalidToken::UnicodeEscape => (
                Detail::InvalidUnicodeLiteral,
                whole,
                format!(
                    "{} has a `\\u` without the digits of a character",
                    self.found()
                ),
                "write \\uXXXX or \\UXXXXXXXX with hexadecimal digits; a backslash itself is written `\\\\`",
            ),
            InvalidToken::Escape => (
                Detail::UnexpectedSyntax,
                whole,
                format!("{} has an invalid escape sequence", self.found()),
                "escapes are \\\\ \\' \\\" \\` \\b \\f \\n \\r \\t \\uXXXX \\UXXXXXXXX",
            ),
            InvalidToken::Parameter => (
                Detail::UnexpectedSyntax,
                whole,
                "`$` without the name of a parameter".into(),
                "parameters are written $name or $0",
            ),
            InvalidToken::UnicodeCharacter => (
                Detail::InvalidUnicodeCharacter,
                whole,
                format!("{} is not valid in a query", self.found()),
                "outside of strings and names only ASCII is used",
            ),
            InvalidToken::Character => (
                Detail::UnexpectedSyntax,
                whole,
                format!("{} is not valid in a query", self.found()),
                "names with such characters need backquotes, text needs quotes",
            ),
        };
        ParseError::new(detail, span, message).with_hint(hint)
    }
}
