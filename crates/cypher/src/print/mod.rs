//! Prints trees as canonical text: one line, keywords in capitals, only the parentheses that are needed.
//!
//! Invariant: parsing the text yields the same tree.

mod clause;
mod expr;
mod pattern;
mod schema;

use std::fmt;

use self::schema::SchemaPrinter;
use crate::ast::{
    Expr, PathPattern, RegularQuery, Statement, StatementBody, StatementMode, TypeExpr, UnionKind,
};
use crate::lexer::{is_name_part, is_name_start};
use crate::token::Keyword;

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.statement(self)))
    }
}

impl fmt::Display for RegularQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.query(self)))
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.expr(self)))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.path(self)))
    }
}

impl fmt::Display for TypeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printed(|printer| printer.value_type(self)))
    }
}

/// A name in a position where any word is allowed: labels, types, properties, procedures.
pub fn quote_name(name: &str) -> String {
    let mut characters = name.chars();
    let is_plain = characters.next().is_some_and(is_name_start) && characters.all(is_name_part);
    if is_plain {
        name.to_owned()
    } else {
        format!("`{}`", name.replace('`', "``"))
    }
}

/// A name in the position of a variable, where keywords need backquotes too.
pub fn quote_variable(name: &str) -> String {
    match Keyword::of(name) {
        Some(_) => format!("`{name}`"),
        None => quote_name(name),
    }
}

/// Text as a string literal in single quotes.
pub fn quote_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for character in text.chars() {
        match character {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04X}", u32::from(control)))
            }
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

fn printed(print: impl FnOnce(&mut Printer)) -> String {
    let mut printer = Printer::default();
    print(&mut printer);
    printer.out
}

/// The text so far.
#[derive(Default)]
struct Printer {
    out: String,
}

impl Printer {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, name: &str) {
        self.text(&quote_name(name));
    }

    fn variable(&mut self, name: &str) {
        self.text(&quote_variable(name));
    }

    /// Items with `separator` between them.
    fn separated<T>(&mut self, items: &[T], separator: &str, mut print: impl FnMut(&mut Self, &T)) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text(separator);
            }
            print(self, item);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement.mode {
            StatementMode::Run => {}
            StatementMode::Explain => self.text("EXPLAIN "),
            StatementMode::Profile => self.text("PROFILE "),
        }
        match &statement.body {
            StatementBody::Query(query) => self.query(query),
            StatementBody::CreateIndex(index) => self.schema().create_index(index),
            StatementBody::DropIndex(drop) => self.schema().drop("INDEX", drop),
            StatementBody::CreateConstraint(constraint) => {
                self.schema().create_constraint(constraint)
            }
            StatementBody::DropConstraint(drop) => self.schema().drop("CONSTRAINT", drop),
            StatementBody::CreateLookupIndex(index) => self.schema().create_lookup_index(index),
            StatementBody::Show(show) => self.show(show),
            StatementBody::KillQuery(kill) => {
                self.text("KILL QUERY ");
                self.expr(&kill.id);
            }
        }
    }

    fn schema(&mut self) -> SchemaPrinter<'_> {
        SchemaPrinter::new(self)
    }

    fn query(&mut self, query: &RegularQuery) {
        let union = match query.union {
            UnionKind::Distinct => " UNION ",
            UnionKind::All => " UNION ALL ",
        };
        self.separated(&query.branches, union, |printer, branch| {
            printer.separated(&branch.clauses, " ", Self::clause)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, parse_expression};

    #[test]
    fn text_is_canonical() {
        for (text, canonical) in [
            (
                "match (n : A:B{x:1})-[ r:T|:U *1..2]-()where n.x>1 return n.x AS `order`",
                "MATCH (n:A&B {x: 1})-[r:T|U*1..2]-() WHERE n.x > 1 RETURN n.x AS `order`",
            ),
            (
                "match (a)((x)-->(y) where x.v<y.v)+(b) return *",
                "MATCH (a)((x)-->(y) WHERE x.v < y.v){1,}(b) RETURN *",
            ),
            (
                "return exists{(a)-->()where true}",
                "RETURN EXISTS { MATCH (a)-->() WHERE true }",
            ),
            (
                "unwind $l as x with distinct x order by x desc skip 1 limit 2 where x return x",
                "UNWIND $l AS x WITH DISTINCT x ORDER BY x DESC SKIP 1 LIMIT 2 WHERE x RETURN x",
            ),
            (
                "create unique index i if not exists for (n:L) on (n.a.b, n.c[])",
                "CREATE UNIQUE INDEX i IF NOT EXISTS FOR (n:L) ON (n.a.b, n.c[])",
            ),
        ] {
            assert_eq!(parse(text).expect(text).to_string(), canonical);
        }
        for (text, canonical) in [
            ("((a))+(b*(c+d))", "a + b * (c + d)"),
            ("a-(b-c)", "a - (b - c)"),
            ("(a or b) and not(c)", "(a OR b) AND NOT c"),
            ("-(5)", "-(5)"),
            ("(-5).x", "(-5).x"),
            ("[(x IN xs)]", "[(x IN xs)]"),
            ("[x in xs where (x:A|B)|x]", "[x IN xs WHERE (x:A|B) | x]"),
            (r#""it's""#, r"'it\'s'"),
        ] {
            assert_eq!(parse_expression(text).expect(text).to_string(), canonical);
        }
    }
}
