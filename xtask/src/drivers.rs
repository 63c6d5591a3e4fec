//! Neo4j's official drivers against a real server: the programs in `tests/drivers`.
//!
//! The drivers are installed into `target/drivers` and reused; the servers run from the released binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    commands::succeeds,
    context::Context,
    server::{PASSWORD, Server},
    tally::Tally,
    workspace,
};

/// The tested versions; those of npm and Maven are in their own files.
const PYTHON_PACKAGES: [&str; 3] = ["neo4j==6.4.1", "pyarrow==26.0.1", "schemathesis==4.32.5"];

/// Installs the drivers.
pub fn install(context: &mut Context<'_>) -> Result<Tally> {
    for (name, mut command) in installations(&folder()?) {
        let done = context.check(&mut command, 10, name)?;
        if done.failed > 0 {
            return Ok(done);
        }
    }
    Ok(Tally::default())
}

/// Starts the servers, runs the programs.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let folder = folder()?;
    let isomer = context.isomer();
    let mut tally = Tally::default();
    let plain = Server::start(&isomer, &folder, "plain", &[])?;
    let secure = Server::start(
        &isomer,
        &folder,
        "secure",
        &["--tls-certificate", "cert.pem", "--tls-key", "key.pem"],
    )?;
    plain.add_reader()?;
    for (name, mut command) in programs(&folder) {
        command
            .env("BOLT", plain.bolt())
            .env("BOLT_TLS", secure.bolt())
            .env("URL", plain.url())
            .env("PASSWORD", PASSWORD);
        tally = tally.and(context.count(&mut command, 6, name)?);
    }
    context.busy += secure.busy() + plain.busy();
    drop(secure);
    let stopped = plain.stop()?;
    Ok(tally.and(Tally::single("the server stops within 10 s", stopped)))
}

/// Where the drivers are installed.
fn folder() -> Result<PathBuf> {
    let folder = workspace::target_dir().join("drivers");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder.canonicalize()?)
}

/// Only the long interface test.
pub fn interface(examples: u64, seed: u64) -> Result<bool> {
    let folder = folder()?;
    let mut build = workspace::cargo();
    build.args(["build", "--locked", "-p", "isomer-cli"]);
    if !succeeds(&mut build)? {
        return Ok(false);
    }
    for (name, mut command) in installations(&folder) {
        if name.contains("Python") && !succeeds(&mut command)? {
            return Ok(false);
        }
    }
    let isomer = workspace::target_dir().join("debug/isomer");
    let server = Server::start(&isomer, &folder, "plain", &[])?;
    let mut command = interface_program(&folder);
    command
        .env("URL", server.url())
        .env("PASSWORD", PASSWORD)
        .env("EXAMPLES", examples.to_string())
        .env("SEED", seed.to_string())
        .env("SECONDS_AT_MOST", "86400");
    succeeds(&mut command)
}

/// Sends requests to every route.
fn interface_program(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("python/bin/python"));
    command
        .arg(sources().join("python/interface.py"))
        .env("FOLDER", folder);
    command
}

fn sources() -> PathBuf {
    workspace::root().join("tests/drivers")
}

/// The missing installations, in order.
fn installations(folder: &Path) -> Vec<(&'static str, Command)> {
    let mut all = Vec::new();
    let python = folder.join("python");
    let packages = PYTHON_PACKAGES.join(" ");
    let done = fs::read_to_string(python.join("done")).unwrap_or_default();
    if done.trim() != packages {
        let mut command = Command::new("bash");
        let script =
            "python3 -m venv \"$1\" && \"$1/bin/pip\" install -q $2 && echo \"$2\" > \"$1/done\"";
        command
            .args(["-c", script, "install"])
            .arg(&python)
            .arg(packages);
        all.push((
            "the Python driver, an Arrow reader, and the interface test",
            command,
        ));
    }
    let javascript = folder.join("javascript");
    let mut command = Command::new("bash");
    let script = "mkdir -p \"$2\" && cd \"$2\" && cmp -s \"$1/package.json\" done && exit; \
                  cp \"$1/package.json\" . && npm install --no-audit --no-fund --no-package-lock && cp package.json done";
    command
        .args(["-c", script, "install"])
        .arg(sources().join("javascript"))
        .arg(&javascript);
    all.push(("the JavaScript driver", command));
    let mut command = Command::new("bash");
    let script = "mkdir -p \"$2\" && cmp -s \"$1/pom.xml\" \"$2/done\" && exit; \
                  mvn -q -f \"$1/pom.xml\" dependency:copy-dependencies -DoutputDirectory=\"$2\" && cp \"$1/pom.xml\" \"$2/done\"";
    command
        .args(["-c", script, "install"])
        .arg(sources().join("java"))
        .arg(folder.join("java"));
    all.push(("the Java driver", command));
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(folder.join("go-suite"))
        .arg(".")
        .current_dir(sources().join("go"));
    all.push(("the Go driver", command));
    all
}

fn programs(folder: &Path) -> Vec<(&'static str, Command)> {
    let mut python = Command::new(folder.join("python/bin/python"));
    python.arg(sources().join("python/suite.py"));
    let mut arrow = Command::new(folder.join("python/bin/python"));
    arrow.arg(sources().join("python/arrow.py"));
    let mut javascript = Command::new("node");
    javascript
        .arg(sources().join("javascript/suite.js"))
        .env("MODULES", folder.join("javascript"));
    let mut java = Command::new("java");
    java.arg("-cp")
        .arg(folder.join("java/*"))
        .arg(sources().join("java/Suite.java"));
    let go = Command::new(folder.join("go-suite"));
    vec![
        ("python", python),
        ("arrow", arrow),
        ("javascript", javascript),
        ("java", java),
        ("go", go),
        ("interface", interface_program(folder)),
    ]
}
