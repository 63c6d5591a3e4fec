//! Limits whose lists of exceptions can only become shorter, among them those on circles of files, methods of a type
//! and lines of a function.

use std::fmt::Display;

use anyhow::Result;

use super::{circles, figures};

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

/// The files of a longer circle cannot be read one after the other.
const CIRCLES: Limit = Limit {
    unit: "files in a circle",
    most: 3,
    exceptions: &[],
    file: file!(),
};
const METHODS: Limit = Limit {
    unit: "inherent methods",
    most: 60,
    exceptions: &[],
    file: file!(),
};
const FUNCTION_LINES: Limit = Limit {
    unit: "lines",
    most: 120,
    exceptions: &[],
    file: file!(),
};

/// Circles of too many files.
pub fn circles() -> Result<Vec<String>> {
    let circles = circles::all()?.into_iter();
    Ok(CIRCLES.problems(circles.map(|circle| (circle.files.len(), circle))))
}

/// Types with too many methods.
pub fn methods() -> Result<Vec<String>> {
    Ok(METHODS.problems(figures::sizes()?.methods))
}

/// Functions with too many lines.
pub fn functions() -> Result<Vec<String>> {
    Ok(FUNCTION_LINES.problems(figures::sizes()?.functions))
}

impl Limit {
    /// Items that exceed the limit and are no exception, and exceptions that grew or are none any more. An item that
    /// `figures` lacks has the figure 0.
    pub(super) fn problems(
        &self,
        figures: impl IntoIterator<Item = (usize, impl Display)>,
    ) -> Vec<String> {
        let Self {
            unit,
            most,
            exceptions,
            file,
        } = self;
        let beyond: Vec<(usize, String)> = figures
            .into_iter()
            .filter(|(figure, _)| figure > most)
            .map(|(figure, item)| (figure, item.to_string()))
            .collect();
        let allowed = |item: &str| exceptions.iter().find(|(known, _)| *known == item);
        let mut problems = Vec::new();
        for (figure, item) in &beyond {
            match allowed(item) {
                None => problems.push(format!("{item}: {figure} {unit}, the limit is {most}")),
                Some((_, before)) if figure > before => problems.push(format!(
                    "{item}: {figure} {unit}, more than the {before} of its exception"
                )),
                Some(_) => {}
            }
        }
        for (item, _) in *exceptions {
            if beyond.iter().all(|(_, found)| found != item) {
                problems.push(format!(
                    "{item}: not above the limit of {most} {unit} any more: remove the exception in {file}"
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

    #[test]
    fn exceptions_may_become_smaller() {
        let figures = [(20, "long"), (11, "longer"), (10, "short")];
        assert_eq!(LIMIT.problems(figures), [""; 0]);
    }

    #[test]
    fn nothing_new_exceeds_a_limit_and_no_exception_grows() {
        assert_eq!(
            LIMIT.problems([(21, "long"), (30, "longer"), (11, "new")]),
            [
                "long: 21 lines, more than the 20 of its exception",
                "new: 11 lines, the limit is 10"
            ]
        );
    }

    #[test]
    fn an_exception_is_removed_when_it_is_none_any_more() {
        let advice = "not above the limit of 10 lines any more: remove the exception in names.rs";
        assert_eq!(
            LIMIT.problems([(10, "long")]),
            [format!("long: {advice}"), format!("longer: {advice}")]
        );
    }
}
