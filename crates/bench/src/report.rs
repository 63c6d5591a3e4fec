//! What a benchmark tells: its stages, its notes, its figures.

use std::borrow::Cow;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The benchmark.
    pub bench: &'static str,
    /// What was measured.
    pub case: Cow<'static, str>,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// How many things it stands for.
    pub n: u64,
}

impl Case {
    /// The figure `value` of `case`, which stands for `n` things.
    pub fn new(
        bench: &'static str,
        case: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
        n: u64,
    ) -> Self {
        Self {
            bench,
            case: case.into(),
            value,
            unit,
            n,
        }
    }

    /// As a line of JSON: `{"bench":"core","case":"point_read_us","value":7.25,"unit":"us","n":50000}`.
    pub fn to_json(&self) -> String {
        // Four digits are more than any of this repeats to; a whole number of thousands needs no fraction.
        let digits = if self.value.abs() >= 1000.0 { 0 } else { 3 };
        let value = format!("{:.digits$}", self.value);
        let value = if value.contains('.') {
            value
        } else {
            value + ".0"
        };
        format!(
            "{{\"bench\":\"{}\",\"case\":\"{}\",\"value\":{value},\"unit\":\"{}\",\"n\":{}}}",
            self.bench, self.case, self.unit, self.n
        )
    }
}

/// Who is told.
pub trait Report {
    /// A figure.
    fn case(&mut self, case: Case);
    /// What begins now.
    fn stage(&mut self, what: &str);
    /// How far the stage is.
    fn progress(&mut self, done: u64, total: Option<u64>) {
        let _ = (done, total);
    }
    /// More about the figure that comes next.
    fn note(&mut self, text: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_one_json_object() {
        let case = Case {
            bench: "core",
            case: "point_read_us".into(),
            value: 7.25,
            unit: "us",
            n: 3,
        };
        assert_eq!(
            case.to_json(),
            "{\"bench\":\"core\",\"case\":\"point_read_us\",\"value\":7.250,\"unit\":\"us\",\"n\":3}"
        );
        let parsed: serde_json::Value = serde_json::from_str(
            &Case {
                value: 123_456.7,
                ..case
            }
            .to_json(),
        )
        .expect("JSON");
        assert_eq!(parsed["value"], 123_457.0);
    }
}
