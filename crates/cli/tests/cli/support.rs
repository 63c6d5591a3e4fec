//! A folder in which the program runs, as its user sees it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    }

    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // A command that does not read its input closes it early: that is not a failure.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    /// Runs a command that must succeed; returns its output.
    pub fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, b"");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs a command that must fail with exit code 1; returns its error output.
    pub fn bad(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, b"");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stderr)
    }

    pub fn rows(&self, query: &str) -> String {
        self.good(&["query", "db", query, "--format", "csv"])
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub const PEOPLE: &str = "id,name,age\nada,Ada,36\nbob,\"Bob, the builder\",\n";

pub fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).expect("memory takes it");
    out.finish().expect("memory takes it")
}
