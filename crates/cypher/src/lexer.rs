//! The lexer: text to tokens.

use crate::Span;
use crate::token::{InvalidToken, Keyword, Symbol, Token, TokenKind};

/// All tokens of a text; the last one is [`TokenKind::End`].
///
/// Never fails: invalid text becomes [`TokenKind::Invalid`], and the parser reports it if it gets there.
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::with_capacity(text.len() / 4 + 2);
    loop {
        let token = lexer.next_token();
        tokens.push(token);
        if token.kind == TokenKind::End {
            return tokens;
        }
    }
}

/// Reads one token after another.
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Spans of the comments skipped, for highlighting.
    comments: Vec<Span>,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            comments: Vec::new(),
        }
    }

    /// Spans of the comments skipped so far.
    pub(crate) fn comments(&self) -> &[Span] {
        &self.comments
    }

    /// The next token; [`TokenKind::End`] repeatedly at the end of the text.
    pub(crate) fn next_token(&mut self) -> Token {
        if let Err(comment_start) = self.skip_blanks() {
            self.at = self.text.len();
            return Token {
                kind: TokenKind::Invalid(InvalidToken::UnclosedComment),
                span: Span::new(comment_start, self.at),
            };
        }
        let start = self.at;
        let kind = match self.peek() {
            None => TokenKind::End,
            Some('\'' | '"') => self.string(),
            Some('`') => self.quoted_name(),
            Some('$') => self.parameter(),
            Some('0'..='9') => self.number(),
            Some('.') if self.byte(1).is_ascii_digit() => self.number(),
            Some(first) if is_name_start(first) => self.word(),
            Some(first) => self.symbol(first),
        };
        Token {
            kind,
            span: Span::new(start, self.at),
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// The byte `distance` positions ahead; 0 past the end.
    fn byte(&self, distance: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + distance)
            .copied()
            .unwrap_or(0)
    }

    fn skip_while(&mut self, accepts: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !accepts(c)).unwrap_or(rest.len());
    }

    /// Skips white space and comments. The error is the start offset of an unterminated comment.
    fn skip_blanks(&mut self) -> Result<(), usize> {
        loop {
            self.skip_while(is_blank);
            let start = self.at;
            match (self.byte(0), self.byte(1)) {
                (b'/', b'/') => self.skip_while(|c| !is_line_end(c)),
                (b'/', b'*') => match self.text[start + 2..].find("*/") {
                    Some(length) => self.at = start + 2 + length + 2,
                    None => return Err(start),
                },
                _ => return Ok(()),
            }
            self.comments.push(Span::new(start, self.at));
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(is_name_part);
        match Keyword::of(&self.text[start..self.at]) {
            Some(keyword) => TokenKind::Keyword(keyword),
            None => TokenKind::Name,
        }
    }

    fn quoted_name(&mut self) -> TokenKind {
        self.at += 1;
        loop {
            match self.text[self.at..].find('`') {
                None => {
                    self.at = self.text.len();
                    return TokenKind::Invalid(InvalidToken::UnclosedName);
                }
                Some(length) => self.at += length + 1,
            }
            if self.byte(0) != b'`' {
                return TokenKind::QuotedName;
            }
            self.at += 1;
        }
    }

    fn parameter(&mut self) -> TokenKind {
        self.at += 1;
        match self.peek() {
            Some('`') => match self.quoted_name() {
                TokenKind::QuotedName => TokenKind::Parameter,
                invalid => invalid,
            },
            Some(first) if is_name_part(first) => {
                self.skip_while(is_name_part);
                TokenKind::Parameter
            }
            // `$(expression)`: a computed name.
            Some('(') => TokenKind::Symbol(Symbol::Dollar),
            _ => TokenKind::Invalid(InvalidToken::Parameter),
        }
    }

    fn string(&mut self) -> TokenKind {
        let start = self.at;
        let quote = self.byte(0);
        self.at += 1;
        let mut fault = None;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(length) = rest.iter().position(|&byte| byte == quote || byte == b'\\') else {
                self.at = self.text.len();
                return TokenKind::Invalid(InvalidToken::UnclosedString);
            };
            self.at += length;
            if self.byte(0) == quote {
                self.at += 1;
                break;
            }
            match unescape(&self.text[self.at..]) {
                Ok((_, length)) => self.at += length,
                Err(invalid) => {
                    fault.get_or_insert(invalid);
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
            }
        }
        debug_assert!(self.at > start);
        fault.map_or(TokenKind::String, TokenKind::Invalid)
    }

    fn number(&mut self) -> TokenKind {
        let radix = match (self.byte(0), self.byte(1)) {
            (b'0', b'x' | b'X') => 16,
            (b'0', b'o' | b'O') => 8,
            _ => return self.decimal(),
        };
        self.at += 2;
        let digits = self.at;
        self.skip_while(is_name_part);
        let digits = &self.text[digits..self.at];
        let is_digit = |c: char| c.is_digit(radix);
        let is_number = digits.ends_with(is_digit)
            && digits.split('_').all(|part| part.starts_with(is_digit))
            && digits.chars().all(|c| c == '_' || is_digit(c));
        if is_number {
            TokenKind::Integer
        } else {
            TokenKind::Invalid(InvalidToken::Number)
        }
    }

    /// Skips digits and single underscores between them: `1_000`.
    fn skip_digits(&mut self) {
        self.skip_while(|c| c.is_ascii_digit());
        while self.byte(0) == b'_' && self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit());
        }
    }

    fn decimal(&mut self) -> TokenKind {
        let mut kind = TokenKind::Integer;
        self.skip_digits();
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            kind = TokenKind::Float;
            self.at += 1;
            self.skip_digits();
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
            }
        }
        if self.peek().is_some_and(is_name_part) {
            self.skip_while(is_name_part);
            kind = TokenKind::Invalid(InvalidToken::Number);
        }
        kind
    }

    fn symbol(&mut self, first: char) -> TokenKind {
        use Symbol::*;
        let (symbol, length) = match (first, self.byte(1)) {
            ('(', _) => (LeftParen, 1),
            (')', _) => (RightParen, 1),
            ('[', _) => (LeftBracket, 1),
            (']', _) => (RightBracket, 1),
            ('{', _) => (LeftBrace, 1),
            ('}', _) => (RightBrace, 1),
            (',', _) => (Comma, 1),
            (';', _) => (Semicolon, 1),
            (':', b':') => (DoubleColon, 2),
            (':', _) => (Colon, 1),
            ('.', b'.') => (DotDot, 2),
            ('.', _) => (Dot, 1),
            ('|', b'|') => (DoubleBar, 2),
            ('|', _) => (Bar, 1),
            ('&', _) => (Ampersand, 1),
            ('!', _) => (Bang, 1),
            ('+', b'=') => (PlusEqual, 2),
            ('+', _) => (Plus, 1),
            ('-', _) => (Minus, 1),
            ('*', _) => (Star, 1),
            ('/', _) => (Slash, 1),
            ('%', _) => (Percent, 1),
            ('^', _) => (Caret, 1),
            ('=', b'~') => (RegexMatch, 2),
            ('=', _) => (Equal, 1),
            ('<', b'>') => (NotEqual, 2),
            ('<', b'=') => (LessOrEqual, 2),
            ('<', _) => (Less, 1),
            ('>', b'=') => (GreaterOrEqual, 2),
            ('>', _) => (Greater, 1),
            (other, _) if is_dash(other) => (OtherDash, other.len_utf8()),
            ('⟨' | '〈' | '﹤' | '＜', _) => (OtherLess, first.len_utf8()),
            ('⟩' | '〉' | '﹥' | '＞', _) => (OtherGreater, first.len_utf8()),
            (other, _) => {
                self.at += other.len_utf8();
                let reason = if other.is_ascii() {
                    InvalidToken::Character
                } else {
                    InvalidToken::UnicodeCharacter
                };
                return TokenKind::Invalid(reason);
            }
        };
        self.at += length;
        TokenKind::Symbol(symbol)
    }
}

/// Whether a line, and a comment that ends with its line, ends here: at LF, CRLF, or CR alone.
pub(crate) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

/// White space as openCypher defines it: Unicode's, and the information separators of ASCII.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c) || c == '\u{feff}'
}

/// Whether an unquoted name may start with this character.
pub(crate) fn is_name_start(c: char) -> bool {
    c == '_'
        || c.is_ascii_alphabetic()
        || (!c.is_ascii()
            && (c.is_alphabetic() || matches!(c, '\u{203f}' | '\u{2040}' | '\u{2054}')))
}

/// Whether an unquoted name may continue with this character.
pub(crate) fn is_name_part(c: char) -> bool {
    is_name_start(c)
        || c.is_ascii_digit()
        || (!c.is_ascii() && (c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)))
}

fn is_dash(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
    )
}

/// The character that an escape sequence denotes and its length in bytes; `text` starts with the backslash. A
/// pair of `\u` surrogates is one character.
fn unescape(text: &str) -> Result<(char, usize), InvalidToken> {
    let escaped = text[1..].chars().next().ok_or(InvalidToken::Escape)?;
    let plain = |c| Ok((c, 2));
    match escaped {
        '\\' | '\'' | '"' | '`' => plain(escaped),
        'b' => plain('\u{8}'),
        'f' => plain('\u{c}'),
        'n' => plain('\n'),
        'r' => plain('\r'),
        't' => plain('\t'),
        'u' => {
            let first = hex(text, 2, 4)?;
            if !(0xd800..0xdc00).contains(&first) {
                return char::from_u32(first)
                    .map(|c| (c, 6))
                    .ok_or(InvalidToken::UnicodeEscape);
            }
            let is_pair = text.get(6..8) == Some("\\u");
            let second = if is_pair { hex(text, 8, 4)? } else { 0 };
            if !(0xdc00..0xe000).contains(&second) {
                return Err(InvalidToken::UnicodeEscape);
            }
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            char::from_u32(code)
                .map(|c| (c, 12))
                .ok_or(InvalidToken::UnicodeEscape)
        }
        'U' => char::from_u32(hex(text, 2, 8)?)
            .map(|c| (c, 10))
            .ok_or(InvalidToken::UnicodeEscape),
        _ => Err(InvalidToken::Escape),
    }
}

fn hex(text: &str, from: usize, digits: usize) -> Result<u32, InvalidToken> {
    let digits = text
        .get(from..from + digits)
        .ok_or(InvalidToken::UnicodeEscape)?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).map_err(|_| InvalidToken::UnicodeEscape)
    } else {
        Err(InvalidToken::UnicodeEscape)
    }
}

/// The value of a [`TokenKind::String`]: without quotes, escapes replaced.
pub(crate) fn string_value(token_text: &str) -> String {
    let mut rest = token_text
        .get(1..token_text.len().saturating_sub(1))
        .unwrap_or("");
    let mut value = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        let Ok((character, length)) = unescape(rest) else {
            break;
        };
        value.push(character);
        rest = &rest[length..];
    }
    value.push_str(rest);
    value
}

/// The name in a [`TokenKind::QuotedName`].
pub(crate) fn quoted_name_value(token_text: &str) -> String {
    token_text
        .get(1..token_text.len().saturating_sub(1))
        .unwrap_or("")
        .replace("``", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokenize(text).iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_end_where_ranges_begin() {
        use TokenKind::*;
        assert_eq!(
            kinds("1..2"),
            [Integer, Symbol(crate::token::Symbol::DotDot), Integer, End]
        );
        assert_eq!(
            kinds("1.5 .5 1e9 1E-9 0xfF 0o17"),
            [Float, Float, Float, Float, Integer, Integer, End]
        );
        assert_eq!(
            kinds("1_000 1_0.2_5 0xff_ff"),
            [Integer, Float, Integer, End]
        );
        for bad in [
            "0x", "0xg", "0o8", "12ab", "1.5x", "1e", "1_", "1__0", "0x_f", "0xf_",
        ] {
            assert_eq!(kinds(bad), [Invalid(InvalidToken::Number), End], "{bad}");
        }
    }

    #[test]
    fn strings_keep_their_characters() {
        for (text, value) in [
            (r#"'a\'b'"#, "a'b"),
            (r#""a'b""#, "a'b"),
            (r"'\n\t\\'", "\n\t\\"),
            (r"'\u01FF\U0001F9D0'", "\u{1ff}🧐"),
            (r"'\uD83E\uDDD0'", "🧐"),
            ("'🧐❖'", "🧐❖"),
        ] {
            assert_eq!(kinds(text)[0], TokenKind::String, "{text}");
            assert_eq!(string_value(text), value);
        }
        assert_eq!(
            kinds(r"'\uH'")[0],
            TokenKind::Invalid(InvalidToken::UnicodeEscape)
        );
        assert_eq!(
            kinds(r"'\uD83E'")[0],
            TokenKind::Invalid(InvalidToken::UnicodeEscape)
        );
        assert_eq!(kinds(r"'\q'")[0], TokenKind::Invalid(InvalidToken::Escape));
        assert_eq!(
            kinds("'abc")[0],
            TokenKind::Invalid(InvalidToken::UnclosedString)
        );
        assert_eq!(
            kinds("'abc\\")[0],
            TokenKind::Invalid(InvalidToken::UnclosedString)
        );
    }

    #[test]
    fn names_and_comments() {
        use TokenKind::*;
        assert_eq!(
            kinds("// x\nmatch /* y */ `a``b` größe $1 $`a b`"),
            [
                Keyword(super::Keyword::Match),
                QuotedName,
                Name,
                Parameter,
                Parameter,
                End
            ]
        );
        assert_eq!(quoted_name_value("`a``b`"), "a`b");
        assert_eq!(kinds("/* x"), [Invalid(InvalidToken::UnclosedComment), End]);
        assert_eq!(kinds("`x"), [Invalid(InvalidToken::UnclosedName), End]);
        assert_eq!(kinds("$ "), [Invalid(InvalidToken::Parameter), End]);
    }
}
