//! Splits Rust source into comments, string literals and code, without a parser.

/// The parts of one source file. Line numbers count from 1.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RustText {
    /// Comment text by line; a block comment has one entry per line.
    pub comments: Vec<(usize, String)>,
    /// Contents of string literals by the line on which they begin; escapes stay as written.
    pub strings: Vec<(usize, String)>,
    /// The source with comments and the contents of literals as spaces; line breaks stay.
    pub code: String,
}

impl RustText {
    /// Splits a source file in one pass. Text that is not valid Rust gives some split, never a panic.
    pub fn split(source: &str) -> Self {
        let mut scanner = Scanner {
            chars: source.chars().collect(),
            at: 0,
            line: 1,
            parts: Self::default(),
        };
        scanner.run();
        scanner.parts
    }
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    line: usize,
    parts: RustText,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' if !self.inside_word() && self.raw_hashes().is_some() => self.raw_string(),
                '\'' => self.quote(),
                _ => self.keep(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Copies the next character to the code.
    fn keep(&mut self) {
        if let Some(c) = self.advance() {
            self.parts.code.push(c);
        }
    }

    /// Consumes the next character and leaves a space in the code.
    fn blank(&mut self) -> Option<char> {
        let c = self.advance()?;
        self.parts.code.push(if c == '\n' { '\n' } else { ' ' });
        Some(c)
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Whether the next character continues an identifier: `for"` does not start a raw string, `br"` does.
    fn inside_word(&self) -> bool {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let before = |back: usize| self.at.checked_sub(back).map(|at| self.chars[at]);
        match before(1) {
            Some('b' | 'c') => before(2).is_some_and(word),
            other => other.is_some_and(word),
        }
    }

    /// The number of `#` between `r` and `"`, where a raw string starts here.
    fn raw_hashes(&self) -> Option<usize> {
        let after = self.chars.get(self.at + 1..)?;
        let hashes = after.iter().take_while(|c| **c == '#').count();
        (after.get(hashes) == Some(&'"')).then_some(hashes)
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while self.peek(0).is_some_and(|c| c != '\n') {
            text.extend(self.blank());
        }
        self.parts.comments.push((line, text));
    }

    fn block_comment(&mut self) {
        let (mut depth, mut text) = (0, String::new());
        loop {
            let line = self.line;
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (Some('\n'), _) => {
                    self.parts.comments.push((line, std::mem::take(&mut text)));
                    self.blank();
                    continue;
                }
                (Some(_), _) => {
                    text.extend(self.blank());
                    continue;
                }
                (None, _) => depth = 0,
            }
            text.extend(self.blank());
            text.extend(self.blank());
            if depth == 0 {
                self.parts.comments.push((line, text));
                return;
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        let mut text = String::new();
        self.keep();
        while let Some(c) = self.peek(0) {
            match c {
                '"' => break,
                '\\' => {
                    text.extend(self.blank());
                    text.extend(self.blank());
                }
                _ => text.extend(self.blank()),
            }
        }
        self.keep();
        self.parts.strings.push((line, text));
    }

    fn raw_string(&mut self) {
        let line = self.line;
        let hashes = self.raw_hashes().unwrap_or(0);
        for _ in 0..hashes + 2 {
            self.keep();
        }
        let mut text = String::new();
        while let Some(c) = self.peek(0) {
            let closes = c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                break;
            }
            text.extend(self.blank());
        }
        for _ in 0..=hashes {
            self.keep();
        }
        self.parts.strings.push((line, text));
    }

    /// A character literal or a lifetime: a lifetime has no quote after its first character.
    fn quote(&mut self) {
        let literal = match self.peek(1) {
            Some('\\') => true,
            _ => self.peek(2) == Some('\''),
        };
        self.keep();
        if !literal {
            return;
        }
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.blank();
        }
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(source: &str) -> Vec<(usize, String)> {
        RustText::split(source).comments
    }

    fn strings(source: &str) -> Vec<String> {
        let strings = RustText::split(source).strings;
        strings.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn comments_are_found_after_code_and_in_blocks() {
        let source = "//! a\nlet x = 1; // b\n/* c\n d /* e */ f */ let y = 2;\n";
        let expected = [
            (1, "//! a"),
            (2, "// b"),
            (3, "/* c"),
            (4, " d /* e */ f */"),
        ];
        assert_eq!(
            comments(source),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn comment_marks_in_literals_are_text() {
        let source = r####"f("http://a", r#"say "hi" // no"#, b"x\"//", '"', '\'', br"/*");"####;
        assert_eq!(comments(source), []);
        assert_eq!(
            strings(source),
            ["http://a", "say \"hi\" // no", "x\\\"//", "/*"]
        );
    }

    #[test]
    fn lifetimes_do_not_open_a_literal() {
        let source = "fn f<'a>(x: &'a str) -> char { 'x' } // c";
        assert_eq!(comments(source), [(1, "// c".to_owned())]);
        assert_eq!(
            RustText::split(source).code.trim_end(),
            "fn f<'a>(x: &'a str) -> char { ' ' }"
        );
    }

    #[test]
    fn a_word_that_ends_in_r_is_not_a_raw_string() {
        assert_eq!(strings("for\"a\\\"b\""), ["a\\\"b"]);
    }

    #[test]
    fn unfinished_text_ends() {
        for source in ["\"abc", "r#\"abc\"", "/* a", "'", "'\\", "b'"] {
            let code = RustText::split(source).code;
            assert_eq!(code.lines().count(), 1, "{source}");
        }
    }

    #[test]
    fn code_keeps_its_lines() {
        let source = "let a = \"x\ny\"; /* b\n*/ fn f() {}\n";
        let code = RustText::split(source).code;
        assert_eq!(code, "let a = \" \n \";     \n   fn f() {}\n");
    }
}
