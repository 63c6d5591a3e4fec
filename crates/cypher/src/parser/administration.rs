//! Administration of users and databases: `CREATE USER`, `ALTER USER`, `ALTER CURRENT USER`, `DROP USER`,
//! `CREATE DATABASE`, `DROP DATABASE`.
//!
//! Each is the call of a procedure, which asks the program that runs the database.

use super::cursor::{PResult, Parser, Rule};
use super::literal::parameter;
use crate::Span;
use crate::ast::{
    CallProcedure, Clause, Expr, ExprKind, Ident, Literal, MapEntry, QualifiedName, RegularQuery,
    SingleQuery, StatementBody, UnionKind,
};
use crate::error::{Detail, ParseError};
use crate::token::{Keyword, Symbol, TokenKind};

/// The procedure that the statements call.
const PROCEDURE: [&str; 2] = ["dbms", "administer"];
/// The procedure of `ALTER CURRENT USER`, which every user may call.
const PASSWORD_PROCEDURE: [&str; 2] = ["dbms", "changePassword"];

/// What a statement administers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    User,
    Database,
}

/// Whether an administrative statement begins here.
pub(super) fn is_administration(p: &Parser<'_>) -> bool {
    let word = |distance: usize, word: &str| {
        let token = p.tokens.get(p.at + distance);
        token.is_some_and(|token| token.span.slice(p.text).eq_ignore_ascii_case(word))
    };
    let subject = |distance: usize| {
        (word(distance, "USER") || word(distance, "DATABASE"))
            && !p.is_at(distance + 1, Symbol::Equal)
    };
    match p.peek() {
        TokenKind::Keyword(Keyword::Create) => {
            subject(1) || (p.is_keyword_at(1, Keyword::Or) && word(2, "REPLACE") && subject(3))
        }
        TokenKind::Keyword(Keyword::Drop) => subject(1),
        TokenKind::Name => p.is_word("ALTER") && (subject(1) || (word(1, "CURRENT") && subject(2))),
        _ => false,
    }
}

/// An administrative statement; [`is_administration`] holds.
pub(super) fn administration(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<StatementBody> {
    let start = p.span();
    let is_drop = p.is_keyword(Keyword::Drop);
    let is_alter = p.is_word("ALTER");
    p.advance();
    let replaces = p.eat_keyword(Keyword::Or);
    if replaces {
        p.advance();
    }
    if is_alter && p.eat_word("CURRENT") {
        return current_user(p, start, expression);
    }
    let subject = match p.is_word("USER") {
        true => Subject::User,
        false => Subject::Database,
    };
    p.advance();
    let name = name(p)?;
    let mut fields = vec![("name", name)];
    let condition = condition(p, is_drop || is_alter)?;
    if replaces && condition {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            p.last_span(),
            "OR REPLACE and IF NOT EXISTS in one statement",
        ));
    }
    fields.push(("replace", boolean(replaces, start)));
    fields.push(("ifExists", boolean(condition, start)));
    let action = match (subject, is_drop, is_alter) {
        (Subject::User, true, _) => "drop user",
        (Subject::Database, true, _) => "drop database",
        (Subject::Database, _, true) => {
            return Err(p.unexpected("the end of the statement: ALTER DATABASE is not available"));
        }
        (Subject::Database, ..) => "create database",
        (Subject::User, _, is_alter) => {
            fields.push(("password", password(p, expression)?));
            if is_alter {
                "alter user"
            } else {
                "create user"
            }
        }
    };
    if subject == Subject::Database {
        // Databases are there, or gone, when the statement ends.
        let _waits = p.eat_word("WAIT") || p.eat_word("NOWAIT");
    }
    fields.push(("action", text(action, start)));
    Ok(call(PROCEDURE, fields, start, p.since(start)))
}

/// `ALTER CURRENT USER SET PASSWORD FROM 'text' TO 'text'`, after `CURRENT`
fn current_user(p: &mut Parser<'_>, start: Span, expression: Rule<Expr>) -> PResult<StatementBody> {
    if !p.eat_word("USER") {
        return Err(p.unexpected("USER"));
    }
    p.expect_keyword(Keyword::Set)?;
    if !p.eat_word("PASSWORD") {
        return Err(p.unexpected("PASSWORD"));
    }
    p.expect_keyword(Keyword::From)?;
    let current = password_text(p, expression)?;
    if !p.eat_word("TO") {
        return Err(p.unexpected("TO and the new password"));
    }
    let fields = vec![
        ("current", current),
        ("password", password_text(p, expression)?),
    ];
    Ok(call(PASSWORD_PROCEDURE, fields, start, p.since(start)))
}

fn password_text(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<Expr> {
    let password = expression(p)?;
    match password.kind {
        ExprKind::Literal(Literal::String(_)) | ExprKind::Parameter(_) => Ok(password),
        _ => Err(ParseError::new(
            Detail::UnexpectedSyntax,
            password.span,
            "a password is a text or a parameter",
        )),
    }
}

/// `SET [PLAINTEXT] PASSWORD 'text' [[SET PASSWORD] CHANGE NOT REQUIRED]`
fn password(p: &mut Parser<'_>, expression: Rule<Expr>) -> PResult<Expr> {
    p.expect_keyword(Keyword::Set)?;
    p.eat_word("PLAINTEXT");
    if !p.eat_word("PASSWORD") {
        return Err(
            p.unexpected("PASSWORD and a text: roles are given over HTTP or with `isomer server`")
        );
    }
    let password = password_text(p, expression)?;
    if p.is_keyword(Keyword::Set) {
        p.advance();
        p.eat_word("PASSWORD");
    }
    if p.eat_word("CHANGE") && !(p.eat_keyword(Keyword::Not) && p.eat_word("REQUIRED")) {
        return Err(ParseError::new(
            Detail::UnexpectedSyntax,
            p.span(),
            "a change of the password at the first login cannot be required",
        )
        .with_hint("write CHANGE NOT REQUIRED"));
    }
    Ok(password)
}

/// `IF NOT EXISTS`, or `IF EXISTS` where the object must exist.
fn condition(p: &mut Parser<'_>, must_exist: bool) -> PResult<bool> {
    if !p.eat_keyword(Keyword::If) {
        return Ok(false);
    }
    if !must_exist {
        p.expect_keyword(Keyword::Not)?;
    }
    p.expect_keyword(Keyword::Exists)?;
    Ok(true)
}

/// The name of a user or database; a dotted one, too.
fn name(p: &mut Parser<'_>) -> PResult<Expr> {
    if p.peek() == TokenKind::Parameter {
        return parameter(p);
    }
    let first = p.name("a name")?;
    let mut name = first.name.to_string();
    while p.eat(Symbol::Dot) {
        name.push('.');
        name.push_str(p.name("a name")?.as_str());
    }
    Ok(text(&name, first.span))
}

fn text(value: &str, span: Span) -> Expr {
    Expr::new(ExprKind::Literal(Literal::String(value.into())), span)
}

fn boolean(value: bool, span: Span) -> Expr {
    Expr::new(ExprKind::Literal(Literal::Bool(value)), span)
}

fn call(procedure: [&str; 2], fields: Vec<(&str, Expr)>, start: Span, span: Span) -> StatementBody {
    let entries = fields.into_iter().map(|(key, value)| MapEntry {
        key: Ident::new(key, start),
        value,
    });
    let command = Expr::new(ExprKind::Map(entries.collect()), span);
    let call = CallProcedure {
        optional: false,
        name: QualifiedName {
            parts: procedure.map(|part| Ident::new(part, start)).into(),
            span: start,
        },
        arguments: Some(vec![command]),
        yields: None,
        span,
    };
    StatementBody::Query(RegularQuery {
        branches: vec![SingleQuery {
            clauses: vec![Clause::Call(call)],
            span,
        }],
        union: UnionKind::All,
        span,
    })
}
