//! openCypher as text and as a tree: no I/O, no names resolved, nothing executed.
//!
//! [`ast`] is the whole of openCypher 2024.3 and this product's extensions; every node knows its [`Span`]
//! in the text. What this crate keeps true: any text is answered with a tree or an error, never with a
//! panic, and no tree is deeper than a fixed limit, so that passes over it may recurse.

pub mod ast;
pub mod diagnostic;
pub mod editor;
mod error;
mod lexer;
mod normalise;
mod parser;
mod print;
mod span;
pub mod suggest;
pub mod token;

pub use error::{Detail, ParseError};
pub use lexer::tokenize;
pub use normalise::{Normalised, normalise, redact};
pub use parser::{Limits, parse, parse_expression, parse_within};
pub use print::{quote_name, quote_string, quote_variable};
pub use span::{SourceText, Span};
