//! The benchmarks run and report every metric that they promise.

use isomer_bench::{
    core, guanciale, pokec,
    report::{Case, Report},
};
use isomer_db::{EngineKind, Sharing};

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
fn core_reports_all_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gathered = Gathered::default();
    core::run(folder.path(), 0.0006, None, &mut gathered).expect("the benchmark runs");
    let names: Vec<&str> = gathered.0.iter().map(|case| &*case.case).collect();
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

/// Runs a benchmark at a small scale, and expects metrics with these names.
fn expect_metrics(
    bench: &str,
    names: &[&str],
    run: impl FnOnce(&std::path::Path, &mut Gathered) -> anyhow::Result<()>,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gathered = Gathered::default();
    run(folder.path(), &mut gathered).expect("the benchmark runs");
    for name in names {
        let cases: Vec<&Case> = gathered
            .0
            .iter()
            .filter(|case| case.case == *name)
            .collect();
        assert!(
            matches!(cases[..], [case] if case.bench == bench && case.value > 0.0 && case.n > 0),
            "{name}: {cases:?}"
        );
    }
}

#[test]
fn pokec_reports_all_metrics_with_either_engine() {
    let mut names = vec![
        "import_s",
        "peak_rss_mib",
        "open_to_first_traversal_ms",
        "single_reads_s",
        "single_writes_buffered_s",
        "single_writes_synced_s",
        "aggregate_age_ms",
        "neighbors2_p50_us",
        "neighbors2_p99_us",
        "neighbors2_profiles_s",
        "count_paths2_ms",
        "shortest_path_p50_us",
        "shortest_path_p99_us",
        "no_path_p99_us",
    ];
    expect_metrics("pokec", &names, |folder, report| {
        pokec::run(
            folder,
            0.0004,
            EngineKind::Memory,
            Sharing::Exclusive,
            report,
        )
    });
    names.extend(["disk_mib", "writes_with_views_s", "writes_with_views_off_s"]);
    expect_metrics("pokec", &names, |folder, report| {
        pokec::run(folder, 0.0004, EngineKind::Redb, Sharing::Exclusive, report)
    });
}

#[test]
fn guanciale_reports_all_metrics() {
    let mut names = vec!["create_nodes_ops_s", "create_nodes_and_relationships_ops_s"];
    let shapes: Vec<String> = guanciale::likes::Shape::grid(0.01)
        .into_iter()
        .map(|shape| format!("recommend_{}_ops_s", shape.name()))
        .collect();
    names.extend(shapes.iter().map(String::as_str));
    expect_metrics("guanciale", &names, |folder, report| {
        guanciale::run(folder, 0.01, report)
    });
}

#[test]
fn the_documentation_shows_the_queries_that_run() {
    use guanciale::graph::{CREATE_BOTH, CREATE_NODES, RECOMMEND};
    use pokec::graph::{
        AGES, GROW, NEIGHBOUR_KEYS, NEIGHBOUR_PROFILES, NEIGHBOURS, PATHS, READ, SHORTEST,
    };
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/benchmarks/workloads.md"
    );
    let page = std::fs::read_to_string(page)
        .expect("the page is read")
        .replace("\\|", "|");
    for text in [
        AGES,
        GROW,
        NEIGHBOUR_KEYS,
        NEIGHBOUR_PROFILES,
        NEIGHBOURS,
        PATHS,
        READ,
        SHORTEST,
        CREATE_BOTH,
        CREATE_NODES,
        RECOMMEND,
    ] {
        assert!(
            page.contains(text),
            "docs/benchmarks/workloads.md has no `{text}`"
        );
    }
}
