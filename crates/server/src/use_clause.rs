//! `USE database` at the start of a statement: it chooses the database, so the server reads it, and the planner sees
//! spaces in its place, which keep the positions of errors.

/// A statement that names its database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UseClause {
    /// The database.
    pub database: String,
    /// The statement with spaces in place of the clause.
    pub rest: String,
}

impl UseClause {
    /// The clause at the start of `text`; none without one.
    pub fn of(text: &str) -> Option<Self> {
        let trimmed = text.trim_start();
        let start = text.len() - trimmed.len();
        let (word, after) = trimmed.split_at_checked(3)?;
        if !word.eq_ignore_ascii_case("use") || !after.starts_with(char::is_whitespace) {
            return None;
        }
        let named = after.trim_start();
        let name_start = text.len() - named.len();
        let (database, length) = match named.strip_prefix('`') {
            Some(quoted) => {
                let end = quoted.find('`')?;
                (&quoted[..end], end + 2)
            }
            None => {
                let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
                let end = named.find(|c| !is_part(c)).unwrap_or(named.len());
                (&named[..end], end)
            }
        };
        if database.is_empty() {
            return None;
        }
        let end = name_start + length;
        let spaces = " ".repeat(end - start);
        Some(Self {
            database: database.to_owned(),
            rest: format!("{}{spaces}{}", &text[..start], &text[end..]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clause_is_replaced_by_spaces() {
        for (text, database, rest) in [
            ("USE people RETURN 1", "people", "           RETURN 1"),
            (" use `my db`\nRETURN 1", "my db", "            \nRETURN 1"),
            ("USE a-b.c", "a-b.c", "         "),
        ] {
            let found = UseClause::of(text).expect(text);
            assert_eq!(
                (found.database.as_str(), found.rest.as_str()),
                (database, rest)
            );
            assert_eq!(found.rest.len(), text.len());
        }
        for text in ["RETURN 1", "used", "USE", "USE ", "USE (n)", "us", "USE `a"] {
            assert_eq!(UseClause::of(text), None, "{text}");
        }
    }
}
