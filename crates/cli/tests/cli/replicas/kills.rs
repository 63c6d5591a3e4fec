//! Processes that are killed in the middle of an exchange, at random moments: the next exchange resumes by itself,
//! started from either side, and no data is lost.

use std::{
    fs,
    io::Read,
    net::TcpStream,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use isomer_db::{Database, internals::DatabaseInternals as _, params};
use isomer_sync::{Local, add_peer, exchange};
use isomer_testkit::poll;

/// Number of kills in a run, and in a short one.
const KILLS: usize = 200;
const KILLS_QUICK: usize = 24;
/// The highest point of an exchange at which a process ends; lowered if a process does not reach it.
const MAX_POINTS: u64 = 120;
/// Bytes of a text, so that a page of a snapshot holds one or two records.
const LONG: usize = 600 << 10;

/// A seed's numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    /// Text that compresses badly.
    fn text(&mut self, bytes: usize) -> String {
        let letter = |_| char::from(b'!' + self.below(90) as u8);
        (0..bytes).map(letter).collect()
    }
}

/// The process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    /// The process that sends its state to a folder.
    Push,
    /// The process that receives a folder's state.
    Pull,
    /// The receiving server, the sending server, and the clients of both.
    ServerThatTakes,
    ServerThatGives,
    ClientThatGives,
    ClientThatTakes,
}

const ALL: [Killed; 6] = [
    Killed::Push,
    Killed::Pull,
    Killed::ServerThatTakes,
    Killed::ServerThatGives,
    Killed::ClientThatGives,
    Killed::ClientThatTakes,
];

/// When it is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// By itself, at the point of the exchange with this number.
    Point(u64),
    /// From outside, after a time.
    Time(Duration),
}

/// Two databases to begin with.
struct Pair {
    full: PathBuf,
    other: PathBuf,
    keys: Vec<String>,
}

/// Databases of which one has several pages of records from before its first peer, and the other one a few other
/// records.
fn never_exchanged(folder: &Path) -> Pair {
    let pair = Pair {
        full: folder.join("full"),
        other: folder.join("other"),
        keys: (0..6)
            .map(|at| format!("full{at}"))
            .chain((0..5).map(|at| format!("other{at}")))
            .collect(),
    };
    let mut numbers = Numbers(1);
    for (path, name, count, long) in [(&pair.full, "full", 6, LONG), (&pair.other, "other", 5, 10)]
    {
        let database = Database::open(path).expect("opened");
        for at in 0..count {
            let key = format!("{name}{at}");
            let text = numbers.text(long);
            let query = "CREATE (p:P {_key: $key, text: $text})<-[:OF]-(:Q {_key: $key}) SET p.n = counter.add(p.n, 1)";
            let parameters = params! { "key" => key.as_str(), "text" => text.as_str() };
            database.query((query, parameters)).expect("written");
        }
        database.close().expect("closed");
    }
    pair
}

/// The same after an exchange and further transactions of both.
fn exchanged_before(folder: &Path) -> Pair {
    let mut pair = never_exchanged(folder);
    peer_with(&pair.full, &pair.other.display().to_string());
    let (status, said) = end(sync(&pair.full, None), None);
    assert!(status.success(), "{said}");
    for (path, name) in [(&pair.full, "new"), (&pair.other, "newer")] {
        let database = Database::open(path).expect("opened");
        for at in 0..12 {
            let key = format!("{name}{at}");
            pair.keys.push(key.clone());
            let query =
                "CREATE (p:P {_key: $key})<-[:OF]-(:Q {_key: $key}) SET p.n = counter.add(p.n, 1)";
            database
                .query((query, params! { "key" => key.as_str() }))
                .expect("written");
        }
        database
            .query("MATCH (p:P) SET p.n = counter.add(p.n, 1)")
            .expect("counted");
        database.close().expect("closed");
    }
    pair
}

fn peer_with(path: &Path, peer: &str) {
    let database = Database::open(path).expect("opened");
    add_peer(&database.store().expect("a store"), peer, None, None).expect("a peer");
    database.close().expect("closed");
}

fn forget_peers(path: &Path) {
    let database = Database::open(path).expect("opened");
    let store = database.store().expect("a store");
    for (name, _) in isomer_replication::replica_peers(&store).expect("peers") {
        isomer_replication::remove_replica_peer(&store, &name).expect("removed");
    }
    database.close().expect("closed");
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

fn command(arguments: &[&str], moment: Option<Moment>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isomer"));
    command.args(["--memory", "256MiB"]).args(arguments);
    if let Some(Moment::Point(times)) = moment {
        command.env("ISOMER_TEST_END_AT", times.to_string());
    }
    command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn sync(path: &Path, moment: Option<Moment>) -> Child {
    command(
        &["sync", "once", "--quiet", &path.display().to_string()],
        moment,
    )
}

const ABORT_SIGNAL: i32 = 6;
const KILL_SIGNAL: i32 = 9;

/// Whether a process was killed at its moment. Any other end than that and success is an error: it is not one of the
/// kills that the test is about.
fn was_killed(status: ExitStatus, moment: Option<Moment>, said: &str) -> Result<bool, String> {
    match (status.signal(), moment) {
        (None, _) if status.success() => Ok(false),
        (Some(ABORT_SIGNAL), Some(Moment::Point(_))) => Ok(true),
        (Some(KILL_SIGNAL), Some(Moment::Time(_))) => Ok(true),
        _ => Err(format!("a process ended with {status}: {said}")),
    }
}

/// Reads what a process writes to its standard error: it must not block on a full pipe.
fn read_errors(child: &mut Child) -> JoinHandle<String> {
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        let mut said = String::new();
        // The process may end in the middle of a character.
        stderr.map(|mut stderr| stderr.read_to_string(&mut said).ok());
        said
    })
}

/// Interval of looks at processes that are killed at a moment: kills are as precise.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Waits for the end, or kills at the chosen moment. Returns its status and its output.
fn end(mut child: Child, moment: Option<Moment>) -> (ExitStatus, String) {
    let said = read_errors(&mut child);
    let start = Instant::now();
    let mut killed = false;
    let status = poll::every(LOOK_INTERVAL, poll::LIMIT, || {
        let status = child.try_wait().expect("its status");
        if let Some(Moment::Time(time)) = moment
            && status.is_none()
            && start.elapsed() >= time
            && !killed
        {
            child.kill().expect("killed");
            killed = true;
        }
        status
    });
    let status = status.expect("an exchange hangs");
    (status, said.join().expect("read"))
}

/// Waits like [`end`]; returns whether it was killed.
fn end_or_kill(child: Child, moment: Moment) -> Result<bool, String> {
    let (status, said) = end(child, Some(moment));
    was_killed(status, Some(moment), &said)
}

/// Exchanges at most twice, without a kill.
fn exchange_again(again: &mut dyn FnMut() -> Child) -> Result<(), String> {
    let mut said = Vec::new();
    for _ in 0..2 {
        let (status, error) = end(again(), None);
        if status.success() {
            return Ok(());
        }
        said.push(error);
    }
    Err(format!("two exchanges failed: {said:?}"))
}

/// A server process with one database.
struct Server {
    child: Child,
    said: JoinHandle<String>,
    port: u16,
}

impl Server {
    /// None if it was killed before it listened.
    fn start(path: &Path, moment: Option<Moment>) -> Result<Option<Self>, String> {
        // A free port: the address is stored in the peer's entry.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Self::start_at(path, port, moment)
    }

    fn start_at(path: &Path, port: u16, moment: Option<Moment>) -> Result<Option<Self>, String> {
        let database = format!("db={}", path.display());
        let listen = format!("127.0.0.1:{port}");
        let arguments = [
            "serve",
            &database,
            "--without-authentication",
            "--listen",
            &listen,
        ];
        let mut child = command(&arguments, moment);
        let said = read_errors(&mut child);
        let ended = poll::until_some("the server listens, or ends", || {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(_) => Some(None),
                Err(_) => child.try_wait().expect("its status").map(Some),
            }
        });
        let Some(status) = ended else {
            return Ok(Some(Self { child, said, port }));
        };
        let said = said.join().expect("read");
        match was_killed(status, moment, &said)? {
            true => Ok(None),
            false => Err(format!("the server ended before it listened: {said}")),
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/db", self.port)
    }

    /// Waits until it ends at the chosen moment, and the client with it; or until the client does. Returns whether it
    /// was killed.
    fn end_with(mut self, mut client: Child, moment: Moment) -> Result<bool, String> {
        let start = Instant::now();
        let said = read_errors(&mut client);
        let mut of_client = None;
        let status = loop {
            if of_client.is_none() {
                of_client = client.try_wait().expect("its status");
            }
            if of_client.is_some_and(|status| status.success()) {
                self.kill();
                return Ok(false);
            }
            if let Some(status) = self.child.try_wait().expect("its status") {
                break status;
            }
            // A client that lost its server may end before the server's status is there.
            let is_time = matches!(moment, Moment::Time(time) if start.elapsed() >= time);
            if is_time && of_client.is_none() {
                self.child.kill().expect("killed");
                break self.child.wait().expect("it ended");
            }
            if start.elapsed() >= Duration::from_secs(60) {
                drop(client.kill()); // it may have ended
                self.kill();
                return Err(format!(
                    "an exchange hangs, or failed while the server runs: {}",
                    said.join().expect("read")
                ));
            }
            // Two processes and a moment are watched: whichever comes first.
            std::thread::sleep(LOOK_INTERVAL);
        };
        drop(client.kill()); // it may have ended
        client.wait().expect("it ended");
        let said = format!("{:?} {:?}", self.said.join(), said.join());
        match was_killed(status, Some(moment), &said)? {
            true => Ok(true),
            false => Err(format!("the server ended by itself: {said}")),
        }
    }

    fn kill(mut self) {
        drop(self.child.kill());
        self.child.wait().expect("it ended");
    }
}

/// Opens both and compares all their data.
fn compare(full: &Path, other: &Path, pair: &Pair) -> Result<(), String> {
    let open =
        |path: &Path| Database::open(path).map_err(|error| format!("{}: {error}", path.display()));
    let (full, other) = (open(full)?, open(other)?);
    let said = |error: isomer_db::Error| error.to_string();
    let counted = "MATCH (p:P)<-[:OF]-(q:Q) RETURN p._key AS key, size(p.text) AS size, p.n AS n ORDER BY key";
    let mut rows = Vec::new();
    for database in [&full, &other] {
        let wrong = database.check().run().map_err(said)?;
        if !wrong.is_empty() {
            return Err(format!("{wrong:?}"));
        }
        let found = database.query(counted).map_err(said)?;
        let row = |row: &isomer_db::Row| format!("{:?}", row.values());
        rows.push(found.rows().iter().map(row).collect::<Vec<_>>());
        let keys: Vec<String> = found
            .rows()
            .iter()
            .map(|row| row.get("key").expect("a key"))
            .collect();
        for key in &pair.keys {
            if !keys.contains(key) {
                return Err(format!("{key} is lost"));
            }
        }
        if keys.len() != pair.keys.len() {
            return Err(format!(
                "{} records are here, not {}",
                keys.len(),
                pair.keys.len()
            ));
        }
    }
    if rows[0] != rows[1] {
        return Err("the two read differently".into());
    }
    let stores = (full.store().map_err(said)?, other.store().map_err(said)?);
    let differ = || -> Result<_, String> {
        let theirs =
            isomer_replication::fingerprints(&stores.1).map_err(|error| error.to_string())?;
        isomer_replication::differing(&stores.0, &theirs).map_err(|error| error.to_string())
    };
    let mut found = differ()?;
    if found.is_none() {
        // A server that was killed after the exchange gave up numbers; the next exchange reports them.
        let mut peer = Local::new("other", &other).map_err(|error| error.to_string())?;
        let done =
            exchange(&stores.0, &mut peer, &mut |_| ()).map_err(|error| error.to_string())?;
        if done.received + done.sent + done.pages > 0 {
            return Err(format!("something was lacking: {done:?}"));
        }
        found = differ()?;
    }
    match found {
        Some(ranges) if ranges.is_empty() => Ok(()),
        differ => Err(format!("they differ: {differ:?}")),
    }
}

/// Kills once, and exchanges at most twice. Returns whether a process was killed.
fn trial(
    folder: &Path,
    pair: &Pair,
    what: Killed,
    moment: Moment,
    numbers: &mut Numbers,
) -> Result<bool, String> {
    let (full, other) = (folder.join("full"), folder.join("other"));
    copy(&pair.full, &full);
    copy(&pair.other, &other);
    forget_peers(&full);
    forget_peers(&other);
    let mut again: Box<dyn FnMut() -> Child> = match what {
        Killed::Push | Killed::Pull => {
            let (from, to) = match what {
                Killed::Push => (&full, &other),
                _ => (&other, &full),
            };
            peer_with(from, &to.display().to_string());
            if !end_or_kill(sync(from, Some(moment)), moment)? {
                return Ok(false);
            }
            // From either side: each is a peer of the other one.
            let back = numbers.below(2) == 0;
            if back {
                peer_with(to, &from.display().to_string());
            }
            let side = if back { to.clone() } else { from.clone() };
            Box::new(move || sync(&side, None))
        }
        _ => {
            let (served, client) = match what {
                Killed::ServerThatTakes | Killed::ClientThatGives => (&other, &full),
                _ => (&full, &other),
            };
            let kills_server = matches!(what, Killed::ServerThatTakes | Killed::ServerThatGives);
            let Some(server) = Server::start(served, Some(moment).filter(|_| kills_server))? else {
                return Ok(false);
            };
            peer_with(client, &server.url());
            let port = server.port;
            let exchanging = sync(client, Some(moment).filter(|_| !kills_server));
            let killed = match kills_server {
                true => server.end_with(exchanging, moment)?,
                false => {
                    let killed = end_or_kill(exchanging, moment);
                    server.kill();
                    killed?
                }
            };
            if !killed {
                return Ok(false);
            }
            let server = Server::start_at(served, port, None)?.ok_or("the server was killed")?;
            let exchanged = exchange_again(&mut || sync(client, None));
            server.kill();
            exchanged?;
            return compare(&full, &other, pair).map(|()| true);
        }
    };
    exchange_again(&mut *again)?;
    compare(&full, &other, pair).map(|()| true)
}

/// A process that is killed in a first snapshot, or in a later exchange, at any moment: push, pull, server, client.
/// `ISOMER_TEST_SEED` selects others.
#[test]
fn the_next_exchange_resumes_after_any_kill() {
    let quick = std::env::var_os("ISOMER_TEST_QUICK").is_some();
    let wanted = if quick { KILLS_QUICK } else { KILLS };
    let seed = std::env::var("ISOMER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(0);
    let kills = AtomicUsize::new(0);
    let work = |worker: u64| {
        let folder = tempfile::tempdir().expect("a folder");
        let new = |name: &str| {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            folder
        };
        let pairs = [
            never_exchanged(&new("first")),
            exchanged_before(&new("later")),
        ];
        let mut most = [[MAX_POINTS; ALL.len()]; 2];
        let mut slowest = [Duration::from_millis(400); 2];
        let mut numbers = Numbers(seed * 1000 + worker);
        while kills.load(Ordering::Relaxed) < wanted {
            let (kind, at) = (numbers.below(5) as usize / 3, numbers.below(6) as usize);
            let moment = match numbers.below(5) {
                0 => Moment::Time(Duration::from_micros(
                    numbers.below(slowest[kind].as_micros() as u64),
                )),
                _ => Moment::Point(1 + numbers.below(most[kind][at])),
            };
            let start = Instant::now();
            let done = trial(&new("trial"), &pairs[kind], ALL[at], moment, &mut numbers);
            match (done, moment) {
                (Ok(true), _) => drop(kills.fetch_add(1, Ordering::Relaxed)),
                (Ok(false), Moment::Point(times)) => most[kind][at] = (times - 1).max(1),
                (Ok(false), Moment::Time(_)) => slowest[kind] = slowest[kind].min(start.elapsed()),
                (Err(why), _) => {
                    panic!("{:?} of pair {kind}, killed at {moment:?}: {why}", ALL[at])
                }
            }
        }
        println!("points of exchanges: {most:?}");
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        for worker in workers {
            worker.join().expect("all went well");
        }
    });
}
