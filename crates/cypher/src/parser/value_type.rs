//! Types as written after `IS ::`.

use super::cursor::{Context, PResult, Parser};
use crate::ast::TypeExpr;
use crate::token::{Keyword, Symbol, TokenKind};

/// A type, such as `INTEGER`, `LIST<STRING NOT NULL>` or `INTEGER | FLOAT`.
pub(super) fn value_type(p: &mut Parser<'_>) -> PResult<TypeExpr> {
    let mut types = vec![p.nested(single_type)?];
    while !p.context.bar_ends && p.eat(Symbol::Bar) {
        types.push(p.nested(single_type)?);
    }
    Ok(match types.len() {
        1 => types.remove(0),
        _ => TypeExpr::Union(types),
    })
}

fn single_type(p: &mut Parser<'_>) -> PResult<TypeExpr> {
    let word = match p.peek() {
        TokenKind::Name | TokenKind::Keyword(_) => p.token_text().to_ascii_uppercase(),
        _ => return Err(p.unexpected("a type such as INTEGER or LIST<STRING>")),
    };
    let plain = match word.as_str() {
        "ANY" => TypeExpr::Any,
        "NOTHING" | "NULL" => TypeExpr::Null,
        "BOOLEAN" | "BOOL" => TypeExpr::Boolean,
        "INTEGER" | "INT" => TypeExpr::Integer,
        "FLOAT" => TypeExpr::Float,
        "NUMBER" => TypeExpr::Number,
        "STRING" => TypeExpr::String,
        "BYTES" => TypeExpr::Bytes,
        "DATE" => TypeExpr::Date,
        "TIME" => TypeExpr::ZonedTime,
        "DATETIME" => TypeExpr::ZonedDateTime,
        "LOCALTIME" => TypeExpr::LocalTime,
        "LOCALDATETIME" => TypeExpr::LocalDateTime,
        "DURATION" => TypeExpr::Duration,
        "POINT" => TypeExpr::Point,
        "MAP" => TypeExpr::Map,
        "NODE" => TypeExpr::Node,
        "RELATIONSHIP" => TypeExpr::Relationship,
        "PATH" => TypeExpr::Path,
        "LIST" => return list_type(p),
        "LOCAL" | "ZONED" => return two_word_type(p, word == "LOCAL"),
        _ => return Err(p.unexpected("a type such as INTEGER or LIST<STRING>")),
    };
    p.advance();
    type_suffix(p, plain)
}

fn list_type(p: &mut Parser<'_>) -> PResult<TypeExpr> {
    p.advance();
    let element = if p.eat(Symbol::Less) {
        let context = Context {
            bar_ends: false,
            ..p.context
        };
        let element = p.within(context, value_type)?;
        p.expect(Symbol::Greater)?;
        element
    } else {
        TypeExpr::Any
    };
    type_suffix(p, TypeExpr::List(Box::new(element)))
}

fn two_word_type(p: &mut Parser<'_>, is_local: bool) -> PResult<TypeExpr> {
    p.advance();
    let is_time = p.is_word("TIME");
    if !is_time && !p.is_word("DATETIME") {
        return Err(p.unexpected("TIME or DATETIME"));
    }
    p.advance();
    type_suffix(
        p,
        match (is_local, is_time) {
            (true, true) => TypeExpr::LocalTime,
            (true, false) => TypeExpr::LocalDateTime,
            (false, true) => TypeExpr::ZonedTime,
            (false, false) => TypeExpr::ZonedDateTime,
        },
    )
}

fn type_suffix(p: &mut Parser<'_>, value_type: TypeExpr) -> PResult<TypeExpr> {
    if p.is_keyword(Keyword::Not) && p.is_keyword_at(1, Keyword::Null) {
        p.advance();
        p.advance();
        Ok(TypeExpr::NotNull(Box::new(value_type)))
    } else {
        Ok(value_type)
    }
}
