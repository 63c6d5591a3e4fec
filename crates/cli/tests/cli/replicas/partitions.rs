//! Servers in network namespaces: each with its own network interface, all on one bridge. A partition removes
//! interfaces from the bridge, so that packets are lost silently, as with an unplugged cable: no connection is refused.
//!
//! The test queries each server from within its namespace, so that no packet crosses the machine's own network. If no
//! namespaces can be created (no `ip`, no privileges, no route between them), it is reported as skipped; the proxies in
//! `main.rs` cut connections everywhere. Two weeks pass in a few seconds: the servers' clock is set back by a library
//! that is loaded before the C library, and advances a day at a time.

use std::{
    collections::BTreeSet,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use isomer_testkit::{harness::Verdict, poll};

use super::node::{Node, isomer, within};

/// Sets the clock back by the number of seconds in the variable.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, id, now);
    const char *shift = getenv("ISOMER_TEST_SECONDS_AGO");
    if (!failed && id == CLOCK_REALTIME && shift) now->tv_sec -= atol(shift);
    return (int)failed;
}
"#;
const DAY: u64 = 24 * 60 * 60;
const PORT: u16 = 4766;

/// Compiles the library; `None` if there is no compiler.
fn shift_library(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("shift.c"), folder.join("shift.so"));
    std::fs::write(&source, SHIFT).ok()?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .status();
    built
        .is_ok_and(|status| status.success())
        .then_some(library)
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("there is no `ip` ({error})"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "`ip {arguments}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Namespaces `iso…-0` and so on, one per server, and one with the bridge, to which each server has an interface.
struct Networks {
    name: String,
    count: usize,
}

impl Networks {
    fn new(count: usize) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let networks = Self {
            name: format!("iso{}{made}", pid % 100_000),
            count,
        };
        networks.make()?;
        networks.try_out()?;
        Ok(networks)
    }

    fn make(&self) -> Result<(), String> {
        let name = &self.name;
        ip(&format!("netns add {name}-hub"))?;
        ip(&format!("-n {name}-hub link add bridge type bridge"))?;
        ip(&format!("-n {name}-hub link set bridge up"))?;
        for at in 0..self.count {
            let own = format!("{name}-{at}");
            ip(&format!("netns add {own}"))?;
            ip(&format!("-n {own} link set lo up"))?;
            ip(&format!(
                "-n {own} link add peers type veth peer name card{at} netns {name}-hub"
            ))?;
            ip(&format!("-n {own} addr add {}/24 dev peers", inside(at)))?;
            ip(&format!("-n {own} link set peers up"))?;
            ip(&format!("-n {name}-hub link set card{at} master bridge"))?;
            ip(&format!("-n {name}-hub link set card{at} up"))?;
        }
        Ok(())
    }

    /// Whether the first two reach one another.
    fn try_out(&self) -> Result<(), String> {
        let listen = || TcpListener::bind((inside(0), PORT));
        let listener = within(Some(&self.path(0)), listen).map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(5));
        within(Some(&self.path(1)), connect)
            .map_err(|error| format!("one does not reach another ({error})"))?;
        Ok(())
    }

    /// The file by which a server's namespace is entered.
    fn path(&self, at: usize) -> PathBuf {
        format!("/run/netns/{}-{at}", self.name).into()
    }

    /// Disconnects a server from the bridge, or reconnects it.
    fn connect(&self, at: usize, is_connected: bool) {
        let state = if is_connected { "up" } else { "down" };
        ip(&format!("-n {}-hub link set card{at} {state}", self.name)).expect("the card is there");
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        // Interfaces are removed with their namespaces.
        for at in 0..self.count {
            drop(ip(&format!("netns del {}-{at}", self.name)));
        }
        drop(ip(&format!("netns del {}-hub", self.name)));
    }
}

/// The address of a server for its peers.
fn inside(at: usize) -> String {
    format!("10.99.0.{}", at + 1)
}

/// Servers that are partitioned for two weeks, write, are killed, and reconnect. `days` apart are two restarts.
fn apart(count: usize, days: usize, writes: usize) {
    let networks = match Networks::new(count) {
        Ok(networks) => networks,
        Err(why) => {
            return Verdict::NotOnThisMachine(format!("no network namespaces: {why}")).report();
        }
    };
    let folder = tempfile::tempdir().expect("a folder");
    let library = shift_library(folder.path());
    if library.is_none() {
        println!("no C compiler here: the two weeks pass at once");
    }
    let mut nodes: Vec<Node> = (0..count)
        .map(|at| {
            let mut node = Node::here(folder.path().join(format!("n{at}.db")));
            node.network = Some(networks.path(at));
            let everywhere = format!("0.0.0.0:{PORT}");
            let open = "expose_without_protection=true";
            node.arguments = ["--listen", &everywhere, "--set", open]
                .map(str::to_owned)
                .to_vec();
            node
        })
        .collect();
    let links = if count == 2 { 1 } else { count };
    for (at, node) in nodes.iter().enumerate().take(links) {
        let db = node.folder.display().to_string();
        let peer = format!("http://{}:{PORT}/db", inside((at + 1) % count));
        isomer(&["replica", "add", &db, &peer]);
    }
    let set_back = |node: &mut Node, days: u64| {
        if let Some(library) = &library {
            let ago = (days * DAY).to_string();
            node.environment = vec![
                ("LD_PRELOAD".into(), library.display().to_string()),
                ("ISOMER_TEST_SECONDS_AGO".into(), ago),
            ];
        }
    };
    for node in &mut nodes {
        set_back(node, 14);
        node.start();
    }
    // Connected at first: all know the counter and the person.
    let made = "CREATE (:Counter {_key: 'all'}), (:Person {_key: 'ada', seen: -1})";
    assert!(nodes[0].run(made));
    let known = "MATCH (p:Person {_key: 'ada'}) RETURN p.seen AS seen";
    await_all(&nodes, |node| {
        node.rows(known).is_some_and(|rows| rows.contains("-1"))
    });

    let mut acknowledged = BTreeSet::new();
    let mut added = 0;
    let mut day = 0;
    while day < 14 {
        for at in 0..count {
            networks.connect(at, false);
        }
        for (at, node) in nodes.iter_mut().enumerate() {
            for write in 0..writes {
                let key = format!("{at}-{day}-{write}");
                let query = format!(
                    "MATCH (c:Counter {{_key: 'all'}}) MATCH (p:Person {{_key: 'ada'}}) SET c.n = counter.add(c.n, 1), p.seen = {day}, p.tags = set.add(p.tags, '{key}') CREATE (:Note {{_key: '{key}'}})-[:OF]->(:Other {{_key: '{key}'}})"
                );
                if node.run(&query) {
                    acknowledged.insert(key);
                    added += 1;
                }
            }
            node.kill();
        }
        day += days;
        for node in &mut nodes {
            set_back(node, 14_u64.saturating_sub(day as u64));
            node.start();
        }
    }
    assert_eq!(acknowledged.len(), added);
    assert!(added > 0);
    // No changes have been exchanged in the meantime.
    let sum = "MATCH (c:Counter {_key: 'all'}) RETURN c.n AS n";
    for node in &nodes {
        let alone = node.rows(sum).expect("it answers");
        assert!(
            alone.contains(&format!("{}", added / count)),
            "a change crossed the partition: {alone}"
        );
    }
    for at in 0..count {
        networks.connect(at, true);
    }
    // Another one is killed while they reconnect.
    let victim = count - 1;
    nodes[victim].kill();
    nodes[victim].start();
    let all = "MATCH (n:Note)-[:OF]->(o:Other {_key: n._key}) RETURN n._key AS key ORDER BY key";
    let tags = "MATCH (p:Person {_key: 'ada'}) RETURN size(p.tags) AS n, p.seen AS seen";
    await_all(&nodes, |node| {
        let whole = node.rows(all).is_some_and(|rows| {
            acknowledged
                .iter()
                .all(|key| rows.contains(&format!("\"{key}\"")))
        });
        let is = |rows: Option<String>| rows.is_some_and(|rows| rows.contains(&added.to_string()));
        whole && is(node.rows(sum)) && is(node.rows(tags))
    });
    let seen: BTreeSet<_> = nodes
        .iter()
        .map(|node| (node.rows(all), node.rows(sum), node.rows(tags)))
        .collect();
    assert_eq!(seen.len(), 1, "they do not hold the same: {seen:?}");
    nodes.iter_mut().for_each(Node::kill);
    for node in &nodes {
        isomer(&["check", &node.folder.display().to_string()]);
    }
    println!(
        "{count} servers, {added} transactions written apart over two weeks, all are everywhere"
    );
}

fn await_all(nodes: &[Node], holds: impl Fn(&Node) -> bool) {
    let limit = Duration::from_secs(150);
    let are_equal = || nodes.iter().all(&holds).then_some(());
    let equal = poll::within(limit, are_equal);
    assert!(equal.is_some(), "not the same after {limit:?}");
}

/// Transactions per server and restart; more of them if there is time (`cargo xtask soak`).
fn writes(usual: usize) -> usize {
    match std::env::var_os("ISOMER_TEST_SECONDS") {
        Some(_) => usual * 20,
        None => usual,
    }
}

#[test]
fn two_servers_agree_after_two_weeks_apart() {
    apart(2, 2, writes(30));
}

#[test]
fn five_servers_agree_after_two_weeks_apart() {
    apart(5, 7, writes(20));
}
