//! The server that suites start: from a binary, with users and two databases in a new folder.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::usage;

/// The password of the users of these servers, which exist only during a suite. Without spaces: some libraries take it
/// in a URL.
pub const PASSWORD: &str = "only-for-tests-of-clients";
/// Timeout for a server to respond.
const START: Duration = Duration::from_secs(60);

/// A server with two databases in a temporary folder; killed on drop.
pub struct Server {
    child: Child,
    url: String,
    bolt: String,
    folder: PathBuf,
}

impl Server {
    /// Starts `isomer` with two databases in a new folder below `parent`, with more arguments; `cert.pem` and `key.pem`
    /// are there if there are any.
    pub fn start(isomer: &Path, parent: &Path, name: &str, more: &[&str]) -> Result<Self> {
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

    /// Address of its HTTP interface.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port of its Bolt.
    pub fn bolt(&self) -> &str {
        &self.bolt
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
    pub fn add_reader(&self) -> Result<()> {
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

    /// Sends a request with a token and returns the answer.
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
    pub fn busy(&self) -> Duration {
        usage::of_process(self.child.id()).map_or(Duration::ZERO, |usage| usage.busy)
    }

    /// Requests a shutdown; returns whether the server stopped in time.
    pub fn stop(mut self) -> Result<bool> {
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
