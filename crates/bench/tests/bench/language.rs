//! The benchmark runs and reports every metric that it promises.

use isomer_bench::{
    language,
    report::{Case, Report},
};

#[derive(Default)]
struct Gathered(Vec<Case>);

impl Report for Gathered {
    fn case(&mut self, case: Case) {
        self.0.push(case);
    }
    fn stage(&mut self, _what: &str) {}
    fn note(&mut self, text: &str) {
        println!("{text}");
    }
}

#[test]
fn language_reports_all_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gathered = Gathered::default();
    language::run(folder.path(), 0.0005, &mut gathered).expect("the benchmark runs");
    let names: Vec<&str> = gathered.0.iter().map(|case| &*case.case).collect();
    assert_eq!(
        names,
        [
            "prepared_point_overhead_us",
            "cached_text_overhead_us",
            "prepared_point_overhead_memory_us",
            "cached_text_overhead_memory_us",
            "plan_chain10_us",
            "plan_star10_us",
            "plan_clique10_us",
            "skewed_values_ms",
            "skewed_values_plain_ms",
            "mixed_ends_ms",
            "mixed_ends_plain_ms",
        ]
    );
    // The overheads are differences: on a busy machine they may be negative, but they are numbers.
    assert!(
        gathered
            .0
            .iter()
            .all(|case| case.bench == "language" && case.value.is_finite() && case.n > 0),
        "{:?}",
        gathered.0
    );
}
