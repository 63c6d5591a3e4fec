//! A limit with a list of exceptions that can only become shorter.

use std::collections::BTreeMap;

/// A limit, and the items that may exceed it.
pub(super) struct Limit {
    /// What is counted.
    pub(super) unit: &'static str,
    pub(super) most: usize,
    /// Items that exceed the limit, each with its figure, which may only become smaller. An item that no longer exceeds
    /// the limit must be removed from the list.
    pub(super) exceptions: &'static [(&'static str, usize)],
    /// The file with the list of exceptions.
    pub(super) file: &'static str,
}

impl Limit {
    /// Items that exceed the limit and are no exception, and exceptions that grew or are none any more.
    pub(super) fn problems(&self, figures: &BTreeMap<String, usize>) -> Vec<String> {
        let Self {
            unit,
            most,
            exceptions,
            file,
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
                    "{name}: {figure} {unit}, which the limit of {most} allows: remove the exception in {file}"
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
        file: "names.rs",
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
        let advice = "which the limit of 10 allows: remove the exception in names.rs";
        assert_eq!(
            problems(&[("long", 10)]),
            [
                format!("long: 10 lines, {advice}"),
                format!("longer: 0 lines, {advice}")
            ]
        );
    }
}
