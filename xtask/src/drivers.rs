//! Neo4j's official drivers against a real server: the programs in `tests/drivers`.
//!
//! The drivers are installed into `target/drivers` and reused; the servers run from the released binary.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{commands::succeeds, context::Context, tally::Tally, usage, workspace};

/// The password of the users of these servers, which exist only during the suite.
const PASSWORD: &str = "only for tests of drivers";
/// Timeout for a server to respond.
const START: Duration = Duration::from_secs(60);
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
            .env("BOLT", &plain.bolt)
            .env("BOLT_TLS", &secure.bolt)
            .env("URL", &plain.url)
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
        .env("URL", &server.url)
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
    let mut command = Command::new("bash");
    let script = "mkdir -p \"$2\" && cat \"$1/pom.xml\" \"$1/Spring.java\" | cmp -s - \"$2/done\" && exit; \
                  mvn -q -f \"$1/pom.xml\" dependency:copy-dependencies -DoutputDirectory=\"$2\" && \
                  javac -parameters -cp \"$2/*\" -d \"$2/classes\" \"$1/Spring.java\" && \
                  cat \"$1/pom.xml\" \"$1/Spring.java\" > \"$2/done\"";
    command
        .args(["-c", script, "install"])
        .arg(sources().join("spring"))
        .arg(folder.join("spring"));
    all.push(("Spring Data Neo4j", command));
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
    let mut spring = Command::new("java");
    let of_spring = folder.join("spring");
    spring
        .arg("-cp")
        .arg(format!("{0}/classes:{0}/*", of_spring.display()))
        .arg("spring.Spring");
    let go = Command::new(folder.join("go-suite"));
    vec![
        ("python", python),
        ("arrow", arrow),
        ("javascript", javascript),
        ("java", java),
        ("spring", spring),
        ("go", go),
        ("interface", interface_program(folder)),
    ]
}

/// A server with two databases in a temporary folder; killed on drop.
struct Server {
    child: Child,
    url: String,
    bolt: String,
    folder: PathBuf,
}

impl Server {
    fn start(isomer: &Path, parent: &Path, name: &str, more: &[&str]) -> Result<Self> {
        let folder = parent.join(format!("server-{name}"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        if !more.is_empty() {
            certificate(&folder)?;
        }
        let mut command = Command::new(isomer);
        command
            .args([
                "--memory",
                "512MiB",
                "serve",
                "people.isomer",
                "other.isomer",
            ])
            .args([
                "--create",
                "--listen",
                "127.0.0.1:0",
                "--bolt",
                "127.0.0.1:0",
            ])
            .args([
                "--set",
                "log.format=json",
                "--set",
                "limits.login_failures=1000000",
                "--set",
                "databases_folder=databases",
                "--set",
                "backups_folder=backups",
            ])
            .args(more)
            .env("ISOMER_ADMIN_PASSWORD", PASSWORD)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log"))?);
        let child = command.spawn().context("isomer does not start")?;
        let mut server = Self {
            child,
            url: String::new(),
            bolt: String::new(),
            folder,
        };
        server.wait_for_addresses()?;
        Ok(server)
    }

    fn wait_for_addresses(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < START {
            let log = BufReader::new(fs::File::open(self.folder.join("log"))?);
            for line in log.lines().map_while(Result::ok) {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                if let (Some(url), Some(bolt)) = (line["url"].as_str(), line["bolt"].as_str()) {
                    self.url = url.to_owned();
                    self.bolt = bolt.split("://").nth(1).unwrap_or_default().to_owned();
                    return Ok(());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!(
            "the server does not answer: see {}",
            self.folder.join("log").display()
        )
    }

    /// Creates the user `reader` with read access to `people`.
    fn add_reader(&self) -> Result<()> {
        let login = self.call(
            "/v1/login",
            "",
            &format!("{{\"user\":\"admin\",\"password\":\"{PASSWORD}\"}}"),
        )?;
        let token = login["token"].as_str().context("no token")?;
        let user = format!(
            "{{\"user\":\"reader\",\"password\":\"{PASSWORD}\",\"roles\":{{\"people\":\"reader\"}}}}"
        );
        self.call("/v1/users", token, &user)?;
        Ok(())
    }

    fn call(&self, path: &str, token: &str, body: &str) -> Result<serde_json::Value> {
        let output = Command::new("curl")
            .args([
                "-sS",
                "--fail-with-body",
                "-H",
                "Content-Type: application/json",
            ])
            .args(["-H", &format!("Authorization: Bearer {token}"), "-d", body])
            .arg(format!("{}{path}", self.url))
            .output()
            .context("curl")?;
        if !output.status.success() {
            bail!("{path}: {}", String::from_utf8_lossy(&output.stdout));
        }
        serde_json::from_slice(&output.stdout).with_context(|| path.to_owned())
    }

    /// Its processor time so far.
    fn busy(&self) -> Duration {
        usage::of_process(self.child.id()).map_or(Duration::ZERO, |usage| usage.busy)
    }

    /// Requests a shutdown; returns whether the server stopped in time.
    fn stop(mut self) -> Result<bool> {
        let began = Instant::now();
        Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()?;
        while began.elapsed() < Duration::from_secs(10) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have stopped already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A self-signed certificate.
fn certificate(folder: &Path) -> Result<()> {
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .context("openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
