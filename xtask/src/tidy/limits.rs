//! Limits on circles of files, methods of a type and lines of a function, with what exceeded them when they were set.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{circles, figures};

/// A limit, and the items that may exceed it.
struct Limit {
    /// What is counted.
    unit: &'static str,
    most: usize,
    /// Items that exceed the limit, each with its figure, which may only become smaller. An item that no longer exceeds
    /// the limit must be removed from the list.
    exceptions: &'static [(&'static str, usize)],
}

/// Files of a longer circle cannot be read one after the other. A crate's figure is the number of its files in such
/// circles.
const CIRCLES: Limit = Limit {
    unit: "files in a circle",
    most: 3,
    exceptions: &[("cypher", 6), ("oracle", 9), ("plan", 6)],
};

const METHODS: Limit = Limit {
    unit: "inherent methods",
    most: 60,
    exceptions: &[
        ("cypher::Parser", 169),
        ("oracle::Interpreter", 68),
        ("plan::Binder", 137),
        ("plan::Planner", 65),
        ("testkit::Maker", 75),
    ],
};

const FUNCTIONS: Limit = Limit {
    unit: "lines",
    most: 120,
    exceptions: &[("crates/testkit/src/naive/queries/expression.rs test", 124)],
};

/// Crates with circles of too many files.
pub fn circles() -> Result<Vec<String>> {
    let circles = circles::all()?;
    let long = || {
        let all = circles.iter();
        all.filter(|circle| circle.files.len() > CIRCLES.most)
    };
    let mut figures: BTreeMap<String, usize> = BTreeMap::new();
    for circle in long() {
        *figures.entry(circle.part.clone()).or_default() += circle.files.len();
    }
    let mut problems = CIRCLES.problems(&figures);
    if !problems.is_empty() {
        problems.extend(long().map(ToString::to_string));
    }
    Ok(problems)
}

/// Types with too many methods.
pub fn methods() -> Result<Vec<String>> {
    let methods = figures::sizes()?.methods.into_iter();
    let figures = methods.map(|(methods, name)| (name, methods));
    Ok(METHODS.problems(&figures.collect()))
}

/// Functions with too many lines.
pub fn functions() -> Result<Vec<String>> {
    let mut figures: BTreeMap<String, usize> = BTreeMap::new();
    for (lines, place) in figures::sizes()?.functions {
        // Of several functions with one name in a file, the longest counts.
        let name = format!("{} {}", place.file, place.name);
        let figure = figures.entry(name).or_default();
        *figure = lines.max(*figure);
    }
    Ok(FUNCTIONS.problems(&figures))
}

impl Limit {
    /// Items that exceed the limit and are no exception, and exceptions that grew or are none any more.
    fn problems(&self, figures: &BTreeMap<String, usize>) -> Vec<String> {
        let Self {
            unit,
            most,
            exceptions,
        } = self;
        let exception = |name: &str| exceptions.iter().find(|(known, _)| *known == name);
        let mut problems = Vec::new();
        for (name, figure) in figures.iter().filter(|(_, figure)| **figure > *most) {
            match exception(name) {
                None => problems.push(format!("{name}: {figure} {unit}, the limit is {most}")),
                Some((_, before)) if figure > before => {
                    problems.push(format!(
                        "{name}: {figure} {unit}, more than the {before} of its exception"
                    ));
                }
                Some(_) => {}
            }
        }
        for (name, _) in *exceptions {
            let figure = figures.get(*name).copied().unwrap_or_default();
            if figure <= *most {
                problems.push(format!(
                    "{name}: {figure} {unit}, which the limit of {most} allows: remove the exception in xtask/src/tidy/limits.rs"
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit {
        unit: "lines",
        most: 10,
        exceptions: &[("long", 20), ("longer", 30)],
    };

    fn problems(figures: &[(&str, usize)]) -> Vec<String> {
        let figures = figures.iter();
        LIMIT.problems(
            &figures
                .map(|(name, figure)| ((*name).to_owned(), *figure))
                .collect(),
        )
    }

    #[test]
    fn exceptions_may_become_smaller() {
        assert!(problems(&[("long", 20), ("longer", 11), ("short", 10)]).is_empty());
    }

    #[test]
    fn nothing_new_exceeds_a_limit_and_no_exception_grows() {
        assert_eq!(
            problems(&[("long", 21), ("longer", 30), ("new", 11)]),
            [
                "long: 21 lines, more than the 20 of its exception",
                "new: 11 lines, the limit is 10"
            ]
        );
    }

    #[test]
    fn an_exception_is_removed_when_it_is_none_any_more() {
        let advice =
            "which the limit of 10 allows: remove the exception in xtask/src/tidy/limits.rs";
        assert_eq!(
            problems(&[("long", 10)]),
            [
                format!("long: 10 lines, {advice}"),
                format!("longer: 0 lines, {advice}")
            ]
        );
    }
}
