//! Comma-separated values as defined by RFC 4180, read record by record.
//!
//! Fields are separated by delimiters. A quoted field may contain line breaks, and quotes that are doubled. A record
//! ends with a line break (`
//! `, `\r
//! ` or `\r`, determined by the first one); empty lines are skipped. Any other input is an error with its line number,
//! including another kind of line break in an unquoted field. At most one record is held in memory.

use std::io::{BufRead, Read};

/// Maximum size of a record: an unclosed quote must not read a whole file into memory.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// One field: none if it is empty and unquoted.
pub(crate) type Field = Option<String>;

/// An error in a file.
#[derive(Debug)]
pub(crate) enum CsvError {
    /// Malformed text.
    Text {
        /// Counted from 1.
        line: u64,
        /// What is malformed.
        what: String,
    },
    /// An I/O error.
    Io(std::io::Error),
}

/// Records of a text.
pub(crate) struct Records<R> {
    input: R,
    delimiter: Vec<u8>,
    /// The last byte of the line breaks; none before the first one.
    line_end: Option<u8>,
    /// Lines read.
    lines: u64,
    /// The line at which the current record began.
    first_line: u64,
    record: Vec<u8>,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(input: R, delimiter: char) -> Self {
        Self {
            input,
            delimiter: delimiter.to_string().into_bytes(),
            line_end: None,
            lines: 0,
            first_line: 0,
            record: Vec::new(),
        }
    }

    /// The line at which the last record begins.
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
                let read = match self.line_end {
                    Some(end) => line.read_until(end, &mut self.record),
                    None => read_until_either(&mut line, &mut self.record),
                };
                let read = read.map_err(CsvError::Io)?;
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
                    self.line_end = self.line_end.or(self.record.last().copied());
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
            for end in *b"\n\r" {
                if self.record.last() == Some(&end) {
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
                .ok_or_else(|| self.wrong("there is text after a closing quote".into()))?;
        }
    }

    /// The rest of a field after its opening quote, and the byte after its closing quote.
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

    /// An unquoted field, and the byte after it.
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
        if field.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(self.wrong(
                "a field without quotes holds a line break of another kind than that of the first line: put the field in quotes, or \
                 end all lines alike"
                    .into(),
            ));
        }
        let field = if field.is_empty() {
            None
        } else {
            Some(self.text(field.to_vec())?)
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

/// Reads to the first `
/// `, `\r
/// ` or `\r`, inclusive.
fn read_until_either(input: &mut impl BufRead, out: &mut Vec<u8>) -> std::io::Result<usize> {
    let start = out.len();
    loop {
        let buffer = input.fill_buf()?;
        if out.len() > start && out.last() == Some(&b'\r') {
            if buffer.first() == Some(&b'\n') {
                out.push(b'\n');
                input.consume(1);
            }
            return Ok(out.len() - start);
        }
        let end = buffer.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let count = end.map_or(buffer.len(), |at| at + 1);
        out.extend_from_slice(&buffer[..count]);
        let is_done = count == 0 || end.is_some_and(|at| buffer[at] == b'\n');
        input.consume(count);
        if is_done {
            return Ok(out.len() - start);
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
    fn fields_are_plain_quoted_or_missing() {
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
    fn lines_end_as_the_first_one_does() {
        let rows = Ok(vec![
            vec![some("a"), some("b")],
            vec![some("1"), some("x\ry\nz")],
            vec![some("2"), None],
        ]);
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("a,b{end}1,\"x\ry\nz\"{end}{end}2,{end}");
            assert_eq!(read(&text), rows, "{end:?}");
            // A one-byte buffer splits `\r` from `
            // `.
            let small = std::io::BufReader::with_capacity(1, text.as_bytes());
            let mut records = Records::new(small, ',');
            assert_eq!(records.next().unwrap().unwrap(), rows.as_ref().unwrap()[0]);
            assert_eq!(records.next().unwrap().unwrap(), rows.as_ref().unwrap()[1]);
        }
        assert_eq!(
            read("\"a\rb\"\r\n1\r\n"),
            Ok(vec![vec![some("a\rb")], vec![some("1")]])
        );
        for (text, line) in [
            ("a\n1\r2\n", "2: "),
            ("a\r1\n2\r", "2: "),
            ("a\r\n1\r2\r\n", "2: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with(line) && error.contains("line break of another kind"),
                "{error}"
            );
        }
    }

    #[test]
    fn errors_name_their_line() {
        for (text, message) in [
            ("a\nb\n\"open\nc\n", "3: a quote that opens here"),
            ("a\n\"b\"c,\"d\"\n", "2: there is text after"),
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
