//! Comma-separated values as RFC 4180 has them, read record by record.
//!
//! Fields stand between delimiters, or in quotes, inside which a quote is written twice and line breaks belong to the field.
//! A record ends with a line break (`\n` or `\r\n`); empty lines are passed over. What is not written so is an error that
//! names the line. No more than one record is held.

use std::io::{BufRead, Read};

/// Most bytes of one record: an open quote must not read a whole file into memory.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// One field: none where nothing is written, not even quotes.
pub(crate) type Field = Option<String>;

/// What is wrong with a file.
#[derive(Debug)]
pub(crate) enum CsvError {
    /// The text, by line.
    Text {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Reading.
    Io(std::io::Error),
}

/// Records of a text.
pub(crate) struct Records<R> {
    input: R,
    delimiter: Vec<u8>,
    /// Lines read.
    lines: u64,
    /// The line where the present record began.
    first_line: u64,
    record: Vec<u8>,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(input: R, delimiter: char) -> Self {
        Self {
            input,
            delimiter: delimiter.to_string().into_bytes(),
            lines: 0,
            first_line: 0,
            record: Vec::new(),
        }
    }

    /// The line where the record read last begins.
    pub(crate) fn line(&self) -> u64 {
        self.first_line
    }

    /// The fields of the next record; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Field>>, CsvError> {
        loop {
            self.record.clear();
            self.first_line = self.lines + 1;
            let mut open = false;
            loop {
                let start = self.record.len();
                let left = (MAX_RECORD_BYTES + 1).saturating_sub(start as u64);
                let mut line = (&mut self.input).take(left);
                let read = line
                    .read_until(b'\n', &mut self.record)
                    .map_err(CsvError::Io)?;
                if self.record.len() as u64 > MAX_RECORD_BYTES {
                    return Err(self.wrong(format!(
                        "a record is larger than {} MiB: is a quote left open?",
                        MAX_RECORD_BYTES >> 20
                    )));
                }
                if read == 0 {
                    break;
                }
                self.lines += 1;
                let quotes = self.record[start..]
                    .iter()
                    .filter(|byte| **byte == b'"')
                    .count();
                open ^= quotes % 2 == 1;
                if !open {
                    break;
                }
            }
            if open {
                return Err(self.wrong("a quote that opens here is never closed".into()));
            }
            if self.record.is_empty() {
                return Ok(None);
            }
            if self.lines == 1 && self.record.starts_with(b"\xef\xbb\xbf") {
                self.record.drain(..3);
            }
            if self.record.last() == Some(&b'\n') {
                self.record.pop();
                if self.record.last() == Some(&b'\r') {
                    self.record.pop();
                }
            }
            if !self.record.is_empty() {
                return self.fields().map(Some);
            }
        }
    }

    fn fields(&self) -> Result<Vec<Field>, CsvError> {
        let mut fields = Vec::new();
        let mut rest = self.record.as_slice();
        loop {
            let (field, after) = match rest.strip_prefix(b"\"") {
                Some(quoted) => self.quoted(quoted)?,
                None => self.plain(rest)?,
            };
            fields.push(field);
            if after.is_empty() {
                return Ok(fields);
            }
            rest = after
                .strip_prefix(self.delimiter.as_slice())
                .ok_or_else(|| self.wrong("there is text behind a closing quote".into()))?;
        }
    }

    /// A field after its opening quote, and what follows its closing one.
    fn quoted<'r>(&self, text: &'r [u8]) -> Result<(Field, &'r [u8]), CsvError> {
        let mut bytes = Vec::new();
        let mut rest = text;
        loop {
            let Some(at) = rest.iter().position(|byte| *byte == b'"') else {
                return Err(self.wrong("a quote is never closed".into()));
            };
            bytes.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            match rest.strip_prefix(b"\"") {
                Some(after) => {
                    bytes.push(b'"');
                    rest = after;
                }
                None => return Ok((Some(self.text(bytes)?), rest)),
            }
        }
    }

    /// A field without quotes, and what follows it.
    fn plain<'r>(&self, text: &'r [u8]) -> Result<(Field, &'r [u8]), CsvError> {
        let end = text
            .windows(self.delimiter.len())
            .position(|window| window == self.delimiter)
            .unwrap_or(text.len());
        let (field, rest) = text.split_at(end);
        if field.contains(&b'"') {
            return Err(self.wrong(
                "a quote inside a field that does not begin with one: put the field in quotes and write the quote twice".into(),
            ));
        }
        let field = match field.is_empty() {
            true => None,
            false => Some(self.text(field.to_vec())?),
        };
        Ok((field, rest))
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, CsvError> {
        String::from_utf8(bytes).map_err(|_| self.wrong("a field is not UTF-8".into()))
    }

    fn wrong(&self, what: String) -> CsvError {
        CsvError::Text {
            line: self.first_line,
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Vec<Field>>, String> {
        let mut records = Records::new(text.as_bytes(), ',');
        let mut all = Vec::new();
        loop {
            match records.next() {
                Ok(Some(fields)) => all.push(fields),
                Ok(None) => return Ok(all),
                Err(CsvError::Text { line, what }) => return Err(format!("{line}: {what}")),
                Err(CsvError::Io(error)) => return Err(error.to_string()),
            }
        }
    }

    fn some(text: &str) -> Field {
        Some(text.to_owned())
    }

    #[test]
    fn fields_are_plain_quoted_or_not_there() {
        let text = "\u{feff}a,\"b,\"\"c\"\"\",,\"\"\r\n\n\"x\ny\",z,\n";
        assert_eq!(
            read(text),
            Ok(vec![
                vec![some("a"), some("b,\"c\""), None, some("")],
                vec![some("x\ny"), some("z"), None],
            ])
        );
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(read("last"), Ok(vec![vec![some("last")]]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, message) in [
            ("a\nb\n\"open\nc\n", "3: a quote that opens here"),
            ("a\n\"b\"c,\"d\"\n", "2: there is text behind"),
            ("a\nb 5\" c\"\n", "2: a quote inside"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        let mut records = Records::new(&b"a\n\xff\n"[..], ',');
        assert!(records.next().is_ok());
        assert!(matches!(
            records.next(),
            Err(CsvError::Text { line: 2, .. })
        ));
    }

    #[test]
    fn a_record_has_a_largest_size() {
        let text = format!("a\n\"{}", "x".repeat(17 << 20));
        let error = read(&text).unwrap_err();
        assert!(error.contains("16 MiB"), "{error}");
    }

    #[test]
    fn a_delimiter_may_be_any_character() {
        let mut records = Records::new("a→b→\"c→\"".as_bytes(), '→');
        let fields = records.next().unwrap().unwrap();
        assert_eq!(fields, vec![some("a"), some("b"), some("c→")]);
    }
}
