//! Speculative parsing of patterns: a parenthesis may open a pattern or an expression.

use super::cursor::{PResult, Parser};
use crate::ast::Expr;
use crate::error::Detail;
use crate::token::{Symbol, TokenKind};

/// Lookahead: whether a relationship pattern seems to follow the parenthesis that opens at this token.
pub(super) fn is_path_from(p: &mut Parser<'_>, open: usize) -> bool {
    // Memo of `attempt_pattern`: this parenthesis was tried before.
    if p.not_patterns.contains(&open) {
        return false;
    }
    let closing = closing(p, open);
    let behind = closing + 1 - p.at.min(closing + 1);
    // `((` after the closing parenthesis starts a quantified path.
    let is_group = p.is_at(behind, Symbol::LeftParen) && p.is_at(behind + 1, Symbol::LeftParen);
    closing > open && (is_group || is_relationship_start_at(p, behind))
}

/// Speculatively parses a pattern. On failure it rewinds the token position and records the opening
/// parenthesis in `not_patterns`, so that nested parentheses are not tried twice: without the record, `n`
/// nested levels would cost 2^n attempts.
pub(super) fn attempt_pattern(
    p: &mut Parser<'_>,
    parse: fn(&mut Parser<'_>) -> PResult<Expr>,
) -> PResult<Option<Expr>> {
    let (at, height) = (p.at, p.height);
    match p.nested(parse) {
        Ok(pattern) => Ok(Some(pattern)),
        // A limit is an error in any reading of the text: trying another one would only cost time.
        Err(error) if error.detail == Detail::LimitExceeded => Err(error),
        Err(error) => {
            if p.failed_pattern
                .as_ref()
                .is_none_or(|other| other.span.start < error.span.start)
            {
                p.failed_pattern = Some(error);
            }
            // Rewind: the caller parses the same tokens as an expression.
            (p.at, p.height) = (at, height);
            let open = (at..p.tokens.len())
                .find(|&token| p.tokens[token].kind == TokenKind::Symbol(Symbol::LeftParen));
            p.not_patterns.extend(open);
            Ok(None)
        }
    }
}

/// Whether `-[`, `--`, `<-[` or `<--` starts `distance` tokens ahead.
fn is_relationship_start_at(p: &Parser<'_>, distance: usize) -> bool {
    let is_dash = |at| {
        matches!(
            p.peek_at(at),
            TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash)
        )
    };
    let is_less = matches!(
        p.peek_at(distance),
        TokenKind::Symbol(Symbol::Less | Symbol::OtherLess)
    );
    let dash = distance + usize::from(is_less);
    is_dash(dash) && (is_dash(dash + 1) || p.is_at(dash + 1, Symbol::LeftBracket))
}

/// The token that closes the bracket opened by this token; 0 if it is not closed. Built once per text, in
/// one pass.
fn closing(p: &mut Parser<'_>, open: usize) -> usize {
    let tokens = p.tokens;
    let closings = p.closings.get_or_insert_with(|| {
        let mut closings = vec![0; tokens.len()];
        let mut opened = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match token.kind {
                TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace) => {
                    opened.push(at)
                }
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
