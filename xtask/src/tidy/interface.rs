//! The public interface of `isomerdb` as text, so that a change of it shows in review: types, signatures, variants and
//! implemented traits, in `crates/isomerdb/interface.txt`. `UPDATE_GOLDEN=1 cargo xtask tidy` writes it.
//!
//! It is read from the source, not from what the compiler makes of it: what macros declare is missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use anyhow::{Context as _, Result};

use super::{
    figures::{product_part, without_tests},
    rust_text::RustText,
};
use crate::workspace;

const FILE: &str = "crates/isomerdb/interface.txt";
const FACADE: &str = "crates/isomerdb/src/lib.rs";

/// Whether the file differs from the source.
pub fn find() -> Result<Vec<String>> {
    let current = text()?;
    let path = workspace::root().join(FILE);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &current).with_context(|| FILE.to_owned())?;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (before, now) = (lines(&written), lines(&current));
    let added = now.difference(&before).map(|line| format!("+ {line}"));
    let removed = before.difference(&now).map(|line| format!("- {line}"));
    let mut problems: Vec<String> = added.chain(removed).collect();
    if problems.is_empty() && written != current {
        problems.push(format!("{FILE}: the order has changed"));
    }
    Ok(problems)
}

/// The interface: a paragraph per exported name.
fn text() -> Result<String> {
    let read =
        |file: &str| fs::read_to_string(workspace::root().join(file)).context(file.to_owned());
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    for (name, owner) in exports(&read(FACADE)?) {
        let mut owner = owner.context("the facade exports items of other crates")?;
        // A crate may export an item of one below it.
        while let Some(next) = exports(&read(&format!("crates/{owner}/src/lib.rs"))?)
            .remove(&name)
            .flatten()
        {
            owner = next;
        }
        wanted.insert(name, owner);
    }
    let crates: BTreeSet<&String> = wanted.values().collect();
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in workspace::tracked_files()? {
        let Some(part) = product_part(&file).filter(|part| crates.contains(part)) else {
            continue;
        };
        let source = fs::read_to_string(workspace::root().join(&file))?;
        for item in items(&without_tests(&RustText::split(&source).code)) {
            if let Some((name, _)) = wanted
                .get_key_value(&item.name)
                .filter(|(_, of)| **of == part)
            {
                found.entry(name).or_default().push(item.text);
            }
        }
    }
    let mut text = String::new();
    for (name, part) in &wanted {
        let _ = writeln!(text, "{name} ({part})");
        let mut lines = found.remove(name.as_str()).unwrap_or_default();
        // Declarations first.
        lines.sort_by_key(|line| (!line.starts_with("pub "), line.clone()));
        for line in lines {
            let _ = writeln!(text, "    {line}");
        }
    }
    Ok(text)
}

/// The names in `pub use`, with the crate of the project that they come from; `None` for the crate's own modules.
fn exports(source: &str) -> BTreeMap<String, Option<String>> {
    let code = RustText::split(source).code;
    let mut exports = BTreeMap::new();
    for part in code.split("pub use ").skip(1) {
        let path = part.split(';').next().unwrap_or_default();
        let first = path.split("::").next().unwrap_or_default().trim();
        let owner = first
            .strip_prefix("isomer_")
            .map(|name| name.replace('_', "-"));
        let words = path.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        // A path's modules are followed by `::`; only the last name of each path is exported.
        for word in words.filter(|word| !word.is_empty()) {
            if !path.contains(&format!("{word}::")) {
                exports.insert(word.to_owned(), owner.clone());
            }
        }
    }
    exports
}

/// A line of the interface, and the exported name that it belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    text: String,
}

/// Public items of a file whose comments and literals are blank: declarations, methods and implemented traits.
fn items(code: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for block in blocks(code) {
        let head = without_attributes(&block.head);
        let Some(name) = name_of(&head) else { continue };
        let item = |text: String| Item {
            name: name.clone(),
            text,
        };
        if head.starts_with("impl") {
            if head
                .split(" where ")
                .next()
                .is_some_and(|head| head.contains(" for "))
            {
                // What only other crates of the project use.
                if !head.contains("Internals for ") {
                    items.push(item(head));
                }
                continue;
            }
            let methods = blocks(&block.body).into_iter();
            let methods = methods.map(|method| without_attributes(&method.head));
            items.extend(
                methods
                    .filter_map(|head| head.strip_prefix("pub ").map(str::to_owned))
                    .map(item),
            );
        } else if head.starts_with("pub trait") {
            items.push(item(head));
            let methods = blocks(&block.body).into_iter();
            items.extend(methods.map(|method| item(without_attributes(&method.head))));
        } else if head.starts_with("pub enum") {
            items.push(item(format!(
                "{head} {{ {} }}",
                without_attributes(&collapsed(&block.body))
            )));
        } else if head.starts_with("pub struct") {
            let fields = public_fields(&block.body).join(", ");
            let head = head.split('(').next().unwrap_or_default().trim();
            items.push(item(match fields.is_empty() {
                true => head.to_owned(),
                false => format!("{head} {{ {fields} }}"),
            }));
        } else if head.starts_with("pub ") && !head.starts_with("pub use") {
            items.push(item(head));
        }
    }
    items
}

/// What a head declares, or implements something for.
fn name_of(head: &str) -> Option<String> {
    let word = |text: &str| {
        let text = text.trim_start_matches(|c: char| c == '&' || c.is_whitespace());
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let word = &text[..end.unwrap_or(text.len())];
        (!word.is_empty()).then(|| word.to_owned())
    };
    if let Some(rest) = head.strip_prefix("impl") {
        let rest = after_generics(rest);
        let rest = rest.split(" where ").next().unwrap_or_default();
        return word(rest.rsplit(" for ").next().unwrap_or_default());
    }
    let rest = head.strip_prefix("pub ")?;
    let kinds = [
        "struct ", "enum ", "trait ", "type ", "fn ", "const ", "mod ",
    ];
    let rest = rest
        .trim_start_matches("unsafe ")
        .trim_start_matches("const fn ");
    kinds
        .iter()
        .find_map(|kind| rest.strip_prefix(kind))
        .map_or_else(|| word(rest), word)
}

/// The text behind `<…>` at the beginning.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            // Not the arrow of a function.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = letter;
        if depth == 0 {
            return match letter {
                '>' => &text[at + 1..],
                _ => text,
            };
        }
    }
    text
}

/// A piece of code up to its `;`, or up to `{` with the body behind it.
struct Block {
    head: String,
    body: String,
}

/// The pieces of code at the outermost level.
fn blocks(code: &str) -> Vec<Block> {
    let (mut blocks, mut head, mut body) = (Vec::new(), String::new(), String::new());
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for letter in code.chars() {
        match letter {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        let ends = match letter {
            '}' => braces == 0,
            ';' => braces == 0 && brackets == 0,
            _ => false,
        };
        match (letter, braces) {
            ('{', 1) | ('}', 0) | (';', 0) if ends || letter == '{' => {}
            (letter, 0) => head.push(letter),
            (letter, _) => body.push(letter),
        }
        if ends {
            blocks.push(Block {
                head: collapsed(&std::mem::take(&mut head)),
                body: std::mem::take(&mut body),
            });
        }
    }
    blocks
}

/// The fields that are public, of a struct with names.
fn public_fields(body: &str) -> Vec<String> {
    let text = without_attributes(&collapsed(body));
    let fields = text.split(", ").map(|field| field.trim_end_matches(','));
    fields
        .filter_map(|field| field.trim().strip_prefix("pub "))
        .map(str::to_owned)
        .collect()
}

/// Words with single blanks between them, and none if a line was broken inside brackets.
fn collapsed(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("(mut self", "(self")
        .replace("( ", "(")
        .replace(", )", ")")
        .replace(" )", ")")
        .replace(", >", ">")
}

/// Leaves out `#[…]`.
fn without_attributes(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, attribute)) = rest.split_once("#[") {
        kept.push_str(before);
        let mut depth = 1_usize;
        let end = attribute.find(|letter| {
            match letter {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        rest = end.map_or("", |end| &attribute[end + 1..]);
    }
    kept.push_str(rest);
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_are_found_with_their_signatures() {
        let code = "use a::b;\n#[derive(Clone)]\npub struct Tree<T> {\n    root: T,\n    pub size: usize,\n}\n\
                    pub struct Hidden(u8);\n#[non_exhaustive]\npub enum Side {\n    #[default]\n    Left,\n    Right(u8),\n}\n\
                    impl<T: Fn() -> u8> Tree<T> {\n    #[must_use]\n    pub fn get(\n        &self,\n        at: [u8; 2],\n    ) -> Option<T> {\n        a { b }\n    }\n    fn own() {}\n}\n\
                    impl<T> Drop for Tree<T> {\n    fn drop(&mut self) {}\n}\n\
                    pub trait Walk {\n    fn step(&self);\n}\npub(crate) fn inner() {}\npub fn free() {}\n";
        let found = items(code);
        let lines: Vec<(&str, &str)> = found
            .iter()
            .map(|item| (item.name.as_str(), item.text.as_str()))
            .collect();
        assert_eq!(
            lines,
            [
                ("Tree", "pub struct Tree<T> { size: usize }"),
                ("Hidden", "pub struct Hidden"),
                ("Side", "pub enum Side { Left, Right(u8), }"),
                ("Tree", "fn get(&self, at: [u8; 2]) -> Option<T>"),
                ("Tree", "impl<T> Drop for Tree<T>"),
                ("Walk", "pub trait Walk"),
                ("Walk", "fn step(&self)"),
                ("free", "pub fn free()"),
            ]
        );
    }

    #[test]
    fn exported_names_belong_to_the_crate_of_their_path() {
        let found = exports(
            "pub use isomer_data::{Expiry, kv::{Order, Watch}};\npub use bucket::Bucket;\n",
        );
        let of = |name: &str| found.get(name).cloned();
        assert_eq!(of("Order"), Some(Some("data".to_owned())));
        assert_eq!(of("Bucket"), Some(None));
        assert_eq!((of("kv"), of("isomer_data"), found.len()), (None, None, 4));
    }
}
