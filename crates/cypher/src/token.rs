//! Tokens.

use crate::Span;

/// One token and its span. White space and comments are not tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of token.
    pub kind: TokenKind,
    /// Source span.
    pub span: Span,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name that is not a keyword.
    Name,
    /// A name in backquotes.
    QuotedName,
    /// A keyword. Nearly all keywords may also be names, depending on the position.
    Keyword(Keyword),
    /// `12`, `0xff`, `0o17`
    Integer,
    /// `1.5`, `.5`, `1e9`
    Float,
    /// `'a'`, `"a"`
    String,
    /// `$name`, `$0`, `` $`a b` ``
    Parameter,
    /// Punctuation or an operator.
    Symbol(Symbol),
    /// Invalid text, with the reason.
    Invalid(InvalidToken),
    /// The end of the text.
    End,
}

/// Why text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidToken {
    /// An unterminated string.
    UnclosedString,
    /// An unterminated quoted name.
    UnclosedName,
    /// An unterminated comment.
    UnclosedComment,
    /// A number with an invalid suffix, such as `0x` or `12ab`.
    Number,
    /// `\u` or `\U` not followed by the digits of a character.
    UnicodeEscape,
    /// An unknown escape sequence.
    Escape,
    /// `$` without a name.
    Parameter,
    /// A non-ASCII character that starts no token.
    UnicodeCharacter,
    /// Any other character that starts no token.
    Character,
}

macro_rules! symbols {
    ($($(#[$doc:meta])* $name:ident $text:literal),* $(,)?) => {
        /// Punctuation and operators.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Symbol {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Symbol {
            /// The symbol's spelling.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

symbols! {
    LeftParen "(", RightParen ")", LeftBracket "[", RightBracket "]", LeftBrace "{", RightBrace "}",
    Comma ",", Semicolon ";", Colon ":", DoubleColon "::", Dot ".", DotDot "..",
    Bar "|", DoubleBar "||", Ampersand "&", Bang "!", Plus "+", PlusEqual "+=", Minus "-", Star "*", Slash "/", Percent "%", Caret "^", Dollar "$",
    Equal "=", RegexMatch "=~", NotEqual "<>", Less "<", LessOrEqual "<=", Greater ">", GreaterOrEqual ">=",
    // Unicode look-alikes, which patterns may use for `-`, `<` and `>`.
    OtherDash "—", OtherLess "⟨", OtherGreater "⟩",
}

macro_rules! keywords {
    ($($name:ident $text:literal),* $(,)?) => {
        /// Keywords.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Keyword {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Keyword {
            /// All keywords.
            pub const ALL: &[Keyword] = &[$(Self::$name),*];

            /// The keyword in capitals.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            fn from_capitals(word: &[u8]) -> Option<Self> {
                $(const $name: &[u8] = $text.as_bytes();)*
                #[allow(non_upper_case_globals)]
                match word {
                    $($name => Option::Some(Self::$name),)*
                    // The keyword NONE has a constant too.
                    _ => Option::None,
                }
            }
        }
    };
}

// The constants that `from_capitals` matches on have the variants' names.
#[allow(non_upper_case_globals)]
mod keyword {
    keywords! {
        All "ALL", AllShortestPaths "ALLSHORTESTPATHS", And "AND", Any "ANY", As "AS", Asc "ASC", Ascending "ASCENDING",
        Buckets "BUCKETS", By "BY",
        Call "CALL", Case "CASE", Collect "COLLECT", Constraint "CONSTRAINT", Constraints "CONSTRAINTS", Contains "CONTAINS",
        Count "COUNT", Create "CREATE", Csv "CSV",
        Delete "DELETE", Desc "DESC", Descending "DESCENDING", Detach "DETACH", Distinct "DISTINCT", Drop "DROP",
        Else "ELSE", End "END", Ends "ENDS", Exists "EXISTS", Explain "EXPLAIN",
        False "FALSE", FieldTerminator "FIELDTERMINATOR", For "FOR", Foreach "FOREACH", From "FROM", Functions "FUNCTIONS",
        Groups "GROUPS",
        Headers "HEADERS",
        If "IF", In "IN", Index "INDEX", Indexes "INDEXES", Is "IS",
        Key "KEY", Kill "KILL",
        Labels "LABELS", Limit "LIMIT", Load "LOAD",
        Match "MATCH", Merge "MERGE",
        Node "NODE", None "NONE", Not "NOT", Null "NULL",
        Offset "OFFSET", On "ON", Optional "OPTIONAL", Or "OR", Order "ORDER",
        Procedures "PROCEDURES", Profile "PROFILE",
        Queries "QUERIES", Query "QUERY",
        Reduce "REDUCE", Relationship "RELATIONSHIP", Remove "REMOVE", Require "REQUIRE", Return "RETURN",
        Set "SET", Shortest "SHORTEST", ShortestPath "SHORTESTPATH", Show "SHOW", Single "SINGLE", Skip "SKIP", Starts "STARTS",
        Then "THEN", True "TRUE", Types "TYPES",
        Union "UNION", Unique "UNIQUE", Unwind "UNWIND",
        When "WHEN", Where "WHERE", With "WITH",
        Xor "XOR",
        Yield "YIELD",
    }

    impl Keyword {
        /// The keyword that a word spells, in any case.
        pub fn of(word: &str) -> Option<Self> {
            let mut capitals = [0_u8; 16];
            let capitals = capitals.get_mut(..word.len())?;
            capitals.copy_from_slice(word.as_bytes());
            capitals.make_ascii_uppercase();
            Self::from_capitals(capitals)
        }

        /// Whether the keyword may name a variable without backquotes in a position where only a variable can stand.
        pub fn may_be_name(self) -> bool {
            use Keyword::*;
            !matches!(
                self,
                And | Case | Else | False | In | Is | Not | Null | Or | Then | True | When | Xor
            )
        }

        /// Whether the keyword is not taken for a variable where something else can stand as well. It may name
        /// properties, labels and types.
        pub fn is_reserved(self) -> bool {
            use Keyword::*;
            matches!(
                self,
                And | As
                    | Case
                    | Contains
                    | Create
                    | Delete
                    | Detach
                    | Distinct
                    | Else
                    | Ends
                    | False
                    | In
                    | Is
                    | Limit
                    | Match
                    | Merge
                    | Not
                    | Null
                    | On
                    | Optional
                    | Or
                    | Order
                    | Remove
                    | Return
                    | Set
                    | Skip
                    | Starts
                    | Then
                    | True
                    | Union
                    | Unwind
                    | When
                    | Where
                    | With
                    | Xor
            )
        }
    }
}

pub use keyword::Keyword;
