//! Counts house words: phrases of the project's first dialect, for which the field has other words (docs/glossary.md).
//!
//! In each area of the checkout, 0.5 % of the comment lines may have one, and no string literal or Markdown line.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Result;

use super::rust_text::RustText;
use crate::workspace;

/// Phrases, as lower-case words. `*` after a word stands for any one word that follows.
const PHRASES: &[&str] = &[
    "told",
    "tells of",
    "tell of",
    "nobody",
    "nobody's",
    "somebody",
    "somebody's",
    "whoever",
    "so many",
    "meanwhile",
    "give way",
    "gives way",
    "goes on",
    "of its own",
    "of one's own",
    "of their own",
    "has none",
    "have none",
    "stands in",
    "stands for",
    "stand for",
    "stands there",
    "stand-in",
    "beside",
    "is there already",
    "are there already",
    "was there already",
    "who is",
    "who has",
    "who was",
    "who waits",
    "who leads",
    "who asks",
    "who does",
    "who reads",
    "who writes",
    "who comes",
    "who holds",
    "who wants",
    "who may",
    "who made",
];

/// What was counted in one area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    /// Comment lines in Rust files.
    lines: usize,
    /// Comment lines with a house word.
    comments: usize,
    /// String literals with a house word.
    strings: usize,
    /// Lines of Markdown, outside code, with a house word.
    markdown: usize,
}

impl Count {
    /// Comment lines that may have a house word: one in 200.
    fn allowed(self) -> usize {
        self.lines / 200
    }

    fn is_within_budget(self) -> bool {
        self.comments <= self.allowed() && self.strings == 0 && self.markdown == 0
    }
}

/// Areas above their budget, with the first places.
pub fn find() -> Result<Vec<String>> {
    let (counts, places) = count()?;
    let mut problems = Vec::new();
    for (area, count) in counts {
        if count.is_within_budget() {
            continue;
        }
        problems.push(row(&area, count));
        let all = places.get(&area).map_or(&[][..], Vec::as_slice);
        problems.extend(all.iter().take(20).map(|place| format!("    {place}")));
        if all.len() > 20 {
            problems.push(format!("    … and {} more", all.len() - 20));
        }
    }
    Ok(problems)
}

/// One row per area: comment lines with house words and their budget, all comment lines, literals, Markdown lines.
pub fn report() -> Result<Vec<String>> {
    let (counts, _) = count()?;
    let mut rows = vec![
        "house words: area, comment lines with one (budget) of all, string literals, Markdown lines"
            .to_owned(),
    ];
    let mut sum = Count::default();
    for (area, count) in counts {
        rows.push(row(&area, count));
        sum.lines += count.lines;
        sum.comments += count.comments;
        sum.strings += count.strings;
        sum.markdown += count.markdown;
    }
    rows.push(format!(
        "{:<24} {:>5}        of {:>6} {:>5} {:>5}",
        "all", sum.comments, sum.lines, sum.strings, sum.markdown
    ));
    Ok(rows)
}

fn row(area: &str, count: Count) -> String {
    let allowed = count.allowed();
    format!(
        "{area:<24} {:>5} ({allowed:>4}) of {:>6} {:>5} {:>5}",
        count.comments, count.lines, count.strings, count.markdown
    )
}

type Places = BTreeMap<String, Vec<String>>;

fn count() -> Result<(BTreeMap<String, Count>, Places)> {
    let root = workspace::root();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut places = Places::new();
    for file in workspace::tracked_files()? {
        let ending = file.extension().and_then(|ending| ending.to_str());
        let (rust, markdown) = (ending == Some("rs"), ending == Some("md"));
        // This file lists the words themselves.
        if !rust && !markdown || file.ends_with("tidy/words.rs") {
            continue;
        }
        let text = fs::read_to_string(root.join(&file))?;
        let area = area(&file);
        let count = counts.entry(area.clone()).or_default();
        let places = places.entry(area).or_default();
        let mut note = |line: usize, text: &str| {
            let hit = house_word(text);
            places.extend(hit.map(|word| format!("{}:{line}: `{word}`", file.display())));
            usize::from(hit.is_some())
        };
        if markdown {
            for (line, text) in super::links::prose(&text) {
                count.markdown += note(line, &text);
            }
            continue;
        }
        let parts = RustText::split(&text);
        count.lines += parts.comments.len();
        for (line, text) in &parts.comments {
            count.comments += note(*line, text);
        }
        for (line, text) in &parts.strings {
            count.strings += note(*line, &without_placeholders(text));
        }
    }
    Ok((counts, places))
}

/// The crate or the top folder; a document in `docs` or at the root is an area by itself.
fn area(file: &Path) -> String {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["crates", name, ..] => (*name).to_owned(),
        ["docs", ..] => file.display().to_string(),
        [first, _, ..] => (*first).to_owned(),
        _ => file.display().to_string(),
    }
}

/// A string literal without `{…}`: names of variables are not text.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(' ');
        kept.push_str(part.split_once('}').map_or(part, |(_, after)| after));
    }
    kept
}

/// The first house word of a text.
fn house_word(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '_' | '-')))
        .map(|word| word.trim_matches(['\'', '-']))
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).find_map(|at| {
        let rest = &words[at..];
        let phrase = PHRASES.iter().find(|phrase| {
            let mut wanted = phrase.split(' ');
            let mut given = rest.iter();
            wanted.all(|word| given.next() == Some(&word))
        });
        let negated = matches!(rest, ["is", "no", noun, ..] if *noun != "longer")
            && at
                .checked_sub(1)
                .is_none_or(|before| words[before] != "there");
        phrase.copied().or(negated.then_some("is no …"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_whole_words() {
        assert_eq!(house_word("/// Whoever asks first"), Some("whoever"));
        assert_eq!(house_word("the index that lies beside it"), Some("beside"));
        assert_eq!(house_word("besides, an untold story goes in"), None);
        assert_eq!(house_word("has_none beside_it"), None);
        assert_eq!(house_word("it goes\ton."), Some("goes on"));
    }

    #[test]
    fn a_missing_thing_is_not_an_invalid_one() {
        assert_eq!(house_word("`x` is no size"), Some("is no …"));
        assert_eq!(house_word("there is no such file"), None);
        assert_eq!(house_word("it is no longer held"), None);
    }

    #[test]
    fn names_of_variables_in_literals_do_not_count() {
        assert_eq!(without_placeholders("a {told} b {x:?}c").trim(), "a   b  c");
        assert_eq!(without_placeholders("{{nobody"), "  nobody");
    }

    #[test]
    fn areas_are_crates_folders_and_documents() {
        assert_eq!(area(Path::new("crates/data/src/lib.rs")), "data");
        assert_eq!(
            area(Path::new("docs/formats/views.md")),
            "docs/formats/views.md"
        );
        assert_eq!(area(Path::new("xtask/src/main.rs")), "xtask");
        assert_eq!(area(Path::new("README.md")), "README.md");
    }

    #[test]
    fn one_comment_line_in_two_hundred_may_have_a_house_word() {
        let count = |comments| Count {
            lines: 450,
            comments,
            ..Count::default()
        };
        assert!(count(2).is_within_budget());
        assert!(!count(3).is_within_budget());
        let literal = Count {
            strings: 1,
            ..count(0)
        };
        assert!(!literal.is_within_budget());
    }
}
