//! The output of every reader: records with their line, or the reason why a row is invalid.

use std::sync::Arc;

use isomer_db::Value;

use super::columns::{Declared, Role};

/// Maximum length of a row, or of an element of a JSON file. A longer one most likely has an unclosed quote or bracket.
pub const MAX_ROW_BYTES: usize = 64 << 20;

/// One row of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The line on which it starts, from 1.
    pub line: u64,
    /// Its fields in the order of the file; fields without a value are omitted.
    pub fields: Vec<(Arc<str>, Value)>,
    /// Its name in the enclosing object, for a JSON object whose names are keys.
    pub member: Option<Arc<str>>,
}

impl Record {
    /// The field of that name.
    #[cfg(test)]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|(field, _)| field.as_ref() == name)
            .map(|(_, value)| value)
    }

    /// Removes and returns the field of that name.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let at = self
            .fields
            .iter()
            .position(|(field, _)| field.as_ref() == name)?;
        Some(self.fields.remove(at).1)
    }
}

/// An error of a reader.
#[derive(Debug)]
pub enum ReadError {
    /// This row is bad; the next may be good.
    Row(RowError),
    /// The rest of the file cannot be interpreted.
    Fatal(anyhow::Error),
}

/// A bad row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The line on which it starts, from 1.
    pub line: u64,
    /// The error, with advice.
    pub reason: String,
    /// The source text of the row, as far as known.
    pub text: String,
}

impl From<anyhow::Error> for ReadError {
    fn from(error: anyhow::Error) -> Self {
        Self::Fatal(error)
    }
}

/// Yields the records of a source one by one.
pub trait RecordReader {
    /// The next record; `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>, ReadError>;

    /// The text of the record that was returned last, for a reject file.
    fn last_text(&self) -> String;

    /// The type declared for a field, in the file or by an option.
    fn declared(&self, field: &str) -> Option<Declared>;

    /// Names of the columns, if the format has any.
    fn columns(&self) -> Option<Vec<Arc<str>>> {
        None
    }

    /// The column with this role in the header.
    fn with_role(&self, role: Role) -> Option<Arc<str>> {
        let _ = role;
        None
    }

    /// Remarks for the user at the end.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}
