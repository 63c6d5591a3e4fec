//! Hints to the planner: `USING INDEX`, `USING SCAN`, `USING JOIN`.

use super::cursor::{PResult, Parser};
use crate::ast::{Hint, HintKind, Ident};
use crate::token::{Keyword, Symbol, TokenKind};

/// The hints between a pattern and its `WHERE`.
pub(super) fn hints(p: &mut Parser<'_>) -> PResult<Vec<Hint>> {
    let mut hints = Vec::new();
    while p.peek() == TokenKind::Name && p.is_word("USING") {
        hints.push(hint(p)?);
    }
    Ok(hints)
}

fn hint(p: &mut Parser<'_>) -> PResult<Hint> {
    let start = p.advance();
    let kind = if p.eat_word("JOIN") {
        p.expect_keyword(Keyword::On)?;
        HintKind::Join(p.comma_separated(Parser::variable)?)
    } else if p.eat_word("SCAN") {
        let (variable, label) = labelled(p)?;
        HintKind::Scan { variable, label }
    } else {
        let _type = p.eat_word("RANGE") || p.eat_word("TEXT") || p.eat_word("POINT");
        if !p.eat_keyword(Keyword::Index) {
            return Err(p.unexpected("INDEX, SCAN or JOIN"));
        }
        // `SEEK` may also be the variable.
        if p.is_word("SEEK") && !p.is_at(1, Symbol::Colon) {
            p.advance();
        }
        let (variable, label) = labelled(p)?;
        p.expect(Symbol::LeftParen)?;
        let properties = p.comma_separated(|p| p.name("the name of a property"))?;
        p.expect(Symbol::RightParen)?;
        HintKind::Index {
            variable,
            label,
            properties,
        }
    };
    Ok(Hint {
        kind,
        span: p.since(start),
    })
}

/// `variable:Label`
fn labelled(p: &mut Parser<'_>) -> PResult<(Ident, Ident)> {
    let variable = p.variable()?;
    p.expect(Symbol::Colon)?;
    Ok((variable, p.name("a label or type")?))
}
