//! Limits on circles of files, methods of a type and lines of a function.

use std::fmt::Display;

use anyhow::Result;

use super::{circles, exceptions::Limit, figures};

/// Most files of a circle: those of a longer one cannot be read one after the other.
const CIRCLE_FILES: Limit = Limit {
    unit: "files in a circle",
    most: 3,
    exceptions: &[
        (
            "cli: crate run shell shell::commands shell::complete shell::script shell::session",
            7,
        ),
        ("lsm: table table::ahead table::cursor table::index", 4),
    ],
    file: file!(),
};
/// Most inherent methods of a type.
const METHODS: usize = 60;
/// Most lines of a function.
const FUNCTION_LINES: usize = 120;

/// Circles of too many files.
pub fn circles() -> Result<Vec<String>> {
    let circles = circles::all()?.into_iter();
    let figures = circles.map(|circle| (circle.to_string(), circle.files.len()));
    Ok(CIRCLE_FILES.problems(&figures.collect()))
}

/// Types with too many methods.
pub fn methods() -> Result<Vec<String>> {
    let sizes = figures::sizes()?;
    Ok(beyond(METHODS, "inherent methods", &sizes.methods))
}

/// Functions with too many lines.
pub fn functions() -> Result<Vec<String>> {
    let sizes = figures::sizes()?;
    Ok(beyond(FUNCTION_LINES, "lines", &sizes.functions))
}

/// Items that exceed a limit.
fn beyond(limit: usize, unit: &str, figures: &[(usize, impl Display)]) -> Vec<String> {
    let beyond = figures.iter().filter(|(figure, _)| *figure > limit);
    beyond
        .map(|(figure, item)| format!("{item}: {figure} {unit}, the limit is {limit}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_limit_is_named() {
        let figures = [(11, "long"), (10, "as long as allowed"), (1, "short")];
        assert_eq!(
            beyond(10, "lines", &figures),
            ["long: 11 lines, the limit is 10"]
        );
    }
}
