//! Errors at the current token: what was found, what was expected, and a hint.

use super::cursor::Parser;
use crate::error::{Detail, ParseError};
use crate::token::{InvalidToken, Keyword, Symbol, Token, TokenKind};
use crate::{Span, diagnostic, suggest};

impl Parser<'_> {
    pub(super) fn unexpected(&self, expected: &str) -> ParseError {
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
    pub(super) fn unexpected_word(&self, expected: &str, candidates: &[Keyword]) -> ParseError {
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
    pub(super) fn invalid_token(&self, reason: InvalidToken) -> ParseError {
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
