//! The benchmark runs, and tells every figure that it promises.

use isomer_bench::{
    core,
    report::{Case, Report},
};

#[derive(Default)]
struct Gathered(Vec<Case>);

impl Report for Gathered {
    fn case(&mut self, case: Case) {
        self.0.push(case);
    }
    fn stage(&mut self, _what: &str) {}
    fn note(&mut self, _text: &str) {}
}

#[test]
fn core_tells_all_its_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gathered = Gathered::default();
    core::run(folder.path(), 0.0006, &mut gathered).expect("the benchmark runs");
    let names: Vec<&str> = gathered.0.iter().map(|case| case.case).collect();
    assert_eq!(
        names,
        [
            "import_relationships_per_s",
            "import_peak_rss_mib",
            "point_read_us",
            "neighbors2_us",
            "aggregate_age_ms",
            "synced_writes_per_s_1",
            "synced_writes_per_s_20"
        ]
    );
    assert!(
        gathered
            .0
            .iter()
            .all(|case| case.bench == "core" && case.value > 0.0 && case.n > 0),
        "{:?}",
        gathered.0
    );
}
