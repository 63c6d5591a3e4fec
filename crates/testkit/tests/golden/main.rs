//! The scripts in `tests/golden`, each against an in-memory database and a durable one. `UPDATE_GOLDEN=1` writes the
//! output of the first of them into the files.

use std::{fs, path::PathBuf, process::ExitCode};

use isomer_testkit::{
    golden::{DatabaseWorld, run},
    harness::{Harness, Verdict},
    second_process,
};

/// Begins a comment in a script about what an in-memory database does not do.
const ON_DISK_ONLY: &str = "\n# On disk only: ";

fn main() -> ExitCode {
    second_process::run_if_asked();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut harness = Harness::new();
    for path in scripts() {
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let on_disk_only = fs::read_to_string(&path).is_ok_and(|text| text.contains(ON_DISK_ONLY));
        if !on_disk_only {
            let script = path.clone();
            harness.case(format!("{name}_in_memory"), move || {
                run(&script, &mut DatabaseWorld::in_memory()?, update)?;
                Ok(Verdict::Passed)
            });
        }
        harness.case(format!("{name}_on_disk"), move || {
            let folder = tempfile::tempdir()?;
            run(
                &path,
                &mut DatabaseWorld::on_disk(&folder.path().join("db"))?,
                update && on_disk_only,
            )?;
            second_process::end_all();
            Ok(Verdict::Passed)
        });
    }
    harness.run()
}

/// All scripts, by name.
fn scripts() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = files.map(|file| file.expect("the folder stays while we read it").path());
    let mut scripts: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "test"))
        .collect();
    scripts.sort();
    scripts
}
