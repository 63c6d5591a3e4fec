//! Plan cache key of a query: its text with literals replaced by parameters.
//!
//! Works on tokens alone, in one pass, because every cached query pays for it. A literal is lifted only where
//! the plan cannot depend on it and no output shows how it was written. Literals stay in `WITH`, `RETURN` and
//! their subclauses (columns are named after their text, and grouping compares expressions), in arguments of
//! functions (constants are folded), in path lengths, subscripts and regular expressions, and in schema
//! commands. A literal that stays is part of the key: leaving one in place costs a second plan, never a wrong
//! one.

use std::sync::Arc;

use crate::Span;
use crate::ast::{IndexType, Literal};
use crate::lexer::{Lexer, string_value};
use crate::token::{Keyword, Symbol, Token, TokenKind};

/// Lifted literals become parameters of this name followed by a number.
const PREFIX: &str = "__";
/// A text with more literals than this holds data, and no other query will have the same shape.
const MAX_LITERALS: usize = 256;

/// A query's text without its literals.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// The text with parameters in place of the lifted literals; the original text if there are none.
    pub key: String,
    /// Name and value of each such parameter, in order.
    pub literals: Vec<(String, Literal)>,
    /// Source spans of the lifted literals.
    pub places: Vec<Span>,
}

impl Normalised {
    /// A position in the key.
    pub fn in_text(&self, place: Span) -> Span {
        Span {
            start: self.offset_in_text(place.start),
            end: self.offset_in_text(place.end),
        }
    }

    fn offset_in_text(&self, at: u32) -> u32 {
        // Offset of the key relative to the text so far.
        let mut ahead = 0_i64;
        for ((name, _), place) in self.literals.iter().zip(&self.places) {
            let start = i64::from(place.start) + ahead;
            let length = name.len() as i64 + 1;
            if i64::from(at) <= start {
                break;
            }
            if i64::from(at) <= start + length {
                return place.end;
            }
            ahead += length - i64::from(place.end - place.start);
        }
        u32::try_from(i64::from(at) - ahead).unwrap_or(at)
    }
}

/// Lifts literals out of a query. Two texts with the same key have the same plan; the key parses to the tree
/// of the text except for the parameters. Text that is not a query is returned unchanged.
pub fn normalise(text: &str) -> Normalised {
    lift(text).unwrap_or_else(|| Normalised {
        key: text.to_owned(),
        literals: Vec::new(),
        places: Vec::new(),
    })
}

/// Redacts a query: `?` in place of every literal, comments removed, for output that must not show data. A
/// text that ends in an invalid token (such as an unterminated string) is cut there.
///
/// ```
/// let shown = isomer_cypher::redact("MATCH (p {name: 'Ada'}) RETURN p.age + 1 // Ada");
/// assert_eq!(shown, "MATCH (p {name: ?}) RETURN p.age + ?");
/// ```
pub fn redact(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::End => return shown,
            TokenKind::Invalid(_) => return shown + "…",
            _ => {}
        }
        if token.span.start as usize > end && !shown.is_empty() {
            shown.push(' ');
        }
        end = token.span.end as usize;
        match token.kind {
            TokenKind::Integer | TokenKind::Float | TokenKind::String => shown.push('?'),
            _ => shown.push_str(token.span.slice(text)),
        }
    }
}

/// The context of the current token: the query itself, or an open bracket.
struct Frame {
    /// Literals may be lifted here.
    lifts: bool,
    /// A clause in this context may turn lifting on.
    may_lift: bool,
    /// A `-[`: numbers after `*` and `..` are lengths.
    is_relationship: bool,
}

fn lift(text: &str) -> Option<Normalised> {
    let mut lexer = Lexer::new(text);
    let mut frames = vec![Frame {
        lifts: false,
        may_lift: true,
        is_relationship: false,
    }];
    let mut key = String::with_capacity(text.len() + 16);
    let mut literals = Vec::new();
    let mut places = Vec::new();
    let mut copied = 0;
    let (mut before_last, mut last) = (TokenKind::End, TokenKind::End);
    let mut is_first = true;
    let mut token = lexer.next_token();
    while token.kind != TokenKind::End {
        let next = lexer.next_token();
        match token.kind {
            TokenKind::Keyword(keyword) if !is_name_position(last, next.kind) => {
                // Options in front (`CYPHER 5`) have no keyword.
                if std::mem::take(&mut is_first) && is_command(keyword, next, text) {
                    return None;
                }
                // A variable with the name of a clause: positions of clauses are not known then.
                if begins_lifting(keyword) && binds_name(last) {
                    return None;
                }
                frames.last_mut()?.enter_clause(keyword, last);
            }
            TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace) => {
                let frame = frames.last()?.open(token.kind, last, next.kind);
                frames.push(frame);
            }
            TokenKind::Symbol(Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace) => {
                frames.pop();
                frames.last()?;
            }
            TokenKind::Parameter if token.span.slice(text).starts_with("$__") => return None,
            TokenKind::Invalid(_) => return None,
            TokenKind::Integer | TokenKind::Float | TokenKind::String
                if frames
                    .last()?
                    .takes(token.kind, last, before_last, next.kind) =>
            {
                if let Some(literal) = literal(token, text) {
                    if literals.len() == MAX_LITERALS {
                        return None;
                    }
                    let name = format!("{PREFIX}{}", literals.len());
                    key.push_str(&text[copied..token.span.start as usize]);
                    key.push('$');
                    key.push_str(&name);
                    copied = token.span.end as usize;
                    literals.push((name, literal));
                    places.push(token.span);
                }
            }
            _ => {}
        }
        (before_last, last) = (last, token.kind);
        token = next;
    }
    key.push_str(&text[copied..]);
    Some(Normalised {
        key,
        literals,
        places,
    })
}

impl Frame {
    fn enter_clause(&mut self, keyword: Keyword, last: TokenKind) {
        match keyword {
            _ if begins_lifting(keyword) => self.lifts = self.may_lift,
            Keyword::With
                if matches!(last, TokenKind::Keyword(Keyword::Starts | Keyword::Ends)) => {}
            Keyword::With
            | Keyword::Return
            | Keyword::Order
            | Keyword::Skip
            | Keyword::Offset
            | Keyword::Limit
            | Keyword::Delete
            | Keyword::Remove
            | Keyword::Call
            | Keyword::Yield
            | Keyword::Load
            | Keyword::Foreach
            | Keyword::Union => self.lifts = false,
            _ => {}
        }
    }

    fn open(&self, bracket: TokenKind, last: TokenKind, next: TokenKind) -> Frame {
        let mut inner = Frame {
            lifts: self.lifts,
            may_lift: self.lifts,
            is_relationship: false,
        };
        match bracket {
            // The arguments of a function or procedure.
            TokenKind::Symbol(Symbol::LeftParen)
                if matches!(last, TokenKind::Name | TokenKind::QuotedName) =>
            {
                inner.lifts = false
            }
            TokenKind::Symbol(Symbol::LeftBracket) => {
                inner.is_relationship =
                    matches!(last, TokenKind::Symbol(Symbol::Minus | Symbol::OtherDash));
            }
            TokenKind::Symbol(Symbol::LeftBrace) => match (last, next) {
                (TokenKind::Keyword(Keyword::Call), _) => {
                    inner = Frame {
                        lifts: false,
                        may_lift: self.may_lift,
                        is_relationship: false,
                    }
                }
                // `{1,3}` after a path.
                (_, TokenKind::Integer | TokenKind::Symbol(Symbol::Comma)) => inner.lifts = false,
                _ => {}
            },
            _ => {}
        }
        inner
    }

    fn takes(
        &self,
        literal: TokenKind,
        last: TokenKind,
        before_last: TokenKind,
        next: TokenKind,
    ) -> bool {
        let is_length = self.is_relationship
            && matches!(last, TokenKind::Symbol(Symbol::Star | Symbol::DotDot));
        let is_count = literal == TokenKind::Integer
            && matches!(last, TokenKind::Keyword(Keyword::Shortest | Keyword::Any));
        let is_subscript = last == TokenKind::Symbol(Symbol::LeftBracket)
            && next == TokenKind::Symbol(Symbol::RightBracket)
            && !matches!(before_last, TokenKind::Keyword(Keyword::In));
        let is_regex = last == TokenKind::Symbol(Symbol::RegexMatch);
        self.lifts && !is_length && !is_count && !is_subscript && !is_regex
    }
}

/// Whether a keyword in this position names a property, label or the like.
fn is_name_position(last: TokenKind, next: TokenKind) -> bool {
    use Symbol::{Ampersand, Bang, Bar, Colon, Dot};
    matches!(
        last,
        TokenKind::Symbol(Dot | Colon | Bar | Ampersand | Bang)
    ) || next == TokenKind::Symbol(Colon)
}

/// Whether literals may be lifted after this keyword.
fn begins_lifting(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::Match
            | Keyword::Where
            | Keyword::Create
            | Keyword::Merge
            | Keyword::Set
            | Keyword::Unwind
    )
}

/// Whether a word after this token is the name of a new variable rather than the start of a clause.
fn binds_name(last: TokenKind) -> bool {
    matches!(
        last,
        TokenKind::Keyword(Keyword::As | Keyword::Yield)
            | TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::Comma)
    )
}

/// Whether plans of statements that start with this word are never cached.
fn is_command(first: Keyword, second: Token, text: &str) -> bool {
    match first {
        Keyword::Explain | Keyword::Profile | Keyword::Show | Keyword::Drop | Keyword::Kill => true,
        Keyword::Create => match second.kind {
            TokenKind::Keyword(Keyword::Unique | Keyword::Index | Keyword::Constraint) => true,
            TokenKind::Name => IndexType::by_word(second.span.slice(text)).is_some(),
            _ => false,
        },
        _ => false,
    }
}

fn literal(token: Token, text: &str) -> Option<Literal> {
    let text = token.span.slice(text);
    match token.kind {
        TokenKind::String => Some(Literal::String(Arc::from(string_value(text)))),
        TokenKind::Integer => text.parse().ok().map(Literal::Int),
        TokenKind::Float => text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Literal::Float),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        normalise(text).key
    }

    #[test]
    fn literals_that_cannot_matter_are_lifted() {
        for (text, expected) in [
            (
                "MATCH (u:users {_key: 'a'}) RETURN u.name, 1",
                "MATCH (u:users {_key: $__0}) RETURN u.name, 1",
            ),
            (
                "MATCH (n) WHERE n.x > 1.5 AND n.y STARTS WITH 'z' RETURN n",
                "MATCH (n) WHERE n.x > $__0 AND n.y STARTS WITH $__1 RETURN n",
            ),
            (
                "CREATE (n {a: 1, b: [2, 3]}) SET n.c = 'x'",
                "CREATE (n {a: $__0, b: [$__1, $__2]}) SET n.c = $__3",
            ),
            (
                "MATCH (n) WHERE n.id IN [1] RETURN n LIMIT 5",
                "MATCH (n) WHERE n.id IN [$__0] RETURN n LIMIT 5",
            ),
            (
                "CALL { MATCH (n {a: 1}) RETURN n } RETURN n",
                "CALL { MATCH (n {a: $__0}) RETURN n } RETURN n",
            ),
        ] {
            assert_eq!(key(text), expected);
        }
        let lifted = normalise("MATCH (n {a: 'it\\'s', b: 7}) RETURN n");
        assert_eq!(
            lifted.literals,
            [
                ("__0".to_owned(), Literal::String("it's".into())),
                ("__1".to_owned(), Literal::Int(7))
            ]
        );
    }

    #[test]
    fn literals_that_may_matter_stay() {
        for text in [
            "RETURN 1 + 2 AS x ORDER BY x + 1 SKIP 1 LIMIT 2",
            "MATCH (a)-[:T*1..3]->(b) RETURN a",
            "MATCH SHORTEST 2 (a)-[:T]->{1,4}(b) RETURN a",
            "MATCH (n) WHERE n.d > date('2020-01-01') RETURN n",
            "MATCH (n) WHERE n['name'] =~ 'a.*' RETURN n",
            "RETURN COUNT { MATCH (n) WHERE n.match = 1 }",
            "RETURN {where: 1, x: n.set, y: 2}",
            "CREATE INDEX FOR (n:L) ON (n.a)",
            "EXPLAIN MATCH (n {a: 1}) RETURN n",
            "WITH 1 AS set MATCH (n {a: 1}) RETURN set = 2",
            "MATCH (n {a: $__x, b: 1}) RETURN n",
            "MATCH (n {a: 'open) RETURN n",
            "MATCH (n {a: 1)}) RETURN n)))",
            "",
        ] {
            assert_eq!(key(text), text);
        }
    }
}
