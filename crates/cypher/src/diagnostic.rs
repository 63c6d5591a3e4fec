//! Renders a message under the source line it refers to, with a caret; every front end and every phase uses
//! it.

use std::fmt::Write as _;

use crate::{Span, lexer::is_line_end};

/// Maximum number of columns of source shown; longer lines are cut around the caret.
const WINDOW: usize = 100;
/// Columns that a tab is expanded to.
const TAB: &str = "    ";

/// Line and column of a byte, both from 1; the column counts characters. Lines end with LF, CRLF or CR alone.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..floor_char_boundary(text, at)];
    let line_ends = before.matches(is_line_end).count() - before.matches("\r\n").count();
    (
        line_ends + 1,
        before[line_start(before)..].chars().count() + 1,
    )
}

/// Start of the last line of a text.
fn line_start(text: &str) -> usize {
    text.rfind(is_line_end).map_or(0, |end| end + 1)
}

/// The message, then the line at `span` with carets under it, then the hint:
///
/// ```text
/// found `RETRUN`, expected a clause
///  --> line 1, column 11
///   |
/// 1 | MATCH (n) RETRUN n
///   |           ^^^^^^
///   = hint: did you mean RETURN?
/// ```
pub fn render(text: &str, span: Span, message: &str, hint: Option<&str>) -> String {
    let start = floor_char_boundary(text, span.start as usize);
    let end = floor_char_boundary(text, span.end as usize).max(start);
    let (line, column) = line_and_column(text, start);
    let line_start = line_start(&text[..start]);
    let line_end = text[start..]
        .find(is_line_end)
        .map_or(text.len(), |length| start + length);

    let (before, is_cut) = last_columns(&text[line_start..start], WINDOW * 2 / 3);
    let marked = shown(&text[start..end.min(line_end).max(start)], WINDOW);
    let rest = WINDOW.saturating_sub(width(&before) + width(&marked));
    let after = shown(&text[end.min(line_end).max(start)..line_end], rest);
    let ellipsis = if is_cut { "… " } else { "" };
    let indent = " ".repeat(width(ellipsis) + width(&before));
    let carets = "^".repeat(width(&marked).max(1));
    let number = line.to_string();
    let margin = " ".repeat(number.len());

    let mut out = format!("{message}\n{margin}--> line {line}, column {column}\n");
    let _ = writeln!(
        out,
        "{margin} |\n{number} | {ellipsis}{before}{marked}{after}"
    );
    let _ = write!(out, "{margin} | {indent}{carets}");
    if let Some(hint) = hint {
        let _ = write!(out, "\n{margin} = hint: {hint}");
    }
    out
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The source line as displayed, cut after `columns`.
fn shown(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += if character == '\t' {
            TAB.len()
        } else {
            char_width(character)
        };
        if used > columns {
            break;
        }
        push_shown(&mut out, character);
    }
    out
}

/// The end of the line as displayed, at most `columns` wide, and whether something before it was cut.
fn last_columns(text: &str, columns: usize) -> (String, bool) {
    let mut used = 0;
    let mut from = text.len();
    for (at, character) in text.char_indices().rev() {
        used += if character == '\t' {
            TAB.len()
        } else {
            char_width(character)
        };
        if used > columns {
            break;
        }
        from = at;
    }
    (shown(&text[from..], usize::MAX), from > 0)
}

fn push_shown(out: &mut String, character: char) {
    match character {
        '\t' => out.push_str(TAB),
        // Other control characters would move the terminal's cursor.
        control if control.is_control() => out.push('\u{fffd}'),
        other => out.push(other),
    }
}

fn width(shown: &str) -> usize {
    shown.chars().map(char_width).sum()
}

/// Display width of a character in a terminal: 2 for wide East Asian characters and emoji, 0 for combining
/// marks.
fn char_width(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f
        | 0x200b..=0x200f
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f
        | 0xfeff => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, part: &str) -> Span {
        let start = text.find(part).expect("the part is in the text");
        Span::new(start, start + part.len())
    }

    #[test]
    fn the_caret_is_below_the_span() {
        let text = "MATCH (n)\n\tRETRUN n";
        let shown = render(
            text,
            at(text, "RETRUN"),
            "found `RETRUN`",
            Some("did you mean RETURN?"),
        );
        assert_eq!(
            shown,
            "found `RETRUN`\n --> line 2, column 2\n  |\n2 |     RETRUN n\n  |     ^^^^^^\n  = hint: did you mean RETURN?"
        );
    }

    #[test]
    fn a_carriage_return_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["MATCH (n)", "", "RETRUN n", "x"].join(end);
            let shown = render(&text, at(&text, "RETRUN"), "m", None);
            assert_eq!(
                shown, "m\n --> line 3, column 1\n  |\n3 | RETRUN n\n  | ^^^^^^",
                "{end:?}"
            );
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let text = "RETURN '日本' +";
        let shown = render(text, at(text, "+"), "m", None);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], " --> line 1, column 13");
        assert_eq!(lines[4], format!("  | {}^", " ".repeat(14)));
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}X{}", "a".repeat(5_000), "b".repeat(5_000));
        let shown = render(&text, at(&text, "X"), "m", None);
        assert!(
            shown.lines().all(|line| line.chars().count() < WINDOW + 20),
            "{shown}"
        );
        let lines: Vec<&str> = shown.lines().collect();
        let caret = lines[4].chars().position(|c| c == '^').expect("a caret");
        assert_eq!(lines[3].chars().nth(caret), Some('X'));
    }

    #[test]
    fn any_span_of_any_text_is_shown() {
        for text in ["", "é", "\n", "a\r\nb"] {
            for start in 0..6 {
                for end in 0..6 {
                    assert!(render(text, Span::new(start, end), "m", None).starts_with("m\n"));
                }
            }
        }
    }
}
