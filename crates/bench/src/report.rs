//! The output of a benchmark: stages, notes, metrics.

use std::borrow::Cow;

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The benchmark.
    pub bench: &'static str,
    /// The measured case.
    pub case: Cow<'static, str>,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Number of operations behind the value.
    pub n: u64,
}

impl Case {
    /// The metric `value` of `case`, measured over `n` operations.
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
        // Four significant digits are more than any of this repeats to; whole thousands need no fraction.
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

/// The sink for the output of a benchmark.
pub trait Report {
    /// Reports a metric.
    fn case(&mut self, case: Case);
    /// Announces the next stage.
    fn stage(&mut self, what: &str);
    /// Reports progress within the stage.
    fn progress(&mut self, done: u64, total: Option<u64>) {
        let _ = (done, total);
    }
    /// Reports a note on the metric that comes next.
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
