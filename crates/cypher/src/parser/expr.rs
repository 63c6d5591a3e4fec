//! Expressions: operators by precedence climbing, and the atoms that they join.
//!
//! From loosest to tightest: `OR`, `XOR`, `AND`, `NOT`, comparisons, `IN` and the string and type predicates,
//! `+ - ||`, `* / %`, `^`, signs, then postfix operators (`.key`, `[index]`, `:Label`). All binary operators
//! are left-associative, `^` too, as openCypher defines it.

use super::attempt::{attempt_pattern, is_path_from};
use super::clause_order::QueryPosition;
use super::cursor::{AFTER_EXPRESSION, Context, PResult, Parser};
use super::label::label_expression;
use super::literal::{number, parameter};
use super::operator::{Infix, Level, comparison_operator, infix};
use super::pattern::{PatternUse, path_pattern, pattern, shortest_path_function};
use super::query::query;
use super::value_type::value_type;
use std::sync::Arc;

use crate::Span;
use crate::ast::{
    BinaryOp, CaseBranch, Clause, Expr, ExprKind, Ident, Literal, MapEntry, MapProjectionItem,
    Match, MatchMode, PatternLink, QualifiedName, QuantifierKind, RegularQuery, SingleQuery,
    SubqueryKind, UnaryOp, UnionKind,
};
use crate::error::{Detail, ParseError};
use crate::lexer::string_value;
use crate::token::{InvalidToken, Keyword, Symbol, TokenKind};

/// Maximum number of operators of a sum or product that are nested rather than put into one chain node.
const LONGEST_NESTED: usize = 32;

/// An expression in value position.
pub(super) fn expression(p: &mut Parser<'_>) -> PResult<Expr> {
    above_in(
        p,
        Context {
            is_predicate: false,
            bar_ends: false,
            ..p.context
        },
    )
}

/// An expression in value position that a `|` may follow.
pub(super) fn expression_before_bar(p: &mut Parser<'_>) -> PResult<Expr> {
    above_in(
        p,
        Context {
            is_predicate: false,
            bar_ends: true,
            ..p.context
        },
    )
}

/// A predicate, where a pattern tests for its existence.
pub(super) fn predicate(p: &mut Parser<'_>) -> PResult<Expr> {
    above_in(
        p,
        Context {
            is_predicate: true,
            bar_ends: false,
            ..p.context
        },
    )
}

/// A predicate that a `|` may follow.
fn predicate_before_bar(p: &mut Parser<'_>) -> PResult<Expr> {
    above_in(
        p,
        Context {
            is_predicate: true,
            bar_ends: true,
            ..p.context
        },
    )
}

/// `[WHERE predicate]`
pub(super) fn optional_where(p: &mut Parser<'_>) -> PResult<Option<Expr>> {
    if p.eat_keyword(Keyword::Where) {
        predicate(p).map(Some)
    } else {
        Ok(None)
    }
}

/// The content of parentheses. It may be a pattern: an operator around the parentheses may take it.
fn parenthesized(p: &mut Parser<'_>) -> PResult<Expr> {
    above_in(
        p,
        Context {
            is_predicate: true,
            bar_ends: false,
            ..p.context
        },
    )
}

fn above_in(p: &mut Parser<'_>, context: Context) -> PResult<Expr> {
    let (start, height) = (p.at, p.height);
    let outer = std::mem::replace(&mut p.context, context);
    let mut result = above(p, Level::Or);
    if let Ok(expr) = &result
        && !context.is_predicate
        && is_spaced_pattern(p, expr)
    {
        // As a pattern it has no value: it is a difference of two terms, `(u) - -(v)`.
        let after = p.at;
        (p.at, p.height) = (start, height);
        p.not_patterns.insert(start);
        match above(p, Level::Or) {
            Ok(difference) => result = Ok(difference),
            Err(_) => p.at = after,
        }
    }
    p.context = outer;
    match result {
        // Operators that combine conditions take patterns anywhere; a pattern alone has no value.
        Ok(pattern) if !context.is_predicate && is_pattern(&pattern) => {
            let message = "a pattern is a predicate and has no value here";
            Err(
                ParseError::new(Detail::UnexpectedSyntax, pattern.span, message).with_hint(
                    "use EXISTS { … }, COUNT { … } or a comprehension `[pattern | value]`",
                ),
            )
        }
        result => result,
    }
}

/// Whether it is a pattern with white space between the two dashes of a relationship.
fn is_spaced_pattern(p: &Parser<'_>, expr: &Expr) -> bool {
    let ExprKind::PatternPredicate(path) = &expr.kind else {
        return false;
    };
    path.steps.iter().any(|step| match &step.link {
        PatternLink::Relationship(relationship) => {
            let text = relationship.span.slice(p.text);
            text.starts_with('-') && text[1..].starts_with(char::is_whitespace)
        }
        PatternLink::Quantified(_) => false,
    })
}

fn is_pattern(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::PatternPredicate(_))
}

/// Operands joined by operators of at least this precedence (precedence climbing).
fn above(p: &mut Parser<'_>, least: Level) -> PResult<Expr> {
    let outer = p.enter()?;
    let result = joined_above(p, least);
    p.leave(outer);
    result
}

fn joined_above(p: &mut Parser<'_>, least: Level) -> PResult<Expr> {
    let mut left = prefixed(p)?;
    while let Some(infix) = infix(p).filter(|infix| infix.level() >= least) {
        left = join(p, left, infix)?;
        p.grow()?;
    }
    Ok(left)
}

fn join(p: &mut Parser<'_>, left: Expr, infix: Infix) -> PResult<Expr> {
    match infix {
        Infix::Or => chain(p, left, Keyword::Or, Level::Or, ExprKind::Or),
        Infix::Xor => chain(p, left, Keyword::Xor, Level::Xor, ExprKind::Xor),
        Infix::And => chain(p, left, Keyword::And, Level::And, ExprKind::And),
        Infix::Comparison => comparison(p, left),
        Infix::Is => is_test(p, left),
        Infix::Binary(op, _) if matches!(infix.level(), Level::Sum | Level::Product) => {
            arithmetic(p, left, op, infix.level())
        }
        Infix::Binary(op, tokens) => binary(p, left, op, tokens, infix.level().tighter()),
    }
}

fn chain(
    p: &mut Parser<'_>,
    left: Expr,
    keyword: Keyword,
    level: Level,
    join: fn(Vec<Expr>) -> ExprKind,
) -> PResult<Expr> {
    let start = left.span;
    let mut operands = vec![left];
    while p.eat_keyword(keyword) {
        operands.push(above(p, level.tighter())?);
    }
    Ok(Expr::new(join(operands), p.since(start)))
}

fn comparison(p: &mut Parser<'_>, left: Expr) -> PResult<Expr> {
    let start = left.span;
    let mut operands = vec![left];
    let mut operators = Vec::new();
    while let Some(operator) = comparison_operator(p) {
        p.advance();
        operators.push(operator);
        operands.push(above(p, Level::Predicate)?);
    }
    let span = p.since(start);
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
fn arithmetic(p: &mut Parser<'_>, left: Expr, first: BinaryOp, level: Level) -> PResult<Expr> {
    let start = left.span;
    let mut operands = vec![left];
    let mut operators = Vec::new();
    let mut next = Some(first);
    while let Some(operator) = next {
        p.advance();
        operators.push(operator);
        not_a_pattern(p);
        operands.push(above(p, level.tighter())?);
        next = match infix(p) {
            Some(Infix::Binary(op, _)) if Infix::Binary(op, 1).level() == level => Some(op),
            _ => None,
        };
    }
    if operators.len() > LONGEST_NESTED {
        let kind = ExprKind::ArithmeticChain {
            operands,
            operators,
        };
        return Ok(Expr::new(kind, p.since(start)));
    }
    // The caller counts the last operator.
    // Each nested operator raises the tree by one level; a flat chain does not.
    for _ in 1..operators.len() {
        p.grow()?;
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
    whole.span = p.since(start);
    Ok(whole)
}

fn binary(
    p: &mut Parser<'_>,
    left: Expr,
    op: BinaryOp,
    tokens: usize,
    right_level: Level,
) -> PResult<Expr> {
    let start = left.span;
    for _ in 0..tokens {
        p.advance();
    }
    let right = above(p, right_level)?;
    let kind = ExprKind::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    };
    Ok(Expr::new(kind, p.since(start)))
}

/// `IS [NOT] NULL`, `IS [NOT] :: TYPE`, `IS [NOT] TYPED TYPE`
fn is_test(p: &mut Parser<'_>, left: Expr) -> PResult<Expr> {
    let start = left.span;
    p.advance();
    let negated = p.eat_keyword(Keyword::Not);
    let operand = Box::new(left);
    let kind = if p.eat_keyword(Keyword::Null) {
        ExprKind::IsNull { operand, negated }
    } else if p.eat(Symbol::DoubleColon) || p.eat_word("TYPED") {
        ExprKind::IsTyped {
            operand,
            value_type: value_type(p)?,
            negated,
        }
    } else if let Some(form) = normal_form(p) {
        return is_normalized(p, *operand, form, negated);
    } else {
        return Err(p.unexpected_word(
            "NULL, NOT NULL, `:: TYPE` or NORMALIZED",
            &[Keyword::Null, Keyword::Not],
        ));
    };
    Ok(Expr::new(kind, p.since(start)))
}

/// The normal forms of Unicode.
const NORMAL_FORMS: [&str; 4] = ["NFC", "NFD", "NFKC", "NFKD"];

/// `[NFC | NFD | NFKC | NFKD] NORMALIZED`: the form, NFC if none is named.
fn normal_form(p: &mut Parser<'_>) -> Option<&'static str> {
    let form = NORMAL_FORMS.into_iter().find(|form| p.is_word(form));
    let at = p.at;
    if form.is_some() {
        p.advance();
    }
    let found = p.eat_word("NORMALIZED");
    if !found {
        p.at = at;
    }
    found.then_some(form.unwrap_or("NFC"))
}

/// `operand IS [NOT] form NORMALIZED`: a call of `isNormalized()`.
fn is_normalized(p: &mut Parser<'_>, operand: Expr, form: &str, negated: bool) -> PResult<Expr> {
    let span = p.since(operand.span);
    let form = Expr::new(ExprKind::Literal(Literal::String(form.into())), span);
    let name = Ident::new("isNormalized", span);
    let call = ExprKind::Function {
        name: QualifiedName {
            parts: vec![name],
            span,
        },
        distinct: false,
        arguments: vec![operand, form],
    };
    match negated {
        true => apply(p, vec![(UnaryOp::Not, span)], Expr::new(call, span)),
        false => Ok(Expr::new(call, span)),
    }
}

/// An operand after any number of `NOT`s or signs.
fn prefixed(p: &mut Parser<'_>) -> PResult<Expr> {
    match p.peek() {
        TokenKind::Keyword(Keyword::Not) => negated(p),
        TokenKind::Symbol(Symbol::Minus | Symbol::Plus) => signed(p),
        _ => operand(p),
    }
}

fn negated(p: &mut Parser<'_>) -> PResult<Expr> {
    let mut operators: Vec<(UnaryOp, Span)> = Vec::new();
    while p.is_keyword(Keyword::Not) {
        operators.push((UnaryOp::Not, p.advance()));
    }
    // NOT binds more loosely than all operators except the boolean connectives.
    let operand = above(p, Level::Comparison)?;
    apply(p, operators, operand)
}

fn signed(p: &mut Parser<'_>) -> PResult<Expr> {
    let mut operators: Vec<(UnaryOp, Span)> = Vec::new();
    while let TokenKind::Symbol(sign @ (Symbol::Minus | Symbol::Plus)) = p.peek() {
        let op = if sign == Symbol::Minus {
            UnaryOp::Minus
        } else {
            UnaryOp::Plus
        };
        operators.push((op, p.advance()));
    }
    let is_number = matches!(p.peek(), TokenKind::Integer | TokenKind::Float);
    let operand = match operators.last() {
        Some(&(UnaryOp::Minus, minus)) if is_number => {
            operators.pop();
            let literal = number(p, Some(minus))?;
            suffixed(p, literal)?
        }
        _ => {
            not_a_pattern(p);
            operand(p)?
        }
    };
    apply(p, operators, operand)
}

/// A parenthesis after a sign or between arithmetic operators opens no pattern: `-(u) - -(u)` is a difference, though
/// `(u) - -(u)` alone reads as a pattern.
fn not_a_pattern(p: &mut Parser<'_>) {
    if p.is(Symbol::LeftParen) {
        p.not_patterns.insert(p.at);
    }
}

fn apply(p: &mut Parser<'_>, operators: Vec<(UnaryOp, Span)>, mut operand: Expr) -> PResult<Expr> {
    for (op, start) in operators.into_iter().rev() {
        let span = p.since(start);
        operand = Expr::new(
            ExprKind::Unary {
                op,
                operand: Box::new(operand),
            },
            span,
        );
        p.grow()?;
    }
    Ok(operand)
}

/// An atom and its postfix operators.
pub(super) fn operand(p: &mut Parser<'_>) -> PResult<Expr> {
    let atom = atom(p)?;
    suffixed(p, atom)
}

/// The postfix operators `.key`, `[index]`, `[from..to]` and `:Label`.
fn suffixed(p: &mut Parser<'_>, mut base: Expr) -> PResult<Expr> {
    let start = base.span;
    while matches!(
        p.peek(),
        TokenKind::Symbol(Symbol::Dot | Symbol::LeftBracket | Symbol::Colon)
    ) {
        let kind = match p.peek() {
            TokenKind::Symbol(Symbol::Dot) => {
                p.advance();
                let key = p.name("the name of a property")?;
                ExprKind::Property {
                    base: Box::new(base),
                    key,
                }
            }
            TokenKind::Symbol(Symbol::LeftBracket) => subscript(p, base)?,
            TokenKind::Symbol(Symbol::Colon) if is_label_at(p, 1) => {
                let labels = label_expression(p, expression)?;
                ExprKind::HasLabels {
                    operand: Box::new(base),
                    labels,
                }
            }
            _ => return Ok(base),
        };
        base = Expr::new(kind, p.since(start));
        p.grow()?;
    }
    Ok(base)
}

fn is_label_at(p: &Parser<'_>, distance: usize) -> bool {
    match p.peek_at(distance) {
        TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_) => true,
        TokenKind::Symbol(symbol) => matches!(
            symbol,
            Symbol::Bang | Symbol::Percent | Symbol::LeftParen | Symbol::Dollar
        ),
        // `n:$any(…)`
        TokenKind::Parameter => p.is_at(distance + 1, Symbol::LeftParen),
        _ => false,
    }
}

fn subscript(p: &mut Parser<'_>, base: Expr) -> PResult<ExprKind> {
    p.advance();
    let base = Box::new(base);
    let from = if p.is(Symbol::DotDot) {
        None
    } else {
        Some(Box::new(expression(p)?))
    };
    let kind = match (p.eat(Symbol::DotDot), from) {
        (false, Some(index)) => ExprKind::Index { base, index },
        (_, from) => {
            let to = if p.is(Symbol::RightBracket) {
                None
            } else {
                Some(Box::new(expression(p)?))
            };
            ExprKind::Slice { base, from, to }
        }
    };
    p.expect(Symbol::RightBracket)?;
    Ok(kind)
}

fn atom(p: &mut Parser<'_>) -> PResult<Expr> {
    match p.peek() {
        TokenKind::Integer | TokenKind::Float => number(p, None),
        TokenKind::String => {
            let value = string_value(p.token_text());
            Ok(literal_token(p, Literal::String(value.into())))
        }
        TokenKind::Parameter => parameter(p),
        TokenKind::Symbol(Symbol::LeftParen) => parenthesis(p),
        TokenKind::Symbol(Symbol::LeftBracket) => bracket(p),
        TokenKind::Symbol(Symbol::LeftBrace) => map_literal(p),
        TokenKind::Keyword(keyword) => keyword_atom(p, keyword),
        TokenKind::Name | TokenKind::QuotedName => named(p),
        TokenKind::Invalid(InvalidToken::Number) => Err(p.invalid_token(InvalidToken::Number)),
        _ => Err(p.unexpected("an expression")),
    }
}

fn literal_token(p: &mut Parser<'_>, literal: Literal) -> Expr {
    Expr::new(ExprKind::Literal(literal), p.advance())
}

fn keyword_atom(p: &mut Parser<'_>, keyword: Keyword) -> PResult<Expr> {
    let is_call = p.is_at(1, Symbol::LeftParen);
    let is_subquery = p.is_at(1, Symbol::LeftBrace) && !p.is_at(2, Symbol::Dot);
    match keyword {
        Keyword::Null => Ok(literal_token(p, Literal::Null)),
        Keyword::True => Ok(literal_token(p, Literal::Bool(true))),
        Keyword::False => Ok(literal_token(p, Literal::Bool(false))),
        Keyword::Case => case(p),
        Keyword::Exists if is_subquery => subquery(p, SubqueryKind::Exists),
        Keyword::Count if is_subquery => subquery(p, SubqueryKind::Count),
        Keyword::Collect if is_subquery => subquery(p, SubqueryKind::Collect),
        Keyword::Count if is_call && p.is_at(2, Symbol::Star) => count_star(p),
        Keyword::All if is_call && is_element_of(p) => quantifier_call(p, QuantifierKind::All),
        Keyword::Any if is_call && is_element_of(p) => quantifier_call(p, QuantifierKind::Any),
        Keyword::None if is_call && is_element_of(p) => quantifier_call(p, QuantifierKind::None),
        Keyword::Single if is_call && is_element_of(p) => {
            quantifier_call(p, QuantifierKind::Single)
        }
        Keyword::Reduce if is_call && p.is_at(3, Symbol::Equal) => reduce(p),
        Keyword::ShortestPath | Keyword::AllShortestPaths if is_call => {
            let path = shortest_path_function(p)?;
            let span = path.span;
            Ok(Expr::new(ExprKind::ShortestPath(Box::new(path)), span))
        }
        // `set.add(…)`
        Keyword::Set if p.is_at(1, Symbol::Dot) && p.is_at(3, Symbol::LeftParen) => named(p),
        _ if p.is_variable_at(0) || p.is_reserved_name() => named(p),
        _ => Err(p.unexpected("an expression")),
    }
}

/// A variable, a function call, or a map projection.
fn named(p: &mut Parser<'_>) -> PResult<Expr> {
    let mut parts = 1;
    while p.is_at(2 * parts - 1, Symbol::Dot)
        && matches!(
            p.peek_at(2 * parts),
            TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_)
        )
    {
        parts += 1;
    }
    if p.is_at(2 * parts - 1, Symbol::LeftParen) {
        return function(p, parts);
    }
    if p.is_at(1, Symbol::LeftBrace) {
        return map_projection(p);
    }
    let variable = p.variable()?;
    Ok(Expr::new(ExprKind::Variable(variable.name), variable.span))
}

fn function(p: &mut Parser<'_>, parts: usize) -> PResult<Expr> {
    let start = p.span();
    let mut name = QualifiedName {
        parts: vec![p.take_name()],
        span: start,
    };
    for _ in 1..parts {
        p.advance();
        name.parts.push(p.take_name());
    }
    name.span = p.since(start);
    p.expect(Symbol::LeftParen)?;
    if parts == 1
        && name.parts[0].name.eq_ignore_ascii_case("trim")
        && let Some(trimmed) = trim(p, &name)?
    {
        p.grow()?;
        return Ok(Expr::new(trimmed, p.since(start)));
    }
    let distinct = p.eat_keyword(Keyword::Distinct);
    let takes_pattern = parts == 1 && name.parts[0].name.eq_ignore_ascii_case("exists");
    let mut arguments = if takes_pattern {
        arguments(p, predicate)?
    } else {
        arguments(p, expression)?
    };
    if let [_, form] = arguments.as_mut_slice()
        && parts == 1
        && name.parts[0].name.eq_ignore_ascii_case("normalize")
    {
        // The form is a word, not a variable.
        let known = |word: &Arc<str>| {
            let mut forms = NORMAL_FORMS.into_iter();
            forms.find(|form| word.eq_ignore_ascii_case(form))
        };
        if let Some(known) = form.as_variable().and_then(known) {
            form.kind = ExprKind::Literal(Literal::String(known.into()));
        }
    }
    p.grow()?;
    Ok(Expr::new(
        ExprKind::Function {
            name,
            distinct,
            arguments,
        },
        p.since(start),
    ))
}

/// `trim([BOTH | LEADING | TRAILING] [character] FROM text)`, from its first argument on: a call of `trim.both()`,
/// `trim.leading()` or `trim.trailing()`. None for the plain function.
fn trim(p: &mut Parser<'_>, name: &QualifiedName) -> PResult<Option<ExprKind>> {
    let sides = [
        ("BOTH", "both"),
        ("LEADING", "leading"),
        ("TRAILING", "trailing"),
    ];
    let at = p.at;
    let side = sides.into_iter().find(|(word, _)| p.eat_word(word));
    // A variable of that name: `trim(both)`.
    if p.is(Symbol::RightParen) || p.is(Symbol::Dot) {
        p.at = at;
        return Ok(None);
    }
    let Some((_, side)) = side else {
        return Ok(None);
    };
    let character = match p.is_keyword(Keyword::From) {
        true => None,
        false => Some(expression(p)?),
    };
    p.expect_keyword(Keyword::From)?;
    let mut arguments = vec![expression(p)?];
    arguments.extend(character);
    p.expect(Symbol::RightParen)?;
    let parts = ["trim", side].map(|part| Ident::new(part, name.span));
    Ok(Some(ExprKind::Function {
        name: QualifiedName {
            parts: parts.into(),
            span: name.span,
        },
        distinct: false,
        arguments,
    }))
}

/// Arguments up to and including the closing parenthesis.
pub(super) fn arguments(
    p: &mut Parser<'_>,
    argument: fn(&mut Parser<'_>) -> PResult<Expr>,
) -> PResult<Vec<Expr>> {
    if p.eat(Symbol::RightParen) {
        return Ok(Vec::new());
    }
    let arguments = p.comma_separated(argument)?;
    if p.is(Symbol::RightParen) {
        p.advance()
    } else {
        return Err(p.unexpected("`,` or `)`"));
    };
    Ok(arguments)
}

fn count_star(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.advance();
    p.advance();
    p.advance();
    p.expect(Symbol::RightParen)?;
    Ok(Expr::new(ExprKind::CountStar, p.since(start)))
}

pub(super) fn map_literal(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.expect(Symbol::LeftBrace)?;
    let mut entries = Vec::new();
    if !p.is(Symbol::RightBrace) {
        entries = p.comma_separated(map_entry)?;
    }
    close_brace(p)?;
    p.grow()?;
    Ok(Expr::new(ExprKind::Map(entries), p.since(start)))
}

fn map_entry(p: &mut Parser<'_>) -> PResult<MapEntry> {
    let key = p.name("the name of a property")?;
    p.expect(Symbol::Colon)?;
    Ok(MapEntry {
        key,
        value: expression(p)?,
    })
}

fn close_brace(p: &mut Parser<'_>) -> PResult<()> {
    if p.eat(Symbol::RightBrace) {
        Ok(())
    } else {
        Err(p.unexpected("`,` or `}`"))
    }
}

fn map_projection(p: &mut Parser<'_>) -> PResult<Expr> {
    let variable = p.variable()?;
    let start = variable.span;
    p.expect(Symbol::LeftBrace)?;
    let mut items = Vec::new();
    if !p.is(Symbol::RightBrace) {
        items = p.comma_separated(map_projection_item)?;
    }
    close_brace(p)?;
    p.grow()?;
    Ok(Expr::new(
        ExprKind::MapProjection { variable, items },
        p.since(start),
    ))
}

fn map_projection_item(p: &mut Parser<'_>) -> PResult<MapProjectionItem> {
    if p.eat(Symbol::Dot) {
        return if p.eat(Symbol::Star) {
            Ok(MapProjectionItem::AllProperties)
        } else {
            p.name("the name of a property, or `*`")
                .map(MapProjectionItem::Property)
        };
    }
    if p.is_at(1, Symbol::Colon) {
        map_entry(p).map(MapProjectionItem::Entry)
    } else {
        p.variable().map(MapProjectionItem::Variable)
    }
}

/// A list, a list comprehension or a pattern comprehension.
fn bracket(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.span();
    let is_named_path =
        p.is_variable_at(1) && p.is_at(2, Symbol::Equal) && p.is_at(3, Symbol::LeftParen);
    if p.is_variable_at(1) && p.is_keyword_at(2, Keyword::In) && !p.not_patterns.contains(&p.at) {
        return list_comprehension(p);
    }
    let is_path = if is_named_path {
        is_path_from(p, p.at + 3)
    } else {
        p.is_at(1, Symbol::LeftParen) && is_path_from(p, p.at + 1)
    };
    if is_path && let Some(comprehension) = attempt_pattern(p, pattern_comprehension)? {
        return Ok(comprehension);
    }
    p.advance();
    let mut elements = Vec::new();
    if !p.is(Symbol::RightBracket) {
        elements = p.comma_separated(expression)?;
    }
    if !p.eat(Symbol::RightBracket) {
        return Err(p.unexpected("`,` or `]`"));
    }
    p.grow()?;
    Ok(Expr::new(ExprKind::List(elements), p.since(start)))
}

fn list_comprehension(p: &mut Parser<'_>) -> PResult<Expr> {
    let (open, height) = (p.at, p.height);
    let start = p.advance();
    let variable = p.variable()?;
    p.expect_keyword(Keyword::In)?;
    let list = Box::new(expression_before_bar(p)?);
    if p.is(Symbol::Comma) {
        // `[x IN list, …]` is a list of booleans, not a comprehension.
        p.not_patterns.insert(open);
        (p.at, p.height) = (open, height);
        return bracket(p);
    }
    let predicate = if p.eat_keyword(Keyword::Where) {
        Some(Box::new(predicate_before_bar(p)?))
    } else {
        None
    };
    let projection = if p.eat(Symbol::Bar) {
        Some(Box::new(expression(p)?))
    } else {
        None
    };
    if !p.eat(Symbol::RightBracket) {
        return Err(p.unexpected_word("WHERE, `|` or `]`", &[Keyword::Where]));
    }
    p.grow()?;
    Ok(Expr::new(
        ExprKind::ListComprehension {
            variable,
            list,
            predicate,
            projection,
        },
        p.since(start),
    ))
}

fn pattern_comprehension(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.advance();
    let path = Box::new(path_pattern(p, PatternUse::Match)?);
    let predicate = if p.eat_keyword(Keyword::Where) {
        Some(Box::new(predicate_before_bar(p)?))
    } else {
        None
    };
    p.expect(Symbol::Bar)?;
    let projection = Box::new(expression(p)?);
    p.expect(Symbol::RightBracket)?;
    p.grow()?;
    Ok(Expr::new(
        ExprKind::PatternComprehension {
            path,
            predicate,
            projection,
        },
        p.since(start),
    ))
}

/// Whether `(variable IN` follows the current word.
fn is_element_of(p: &Parser<'_>) -> bool {
    p.is_variable_at(2) && p.is_keyword_at(3, Keyword::In)
}

fn quantifier_call(p: &mut Parser<'_>, kind: QuantifierKind) -> PResult<Expr> {
    p.nested(|p| {
        let start = p.advance();
        p.advance();
        let variable = p.variable()?;
        p.advance();
        let list = Box::new(expression(p)?);
        let predicate = optional_where(p)?.map(Box::new);
        if !p.eat(Symbol::RightParen) {
            return Err(p.unexpected_word("WHERE or `)`", &[Keyword::Where]));
        }
        p.grow()?;
        Ok(Expr::new(
            ExprKind::Quantifier {
                kind,
                variable,
                list,
                predicate,
            },
            p.since(start),
        ))
    })
}

fn reduce(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.advance();
    p.advance();
    let accumulator = p.variable()?;
    p.expect(Symbol::Equal)?;
    let initial = Box::new(expression(p)?);
    p.expect(Symbol::Comma)?;
    let variable = p.variable()?;
    p.expect_keyword(Keyword::In)?;
    let list = Box::new(expression_before_bar(p)?);
    p.expect(Symbol::Bar)?;
    let step = Box::new(expression(p)?);
    p.expect(Symbol::RightParen)?;
    p.grow()?;
    Ok(Expr::new(
        ExprKind::Reduce {
            accumulator,
            initial,
            variable,
            list,
            step,
        },
        p.since(start),
    ))
}

fn case(p: &mut Parser<'_>) -> PResult<Expr> {
    let context = Context {
        end_ends: true,
        bar_ends: false,
        ..p.context
    };
    p.within(context, case_body)
}

fn case_body(p: &mut Parser<'_>) -> PResult<Expr> {
    let start = p.advance();
    let subject = if p.is_keyword(Keyword::When) {
        None
    } else {
        Some(Box::new(expression(p)?))
    };
    let mut branches = Vec::new();
    while p.eat_keyword(Keyword::When) {
        let when = match subject {
            Some(_) => expression(p)?,
            None => predicate(p)?,
        };
        p.expect_keyword(Keyword::Then)?;
        branches.push(CaseBranch {
            when,
            then: expression(p)?,
        });
    }
    if branches.is_empty() {
        return Err(p.unexpected_word("WHEN", &[Keyword::When]));
    }
    let otherwise = if p.eat_keyword(Keyword::Else) {
        Some(Box::new(expression(p)?))
    } else {
        None
    };
    if !p.eat_keyword(Keyword::End) {
        return Err(p.unexpected_word(
            "WHEN, ELSE or END",
            &[Keyword::When, Keyword::Else, Keyword::End],
        ));
    }
    p.grow()?;
    Ok(Expr::new(
        ExprKind::Case {
            subject,
            branches,
            otherwise,
        },
        p.since(start),
    ))
}

/// A pattern used as a predicate, or an expression in parentheses.
fn parenthesis(p: &mut Parser<'_>) -> PResult<Expr> {
    if is_path_from(p, p.at)
        && let Some(pattern) = attempt_pattern(p, pattern_as_predicate)?
    {
        return Ok(pattern);
    }
    p.advance();
    let inner = parenthesized(p)?;
    if p.eat(Symbol::RightParen) {
        Ok(inner)
    } else {
        Err(p.unexpected_word("`)`", AFTER_EXPRESSION))
    }
}

fn pattern_as_predicate(p: &mut Parser<'_>) -> PResult<Expr> {
    let path = path_pattern(p, PatternUse::Match)?;
    let span = path.span;
    Ok(Expr::new(ExprKind::PatternPredicate(Box::new(path)), span))
}

fn subquery(p: &mut Parser<'_>, kind: SubqueryKind) -> PResult<Expr> {
    p.nested(|p| {
        let start = p.advance();
        p.expect(Symbol::LeftBrace)?;
        let is_pattern = p.is(Symbol::LeftParen)
            || (p.is_variable_at(0) && p.is_at(1, Symbol::Equal))
            || matches!(
                p.peek(),
                TokenKind::Keyword(
                    Keyword::Shortest
                        | Keyword::ShortestPath
                        | Keyword::AllShortestPaths
                        | Keyword::Any
                        | Keyword::All
                )
            );
        let query = if is_pattern && kind != SubqueryKind::Collect {
            subquery_pattern(p)?
        } else {
            query(p, QueryPosition::Expression(kind))?
        };
        p.expect(Symbol::RightBrace)?;
        p.grow()?;
        Ok(Expr::new(
            ExprKind::Subquery {
                kind,
                query: Box::new(query),
            },
            p.since(start),
        ))
    })
}

/// `pattern [WHERE predicate]`, the short form of a `MATCH`.
fn subquery_pattern(p: &mut Parser<'_>) -> PResult<RegularQuery> {
    let start = p.span();
    let context = Context {
        is_read_only: true,
        ..Context::default()
    };
    let (pattern, predicate) = p.within(context, |p| {
        let pattern = pattern(p, PatternUse::Match)?;
        let predicate = optional_where(p)?;
        Ok((pattern, predicate))
    })?;
    let span = p.since(start);
    let clauses = vec![Clause::Match(Match {
        optional: false,
        mode: MatchMode::default(),
        pattern,
        hints: Vec::new(),
        predicate,
        span,
    })];
    Ok(RegularQuery {
        branches: vec![SingleQuery { clauses, span }],
        union: UnionKind::default(),
        span,
    })
}
