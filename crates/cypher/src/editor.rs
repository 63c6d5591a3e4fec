//! Services for shells and editors on text that is still being typed: syntax highlighting, completeness of
//! the input, and completion at the cursor.

use crate::Span;
use crate::lexer::{Lexer, quoted_name_value, tokenize};
use crate::token::{InvalidToken, Keyword, Symbol, Token, TokenKind};

/// Highlighting class of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A reserved word in keyword position.
    Keyword,
    /// A variable, property or function.
    Name,
    /// A label or relationship type.
    Label,
    /// A number.
    Number,
    /// A string, terminated or not.
    String,
    /// A parameter.
    Parameter,
    /// An operator or punctuation.
    Symbol,
    /// A comment, terminated or not.
    Comment,
    /// Text that is not a valid token.
    Invalid,
}

/// The highlighted pieces of a text in order; white space belongs to none.
pub fn classify(text: &str) -> Vec<(Class, Span)> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::End {
            break;
        }
        tokens.push(token);
    }
    let mut pieces: Vec<(Class, Span)> = lexer
        .comments()
        .iter()
        .map(|span| (Class::Comment, *span))
        .collect();
    pieces.extend((0..tokens.len()).map(|at| (class(&tokens, at), tokens[at].span)));
    pieces.sort_by_key(|(_, span)| span.start);
    pieces
}

fn class(tokens: &[Token], at: usize) -> Class {
    match tokens[at].kind {
        TokenKind::Keyword(_) | TokenKind::Name | TokenKind::QuotedName if is_label(tokens, at) => {
            Class::Label
        }
        TokenKind::Keyword(_)
            if at > 0 && tokens[at - 1].kind == TokenKind::Symbol(Symbol::Dot) =>
        {
            Class::Name
        }
        TokenKind::Keyword(_) => Class::Keyword,
        TokenKind::Name | TokenKind::QuotedName => Class::Name,
        TokenKind::Integer | TokenKind::Float => Class::Number,
        TokenKind::String
        | TokenKind::Invalid(
            InvalidToken::UnclosedString | InvalidToken::Escape | InvalidToken::UnicodeEscape,
        ) => Class::String,
        TokenKind::Parameter => Class::Parameter,
        TokenKind::Symbol(_) | TokenKind::End => Class::Symbol,
        TokenKind::Invalid(InvalidToken::UnclosedComment) => Class::Comment,
        TokenKind::Invalid(_) => Class::Invalid,
    }
}

/// Whether the name at this token follows a colon that does not belong to a map, or continues such a chain.
fn is_label(tokens: &[Token], at: usize) -> bool {
    label_place(&tokens[..at]).is_some()
}

/// Completeness of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Only white space and comments.
    Empty,
    /// The last statement ends with a semicolon and no bracket is open.
    Complete,
    /// No bracket is open, but there is no semicolon.
    Unterminated,
    /// A bracket, quote or comment opened here is not closed.
    Open(Span),
}

/// Classifies the completeness of a text; a shell prompts for another line until it is complete.
pub fn completeness(text: &str) -> Completeness {
    let tokens = tokenize(text);
    let mut open: Vec<Span> = Vec::new();
    let mut last = TokenKind::End;
    for token in &tokens {
        match token.kind {
            TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace) => {
                open.push(token.span)
            }
            TokenKind::Symbol(Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace) => {
                open.pop();
            }
            TokenKind::Invalid(
                InvalidToken::UnclosedString
                | InvalidToken::UnclosedName
                | InvalidToken::UnclosedComment,
            ) => {
                return Completeness::Open(token.span);
            }
            TokenKind::End => break,
            _ => {}
        }
        last = token.kind;
    }
    match (last, open.last()) {
        (TokenKind::End, _) => Completeness::Empty,
        // A semicolon also ends a statement with an unclosed bracket: the parser reports that error.
        (TokenKind::Symbol(Symbol::Semicolon), _) => Completeness::Complete,
        (_, Some(span)) => Completeness::Open(*span),
        (_, None) => Completeness::Unterminated,
    }
}

/// The statements of a script, without the semicolons between them; empty statements are omitted.
pub fn statements(text: &str) -> Vec<Span> {
    let mut statements = Vec::new();
    let mut current: Option<Span> = None;
    for token in tokenize(text) {
        match token.kind {
            TokenKind::Symbol(Symbol::Semicolon) | TokenKind::End => {
                statements.extend(current.take())
            }
            _ => current = Some(current.map_or(token.span, |span| span.to(token.span))),
        }
    }
    statements
}

/// What can be completed at a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// A keyword, variable or function.
    Word,
    /// A label.
    Label,
    /// A relationship type.
    RelationshipType,
    /// A property of the expression before the dot.
    Property,
    /// A parameter's name.
    Parameter,
    /// The name of a procedure; the text typed so far, dot included.
    Procedure(String),
    /// Nothing: inside a string, comment or number.
    Nothing,
}

/// Completion context of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionContext {
    /// The range to replace: the word up to the cursor.
    pub span: Span,
    /// The word up to the cursor, without backquotes or `$`.
    pub prefix: String,
    /// What can be completed there.
    pub place: CompletionKind,
}

/// Completion context at a byte offset of a text.
pub fn cursor(text: &str, at: usize) -> CompletionContext {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let mut tokens = tokenize(&text[..at]);
    tokens.pop();
    let here = Span::new(at, at);
    let Some(last) = tokens.last().copied() else {
        let place = if ends_in_comment(&text[..at]) {
            CompletionKind::Nothing
        } else {
            CompletionKind::Word
        };
        return CompletionContext {
            span: here,
            prefix: String::new(),
            place,
        };
    };
    let word = last.span.slice(text);
    let touches = last.span.end as usize == at;
    let (span, prefix, before) = match last.kind {
        TokenKind::Name | TokenKind::Keyword(_) if touches => {
            (last.span, word.to_owned(), tokens.len() - 1)
        }
        TokenKind::QuotedName if touches => (last.span, quoted_name_value(word), tokens.len() - 1),
        TokenKind::Invalid(InvalidToken::UnclosedName) => {
            (last.span, word[1..].to_owned(), tokens.len() - 1)
        }
        TokenKind::Parameter | TokenKind::Invalid(InvalidToken::Parameter) if touches => {
            return CompletionContext {
                span: last.span,
                prefix: word.trim_start_matches('$').trim_matches('`').to_owned(),
                place: CompletionKind::Parameter,
            };
        }
        TokenKind::Invalid(InvalidToken::UnclosedString | InvalidToken::UnclosedComment) => {
            return CompletionContext {
                span: here,
                prefix: String::new(),
                place: CompletionKind::Nothing,
            };
        }
        TokenKind::String | TokenKind::Integer | TokenKind::Float | TokenKind::Invalid(_)
            if touches =>
        {
            return CompletionContext {
                span: here,
                prefix: String::new(),
                place: CompletionKind::Nothing,
            };
        }
        _ if ends_in_comment(&text[..at]) => {
            return CompletionContext {
                span: here,
                prefix: String::new(),
                place: CompletionKind::Nothing,
            };
        }
        _ => (here, String::new(), tokens.len()),
    };
    CompletionContext {
        span,
        prefix,
        place: place(&tokens[..before], text),
    }
}

fn ends_in_comment(text: &str) -> bool {
    let mut lexer = Lexer::new(text);
    while lexer.next_token().kind != TokenKind::End {}
    lexer
        .comments()
        .last()
        .is_some_and(|comment| comment.end as usize == text.len() && !text.ends_with("*/"))
}

/// What may follow these tokens.
fn place(before: &[Token], text: &str) -> CompletionKind {
    if let Some(label) = label_place(before) {
        return label;
    }
    match before.last().map(|token| token.kind) {
        Some(TokenKind::Keyword(Keyword::Call)) => CompletionKind::Procedure(String::new()),
        Some(TokenKind::Symbol(Symbol::Dot)) => match procedure_prefix(before, text) {
            Some(prefix) => CompletionKind::Procedure(prefix),
            None => CompletionKind::Property,
        },
        _ => CompletionKind::Word,
    }
}

/// `kv.` of `CALL kv.`
fn procedure_prefix(before: &[Token], text: &str) -> Option<String> {
    let is_part = |token: &Token| {
        matches!(
            token.kind,
            TokenKind::Name
                | TokenKind::QuotedName
                | TokenKind::Symbol(Symbol::Dot)
                | TokenKind::Keyword(_)
        ) && token.kind != TokenKind::Keyword(Keyword::Call)
    };
    let start = before.iter().rposition(|token| !is_part(token))?;
    let is_call = before[start].kind == TokenKind::Keyword(Keyword::Call);
    is_call.then(|| {
        before[start + 1..]
            .iter()
            .map(|token| token.span.slice(text))
            .collect()
    })
}

/// Whether a label or type may follow these tokens: after `:`, or after `|`, `&`, `!` in a label expression.
fn label_place(before: &[Token]) -> Option<CompletionKind> {
    let mut rest = before;
    // Walk back along the label expression to its colon.
    loop {
        let (last, earlier) = rest.split_last()?;
        match last.kind {
            TokenKind::Symbol(Symbol::Colon) => {
                rest = earlier;
                break;
            }
            TokenKind::Symbol(Symbol::Bar | Symbol::Ampersand | Symbol::Bang) => rest = earlier,
            TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_)
                if rest.len() < before.len() =>
            {
                rest = earlier
            }
            _ => return None,
        }
    }
    let bracket = innermost_bracket(rest);
    match bracket.map(|at| {
        (
            rest[at].kind,
            at.checked_sub(1).map(|before| rest[before].kind),
        )
    }) {
        Some((TokenKind::Symbol(Symbol::LeftBrace), before)) => {
            // A map key, unless the brace opened a subquery.
            let is_subquery = matches!(
                before,
                Some(TokenKind::Keyword(
                    Keyword::Exists | Keyword::Count | Keyword::Collect | Keyword::Call
                ))
            );
            is_subquery.then_some(CompletionKind::Label)
        }
        Some((TokenKind::Symbol(Symbol::LeftBracket), Some(TokenKind::Symbol(Symbol::Minus)))) => {
            Some(CompletionKind::RelationshipType)
        }
        _ => Some(CompletionKind::Label),
    }
}

fn innermost_bracket(tokens: &[Token]) -> Option<usize> {
    let mut closed = 0_usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.kind {
            TokenKind::Symbol(Symbol::RightParen | Symbol::RightBracket | Symbol::RightBrace) => {
                closed += 1
            }
            TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::LeftBrace) => {
                match closed.checked_sub(1) {
                    Some(fewer) => closed = fewer,
                    None => return Some(at),
                }
            }
            _ => {}
        }
    }
    None
}

/// Names that look like variables of the text: after an opening bracket, `AS`, a comma or at the start of a
/// path. In order, without duplicates.
pub fn variables(text: &str) -> Vec<String> {
    let tokens = tokenize(text);
    let mut names: Vec<String> = Vec::new();
    for pair in tokens.windows(2) {
        let introduces = matches!(
            pair[0].kind,
            TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket | Symbol::Comma)
                | TokenKind::Keyword(Keyword::As | Keyword::Match | Keyword::Foreach)
        );
        let name = match pair[1].kind {
            TokenKind::Name => pair[1].span.slice(text).to_owned(),
            TokenKind::QuotedName => quoted_name_value(pair[1].span.slice(text)),
            _ => continue,
        };
        if introduces && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_their_class() {
        let text = "MATCH (n:Match {x: 1}) // c\nRETURN n.limit, 'a', $p";
        let pieces: Vec<(Class, &str)> = classify(text)
            .into_iter()
            .map(|(class, span)| (class, span.slice(text)))
            .filter(|(class, _)| *class != Class::Symbol)
            .collect();
        assert_eq!(
            pieces,
            [
                (Class::Keyword, "MATCH"),
                (Class::Name, "n"),
                (Class::Label, "Match"),
                (Class::Name, "x"),
                (Class::Number, "1"),
                (Class::Comment, "// c"),
                (Class::Keyword, "RETURN"),
                (Class::Name, "n"),
                (Class::Name, "limit"),
                (Class::String, "'a'"),
                (Class::Parameter, "$p"),
            ]
        );
    }

    #[test]
    fn texts_are_finished_or_not() {
        assert_eq!(completeness(" // x"), Completeness::Empty);
        assert_eq!(completeness("RETURN 1;"), Completeness::Complete);
        assert_eq!(completeness("RETURN 1; // done"), Completeness::Complete);
        assert_eq!(completeness("RETURN 1"), Completeness::Unterminated);
        assert_eq!(
            completeness("RETURN ';"),
            Completeness::Open(Span::new(7, 9))
        );
        for open in [
            "RETURN (1",
            "RETURN \"a;",
            "RETURN 1 /* ;",
            "MATCH (`n;",
            "RETURN [1, {a: 2}",
        ] {
            assert!(
                matches!(completeness(open), Completeness::Open(_)),
                "{open}"
            );
        }
        let script = "RETURN 1; ;\nRETURN ';' // ;\n; RETURN 2";
        let parts: Vec<&str> = statements(script)
            .into_iter()
            .map(|span| span.slice(script))
            .collect();
        assert_eq!(parts, ["RETURN 1", "RETURN ';'", "RETURN 2"]);
    }

    #[test]
    fn the_cursor_knows_what_could_come() {
        for (text, prefix, place) in [
            ("MAT", "MAT", CompletionKind::Word),
            ("MATCH (n:Per", "Per", CompletionKind::Label),
            ("MATCH (n:", "", CompletionKind::Label),
            ("MATCH (n:A|", "", CompletionKind::Label),
            ("MATCH (n:A&B", "B", CompletionKind::Label),
            ("MATCH (n)-[r:KN", "KN", CompletionKind::RelationshipType),
            ("MATCH (n)-[:A|", "", CompletionKind::RelationshipType),
            ("MATCH (n {name: x", "x", CompletionKind::Word),
            ("MATCH (n) WHERE n.na", "na", CompletionKind::Property),
            ("MATCH (n) WHERE n:", "", CompletionKind::Label),
            ("MATCH (n) RETURN n.", "", CompletionKind::Property),
            ("RETURN $na", "na", CompletionKind::Parameter),
            ("RETURN $", "", CompletionKind::Parameter),
            ("CALL ", "", CompletionKind::Procedure(String::new())),
            ("CALL kv.sc", "sc", CompletionKind::Procedure("kv.".into())),
            ("RETURN 'abc", "", CompletionKind::Nothing),
            ("RETURN 12", "", CompletionKind::Nothing),
            ("RETURN 1 // com", "", CompletionKind::Nothing),
            ("RETURN ", "", CompletionKind::Word),
            ("", "", CompletionKind::Word),
        ] {
            let cursor = cursor(text, text.len());
            assert_eq!(
                (cursor.prefix.as_str(), cursor.place),
                (prefix, place),
                "{text}"
            );
        }
        assert_eq!(
            variables("MATCH p = (a:X)-[r]->(`b c`) WITH a, r.x AS x"),
            ["p", "a", "r", "b c", "x"]
        );
    }
}
