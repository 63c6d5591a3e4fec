//! The implementations in a directory pass the scripts of their contracts.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use isomer_shared_log::{DirectoryBlobs, DirectoryLog, DirectoryOptions, SharedLog, conformance};
use tempfile::TempDir;

/// Makes new folders, and removes them in the end.
#[derive(Default)]
struct Folders(RefCell<Vec<TempDir>>);

impl Folders {
    fn make(&self) -> std::path::PathBuf {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        self.0.borrow_mut().push(folder);
        path
    }
}

#[test]
fn the_log_in_a_directory_conforms() {
    let folders = Folders::default();
    for segment_bytes in [64 << 20, 500] {
        conformance::log(|| {
            let options = DirectoryOptions {
                segment_bytes,
                ..DirectoryOptions::default()
            };
            DirectoryLog::open(&folders.make(), &options).expect("it opens")
        });
    }
}

#[test]
fn the_objects_in_a_directory_conform() {
    let folders = Folders::default();
    conformance::blobs(|| DirectoryBlobs::open(&folders.make()).expect("it opens"));
}

/// Waiting takes no processor time while nothing is appended.
#[test]
fn an_idle_process_does_nothing() {
    let folders = Folders::default();
    let log = DirectoryLog::open(&folders.make(), &DirectoryOptions::default());
    let log = log.expect("it opens");
    let (began, before) = (Instant::now(), isomer_vfs::process::cpu_time());
    assert_eq!(log.wait(1, Duration::from_millis(500)), Ok(1));
    assert!(began.elapsed() >= Duration::from_millis(500));
    let after = isomer_vfs::process::cpu_time();
    // Other tests of this program may run at the same time.
    if std::env::var_os("RUST_TEST_THREADS").is_some_and(|threads| threads == "1")
        && let (Some(before), Some(after)) = (before, after)
    {
        assert!(after - before < Duration::from_millis(20));
    }
}
