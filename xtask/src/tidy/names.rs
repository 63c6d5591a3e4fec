//! Words in identifiers that say nothing to a stranger, and public types of one name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

use super::{circles, limits::Limit, rust_text::RustText};
use crate::workspace;

/// Names that no type may have: words without an object. A type is a noun of the field.
const TYPE_WORDS: &[&str] = &[
    "Carried",
    "Covered",
    "Departs",
    "Entry",
    "Found",
    "Got",
    "Held",
    "Kept",
    "Known",
    "Made",
    "Near",
    "Open",
    "Own",
    "Place",
    "Reached",
    "Rest",
    "Spot",
    "Taken",
    "Then",
    concat!("To", "ld"),
    "Trouble",
    "Turn",
    "Wanted",
    "Way",
    "What",
];
/// Names that no function may have: a function is a verb with an object.
const FUNCTION_WORDS: &[&str] = &[
    "ask",
    "asked",
    "choose",
    "divert",
    "doom",
    "go",
    "go_on",
    "gone",
    "hear",
    "heed",
    "kept",
    "lose",
    "look",
    "meets",
    "reached",
    "settle",
    "stays",
    "step",
    "tell",
    "tend",
    concat!("to", "ld"),
    "trouble",
    "wanted",
    "way",
    "worked",
];
/// Names that no constant may have: a constant says what it limits, and its unit.
const CONSTANT_WORDS: &[&str] = &[
    "ABSENT", "ENOUGH", "FEW", "KEPT", "LOOK", "MANY", "MOST", "NEAR", "OFTEN", "PATIENCE", "REST",
    "UNASKED", "WAITING",
];
/// First words of constants for which the field has `MAX_` and `MIN_`.
const CONSTANT_BEGINNINGS: &[&str] = &["LEAST_", "MOST_"];
/// Crates that share names with others on purpose: they are written independently of them, or measure them.
const INDEPENDENT: &[&str] = &["bench", "oracle", "testkit"];
/// The one name that each crate has for itself, as in `std`: a `Result` with the crate's own error.
const CRATE_RESULT: &str = "Result";

const WORDS: Limit = Limit {
    unit: "times a name that says nothing",
    most: 0,
    exceptions: &[],
    file: file!(),
};

const SHARED_NAMES: Limit = Limit {
    unit: "public types of this name",
    most: 1,
    exceptions: &[],
    file: file!(),
};

/// Product code with a name of the lists of words.
pub fn words() -> Result<Vec<String>> {
    let mut figures: BTreeMap<String, usize> = BTreeMap::new();
    for (crate_name, declared) in declarations()? {
        if declared.says_nothing() {
            *figures
                .entry(format!("{crate_name}::{}", declared.name))
                .or_default() += 1;
        }
    }
    let figures = figures.into_iter().map(|(name, figure)| (figure, name));
    Ok(WORDS.problems(figures))
}

/// Names of public types that are declared more than once, in several crates or in one.
pub fn shared() -> Result<Vec<String>> {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (crate_name, module, name) in circles::public_types()? {
        if !INDEPENDENT.contains(&&*crate_name) && name != CRATE_RESULT {
            let place = format!("{crate_name}::{module}");
            places.entry(name).or_default().insert(place);
        }
    }
    let figures = places.into_iter().map(|(name, places)| {
        let names = places.iter().map(String::as_str).collect::<Vec<_>>();
        (places.len(), format!("{name} ({})", names.join(", ")))
    });
    Ok(SHARED_NAMES.problems(figures))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Type,
    Function,
    Constant,
}

/// An item, as its line declares it.
#[derive(Debug, PartialEq, Eq)]
struct Declared {
    kind: Kind,
    name: String,
    /// Whether it is `pub` without a restriction.
    is_public: bool,
}

impl Declared {
    fn of(line: &str) -> Option<Self> {
        let mut rest = line.trim_start();
        let mut is_public = false;
        if let Some(after) = rest.strip_prefix("pub ") {
            (is_public, rest) = (true, after);
        } else if let Some(after) = rest.strip_prefix("pub(") {
            rest = after.split_once(") ")?.1;
        }
        let (kind, after) = loop {
            let (word, after) = rest.split_once(' ')?;
            match word {
                "struct" | "enum" | "union" | "trait" | "type" => break (Kind::Type, after),
                "fn" => break (Kind::Function, after),
                "const" if !after.contains("fn ") => break (Kind::Constant, after),
                "static" => break (Kind::Constant, after),
                "const" | "unsafe" | "async" => rest = after,
                _ => return None,
            }
        };
        let name: String = after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        // A macro names the item.
        if name.is_empty() {
            return None;
        }
        Some(Self {
            kind,
            name,
            is_public,
        })
    }

    fn says_nothing(&self) -> bool {
        let words = match self.kind {
            Kind::Type => TYPE_WORDS,
            Kind::Function => FUNCTION_WORDS,
            Kind::Constant => CONSTANT_WORDS,
        };
        let begins = |word: &&str| self.name.starts_with(*word);
        words.contains(&&*self.name)
            || self.kind == Kind::Constant && CONSTANT_BEGINNINGS.iter().any(begins)
    }
}

/// The items of the crates' product code, each with its crate.
fn declarations() -> Result<Vec<(String, Declared)>> {
    let mut all = Vec::new();
    for file in workspace::tracked_files()? {
        let Some(crate_name) = product_crate(&file) else {
            continue;
        };
        let code = RustText::split(&fs::read_to_string(workspace::root().join(&file))?).code;
        let product = code.split("\nmod tests {").next().unwrap_or_default();
        let declared = product.lines().filter_map(Declared::of);
        all.extend(declared.map(|declared| (crate_name.clone(), declared)));
    }
    Ok(all)
}

/// The crate of a file of product code; none for tests and everything else.
pub(super) fn product_crate(file: &Path) -> Option<String> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let ["crates", name, "src", inner @ ..] = parts.as_slice() else {
        return None;
    };
    let is_test = inner
        .iter()
        .any(|part| part.trim_end_matches(".rs").ends_with("tests"));
    (file.extension().is_some_and(|ending| ending == "rs") && !is_test).then(|| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(line: &str) -> Option<(Kind, String, bool)> {
        Declared::of(line).map(|one| (one.kind, one.name, one.is_public))
    }

    #[test]
    fn items_are_found_behind_their_qualifiers() {
        let function = |name: &str, is_public| Some((Kind::Function, name.to_owned(), is_public));
        assert_eq!(
            declared("    pub(crate) const unsafe fn ask(&self) {"),
            function("ask", false)
        );
        assert_eq!(
            declared("pub async fn tell<T>(one: T)"),
            function("tell", true)
        );
        assert_eq!(
            declared("pub struct Way;"),
            Some((Kind::Type, "Way".to_owned(), true))
        );
        assert_eq!(
            declared("pub(super) const MOST_ROWS: usize = 3;"),
            Some((Kind::Constant, "MOST_ROWS".to_owned(), false))
        );
        assert_eq!(declared("let way = 1;"), None);
    }

    #[test]
    fn whole_names_are_compared() {
        let says_nothing = |line| Declared::of(line).is_some_and(|one| one.says_nothing());
        assert!(says_nothing("struct Turn {"));
        assert!(!says_nothing("struct TurnOrder {"));
        assert!(says_nothing("const MOST_ROWS: usize = 3;"));
        assert!(!says_nothing("fn most_rows() {"));
    }

    #[test]
    fn tests_are_no_product() {
        let crate_of = |file| product_crate(Path::new(file));
        assert_eq!(
            crate_of("crates/lsm/src/log/mod.rs").as_deref(),
            Some("lsm")
        );
        for file in [
            "crates/lsm/src/tree_tests.rs",
            "crates/data/src/tests/a.rs",
            "crates/lsm/tests/a.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(crate_of(file), None, "{file}");
        }
    }
}
