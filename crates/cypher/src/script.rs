//! Scripts: statements and commands taken apart as their text comes, with their places.
//!
//! A statement ends at a `;` outside of strings, quoted names and comments, and nowhere else: an empty line ends
//! nothing. Text that holds only blanks and comments is no statement. A line ends with LF, CRLF or CR alone. Where a
//! statement would begin, a colon begins a command (`:begin`), which ends with its line. `:auto ` before a statement,
//! as other shells want it for some, is passed over.

use crate::lexer::{is_blank, is_line_end};

/// A word before a statement that changes nothing here: every statement is an implicit transaction.
const AUTO: &str = ":auto";

/// A statement without its semicolon, or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text from its first token on, without blanks at its end. A command begins with its colon.
    pub text: String,
    /// Line of its first character in the script, from 1.
    pub line: usize,
    /// Column of its first character, from 1, in characters.
    pub column: usize,
}

impl Piece {
    /// Whether it is a command and no statement.
    pub fn is_command(&self) -> bool {
        self.text.starts_with(':')
    }

    /// A text in which the piece stands at the line and column that it has in the script, for messages with a place,
    /// and the number of bytes before it.
    pub fn at_its_place(&self) -> (String, usize) {
        let mut text = "\n".repeat(self.line - 1);
        text.push_str(&" ".repeat(self.column - 1));
        let before = text.len();
        text.push_str(&self.text);
        (text, before)
    }
}

/// What the scanner is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Code,
    /// A `/` that may begin a comment.
    Slash,
    /// A string or quoted name up to this character.
    Quoted(char),
    /// Behind a backslash in a string.
    Escaped(char),
    LineComment,
    BlockComment,
    /// A `*` that may end the comment.
    Star,
    /// A command, up to the end of its line.
    Command,
}

/// Takes a script apart piece by piece. Each character is looked at once, and only the current statement is kept.
///
/// ```
/// use isomer_cypher::script::Splitter;
///
/// let mut splitter = Splitter::new();
/// let mut pieces = splitter.push("CREATE (a) // one;\n\nCREATE (b);\n:commit\n");
/// pieces.extend(splitter.push("RETURN ';'"));
/// pieces.extend(splitter.finish());
/// let texts: Vec<&str> = pieces.iter().map(|piece| &*piece.text).collect();
/// assert_eq!(texts, ["CREATE (a) // one;\n\nCREATE (b)", ":commit", "RETURN ';'"]);
/// ```
#[derive(Debug)]
pub struct Splitter {
    state: State,
    /// The current piece; its text is empty up to its first token, and its place is that of an open comment before
    /// that.
    piece: Piece,
    /// Place of the next character.
    line: usize,
    column: usize,
    /// The last character was a carriage return: a line feed after it begins no further line.
    after_return: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    /// At the start of a script.
    pub fn new() -> Self {
        Self {
            state: State::Code,
            piece: Piece {
                text: String::new(),
                line: 1,
                column: 1,
            },
            line: 1,
            column: 1,
            after_return: false,
        }
    }

    /// Whether nothing has begun: the text so far ends behind a statement or command, blanks and finished comments
    /// aside.
    pub fn is_between(&self) -> bool {
        self.piece.text.is_empty()
            && matches!(
                self.state,
                State::Code | State::LineComment | State::Command
            )
    }

    /// Continues with more of the script. Returns the pieces that are complete.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for character in text.chars() {
            pieces.extend(self.read_character(character));
            match character {
                '\n' if self.after_return => {}
                '\n' | '\r' => (self.line, self.column) = (self.line + 1, 1),
                // The byte order mark at the start of a file is in no column.
                '\u{feff}' if (self.line, self.column) == (1, 1) => {}
                _ => self.column += 1,
            }
            self.after_return = character == '\r';
        }
        pieces
    }

    /// The end of the script: the last piece, where its `;` or line end is missing. A comment that is not closed is a
    /// piece, so that the parser refuses it.
    pub fn finish(mut self) -> Option<Piece> {
        if self.piece.text.is_empty() {
            self.piece.text.push_str(match self.state {
                State::Slash => "/",
                State::BlockComment | State::Star => "/*",
                _ => return None,
            });
        }
        Some(self.take())
    }

    /// One character; its place is `line` and `column`.
    fn read_character(&mut self, character: char) -> Option<Piece> {
        let begun = !self.piece.text.is_empty();
        match (self.state, character) {
            (State::Code, ';') => return begun.then(|| self.take()),
            (State::Code, '/') => {
                if !begun {
                    (self.piece.line, self.piece.column) = (self.line, self.column);
                }
                self.state = State::Slash;
            }
            (State::Slash, '/') => self.state = State::LineComment,
            (State::Slash, '*') => self.state = State::BlockComment,
            (State::Slash, _) => {
                // A slash that begins no comment begins the piece, if nothing did.
                if !begun {
                    self.piece.text.push('/');
                }
                self.state = State::Code;
                return self.read_character(character);
            }
            (State::Code, '\'' | '"' | '`') => self.state = State::Quoted(character),
            (State::Quoted(quote), '\\') if quote != '`' => self.state = State::Escaped(quote),
            (State::Quoted(quote), _) if character == quote => self.state = State::Code,
            (State::Escaped(quote), _) => self.state = State::Quoted(quote),
            (State::LineComment, _) if is_line_end(character) => self.state = State::Code,
            (State::BlockComment | State::Star, '*') => self.state = State::Star,
            (State::Star, '/') => self.state = State::Code,
            (State::Star, _) => self.state = State::BlockComment,
            (State::Code, ':') if !begun => self.state = State::Command,
            (State::Command, _) if self.piece.text == AUTO && is_blank(character) => {
                self.state = State::Code;
                self.piece.text.clear();
                return None;
            }
            (State::Command, _) if is_line_end(character) => {
                self.state = State::Code;
                return Some(self.take());
            }
            _ => {}
        }
        self.keep(character);
        None
    }

    /// Adds a character to the piece, or begins it; blanks and comments before its first token are left out.
    fn keep(&mut self, character: char) {
        if self.piece.text.is_empty() {
            let token = matches!(self.state, State::Code | State::Quoted(_) | State::Command);
            // The `/` that ends a comment belongs to the comment, though the state is `Code` again.
            if !token || is_blank(character) || character == '/' {
                return;
            }
            (self.piece.line, self.piece.column) = (self.line, self.column);
        }
        self.piece.text.push(character);
    }

    fn take(&mut self) -> Piece {
        let mut piece = Piece {
            text: std::mem::take(&mut self.piece.text),
            ..self.piece
        };
        piece
            .text
            .truncate(piece.text.trim_end_matches(is_blank).len());
        piece
    }
}

/// The pieces of a whole script.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut splitter = Splitter::new();
    let mut pieces = splitter.push(text);
    pieces.extend(splitter.finish());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{InvalidToken, TokenKind};
    use proptest::prelude::*;

    fn texts(script: &str) -> Vec<String> {
        pieces(script).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn a_statement_ends_at_a_semicolon_only() {
        assert_eq!(
            texts("CREATE (a)\n\n\nCREATE (b);\n\nRETURN 1"),
            ["CREATE (a)\n\n\nCREATE (b)", "RETURN 1"]
        );
        assert_eq!(
            texts("RETURN 'it\\'s;' // no; end\n;"),
            ["RETURN 'it\\'s;' // no; end"]
        );
        assert_eq!(
            texts("RETURN /* ; */ `a;``b`; x"),
            ["RETURN /* ; */ `a;``b`", "x"]
        );
        assert_eq!(
            texts("RETURN \"a\\\\\"; RETURN 6 / 2;"),
            ["RETURN \"a\\\\\"", "RETURN 6 / 2"]
        );
        assert_eq!(texts("\u{feff}RETURN 1;"), ["RETURN 1"]);
        // A comment ends with its line, whatever the lines end with.
        for end in ["\n", "\r\n", "\r"] {
            let script = [
                "RETURN 1; // one",
                "RETURN 2;",
                ":begin",
                "RETURN // three",
                "3;",
            ]
            .join(end);
            let three = format!("RETURN // three{end}3");
            assert_eq!(
                texts(&script),
                ["RETURN 1", "RETURN 2", ":begin", &three],
                "{end:?}"
            );
            let lines: Vec<usize> = pieces(&script).iter().map(|piece| piece.line).collect();
            assert_eq!(lines, [1, 2, 3, 4], "{end:?}");
        }
        for nothing in [
            "",
            " ;; ",
            "// only\n",
            "/* only ; */;",
            "// at the end",
            ";\r\n;",
        ] {
            assert!(texts(nothing).is_empty(), "{nothing:?}");
        }
        // What is not closed is kept for the parser to refuse.
        assert_eq!(texts("RETURN 1; /* open"), ["RETURN 1", "/*"]);
        assert_eq!(texts("RETURN 'open; "), ["RETURN 'open;"]);
        assert_eq!(texts("/"), ["/"]);
        assert_eq!(texts("/ 2;"), ["/ 2"]);
    }

    #[test]
    fn a_command_ends_with_its_line() {
        assert_eq!(
            texts("// first\n:begin\nCREATE (:A);\n  :commit \n:param x => ';'"),
            [":begin", "CREATE (:A)", ":commit", ":param x => ';'"]
        );
        assert_eq!(texts("MATCH (n)\n:begin\n;"), ["MATCH (n)\n:begin"]);
        assert_eq!(texts("RETURN 1; :commit\n"), ["RETURN 1", ":commit"]);
        assert_eq!(texts(":auto MATCH (n)\nRETURN n;"), ["MATCH (n)\nRETURN n"]);
    }

    #[test]
    fn pieces_know_their_places() {
        let found = pieces("/* a\n*/ RETURN 1;\n\n  // é\n  :begin\n\té");
        let places: Vec<_> = found.iter().map(|one| (one.line, one.column)).collect();
        assert_eq!(places, [(2, 4), (5, 3), (6, 2)]);
        let (text, before) = found[1].at_its_place();
        assert_eq!((&text[before..], before), (":begin", 6));
        assert_eq!(pieces("\n /* open")[0].column, 2);
        let mut splitter = Splitter::new();
        assert!(splitter.is_between());
        for (text, between) in [
            ("RETURN 1", false),
            (";\n", true),
            ("// x\n", true),
            ("/* x", false),
            ("*/", true),
        ] {
            splitter.push(text);
            assert_eq!(splitter.is_between(), between, "{text}");
        }
    }

    /// Statements without their semicolon: words, strings, names and comments that hold semicolons, quotes and colons.
    fn statement() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("RETURN".to_owned()),
            Just("(n:Person)".to_owned()),
            Just("6 / 2".to_owned()),
            Just("\n\n".to_owned()),
            Just("\r\n \t\n".to_owned()),
            Just(":begin".to_owned()),
            Just("/* ; '\" ` // */".to_owned()),
            Just("// ; ' \" ` /*\n".to_owned()),
            Just("// ; ' \" ` /*\r".to_owned()),
            Just("/**/".to_owned()),
            Just("/* **/".to_owned()),
            "'([a-z;:/*`\"\n]|\\\\'|\\\\\\\\|\\\\n|\\\\u00e9|é)*'",
            "\"([a-z;:/*`'\n]|\\\\\"|\\\\\\\\)*\"",
            "`([a-z;:/*'\" \\\\]|``)*`",
            "[a-z0-9.,(){}=<>+-]{1,8}",
        ];
        let rest = prop::collection::vec(part, 0..8);
        rest.prop_map(|parts| {
            format!("MATCH {}", parts.join(" "))
                .trim_end_matches(is_blank)
                .to_owned()
        })
    }

    /// What may stand between statements.
    fn gap() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("\n".to_owned()),
            Just("\n\n\n".to_owned()),
            Just("  ".to_owned()),
            Just(";".to_owned()),
            Just("// a; 'b\n".to_owned()),
            Just("// a; 'b\r".to_owned()),
            Just("// a; 'b\r\n".to_owned()),
            Just("/* a;\n\n'b */".to_owned()),
        ];
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// Statements that are joined come apart as they were, whole or in pieces of any size.
        #[test]
        fn joined_statements_come_apart(
            statements in prop::collection::vec((gap(), statement()), 0..8),
            last in gap(),
            size in 1usize..40,
        ) {
            // A line comment at the end of a statement would take the semicolon with it.
            let script: String = statements.iter().map(|(gap, text)| format!("{gap}{text}\n;")).collect::<String>() + &last;
            let wanted: Vec<&String> = statements.iter().map(|(_, text)| text).collect();
            let found = pieces(&script);
            prop_assert_eq!(found.iter().map(|one| &one.text).collect::<Vec<_>>(), wanted);
            let lines = script.replace("\r\n", "\n").replace('\r', "\n");
            let lines: Vec<&str> = lines.split('\n').collect();
            for piece in &found {
                let there: String = lines[piece.line - 1].chars().skip(piece.column - 1).take(5).collect();
                prop_assert_eq!(there, "MATCH");
            }
            let mut splitter = Splitter::new();
            let characters: Vec<char> = script.chars().collect();
            let mut in_parts = Vec::new();
            for part in characters.chunks(size) {
                in_parts.extend(splitter.push(&part.iter().collect::<String>()));
            }
            in_parts.extend(splitter.finish());
            prop_assert_eq!(in_parts, found);
        }

        /// Of any text the pieces begin where the lexer's tokens between semicolons do.
        #[test]
        fn semicolons_are_those_of_the_lexer(text in "([a-z;:/*'\"`\\\\ \n\r]|é){0,30}") {
            let tokens = crate::tokenize(&text);
            // A command is no text of the language, and a token that is not closed has no end to compare.
            let open = |kind| matches!(kind, TokenKind::Invalid(
                InvalidToken::UnclosedComment | InvalidToken::UnclosedString | InvalidToken::UnclosedName));
            let found = pieces(&text);
            if tokens.iter().any(|token| open(token.kind)) || found.iter().any(Piece::is_command) {
                return Ok(());
            }
            let spans = crate::editor::statements(&text);
            let starts: Vec<(usize, usize)> = spans.iter()
                .map(|span| crate::diagnostic::line_and_column(&text, span.start as usize)).collect();
            prop_assert_eq!(found.iter().map(|one| (one.line, one.column)).collect::<Vec<_>>(), starts);
        }
    }
}
