//! Schema commands.

use super::cursor::{PResult, Parser};
use super::expr::{expression, predicate};
use super::literal::parameter;
use super::value_type::value_type;
use crate::Span;
use crate::ast::{
    ConstraintRequirement, CreateConstraint, CreateIndex, CreateLookupIndex, DropSchema, ExprKind,
    FieldReference, FieldStep, Ident, IndexType, Literal, SchemaName, SchemaPattern, StatementBody,
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

/// The names that Neo4j gives to implementations of the types of indexes accepted here.
const PROVIDERS: [&str; 5] = [
    "range-1.0",
    "text-1.0",
    "text-2.0",
    "point-1.0",
    "token-lookup-1.0",
];

/// Whether `CREATE` starts a schema command.
pub(super) fn is_schema_command(p: &Parser<'_>) -> bool {
    match p.peek_at(1) {
        TokenKind::Keyword(Keyword::Unique | Keyword::Index | Keyword::Constraint) => {
            !p.is_at(2, Symbol::Equal)
        }
        // `CREATE TEXT INDEX`, but not `CREATE text = (…)`.
        TokenKind::Name => p.is_keyword_at(2, Keyword::Index),
        _ => false,
    }
}

pub(super) fn create_schema(p: &mut Parser<'_>) -> PResult<StatementBody> {
    let start = p.advance();
    let unique = p.eat_keyword(Keyword::Unique);
    if !unique && p.eat_keyword(Keyword::Constraint) {
        return create_constraint(p, start).map(StatementBody::CreateConstraint);
    }
    match index_type(p)? {
        Some(IndexType::Lookup) if !unique => return create_lookup_index(p, start),
        Some(kind @ (IndexType::FullText | IndexType::Vector)) => return Err(no_index(p, kind)),
        // Indexes are ordered over all kinds of values: that answers what RANGE and TEXT indexes answer, and whether
        // two points are equal.
        _ => {}
    }
    p.expect_keyword(Keyword::Index)?;
    let (name, if_not_exists) = schema_name(p)?;
    p.expect_keyword(Keyword::For)?;
    let target = schema_target(p)?;
    p.expect_keyword(Keyword::On)?;
    let fields = field_list(p, &target)?;
    index_options(p)?;
    Ok(StatementBody::CreateIndex(CreateIndex {
        unique,
        name,
        if_not_exists,
        target,
        fields,
        span: p.since(start),
    }))
}

/// The type before `INDEX`.
fn index_type(p: &mut Parser<'_>) -> PResult<Option<IndexType>> {
    if p.peek() != TokenKind::Name {
        return Ok(None);
    }
    let Some(found) = IndexType::by_word(p.token_text()) else {
        return Err(p.unexpected("INDEX, RANGE INDEX, TEXT INDEX, POINT INDEX or LOOKUP INDEX"));
    };
    p.advance();
    Ok(Some(found))
}

fn no_index(p: &Parser<'_>, kind: IndexType) -> ParseError {
    let (what, instead) = match kind {
        IndexType::Vector => (
            "vector",
            "compare vectors with vector.similarity.cosine() over the nodes of a label",
        ),
        _ => (
            "full-text",
            "use CONTAINS, STARTS WITH or `=~`, or an index on a list of words",
        ),
    };
    let message = format!("{what} indexes are not available in this version");
    ParseError::new(Detail::UnexpectedSyntax, p.last_span(), message).with_hint(instead)
}

/// `CREATE LOOKUP INDEX …`, from `INDEX` on.
fn create_lookup_index(p: &mut Parser<'_>, start: Span) -> PResult<StatementBody> {
    p.expect_keyword(Keyword::Index)?;
    let (name, if_not_exists) = schema_name(p)?;
    p.expect_keyword(Keyword::For)?;
    p.expect(Symbol::LeftParen)?;
    let of_types = p.eat(Symbol::RightParen);
    let variable = if of_types {
        p.eat(Symbol::Less);
        p.expect(Symbol::Minus)?;
        p.expect(Symbol::LeftBracket)?;
        let variable = p.variable()?;
        p.expect(Symbol::RightBracket)?;
        p.expect(Symbol::Minus)?;
        p.eat(Symbol::Greater);
        p.expect(Symbol::LeftParen)?;
        variable
    } else {
        p.variable()?
    };
    p.expect(Symbol::RightParen)?;
    p.expect_keyword(Keyword::On)?;
    p.eat_word("EACH");
    let function = if of_types { "type" } else { "labels" };
    if !p.eat_word(function) {
        return Err(p.unexpected(&format!("`{function}({})`", variable.name)));
    }
    p.expect(Symbol::LeftParen)?;
    declared(p, &variable)?;
    p.expect(Symbol::RightParen)?;
    index_options(p)?;
    Ok(StatementBody::CreateLookupIndex(CreateLookupIndex {
        name,
        if_not_exists,
        of_types,
        span: p.since(start),
    }))
}

/// `[OPTIONS {indexProvider: …, indexConfig: {…}}]`: they choose between implementations in Neo4j. Here each index has
/// one, so they are checked and change nothing.
fn index_options(p: &mut Parser<'_>) -> PResult<()> {
    if !p.eat_word("OPTIONS") {
        return Ok(());
    }
    let options = expression(p)?;
    let ExprKind::Map(entries) = &options.kind else {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            options.span,
            "OPTIONS takes a map: `{indexProvider: 'range-1.0'}`",
        ));
    };
    for entry in entries {
        let fits = match (&*entry.key.name, &entry.value.kind) {
            ("indexProvider", ExprKind::Literal(Literal::String(provider))) => {
                PROVIDERS.contains(&&**provider)
            }
            ("indexConfig", ExprKind::Map(_)) => true,
            _ => false,
        };
        if !fits {
            let message = format!(
                "the option `{}` is not one of an index: OPTIONS has indexProvider ({}) and indexConfig, a map",
                entry.key.name,
                PROVIDERS.join(", ")
            );
            return Err(ParseError::new(
                Detail::UnexpectedSyntax,
                entry.key.span,
                message,
            ));
        }
    }
    Ok(())
}

/// The name of an index or constraint, or a parameter with it.
fn given_name(p: &mut Parser<'_>, expected: &str) -> PResult<SchemaName> {
    if p.peek() != TokenKind::Parameter {
        return p.name(expected).map(SchemaName::Fixed);
    }
    let parameter = parameter(p)?;
    match parameter.kind {
        ExprKind::Parameter(name) => Ok(SchemaName::Parameter(Ident {
            name,
            span: parameter.span,
        })),
        _ => Err(p.unexpected(expected)),
    }
}

/// `[name] [IF NOT EXISTS]`
fn schema_name(p: &mut Parser<'_>) -> PResult<(Option<SchemaName>, bool)> {
    let is_if = p.is_keyword(Keyword::If) && p.is_keyword_at(1, Keyword::Not);
    let name = if p.is_keyword(Keyword::For) || is_if {
        None
    } else {
        Some(given_name(p, "a name, IF NOT EXISTS or FOR")?)
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

/// The variable declared after `FOR`.
fn declared(p: &mut Parser<'_>, declared: &Ident) -> PResult<()> {
    let variable = p.variable()?;
    if variable == *declared {
        return Ok(());
    }
    let message = format!(
        "`{}` is not the variable declared after FOR, which is `{}`",
        variable.name, declared.name
    );
    Err(ParseError::new(
        Detail::UnexpectedSyntax,
        variable.span,
        message,
    ))
}

/// `n.a`, `n.b.c`, `n.tags[]`
fn field(p: &mut Parser<'_>, target: &SchemaPattern) -> PResult<FieldReference> {
    let start = p.span();
    let (SchemaPattern::Node { variable, .. } | SchemaPattern::Relationship { variable, .. }) =
        target;
    declared(p, variable)?;
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
            Ok(Some((kind, None))) => kind,
            Ok(Some((kind, Some(word)))) => {
                check_entity(&target, word)?;
                kind
            }
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

/// The word before `KEY` or `UNIQUE`: whether it is `NODE`, and where.
type EntityWord = (bool, Span);

/// Refuses `NODE KEY` of relationships, and `RELATIONSHIP KEY` of nodes.
fn check_entity(target: &SchemaPattern, (of_nodes, span): EntityWord) -> PResult<()> {
    let (is_of_nodes, records, word) = match target {
        SchemaPattern::Node { .. } => (true, "nodes", "NODE"),
        SchemaPattern::Relationship { .. } => (false, "relationships", "RELATIONSHIP"),
    };
    if of_nodes == is_of_nodes {
        return Ok(());
    }
    let message = format!("the constraint is on {records}: say {word} here, or leave the word out");
    Err(ParseError::new(Detail::UnexpectedSyntax, span, message))
}

/// `fields IS [NODE] UNIQUE`, `IS [NODE] KEY`, `IS NOT NULL`, `IS :: TYPE`, up to the end of the statement.
fn field_constraint(
    p: &mut Parser<'_>,
    target: &SchemaPattern,
) -> PResult<Option<(ConstraintRequirement, Option<EntityWord>)>> {
    let mut fields = field_list(p, target)?;
    if !p.eat_keyword(Keyword::Is) {
        return Ok(None);
    }
    let of_nodes = p.eat_keyword(Keyword::Node);
    let of_entity = of_nodes || p.eat_keyword(Keyword::Relationship) || p.eat_word("REL");
    let word = of_entity.then(|| (of_nodes, p.last_span()));
    let kind = if p.eat_keyword(Keyword::Unique) {
        ConstraintRequirement::Unique(fields)
    } else if of_entity || p.is_keyword(Keyword::Key) {
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
    if matches!(
        kind,
        ConstraintRequirement::Unique(_) | ConstraintRequirement::Key(_)
    ) {
        index_options(p)?;
    }
    let is_end = matches!(
        p.peek(),
        TokenKind::End | TokenKind::Symbol(Symbol::Semicolon)
    );
    Ok(is_end.then_some((kind, word)))
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
    let name = given_name(p, "a name")?;
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
