//! Types as written after `IS ::`.

use super::cursor::{Context, PResult, Parser};
use crate::ast::ValueType;
use crate::token::{Keyword, Symbol, TokenKind};

/// A type, such as `INTEGER`, `LIST<STRING NOT NULL>` or `INTEGER | FLOAT`.
pub(super) fn value_type(p: &mut Parser<'_>) -> PResult<ValueType> {
    let mut types = vec![p.nested(single_type)?];
    while !p.context.bar_ends && p.eat(Symbol::Bar) {
        types.push(p.nested(single_type)?);
    }
    Ok(match types.len() {
        1 => types.remove(0),
        _ => ValueType::Union(types),
    })
}

fn single_type(p: &mut Parser<'_>) -> PResult<ValueType> {
    let word = match p.peek() {
        TokenKind::Name | TokenKind::Keyword(_) => p.token_text().to_ascii_uppercase(),
        _ => return Err(p.unexpected("a type such as INTEGER or LIST<STRING>")),
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
        "LIST" => return list_type(p),
        "LOCAL" | "ZONED" => return two_word_type(p, word == "LOCAL"),
        _ => return Err(p.unexpected("a type such as INTEGER or LIST<STRING>")),
    };
    p.advance();
    type_suffix(p, plain)
}

fn list_type(p: &mut Parser<'_>) -> PResult<ValueType> {
    p.advance();
    let element = match p.eat(Symbol::Less) {
        false => ValueType::Any,
        true => {
            let context = Context {
                bar_ends: false,
                ..p.context
            };
            let element = p.within(context, value_type)?;
            p.expect(Symbol::Greater)?;
            element
        }
    };
    type_suffix(p, ValueType::List(Box::new(element)))
}

fn two_word_type(p: &mut Parser<'_>, is_local: bool) -> PResult<ValueType> {
    p.advance();
    let is_time = p.is_word("TIME");
    if !is_time && !p.is_word("DATETIME") {
        return Err(p.unexpected("TIME or DATETIME"));
    }
    p.advance();
    type_suffix(
        p,
        match (is_local, is_time) {
            (true, true) => ValueType::LocalTime,
            (true, false) => ValueType::LocalDateTime,
            (false, true) => ValueType::ZonedTime,
            (false, false) => ValueType::ZonedDateTime,
        },
    )
}

fn type_suffix(p: &mut Parser<'_>, value_type: ValueType) -> PResult<ValueType> {
    match p.is_keyword(Keyword::Not) && p.is_keyword_at(1, Keyword::Null) {
        false => Ok(value_type),
        true => {
            p.advance();
            p.advance();
            Ok(ValueType::NotNull(Box::new(value_type)))
        }
    }
}
