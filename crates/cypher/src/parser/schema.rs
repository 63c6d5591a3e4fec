//! Schema commands.

use super::cursor::{PResult, Parser};
use super::expr::{expression, optional_where, predicate};
use super::query::yield_clause;
use super::value_type::value_type;
use crate::Span;
use crate::ast::{
    ConstraintRequirement, CreateConstraint, CreateIndex, DropSchema, ExprKind, FieldReference,
    FieldStep, Ident, KillQuery, SchemaPattern, Show, ShowKind, StatementBody, Yield, YieldItems,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The words that kinds of convergent fields are spelled with.
const CONVERGENT_WORDS: [&str; 9] = [
    "COUNTER",
    "SET",
    "GROW",
    "REGISTER",
    "MULTI",
    "FLAG",
    "HLL",
    "MAP",
    "CONVERGENT",
];

/// Whether `CREATE` starts a schema command.
pub(super) fn is_schema_command(p: &Parser<'_>) -> bool {
    matches!(
        p.peek_at(1),
        TokenKind::Keyword(Keyword::Unique | Keyword::Index | Keyword::Constraint)
    ) && !p.is_at(2, Symbol::Equal)
}

pub(super) fn create_schema(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    let unique = p.eat_keyword(Keyword::Unique);
    if !unique && p.eat_keyword(Keyword::Constraint) {
        return create_constraint(p, start).map(StatementBody::CreateConstraint);
    }
    p.expect_keyword(Keyword::Index)?;
    let (name, if_not_exists) = schema_name(p)?;
    p.expect_keyword(Keyword::For)?;
    let target = schema_target(p)?;
    p.expect_keyword(Keyword::On)?;
    let fields = field_list(p, &target)?;
    Ok(StatementBody::CreateIndex(CreateIndex {
        unique,
        name,
        if_not_exists,
        target,
        fields,
        span: p.since(start),
    }))
}

/// `[name] [IF NOT EXISTS]`
fn schema_name(p: &mut Parser<'_>) -> PResult<(Option<Ident>, bool)> {
    let is_if = p.is_keyword(Keyword::If) && p.is_keyword_at(1, Keyword::Not);
    let name = if p.is_keyword(Keyword::For) || is_if {
        None
    } else {
        Some(p.name("a name, IF NOT EXISTS or FOR")?)
    };
    let if_not_exists = p.eat_keyword(Keyword::If);
    if if_not_exists {
        p.expect_keyword(Keyword::Not)?;
        p.expect_keyword(Keyword::Exists)?;
    }
    Ok((name, if_not_exists))
}

/// `(n:Label)` or `()-[r:TYPE]-()`
fn schema_target(p: &mut Parser<'_>) -> PResult<SchemaPattern> {
    p.expect(Symbol::LeftParen)?;
    if !p.eat(Symbol::RightParen) {
        let (variable, label) = variable_and_name(p, "a label")?;
        p.expect(Symbol::RightParen)?;
        return Ok(SchemaPattern::Node { variable, label });
    }
    p.eat(Symbol::Less);
    p.expect(Symbol::Minus)?;
    p.expect(Symbol::LeftBracket)?;
    let (variable, rel_type) = variable_and_name(p, "a relationship type")?;
    p.expect(Symbol::RightBracket)?;
    p.expect(Symbol::Minus)?;
    p.eat(Symbol::Greater);
    p.expect(Symbol::LeftParen)?;
    p.expect(Symbol::RightParen)?;
    Ok(SchemaPattern::Relationship { variable, rel_type })
}

fn variable_and_name(p: &mut Parser<'_>, expected: &str) -> PResult<(Ident, Ident)> {
    let variable = p.variable()?;
    p.expect(Symbol::Colon)?;
    Ok((variable, p.name(expected)?))
}

/// `(n.a, n.b)`, or one field without parentheses.
fn field_list(p: &mut Parser<'_>, target: &SchemaPattern) -> PResult<Vec<FieldReference>> {
    if !p.eat(Symbol::LeftParen) {
        return Ok(vec![field(p, target)?]);
    }
    let fields = p.comma_separated(|p| field(p, target))?;
    if p.eat(Symbol::RightParen) {
        Ok(fields)
    } else {
        Err(p.unexpected("`,` or `)`"))
    }
}

/// `n.a`, `n.b.c`, `n.tags[]`
fn field(p: &mut Parser<'_>, target: &SchemaPattern) -> PResult<FieldReference> {
    let start = p.span();
    let variable = p.variable()?;
    let (SchemaPattern::Node {
        variable: declared, ..
    }
    | SchemaPattern::Relationship {
        variable: declared, ..
    }) = target;
    if variable != *declared {
        let message = format!(
            "`{}` is not the variable declared after FOR, which is `{}`",
            variable.name, declared.name
        );
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            variable.span,
            message,
        ));
    }
    p.expect(Symbol::Dot)?;
    let mut steps = vec![FieldStep::Name(p.name("the name of a property")?)];
    loop {
        if p.eat(Symbol::Dot) {
            steps.push(FieldStep::Name(p.name("the name of a property")?));
        } else if p.is(Symbol::LeftBracket) && p.is_at(1, Symbol::RightBracket) {
            p.advance();
            p.advance();
            steps.push(FieldStep::Elements);
        } else {
            return Ok(FieldReference {
                steps,
                span: p.since(start),
            });
        }
    }
}

fn create_constraint(p: &mut Parser<'_>, start: Span) -> PResult<CreateConstraint> {
    let (name, if_not_exists) = schema_name(p)?;
    p.expect_keyword(Keyword::For)?;
    let target = schema_target(p)?;
    p.expect_keyword(Keyword::Require)?;
    let at = p.at;
    let kind = if p.eat_word("KEEP") && p.eat_word("ENDPOINTS") {
        ConstraintRequirement::KeepEndpoints
    } else {
        p.at = at;
        match field_constraint(p, &target) {
            Ok(Some(kind)) => kind,
            // None of the forms over fields: rewind and parse any predicate.
            _ => {
                p.at = at;
                ConstraintRequirement::Check(predicate(p)?)
            }
        }
    };
    Ok(CreateConstraint {
        name,
        if_not_exists,
        target,
        kind,
        span: p.since(start),
    })
}

/// `fields IS UNIQUE`, `IS NODE KEY`, `IS NOT NULL`, `IS :: TYPE`, up to the end of the statement.
fn field_constraint(
    p: &mut Parser<'_>,
    target: &SchemaPattern,
) -> PResult<Option<ConstraintRequirement>> {
    let mut fields = field_list(p, target)?;
    if !p.eat_keyword(Keyword::Is) {
        return Ok(None);
    }
    let kind = if p.eat_keyword(Keyword::Unique) {
        ConstraintRequirement::Unique(fields)
    } else if p.is_keyword(Keyword::Node)
        || p.is_keyword(Keyword::Relationship)
        || p.is_keyword(Keyword::Key)
    {
        let _ = p.eat_keyword(Keyword::Node) || p.eat_keyword(Keyword::Relationship);
        p.expect_keyword(Keyword::Key)?;
        ConstraintRequirement::Key(fields)
    } else if fields.len() != 1 {
        return Ok(None);
    } else if p.eat_keyword(Keyword::Not) {
        p.expect_keyword(Keyword::Null)?;
        ConstraintRequirement::NotNull(fields.remove(0))
    } else if p.eat(Symbol::DoubleColon) || p.eat_word("TYPED") {
        ConstraintRequirement::Typed(fields.remove(0), value_type(p)?)
    } else if p.eat_word("CONVERGENT") {
        let mut words = Vec::new();
        while let Some(word) = CONVERGENT_WORDS.iter().find(|word| p.is_word(word)) {
            p.advance();
            words.push(*word);
        }
        ConstraintRequirement::Convergent(fields.remove(0), words.join(" ").into())
    } else {
        return Ok(None);
    };
    let is_end = matches!(
        p.peek(),
        TokenKind::End | TokenKind::Symbol(Symbol::Semicolon)
    );
    Ok(is_end.then_some(kind))
}

pub(super) fn drop_schema(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    let body = match p.peek() {
        TokenKind::Keyword(Keyword::Index) => StatementBody::DropIndex,
        TokenKind::Keyword(Keyword::Constraint) => StatementBody::DropConstraint,
        _ => {
            return Err(p.unexpected_word(
                "INDEX or CONSTRAINT",
                &[Keyword::Index, Keyword::Constraint],
            ));
        }
    };
    p.advance();
    let name = p.name("a name")?;
    let if_exists = p.eat_keyword(Keyword::If);
    if if_exists {
        p.expect_keyword(Keyword::Exists)?;
    }
    Ok(body(DropSchema {
        name,
        if_exists,
        span: p.since(start),
    }))
}

pub(super) fn show(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    let kinds = [
        (Keyword::Indexes, ShowKind::Indexes),
        (Keyword::Constraints, ShowKind::Constraints),
        (Keyword::Labels, ShowKind::Labels),
        (Keyword::Types, ShowKind::Types),
        (Keyword::Buckets, ShowKind::Buckets),
        (Keyword::Queries, ShowKind::Queries),
        (Keyword::Functions, ShowKind::Functions),
        (Keyword::Procedures, ShowKind::Procedures),
    ];
    let found = kinds.iter().find(|(keyword, _)| p.is_keyword(*keyword));
    let kind = match found {
        Some(&(_, kind)) => kind,
        None if p.is_word("PROPERTIES") => ShowKind::Properties,
        None if p.is_word("CONFLICTS") => ShowKind::Conflicts,
        None => {
            let words = kinds.map(|(keyword, _)| keyword);
            return Err(p.unexpected_word(
                "INDEXES, CONSTRAINTS, LABELS, TYPES, PROPERTIES, BUCKETS, QUERIES, FUNCTIONS or PROCEDURES",
                &words,
            ));
        }
    };
    p.advance();
    let yields = match p.peek() {
        TokenKind::Keyword(Keyword::Yield) => Some(yield_clause(p)?),
        TokenKind::Keyword(Keyword::Where) => {
            let start = p.span();
            Some(Yield {
                items: YieldItems::Star,
                predicate: optional_where(p)?,
                span: p.since(start),
            })
        }
        _ => None,
    };
    Ok(StatementBody::Show(Show {
        kind,
        yields,
        span: p.since(start),
    }))
}

pub(super) fn kill_query(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    p.expect_keyword(Keyword::Query)?;
    let id = expression(p)?;
    match id.kind {
        ExprKind::Literal(_) | ExprKind::Parameter(_) => Ok(StatementBody::KillQuery(KillQuery {
            id,
            span: p.since(start),
        })),
        _ => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            id.span,
            "KILL QUERY takes the id of a query",
        )
        .with_hint("SHOW QUERIES lists them")),
    }
}
