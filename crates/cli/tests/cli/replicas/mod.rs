//! Several servers that replicate over loopback: connections are cut, processes are killed, and in the end every
//! acknowledged write is everywhere.

mod kills;
mod node;
mod partitions;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    time::Duration,
};

use isomer_testkit::poll;
use node::{Node, isomer};

/// Forwards connections to the current address of a server, or cuts them.
fn proxy(to: Arc<AtomicU16>, is_cut: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let is_cut = is_cut.clone();
            let to = to.load(Ordering::Acquire);
            std::thread::spawn(move || {
                if is_cut.load(Ordering::Acquire) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                    return;
                };
                let ways = [(&client, &server), (&server, &client)];
                std::thread::scope(|scope| {
                    for (from, to) in ways {
                        let is_cut = &is_cut;
                        scope.spawn(move || pass(from, to, is_cut));
                    }
                });
            });
        }
    });
    port
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, is_cut: &AtomicBool) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
    let mut buffer = [0; 4096];
    while !is_cut.load(Ordering::Acquire) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) if to.write_all(&buffer[..length]).is_err() => break,
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// `count` servers in a ring, each with the next one as its peer, through a proxy.
fn run(count: usize, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes: Vec<Node> = (0..count)
        .map(|at| Node::here(folder.path().join(format!("n{at}.db"))))
        .collect();
    let cuts: Vec<_> = (0..count)
        .map(|_| Arc::new(AtomicBool::new(false)))
        .collect();
    let links = if count == 2 { 1 } else { count };
    for at in 0..links {
        let port = proxy(nodes[(at + 1) % count].port.clone(), cuts[at].clone());
        let db = nodes[at].folder.display().to_string();
        isomer(&[
            "replica",
            "add",
            &db,
            &format!("http://127.0.0.1:{port}/db"),
        ]);
    }
    nodes.iter_mut().for_each(Node::start);
    let mut acknowledged = BTreeSet::new();
    let mut added = 0;
    for round in 0..rounds {
        // In each round another connection is cut, and another process killed.
        for (at, cut) in cuts.iter().enumerate() {
            cut.store((at + round) % 2 == 0, Ordering::Release);
        }
        for (at, node) in nodes.iter().enumerate() {
            for write in 0..5 {
                let key = format!("{at}-{round}-{write}");
                let query = format!(
                    "MERGE (c:Counter {{_key: 'all'}}) SET c.n = counter.add(c.n, 1) CREATE (:Note {{_key: '{key}', half: 1}}), (:Other {{_key: '{key}'}})"
                );
                if node.run(&query) {
                    acknowledged.insert(key);
                    added += 1;
                }
            }
        }
        let victim = round % count;
        nodes[victim].kill();
        // The others exchange without it, and fail to reach it.
        std::thread::sleep(Duration::from_millis(300));
        nodes[victim].start();
    }
    assert_eq!(
        acknowledged.len(),
        count * rounds * 5,
        "every write was acknowledged"
    );
    for cut in &cuts {
        cut.store(false, Ordering::Release);
    }
    let all = "MATCH (n:Note) MATCH (o:Other {_key: n._key}) RETURN n._key AS key ORDER BY key";
    let sum = "MATCH (c:Counter {_key: 'all'}) RETURN c.n AS n";
    let mut seen = Vec::new();
    let are_equal = poll::within(Duration::from_secs(120), || {
        seen = nodes
            .iter()
            .map(|node| (node.rows(all), node.rows(sum)))
            .collect::<Vec<_>>();
        let whole = seen[0].0.as_ref().is_some_and(|rows| {
            acknowledged
                .iter()
                .all(|key| rows.contains(&format!("\"{key}\"")))
        });
        let counted = seen[0]
            .1
            .as_ref()
            .is_some_and(|rows| rows.contains(&format!("{added}")));
        (whole && counted && seen.iter().all(|one| *one == seen[0])).then_some(())
    });
    assert!(
        are_equal.is_some(),
        "not the same after two minutes: {} of {} writes, {:?}",
        acknowledged.len(),
        count * rounds * 5,
        seen.iter()
            .map(|one| (one.0.as_ref().map(String::len), &one.1))
            .collect::<Vec<_>>()
    );
    nodes.iter_mut().for_each(Node::kill);
    for node in &nodes {
        isomer(&["check", &node.folder.display().to_string()]);
    }
}

#[test]
fn two_servers_agree_after_cuts_and_kills() {
    run(2, 4);
}

#[test]
fn five_servers_in_a_ring_agree_after_cuts_and_kills() {
    run(5, 3);
}
