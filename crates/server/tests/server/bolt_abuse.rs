//! Bolt under hostile clients: what they may hold, for how long, and after their rights were revoked.

use std::{
    io::Write,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_db::{Map, Value, params};
use isomer_testkit::poll;

use crate::{
    driver::{
        Answer, BEGIN, COMMIT, DISCARD, Driver, LOGOFF, LOGON, PULL, RESET, ROLLBACK, RUN, message,
    },
    support::{PASSWORD, Server},
};

/// Runs for long and produces no row.
const LONG: &str = "UNWIND range(1, 1000000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)";
const TIMED_OUT: &str = "Neo.ClientError.Transaction.TransactionTimedOut";
const EXPIRED: &str = "Neo.ClientError.Security.AuthorizationExpired";

fn none() -> Map {
    Map::new()
}

fn all() -> Vec<Value> {
    vec![params! { "n" => -1 }.into()]
}

/// What was opened under a right cannot be used after the right was revoked.
#[test]
fn what_was_begun_ends_with_the_right_to_it() {
    let server = Server::new();
    let admin = server.admin();
    let editor = "{\"people\":\"editor\"}";
    let mut number = 0;
    let mut begun = || {
        number += 1;
        let name = format!("user-{number}");
        server.user(&name, editor);
        (Driver::of(&server, &name), name)
    };
    let roles = |name: &str, roles: &str| {
        let answer = admin.json("PUT", &format!("/v1/users/{name}/roles"), roles);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let reader = "{\"people\":\"reader\"}";
    for less in [reader, "{\"other\":\"admin\"}", "{}"] {
        // Written, but not committed.
        let (mut driver, name) = begun();
        driver.ask(BEGIN, &[none().into()]).success();
        driver.run("CREATE (:No)", none()).1.success();
        roles(&name, less);
        assert_eq!(driver.ask(COMMIT, &[]).code(), EXPIRED, "{less}");
        driver.reset();
        // Not written yet.
        for take in [PULL, DISCARD] {
            let (mut driver, name) = begun();
            driver.open("CREATE (:No)", none());
            roles(&name, less);
            assert_eq!(driver.ask(take, &all()).code(), EXPIRED, "{less}");
        }
        // Streamed while it is written, committed at its end.
        let (mut driver, name) = begun();
        driver.open("UNWIND range(1, 5000) AS n CREATE (:No) RETURN n", none());
        driver.send_pull(1_500);
        assert_eq!(driver.receive().unwrap().0.len(), 1_500);
        roles(&name, less);
        assert_eq!(driver.ask(PULL, &all()).code(), EXPIRED, "{less}");
        // Read, by users who still may read and by others.
        for transaction in [false, true] {
            let (mut driver, name) = begun();
            if transaction {
                driver.ask(BEGIN, &[none().into()]).success();
            }
            driver.open("UNWIND range(1, 50) AS n RETURN n", none());
            driver.send_pull(10);
            assert_eq!(driver.receive().unwrap().0.len(), 10);
            roles(&name, less);
            let may_read = less == reader;
            let (rows, answer) = {
                driver.send_pull(-1);
                driver.receive().unwrap()
            };
            let context = format!("{less}: {answer:?}");
            assert_eq!(answer.code() == "success", may_read, "{context}");
            assert_eq!(rows.len(), if may_read { 40 } else { 0 }, "{context}");
            if transaction && may_read {
                driver.ask(COMMIT, &[]).success();
            }
        }
    }
    // The user was removed, or the client gives up.
    let (mut driver, name) = begun();
    driver.ask(BEGIN, &[none().into()]).success();
    driver.run("CREATE (:No)", none()).1.success();
    assert_eq!(admin.delete(&format!("/v1/users/{name}")).status, 204);
    assert_eq!(driver.ask(COMMIT, &[]).code(), EXPIRED);
    let (mut driver, name) = begun();
    driver.ask(BEGIN, &[none().into()]).success();
    driver.run("CREATE (:No)", none()).1.success();
    roles(&name, "{}");
    driver.ask(ROLLBACK, &[]).success();
    let count = server.people.query("MATCH (n:No) RETURN n").unwrap();
    assert_eq!(count.len(), 0);
}

#[test]
fn concurrent_guesses_are_counted() {
    let server = Server::with(&[("limits.login_failures", "4")]);
    let barrier = Barrier::new(16);
    let looked_at = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut driver = Driver::greeted(&server);
                barrier.wait();
                let guess = params! { "scheme" => "basic", "principal" => "admin", "credentials" => "a guess" };
                let answer = driver.ask(LOGON, &[guess.into()]);
                match answer.code() {
                    "Neo.ClientError.Security.Unauthorized" => {
                        looked_at.fetch_add(1, Ordering::Relaxed);
                    }
                    other => assert_eq!(other, "Neo.ClientError.Security.AuthenticationRateLimit"),
                }
            });
        }
    });
    assert_eq!(looked_at.into_inner(), 4);
}

/// The connections of a pool that are opened concurrently.
#[test]
fn many_concurrent_valid_logins_are_admitted() {
    let server = Server::with(&[("limits.login_failures", "4")]);
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let mut driver = Driver::of(&server, "admin");
                assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
            });
        }
    });
}

#[test]
fn bytes_that_keep_arriving_do_not_postpone_the_time_limit_of_a_query() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let mut writing = driver.stream.try_clone().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            if writing.write_all(&[0, 0]).is_err() {
                return;
            }
            // Bytes arrive regularly.
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let began = Instant::now();
    // In one write, as the other thread writes in between.
    driver
        .stream
        .write_all(
            &[
                message(
                    RUN,
                    &[
                        LONG.into(),
                        none().into(),
                        params! { "tx_timeout" => 300 }.into(),
                    ],
                ),
                message(PULL, &all()),
            ]
            .concat(),
        )
        .unwrap();
    driver.receive().unwrap().1.success();
    assert_eq!(driver.receive().unwrap().1.code(), TIMED_OUT);
    assert!(began.elapsed() < Duration::from_secs(6));
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

/// However long a result is, the number of messages queued behind it is limited.
#[test]
fn the_queue_behind_a_result_is_limited() {
    let server = Server::with(&[("limits.body", "1MiB")]);
    let mut driver = Driver::of(&server, "admin");
    driver.open("UNWIND range(1, 1000000000) AS n RETURN n", none());
    driver.send_pull(-1);
    let mut reading = driver.stream.try_clone().unwrap();
    let read = Arc::new(AtomicUsize::new(0));
    let (counted, stop) = (read.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 64 << 10];
        while !stopped.load(Ordering::Relaxed) {
            match std::io::Read::read(&mut reading, &mut buffer) {
                Ok(count @ 1..) => counted.fetch_add(count, Ordering::Relaxed),
                _ => return,
            };
        }
    });
    driver
        .stream
        .set_write_timeout(Some(Duration::from_millis(1_500)))
        .unwrap();
    let run = message(
        RUN,
        &[
            "RETURN size($t)".into(),
            params! { "t" => "x".repeat(200_000).as_str() }.into(),
            none().into(),
        ],
    );
    let mut written = 0;
    while written < 64 << 20 {
        match driver.stream.write(&run[written % run.len()..]) {
            Ok(count) => written += count,
            Err(_) => break,
        }
    }
    // The kernel buffers of both ends hold some MiB.
    assert!(written < 24 << 20, "{written} bytes were taken in");
    assert!(
        read.load(Ordering::Relaxed) > 100_000,
        "rows arrived in the meantime"
    );
    stop.store(true, Ordering::Relaxed);
    drop(driver);
    reader.join().unwrap();
}

/// At the limit of concurrent requests, each message gets its own answer.
#[test]
fn an_overloaded_server_answers_the_right_message() {
    let server = Server::with(&[
        ("limits.requests", "1"),
        ("limits.head_time", "300ms"),
        // On a busy machine, the rows must arrive in time as well.
        ("limits.transaction_time", "30s"),
    ]);
    let mut driver = Driver::of(&server, "admin");
    let mut other = Driver::of(&server, "admin");
    let mut waits = Driver::of(&server, "admin");
    waits.ask(BEGIN, &[none().into()]).success();
    driver.ask(BEGIN, &[none().into()]).success();
    driver.open("UNWIND range(1, 1000000000) AS n RETURN n", none());
    driver.send_pull(-1);
    driver.send(COMMIT, &[]);
    poll::until("rows arrive", || has_come(&driver));
    let mut reading = Driver {
        stream: driver.stream.try_clone().unwrap(),
    };
    let reader = std::thread::spawn(move || {
        let (rows, pull) = reading.receive().unwrap();
        (rows.len(), pull, reading.receive().unwrap().1)
    });
    // At some point this one has the only slot while its rows are produced; until then it may be refused itself.
    while !reader.is_finished() {
        other.send_run(LONG, none(), none());
        other.send_pull(-1);
        if matches!(other.receive().unwrap().1, Answer::Success(_)) {
            poll::until("the other one is refused", || {
                reader.is_finished() || has_come(&other)
            });
        }
        if !reader.is_finished() {
            assert_ne!(other.receive().unwrap().1.code(), "success");
            other.reset();
        }
    }
    let (rows, pull, commit) = reader.join().unwrap();
    assert!(
        rows > 0 && matches!(pull, Answer::Failure { .. }),
        "{pull:?}"
    );
    assert_eq!(commit, Answer::Ignored);
    // A message that ends something needs no slot: the other one holds it until it is cancelled, too.
    driver.reset();
    waits.reset();
    assert!(!has_come(&other), "it is running");
    other.send(RESET, &[]);
    assert_ne!(other.receive().unwrap().1.code(), "success");
    other.receive().unwrap().1.success();
    assert_eq!(waits.run("RETURN 1", none()).0, [[Value::Int(1)]]);
    assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
}

/// Whether unread data has arrived at this driver.
fn has_come(driver: &Driver) -> bool {
    driver.stream.set_nonblocking(true).unwrap();
    let count = driver.stream.peek(&mut [0]);
    driver.stream.set_nonblocking(false).unwrap();
    count.is_ok()
}

#[test]
fn after_a_logoff_there_is_time_for_another_login() {
    let server = Server::with(&[("limits.head_time", "600ms")]);
    let mut driver = Driver::of(&server, "admin");
    // Longer than the limit of a login: it applied to the first one.
    std::thread::sleep(Duration::from_millis(900));
    driver.ask(LOGOFF, &[]).success();
    std::thread::sleep(Duration::from_millis(200));
    let basic = params! { "scheme" => "basic", "principal" => "admin", "credentials" => PASSWORD };
    driver.ask(LOGON, &[basic.into()]).success();
    assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
    // It is limited as before the first login, and so are messages.
    driver.ask(LOGOFF, &[]).success();
    let began = Instant::now();
    assert!(driver.has_ended());
    assert!(began.elapsed() < Duration::from_secs(5));
    let mut driver = Driver::of(&server, "admin");
    driver.ask(LOGOFF, &[]).success();
    let long = params! { "scheme" => "x".repeat(20_000).as_str() };
    let answer = driver.ask(LOGON, &[long.into()]);
    assert_eq!(answer.code(), "Neo.ClientError.General.LimitExceeded");
}

/// A result between two pieces does not count as a request.
#[test]
fn half_read_results_do_not_block_their_user() {
    let server = Server::with(&[
        ("limits.user_requests", "1"),
        ("limits.query_memory", "64MiB"),
        ("limits.user_memory", "256MiB"),
    ]);
    let half_read = |driver: &mut Driver| {
        driver.open("UNWIND range(1, 100000) AS n RETURN n", none());
        driver.send_pull(1);
        assert_eq!(driver.receive().unwrap().0.len(), 1);
    };
    let mut open: Vec<Driver> = (0..10).map(|_| Driver::of(&server, "admin")).collect();
    open.iter_mut().for_each(half_read);
    let began = Instant::now();
    let rows = server.admin().rows("people", "RETURN 1 AS one");
    assert_eq!(rows.as_array().unwrap().len(), 1);
    // They hold no memory of their user.
    let mut driver = Driver::of(&server, "admin");
    let query = "UNWIND range(1, 300000) AS n WITH collect(n) AS all RETURN size(all)";
    assert_eq!(driver.run(query, none()).0, [[Value::Int(300_000)]]);
    // A transaction does not wait for its own results, even if they are collected.
    driver.ask(BEGIN, &[none().into()]).success();
    (0..5).for_each(|_| half_read(&mut driver));
    driver.open("UNWIND range(1, 10) AS n RETURN n", none());
    driver.ask(DISCARD, &all()).success();
    driver.ask(ROLLBACK, &[]).success();
    driver.ask(BEGIN, &[none().into()]).success();
    for _ in 0..3 {
        driver.open("UNWIND range(1, 1000) AS n RETURN n", none());
    }
    driver.run("CREATE (:Yes)", none()).1.success();
    for result in 0..3 {
        driver.send(PULL, &[params! { "n" => -1, "qid" => result }.into()]);
        assert_eq!(driver.receive().unwrap().0.len(), 1_000);
    }
    driver.ask(COMMIT, &[]).success();
    for driver in &mut open {
        driver.send_pull(3);
        assert_eq!(driver.receive().unwrap().0.len(), 3);
    }
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "nothing was delayed"
    );
    // Open results have their own limit.
    (0..6).for_each(|_| open.push(Driver::of(&server, "admin")));
    open[10..].iter_mut().for_each(half_read);
    driver.send_run("RETURN 1", none(), none());
    let Answer::Failure { message, .. } = driver.receive().unwrap().1 else {
        panic!("no failure")
    };
    assert!(message.contains("16 results open"), "{message}");
    driver.reset();
    open[0].ask(DISCARD, &all()).success();
    assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
}

#[test]
fn collected_results_count_with_the_memory_they_hold() {
    let server = Server::with(&[("limits.result", "1MiB")]);
    let mut driver = Driver::of(&server, "admin");
    let small = "UNWIND range(1, 8000) AS n RETURN 1";
    let large = "UNWIND range(1, 16000000) AS n RETURN 1";
    for (results, gathered) in [
        (vec![small], true),
        (vec![small, small, small], false),
        (vec![large], false),
    ] {
        driver.ask(BEGIN, &[none().into()]).success();
        for result in &results {
            driver.open(result, none());
        }
        let began = Instant::now();
        let created = driver.run("CREATE (:A)", none()).1;
        let context = format!("{results:?}: {created:?}");
        assert_eq!(created.code() == "success", gathered, "{context}");
        if gathered {
            driver.send(PULL, &[params! { "n" => -1, "qid" => 0 }.into()]);
            assert_eq!(driver.receive().unwrap().0.len(), 8_000);
        } else {
            assert_eq!(created.code(), "Neo.ClientError.General.LimitExceeded");
            assert!(began.elapsed() < Duration::from_secs(6), "{context}");
        }
        driver.reset();
    }
    // Large rows of a writing statement are committed at their end.
    let query = "UNWIND range(1, 300) AS n CREATE (:B) RETURN range(1, 20000) AS list";
    driver.open(query, none());
    driver.send_pull(10);
    assert_eq!(driver.receive().unwrap().0.len(), 10);
    let seen = server.people.query("MATCH (b:B) RETURN b").unwrap();
    assert_eq!(seen.len(), 0);
    driver.ask(DISCARD, &all()).success();
    let seen = server.people.query("MATCH (b:B) RETURN b").unwrap();
    assert_eq!(seen.len(), 300);
}

#[test]
fn a_result_that_is_not_consumed_is_ended() {
    let server = Server::with(&[
        ("limits.transaction_time", "1s"),
        ("limits.bolt_idle_time", "4s"),
    ]);
    let running = || {
        let rows = server.admin().rows("people", "SHOW QUERIES");
        rows.as_array().unwrap().len()
    };
    let half_read = || {
        let mut driver = Driver::of(&server, "admin");
        driver.open("UNWIND range(1, 1000000) AS n RETURN n", none());
        driver.send_pull(10);
        assert_eq!(driver.receive().unwrap().0.len(), 10);
        driver
    };
    let mut driver = half_read();
    assert_eq!(running(), 2);
    let began = Instant::now();
    poll::until("the query ends", || {
        driver.stream.write_all(&[0, 0]).unwrap();
        running() == 1
    });
    assert!(began.elapsed() < Duration::from_secs(8));
    driver.send_pull(10);
    assert_eq!(driver.receive().unwrap().1.code(), TIMED_OUT);
    driver.reset();
    assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
    // Bytes that are not a message keep an idle connection open, but not one that has something open.
    let mut open = half_read();
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(200));
        driver.stream.write_all(&[0, 0]).unwrap();
        let _ = open.stream.write_all(&[0, 0]);
    }
    assert_eq!(driver.run("RETURN 1", none()).0, [[Value::Int(1)]]);
    // It is closed already.
    let began = Instant::now();
    assert!(open.has_ended());
    assert!(began.elapsed() < Duration::from_secs(2));
}
