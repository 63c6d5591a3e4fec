//! `isomer serve` as a process: what its documentation says, how it starts and how it stops.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use isomer_server::http::route::ROUTES;

/// A server that is killed when the test ends, however it does.
struct Server {
    child: Child,
    url: String,
    lines: mpsc::Receiver<String>,
}

impl Server {
    fn start(folder: &Path, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
        command
            .args([
                "--memory",
                "256MiB",
                "serve",
                "people.isomer",
                "--create",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--set", "log.format=json"])
            .args(more)
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        let mut server = Self {
            child,
            url: String::new(),
            lines,
        };
        let line = server.line_with("\"url\"");
        let start = line.find("\"url\":\"").expect("a URL") + 7;
        server.url = line[start..]
            .split('"')
            .next()
            .unwrap_or_default()
            .to_owned();
        server
    }

    /// The next line of the log with this in it.
    fn line_with(&self, part: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(Duration::from_secs(30))
                .expect("a line of the log");
            if line.contains(part) {
                return line;
            }
        }
    }

    fn address(&self) -> &str {
        self.url.split("://").nth(1).unwrap_or_default()
    }

    /// Asks it to stop, and waits until it has.
    fn terminate(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let told = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(told.expect("kill runs").success());
        let status = self.child.wait().expect("it ends");
        (status.code(), began.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All examples of docs/server.md, in their order; together they call every route of the server with success.
#[test]
fn the_documentation_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        "log.audit=all",
        "databases_folder=databases",
        "backups_folder=backups",
    ];
    let flags: Vec<&str> = settings
        .iter()
        .flat_map(|setting| ["--set", setting])
        .collect();
    let server = Server::start(folder.path(), &flags, &[]);
    let link = server.line_with("/#setup=");
    let token = link.split('=').nth(1).unwrap_or_default().trim().to_owned();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md"))
            .expect("the document");
    let mut script = String::from("set -eu\n");
    for part in text.split("```sh run\n").skip(1) {
        script += part.split("```").next().unwrap_or_default();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_isomer"))
        .parent()
        .expect("the folder of the program");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("URL", &server.url)
        .env("SETUP_TOKEN", token)
        .output()
        .expect("bash and curl run");
    let told = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{told}");
    let log = std::fs::read_to_string(folder.path().join("isomer-system/audit.jsonl"))
        .expect("the audit log");
    let called: BTreeSet<String> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["status"].as_u64().is_some_and(|status| status < 400))
        .map(|line| line["action"].as_str().unwrap_or_default().to_owned())
        .collect();
    for route in ROUTES
        .iter()
        .filter(|route| !route.path.ends_with("/queries/{id}"))
    {
        let action = format!("{} {}", route.method, route.path);
        assert!(
            called.contains(&action),
            "{action} has no example that works\n{told}"
        );
    }
}

/// Puts keys until the server is gone; those that were acknowledged.
fn write_until_gone(address: &str, writer: usize) -> Vec<String> {
    let mut keys = Vec::new();
    for number in 0..1_000_000 {
        let key = format!("{writer}-{number}");
        let Ok(mut stream) = TcpStream::connect(address) else {
            return keys;
        };
        let request = format!(
            "PUT /v1/databases/people/buckets/b/keys/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: 1\r\nConnection: close\r\n\r\n1"
        );
        let mut answer = Vec::new();
        if stream.write_all(request.as_bytes()).is_err() || stream.read_to_end(&mut answer).is_err()
        {
            return keys;
        }
        if !answer.starts_with(b"HTTP/1.1 204") {
            return keys;
        }
        keys.push(key);
    }
    keys
}

/// Four writers while the server ends: all that was acknowledged is there.
fn nothing_acknowledged_is_lost(end: impl FnOnce(&mut Server)) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path(), &["--without-authentication"], &[]);
    let address = server.address().to_owned();
    let keys: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let address = &address;
                    move || write_until_gone(address, writer)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1500));
        end(&mut server);
        writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer"))
            .collect()
    });
    assert!(keys.len() > 20, "only {} were written", keys.len());
    let db = isomer_db::Database::open(folder.path().join("people.isomer")).expect("opened");
    let mut tx = db.begin_read().expect("begun");
    for key in &keys {
        assert!(
            tx.bucket("b").get(key).expect("read").is_some(),
            "{key} was acknowledged"
        );
    }
}

#[test]
fn a_server_that_is_told_to_stop_loses_nothing_and_stops_in_time() {
    nothing_acknowledged_is_lost(|server| {
        let (code, took) = server.terminate();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    nothing_acknowledged_is_lost(|server| {
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
    });
}

fn refused(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_does_not_listen_to_others_without_users_and_tls() {
    let told = refused(&["serve", "x.isomer", "--create", "--listen", "0.0.0.0:0"]);
    assert!(
        told.contains("in the clear") && told.lines().count() == 1,
        "{told}"
    );
    let told = refused(&[
        "serve",
        "x.isomer",
        "--create",
        "--listen",
        "[::]:0",
        "--without-authentication",
    ]);
    assert!(told.contains("nobody would have to log in"), "{told}");
    let told = refused(&["serve", "x.isomer", "--set", "limits.bodi=1"]);
    assert!(told.contains("no setting `limits.bodi`"), "{told}");
    let told = refused(&["serve"]);
    assert!(told.contains("nothing to serve"), "{told}");
}

#[test]
fn a_port_in_use_is_told_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let told = refused(&["serve", "x.isomer", "--create", "--listen", &address]);
    assert!(
        told.contains(&address) && told.contains("in use") && told.lines().count() == 1,
        "{told}"
    );
}

#[test]
fn settings_say_where_they_come_from() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("s.toml"),
        "[limits]\nbody = \"1MiB\"\nrequests = 7\n",
    )
    .expect("written");
    let print = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
            .args(["config", "print"])
            .args(arguments)
            .env("ISOMER_LIMITS_BODY", "2MiB")
            .env("ISOMER_ADMIN_PASSWORD", "analytical engine")
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = print(&["--origin", "--config", "s.toml", "--listen", "127.0.0.1:9"]);
    for line in [
        "listen = \"127.0.0.1:9\"  # command line",
        "body = \"2MiB\"  # ISOMER_LIMITS_BODY",
        "requests = \"7\"  # s.toml",
        "head = \"16KiB\"  # default",
    ] {
        assert!(told.lines().any(|has| has == line), "{line}\n{told}");
    }
    assert!(!told.contains("analytical"), "secrets are no settings");
    // What is printed can be read again.
    std::fs::write(folder.path().join("s.toml"), print(&["--config", "s.toml"])).expect("written");
    assert!(print(&["--config", "s.toml"]).contains("requests = \"7\""));
}

/// A certificate, and what curl says of it.
#[test]
fn tls_is_spoken_where_a_certificate_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("cert.pem"), made.cert.pem()).expect("written");
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let flags = ["--tls-certificate", "cert.pem", "--tls-key", "key.pem"];
    let server = Server::start(
        folder.path(),
        &flags,
        &[("ISOMER_ADMIN_PASSWORD", "analytical engine")],
    );
    let port = server
        .address()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl")
            .args(["-sS"])
            .args(arguments)
            .output()
            .expect("curl runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let url = format!("https://localhost:{port}/health");
    assert_eq!(
        curl(&["--cacert", &path("cert.pem"), &url]),
        (true, "{\"status\":\"ok\"}".into())
    );
    assert!(!curl(&[&url]).0, "nobody knows who signed it");
    assert!(
        !curl(&[&format!("http://localhost:{port}/health")]).0,
        "nothing is said in the clear"
    );
    let login = format!("https://localhost:{port}/v1/login");
    let body = "{\"user\": \"admin\", \"password\": \"analytical engine\"}";
    let (good, told) = curl(&[
        "--cacert",
        &path("cert.pem"),
        &login,
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
    ]);
    assert!(good && told.contains("\"token\""), "{told}");
}
