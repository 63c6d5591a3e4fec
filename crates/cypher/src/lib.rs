//! openCypher as text and as a syntax tree: no I/O, no name resolution, no execution.
//!
//! [`ast`] covers all of openCypher 2024.3 and this product's extensions; every node has its source [`Span`].
//! Invariants: every input yields a tree or an error, never a panic, and no tree is deeper than a fixed
//! limit, so that passes over it may recurse.

pub mod ast;
pub mod diagnostic;
pub mod editor;
mod error;
mod lexer;
mod normalise;
mod parser;
mod print;
pub mod script;
mod span;
pub mod suggest;
pub mod token;

pub use error::{Detail, ParseError};
pub use lexer::tokenize;
pub use normalise::{Normalised, normalise, redact};
pub use parser::{ParseLimits, parse, parse_expression, parse_within};
pub use print::{quote_name, quote_string, quote_variable};
pub use span::{SourceText, Span};
