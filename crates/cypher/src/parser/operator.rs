//! The operators between two operands, by precedence.

use super::cursor::Parser;
use crate::ast::BinaryOp;
use crate::token::{Keyword, Symbol, TokenKind};

/// Operator precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Or,
    Xor,
    And,
    Comparison,
    Predicate,
    Sum,
    Product,
    Power,
    Operand,
}

/// The operator at the current token, between two operands.
#[derive(Clone, Copy)]
pub(super) enum Infix {
    Or,
    Xor,
    And,
    Comparison,
    Is,
    /// An operator of two operands, and how many tokens it has.
    Binary(BinaryOp, usize),
}

impl Infix {
    pub(super) fn level(self) -> Level {
        match self {
            Self::Or => Level::Or,
            Self::Xor => Level::Xor,
            Self::And => Level::And,
            Self::Comparison => Level::Comparison,
            Self::Is => Level::Predicate,
            Self::Binary(op, _) => match op {
                BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Concat => Level::Sum,
                BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => Level::Product,
                BinaryOp::Power => Level::Power,
                _ => Level::Predicate,
            },
        }
    }
}

impl Level {
    /// The minimum precedence of the right operand of a left-associative operator.
    pub(super) fn tighter(self) -> Self {
        match self {
            Self::Or => Self::Xor,
            Self::Xor => Self::And,
            Self::And => Self::Comparison,
            Self::Comparison => Self::Predicate,
            Self::Predicate => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product => Self::Power,
            Self::Power | Self::Operand => Self::Operand,
        }
    }
}

/// The infix operator at the current token.
pub(super) fn infix(p: &Parser<'_>) -> Option<Infix> {
    let infix = match p.peek() {
        TokenKind::Keyword(keyword) => match keyword {
            Keyword::Or => Infix::Or,
            Keyword::Xor => Infix::Xor,
            Keyword::And => Infix::And,
            Keyword::Is => Infix::Is,
            Keyword::In => Infix::Binary(BinaryOp::In, 1),
            Keyword::Contains => Infix::Binary(BinaryOp::Contains, 1),
            Keyword::Starts if p.is_keyword_at(1, Keyword::With) => {
                Infix::Binary(BinaryOp::StartsWith, 2)
            }
            Keyword::Ends if p.is_keyword_at(1, Keyword::With) => {
                Infix::Binary(BinaryOp::EndsWith, 2)
            }
            _ => return None,
        },
        TokenKind::Symbol(symbol) => match symbol {
            Symbol::RegexMatch => Infix::Binary(BinaryOp::RegexMatch, 1),
            Symbol::Plus => Infix::Binary(BinaryOp::Add, 1),
            Symbol::Minus => Infix::Binary(BinaryOp::Subtract, 1),
            Symbol::DoubleBar => Infix::Binary(BinaryOp::Concat, 1),
            Symbol::Star => Infix::Binary(BinaryOp::Multiply, 1),
            Symbol::Slash => Infix::Binary(BinaryOp::Divide, 1),
            Symbol::Percent => Infix::Binary(BinaryOp::Modulo, 1),
            Symbol::Caret => Infix::Binary(BinaryOp::Power, 1),
            _ => return comparison_operator(p).map(|_| Infix::Comparison),
        },
        _ => return None,
    };
    Some(infix)
}

pub(super) fn comparison_operator(p: &Parser<'_>) -> Option<BinaryOp> {
    match p.peek() {
        TokenKind::Symbol(Symbol::Equal) => Some(BinaryOp::Equal),
        TokenKind::Symbol(Symbol::NotEqual) => Some(BinaryOp::NotEqual),
        TokenKind::Symbol(Symbol::Less) => Some(BinaryOp::Less),
        TokenKind::Symbol(Symbol::LessOrEqual) => Some(BinaryOp::LessOrEqual),
        TokenKind::Symbol(Symbol::Greater) => Some(BinaryOp::Greater),
        TokenKind::Symbol(Symbol::GreaterOrEqual) => Some(BinaryOp::GreaterOrEqual),
        _ => None,
    }
}
