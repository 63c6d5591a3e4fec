//! Operators, by precedence climbing.
//!
//! From loosest to tightest: `OR`, `XOR`, `AND`, `NOT`, comparisons, `IN` and the string and type predicates,
//! `+ - ||`, `* / %`, `^`, signs, then postfix operators (`.key`, `[index]`, `:Label`). All binary operators
//! are left-associative, `^` too, as openCypher defines it.

use super::{Context, PResult, Parser};
use crate::Span;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp, ValueType};
use crate::token::{Keyword, Symbol, TokenKind};

/// Maximum number of operators of a sum or product that are nested rather than put into one chain node.
const LONGEST_NESTED: usize = 32;

/// Operator precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
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

/// An infix operator.
#[derive(Clone, Copy)]
enum Infix {
    Or,
    Xor,
    And,
    Comparison,
    Is,
    Binary(BinaryOp, usize),
}

impl Infix {
    fn level(self) -> Level {
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
    fn tighter(self) -> Self {
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

impl Parser<'_> {
    /// An expression in value position.
    pub(super) fn expression(&mut self) -> PResult<Expr> {
        self.above_in(Context {
            is_predicate: false,
            bar_ends: false,
            ..self.context
        })
    }

    /// An expression in value position that a `|` may follow.
    pub(super) fn expression_before_bar(&mut self) -> PResult<Expr> {
        self.above_in(Context {
            is_predicate: false,
            bar_ends: true,
            ..self.context
        })
    }

    /// A predicate, where a pattern tests for its existence.
    pub(super) fn predicate(&mut self) -> PResult<Expr> {
        self.above_in(Context {
            is_predicate: true,
            bar_ends: false,
            ..self.context
        })
    }

    /// A predicate that a `|` may follow.
    pub(super) fn predicate_before_bar(&mut self) -> PResult<Expr> {
        self.above_in(Context {
            is_predicate: true,
            bar_ends: true,
            ..self.context
        })
    }

    /// The content of parentheses: a predicate if the parentheses are in predicate position.
    pub(super) fn parenthesized(&mut self) -> PResult<Expr> {
        self.above_in(Context {
            bar_ends: false,
            ..self.context
        })
    }

    fn above_in(&mut self, context: Context) -> PResult<Expr> {
        let outer = std::mem::replace(&mut self.context, context);
        let result = self.above(Level::Or);
        self.context = outer;
        result
    }

    /// Operands joined by operators of at least this precedence (precedence climbing).
    fn above(&mut self, least: Level) -> PResult<Expr> {
        let outer = self.enter()?;
        let result = self.joined_above(least);
        self.leave(outer);
        result
    }

    fn joined_above(&mut self, least: Level) -> PResult<Expr> {
        let mut left = self.prefixed()?;
        while let Some(infix) = self.infix().filter(|infix| infix.level() >= least) {
            left = self.join(left, infix)?;
            self.grow()?;
        }
        Ok(left)
    }

    fn join(&mut self, left: Expr, infix: Infix) -> PResult<Expr> {
        match infix {
            Infix::Or => self.chain(left, Keyword::Or, Level::Or, ExprKind::Or),
            Infix::Xor => self.chain(left, Keyword::Xor, Level::Xor, ExprKind::Xor),
            Infix::And => self.chain(left, Keyword::And, Level::And, ExprKind::And),
            Infix::Comparison => self.comparison(left),
            Infix::Is => self.is_test(left),
            Infix::Binary(op, _) if matches!(infix.level(), Level::Sum | Level::Product) => {
                self.arithmetic(left, op, infix.level())
            }
            Infix::Binary(op, tokens) => self.binary(left, op, tokens, infix.level().tighter()),
        }
    }

    fn infix(&self) -> Option<Infix> {
        let infix = match self.peek() {
            TokenKind::Keyword(keyword) => match keyword {
                Keyword::Or => Infix::Or,
                Keyword::Xor => Infix::Xor,
                Keyword::And => Infix::And,
                Keyword::Is => Infix::Is,
                Keyword::In => Infix::Binary(BinaryOp::In, 1),
                Keyword::Contains => Infix::Binary(BinaryOp::Contains, 1),
                Keyword::Starts if self.is_keyword_at(1, Keyword::With) => {
                    Infix::Binary(BinaryOp::StartsWith, 2)
                }
                Keyword::Ends if self.is_keyword_at(1, Keyword::With) => {
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
                _ => return self.comparison_operator().map(|_| Infix::Comparison),
            },
            _ => return None,
        };
        Some(infix)
    }

    fn comparison_operator(&self) -> Option<BinaryOp> {
        match self.peek() {
            TokenKind::Symbol(Symbol::Equal) => Some(BinaryOp::Equal),
            TokenKind::Symbol(Symbol::NotEqual) => Some(BinaryOp::NotEqual),
            TokenKind::Symbol(Symbol::Less) => Some(BinaryOp::Less),
            TokenKind::Symbol(Symbol::LessOrEqual) => Some(BinaryOp::LessOrEqual),
            TokenKind::Symbol(Symbol::Greater) => Some(BinaryOp::Greater),
            TokenKind::Symbol(Symbol::GreaterOrEqual) => Some(BinaryOp::GreaterOrEqual),
            _ => None,
        }
    }

    fn chain(
        &mut self,
        left: Expr,
        keyword: Keyword,
        level: Level,
        join: fn(Vec<Expr>) -> ExprKind,
    ) -> PResult<Expr> {
        let start = left.span;
        let mut operands = vec![left];
        while self.eat_keyword(keyword) {
            operands.push(self.above(level.tighter())?);
        }
        Ok(Expr::new(join(operands), self.since(start)))
    }

    fn comparison(&mut self, left: Expr) -> PResult<Expr> {
        let start = left.span;
        let mut operands = vec![left];
        let mut operators = Vec::new();
        while let Some(operator) = self.comparison_operator() {
            self.advance();
            operators.push(operator);
            operands.push(self.above(Level::Predicate)?);
        }
        let span = self.since(start);
        if let ([op], Ok([left, right])) = (
            operators.as_slice(),
            <[Expr; 2]>::try_from(std::mem::take(&mut operands)).map_err(|rest| operands = rest),
        ) {
            return Ok(Expr::new(
                ExprKind::Binary {
                    op: *op,
                    left: Box::new(left),
                    right: Box::new(right),
                },
                span,
            ));
        }
        Ok(Expr::new(
            ExprKind::ComparisonChain {
                operands,
                operators,
            },
            span,
        ))
    }

    /// Sums and products: short ones are nested, long ones are one flat node, so that their length is not
    /// limited by the nesting limit.
    fn arithmetic(&mut self, left: Expr, first: BinaryOp, level: Level) -> PResult<Expr> {
        let start = left.span;
        let mut operands = vec![left];
        let mut operators = Vec::new();
        let mut next = Some(first);
        while let Some(operator) = next {
            self.advance();
            operators.push(operator);
            operands.push(self.above(level.tighter())?);
            next = match self.infix() {
                Some(Infix::Binary(op, _)) if Infix::Binary(op, 1).level() == level => Some(op),
                _ => None,
            };
        }
        if operators.len() > LONGEST_NESTED {
            let kind = ExprKind::ArithmeticChain {
                operands,
                operators,
            };
            return Ok(Expr::new(kind, self.since(start)));
        }
        // The caller counts the last operator.
        // Each nested operator raises the tree by one level; a flat chain does not.
        for _ in 1..operators.len() {
            self.grow()?;
        }
        let mut operands = operands.into_iter();
        let mut whole = operands.next().expect("a chain has a first operand");
        for (op, right) in operators.into_iter().zip(operands) {
            let span = start.to(right.span);
            let kind = ExprKind::Binary {
                op,
                left: Box::new(whole),
                right: Box::new(right),
            };
            whole = Expr::new(kind, span);
        }
        whole.span = self.since(start);
        Ok(whole)
    }

    fn binary(
        &mut self,
        left: Expr,
        op: BinaryOp,
        tokens: usize,
        right_level: Level,
    ) -> PResult<Expr> {
        let start = left.span;
        for _ in 0..tokens {
            self.advance();
        }
        let right = self.above(right_level)?;
        let kind = ExprKind::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
        };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// `IS [NOT] NULL`, `IS [NOT] :: TYPE`, `IS [NOT] TYPED TYPE`
    fn is_test(&mut self, left: Expr) -> PResult<Expr> {
        let start = left.span;
        self.advance();
        let negated = self.eat_keyword(Keyword::Not);
        let operand = Box::new(left);
        let kind = if self.eat_keyword(Keyword::Null) {
            ExprKind::IsNull { operand, negated }
        } else if self.eat(Symbol::DoubleColon) || self.eat_word("TYPED") {
            ExprKind::IsTyped {
                operand,
                value_type: self.value_type()?,
                negated,
            }
        } else {
            return Err(self.unexpected_word(
                "NULL, NOT NULL or `:: TYPE`",
                &[Keyword::Null, Keyword::Not],
            ));
        };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// An operand after any number of `NOT`s or signs.
    fn prefixed(&mut self) -> PResult<Expr> {
        match self.peek() {
            TokenKind::Keyword(Keyword::Not) => self.negated(),
            TokenKind::Symbol(Symbol::Minus | Symbol::Plus) => self.signed(),
            _ => self.operand(),
        }
    }

    fn negated(&mut self) -> PResult<Expr> {
        let mut operators: Vec<(UnaryOp, Span)> = Vec::new();
        while self.is_keyword(Keyword::Not) {
            operators.push((UnaryOp::Not, self.advance()));
        }
        // NOT binds more loosely than all operators except the boolean connectives.
        let operand = self.above(Level::Comparison)?;
        self.apply(operators, operand)
    }

    fn signed(&mut self) -> PResult<Expr> {
        let mut operators: Vec<(UnaryOp, Span)> = Vec::new();
        while let TokenKind::Symbol(sign @ (Symbol::Minus | Symbol::Plus)) = self.peek() {
            let op = if sign == Symbol::Minus {
                UnaryOp::Minus
            } else {
                UnaryOp::Plus
            };
            operators.push((op, self.advance()));
        }
        let is_number = matches!(self.peek(), TokenKind::Integer | TokenKind::Float);
        let operand = match operators.last() {
            Some(&(UnaryOp::Minus, minus)) if is_number => {
                operators.pop();
                let literal = self.number(Some(minus))?;
                self.suffixed(literal)?
            }
            _ => self.operand()?,
        };
        self.apply(operators, operand)
    }

    fn apply(&mut self, operators: Vec<(UnaryOp, Span)>, mut operand: Expr) -> PResult<Expr> {
        for (op, start) in operators.into_iter().rev() {
            let span = self.since(start);
            operand = Expr::new(
                ExprKind::Unary {
                    op,
                    operand: Box::new(operand),
                },
                span,
            );
            self.grow()?;
        }
        Ok(operand)
    }

    /// An atom and its postfix operators.
    pub(super) fn operand(&mut self) -> PResult<Expr> {
        let atom = self.atom()?;
        self.suffixed(atom)
    }

    /// The postfix operators `.key`, `[index]`, `[from..to]` and `:Label`.
    fn suffixed(&mut self, mut base: Expr) -> PResult<Expr> {
        let start = base.span;
        while matches!(
            self.peek(),
            TokenKind::Symbol(Symbol::Dot | Symbol::LeftBracket | Symbol::Colon)
        ) {
            let kind = match self.peek() {
                TokenKind::Symbol(Symbol::Dot) => {
                    self.advance();
                    let key = self.name("the name of a property")?;
                    ExprKind::Property {
                        base: Box::new(base),
                        key,
                    }
                }
                TokenKind::Symbol(Symbol::LeftBracket) => self.subscript(base)?,
                TokenKind::Symbol(Symbol::Colon) if self.is_label_at(1) => {
                    let labels = self.label_expression()?;
                    ExprKind::HasLabels {
                        operand: Box::new(base),
                        labels,
                    }
                }
                _ => return Ok(base),
            };
            base = Expr::new(kind, self.since(start));
            self.grow()?;
        }
        Ok(base)
    }

    fn is_label_at(&self, distance: usize) -> bool {
        matches!(
            self.peek_at(distance),
            TokenKind::Name
                | TokenKind::QuotedName
                | TokenKind::Keyword(_)
                | TokenKind::Symbol(Symbol::Bang | Symbol::Percent | Symbol::LeftParen)
        )
    }

    fn subscript(&mut self, base: Expr) -> PResult<ExprKind> {
        self.advance();
        let base = Box::new(base);
        let from = match self.is(Symbol::DotDot) {
            true => None,
            false => Some(Box::new(self.expression()?)),
        };
        let kind = match (self.eat(Symbol::DotDot), from) {
            (false, Some(index)) => ExprKind::Index { base, index },
            (_, from) => {
                let to = match self.is(Symbol::RightBracket) {
                    true => None,
                    false => Some(Box::new(self.expression()?)),
                };
                ExprKind::Slice { base, from, to }
            }
        };
        self.expect(Symbol::RightBracket)?;
        Ok(kind)
    }

    // ---- types ----

    /// A type, such as `INTEGER`, `LIST<STRING NOT NULL>` or `INTEGER | FLOAT`.
    pub(super) fn value_type(&mut self) -> PResult<ValueType> {
        let mut types = vec![self.nested(Self::single_type)?];
        while !self.context.bar_ends && self.eat(Symbol::Bar) {
            types.push(self.nested(Self::single_type)?);
        }
        Ok(match types.len() {
            1 => types.remove(0),
            _ => ValueType::Union(types),
        })
    }

    fn single_type(&mut self) -> PResult<ValueType> {
        let word = match self.peek() {
            TokenKind::Name | TokenKind::Keyword(_) => self.token_text().to_ascii_uppercase(),
            _ => return Err(self.unexpected("a type such as INTEGER or LIST<STRING>")),
        };
        let plain = match word.as_str() {
            "ANY" => ValueType::Any,
            "NOTHING" | "NULL" => ValueType::Null,
            "BOOLEAN" | "BOOL" => ValueType::Boolean,
            "INTEGER" | "INT" => ValueType::Integer,
            "FLOAT" => ValueType::Float,
            "NUMBER" => ValueType::Number,
            "STRING" => ValueType::String,
            "BYTES" => ValueType::Bytes,
            "DATE" => ValueType::Date,
            "TIME" => ValueType::ZonedTime,
            "DATETIME" => ValueType::ZonedDateTime,
            "LOCALTIME" => ValueType::LocalTime,
            "LOCALDATETIME" => ValueType::LocalDateTime,
            "DURATION" => ValueType::Duration,
            "POINT" => ValueType::Point,
            "MAP" => ValueType::Map,
            "NODE" => ValueType::Node,
            "RELATIONSHIP" => ValueType::Relationship,
            "PATH" => ValueType::Path,
            "LIST" => return self.list_type(),
            "LOCAL" | "ZONED" => return self.two_word_type(word == "LOCAL"),
            _ => return Err(self.unexpected("a type such as INTEGER or LIST<STRING>")),
        };
        self.advance();
        self.type_suffix(plain)
    }

    fn list_type(&mut self) -> PResult<ValueType> {
        self.advance();
        let element = match self.eat(Symbol::Less) {
            false => ValueType::Any,
            true => {
                let context = Context {
                    bar_ends: false,
                    ..self.context
                };
                let element = self.within(context, Self::value_type)?;
                self.expect(Symbol::Greater)?;
                element
            }
        };
        self.type_suffix(ValueType::List(Box::new(element)))
    }

    fn two_word_type(&mut self, is_local: bool) -> PResult<ValueType> {
        self.advance();
        let is_time = self.is_word("TIME");
        if !is_time && !self.is_word("DATETIME") {
            return Err(self.unexpected("TIME or DATETIME"));
        }
        self.advance();
        self.type_suffix(match (is_local, is_time) {
            (true, true) => ValueType::LocalTime,
            (true, false) => ValueType::LocalDateTime,
            (false, true) => ValueType::ZonedTime,
            (false, false) => ValueType::ZonedDateTime,
        })
    }

    fn type_suffix(&mut self, value_type: ValueType) -> PResult<ValueType> {
        match self.is_keyword(Keyword::Not) && self.is_keyword_at(1, Keyword::Null) {
            false => Ok(value_type),
            true => {
                self.advance();
                self.advance();
                Ok(ValueType::NotNull(Box::new(value_type)))
            }
        }
    }
}
