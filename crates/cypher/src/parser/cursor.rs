//! The state of one parse, and what every part of the grammar does with it: looking ahead, consuming tokens,
//! counting depth and height.

use std::collections::HashSet;

use crate::Span;
use crate::ast::Ident;
use crate::error::{Detail, ParseError};
use crate::lexer::quoted_name_value;
use crate::token::{Keyword, Symbol, Token, TokenKind};

/// Limits on the input.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// Maximum size of the text, in bytes.
    pub max_text_bytes: usize,
    /// Maximum nesting depth: parentheses, lists, subqueries and the like.
    pub max_nesting: u32,
    /// Maximum height of one expression's tree.
    pub max_height: u32,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            max_text_bytes: 1 << 20,
            max_nesting: 200,
            max_height: 320,
        }
    }
}

pub(super) type PResult<T> = Result<T, ParseError>;
/// A rule of the grammar.
pub(super) type Rule<T> = fn(&mut Parser<'_>) -> PResult<T>;

/// Keywords that may start a clause.
pub(super) const CLAUSES: &[Keyword] = &[
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
pub(super) const AFTER_EXPRESSION: &[Keyword] = &[
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
pub(super) struct Context {
    /// Predicate position: a pattern tests for its existence.
    pub(super) is_predicate: bool,
    /// A `|` ends the expression rather than joining labels.
    pub(super) bar_ends: bool,
    /// An `END` ends the expression rather than naming a variable.
    pub(super) end_ends: bool,
    /// Inside `EXISTS`, `COUNT` or `COLLECT`, which may not change data.
    pub(super) is_read_only: bool,
}

/// Where one parse is in its tokens, and what it has learned about them.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: &'t [Token],
    pub(super) at: usize,
    pub(super) limits: ParseLimits,
    pub(super) depth: u32,
    /// Height of the highest tree parsed so far within the innermost scope; see [`Parser::enter`].
    pub(super) height: u32,
    pub(super) context: Context,
    /// For each opening bracket's token the closing one's, built on first use.
    pub(super) closings: Option<Vec<usize>>,
    /// Memo of failed attempts: parentheses that do not start a pattern, and brackets that do not start a
    /// comprehension.
    pub(super) not_patterns: HashSet<usize>,
    /// The error of the failed pattern attempt that got furthest.
    pub(super) failed_pattern: Option<ParseError>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, tokens: &'t [Token], limits: ParseLimits) -> Self {
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

    pub(super) fn peek(&self) -> TokenKind {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, distance: usize) -> TokenKind {
        self.tokens
            .get(self.at + distance)
            .map_or(TokenKind::End, |token| token.kind)
    }

    /// The span of the current token.
    pub(super) fn span(&self) -> Span {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(Span::default(), |token| token.span)
    }

    /// The span of the previous token.
    pub(super) fn last_span(&self) -> Span {
        self.at
            .checked_sub(1)
            .and_then(|at| self.tokens.get(at))
            .map_or(Span::default(), |token| token.span)
    }

    /// From `start` to the end of the previous token.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    pub(super) fn token_text(&self) -> &'t str {
        self.span().slice(self.text)
    }

    pub(super) fn is(&self, symbol: Symbol) -> bool {
        self.peek() == TokenKind::Symbol(symbol)
    }

    pub(super) fn is_at(&self, distance: usize, symbol: Symbol) -> bool {
        self.peek_at(distance) == TokenKind::Symbol(symbol)
    }

    pub(super) fn is_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == TokenKind::Keyword(keyword)
    }

    pub(super) fn is_keyword_at(&self, distance: usize, keyword: Keyword) -> bool {
        self.peek_at(distance) == TokenKind::Keyword(keyword)
    }

    /// Whether the current token is this word, keyword or not, in any case.
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Name | TokenKind::Keyword(_))
            && self.token_text().eq_ignore_ascii_case(word)
    }

    // ---- consuming ----

    pub(super) fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    pub(super) fn eat(&mut self, symbol: Symbol) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, symbol: Symbol) -> PResult<Span> {
        if self.is(symbol) {
            Ok(self.advance())
        } else {
            Err(self.unexpected(&format!("`{}`", symbol.text())))
        }
    }

    pub(super) fn expect_keyword(&mut self, keyword: Keyword) -> PResult<Span> {
        if self.is_keyword(keyword) {
            Ok(self.advance())
        } else {
            Err(self.unexpected_word(keyword.text(), &[keyword]))
        }
    }

    pub(super) fn expect_end(&mut self, expected: &str) -> PResult<()> {
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
    pub(super) fn name(&mut self, expected: &str) -> PResult<Ident> {
        match self.peek() {
            TokenKind::Name | TokenKind::Keyword(_) | TokenKind::QuotedName => Ok(self.take_name()),
            _ => Err(self.unexpected(expected)),
        }
    }

    pub(super) fn is_variable_at(&self, distance: usize) -> bool {
        match self.peek_at(distance) {
            TokenKind::Name | TokenKind::QuotedName => true,
            TokenKind::Keyword(Keyword::End) => !self.context.end_ends,
            TokenKind::Keyword(keyword) => !keyword.is_reserved(),
            _ => false,
        }
    }

    /// Whether a reserved word is the variable of a node or relationship pattern. `WHERE` may also begin its condition.
    pub(super) fn is_reserved_pattern_name(&self) -> bool {
        use Symbol::*;
        let TokenKind::Keyword(keyword) = self.peek() else {
            return false;
        };
        let is_where = keyword == Keyword::Where;
        keyword.may_be_name()
            && match self.peek_at(1) {
                TokenKind::Symbol(Colon | RightParen | RightBracket | Star) => true,
                TokenKind::Symbol(LeftBrace) | TokenKind::Keyword(Keyword::Where) => !is_where,
                _ => false,
            }
    }

    /// Whether a reserved word is a variable where an expression is expected: something follows that cannot follow the
    /// word as a keyword.
    pub(super) fn is_reserved_name(&self) -> bool {
        use Symbol::*;
        let TokenKind::Keyword(keyword) = self.peek() else {
            return false;
        };
        if !keyword.may_be_name() {
            return false;
        }
        match self.peek_at(1) {
            TokenKind::End => true,
            TokenKind::Symbol(symbol) => !matches!(symbol, LeftParen | LeftBracket | LeftBrace),
            TokenKind::Keyword(next) => {
                let follows = AFTER_EXPRESSION.contains(&next)
                    || CLAUSES.contains(&next)
                    || matches!(next, Keyword::Desc | Keyword::Asc);
                // `OPTIONAL MATCH`, `DETACH DELETE`, `STARTS WITH`
                let is_pair = matches!(
                    keyword,
                    Keyword::Optional
                        | Keyword::Detach
                        | Keyword::On
                        | Keyword::Starts
                        | Keyword::Ends
                );
                next != keyword && follows && !is_pair
            }
            _ => false,
        }
    }

    /// The name of a variable. Where nothing but a variable can come, that is any word but an operator or constant.
    pub(super) fn variable(&mut self) -> PResult<Ident> {
        let is_name = self.is_variable_at(0)
            || matches!(self.peek(), TokenKind::Keyword(keyword) if keyword.may_be_name());
        if is_name {
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

    pub(super) fn take_name(&mut self) -> Ident {
        let text = self.token_text();
        match self.peek() {
            TokenKind::QuotedName => Ident::new(quoted_name_value(text), self.advance()),
            _ => Ident::new(text, self.advance()),
        }
    }

    pub(super) fn comma_separated<T>(
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
    pub(super) fn enter(&mut self) -> PResult<u32> {
        if self.depth >= self.limits.max_nesting {
            return Err(self.too_deep());
        }
        self.depth += 1;
        Ok(std::mem::replace(&mut self.height, 0))
    }

    pub(super) fn leave(&mut self, outer_height: u32) {
        self.depth -= 1;
        // Siblings do not add up: the height of a scope is that of its highest part.
        self.height = outer_height.max(self.height);
    }

    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> PResult<T>) -> PResult<T> {
        let outer = self.enter()?;
        let result = parse(self);
        self.leave(outer);
        result
    }

    pub(super) fn too_deep(&self) -> ParseError {
        let message = format!("nested more than {} levels deep", self.limits.max_nesting);
        ParseError::new(Detail::LimitExceeded, self.span(), message)
            .with_hint("split the expression with WITH, or pass nested data as a parameter")
    }

    /// The expression just parsed becomes an operand of a tree one level higher.
    pub(super) fn grow(&mut self) -> PResult<()> {
        self.height += 1;
        if self.height > self.limits.max_height {
            let message = format!(
                "more than {} operators depend on one another in one expression",
                self.limits.max_height
            );
            Err(
                ParseError::new(Detail::LimitExceeded, self.last_span(), message)
                    .with_hint("split the expression with WITH, or use a list and reduce()"),
            )
        } else {
            Ok(())
        }
    }

    pub(super) fn within<T>(
        &mut self,
        context: Context,
        parse: impl FnOnce(&mut Self) -> PResult<T>,
    ) -> PResult<T> {
        let outer = std::mem::replace(&mut self.context, context);
        let result = parse(self);
        self.context = outer;
        result
    }
}
