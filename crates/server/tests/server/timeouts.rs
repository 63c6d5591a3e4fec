//! Timeouts that clients set for their queries and transactions: they are by the clock, however slowly the client
//! reads.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use isomer_db::{Map, Value, params};
use isomer_testkit::poll;
use serde_json::json;

use crate::{
    driver::{BEGIN, COMMIT, Driver},
    support::Server,
};

const TIMED_OUT: &str = "Neo.ClientError.Transaction.TransactionTimedOut";
const ENDLESS: &str =
    "UNWIND range(1, 100000000) AS a RETURN a, 'a text that fills buffers' AS text";

fn in_one_second() -> Map {
    params! { "tx_timeout" => 1_000 }
}

/// Pulls pages with pauses until something other than rows arrives; returns that, and the time since `began`.
fn pull_slowly(
    driver: &mut Driver,
    page: i64,
    pause: Duration,
    began: Instant,
) -> (String, Duration) {
    loop {
        driver.send_pull(page);
        let (rows, answer) = driver.receive().expect("an answer");
        let has_more =
            matches!(&answer, crate::driver::Answer::Success(map) if map.get("has_more").is_some());
        if !has_more {
            return (answer.code().to_owned(), began.elapsed());
        }
        assert!(!rows.is_empty());
        assert!(began.elapsed() < Duration::from_secs(15), "it is not ended");
        // A client that works on the rows.
        std::thread::sleep(pause);
    }
}

fn assert_on_time(what: &str, (code, took): (String, Duration)) {
    assert_eq!(code, TIMED_OUT, "{what}");
    let right = Duration::from_millis(950)..Duration::from_millis(3_000);
    assert!(right.contains(&took), "{what}: {took:?}");
}

#[test]
fn tx_timeout_ends_a_result_that_is_read_slowly() {
    let server = Server::with(&[("limits.query_time", "5min")]);
    let mut driver = Driver::of(&server, "admin");
    let is_usable = |driver: &mut Driver| {
        driver.reset();
        assert_eq!(driver.run("RETURN 1", params! {}).0, [[Value::Int(1)]]);
    };
    let pages = [(1, 20), (100, 20), (1_000, 0), (20_000, 5), (10, 700)];
    for (page, pause) in pages {
        let pause = Duration::from_millis(pause);
        let began = Instant::now();
        driver.send_run(ENDLESS, params! {}, in_one_second());
        driver.receive().expect("an answer").1.success();
        let ended = pull_slowly(&mut driver, page, pause, began);
        assert_on_time(&format!("alone, pages of {page}"), ended);
        is_usable(&mut driver);
        let began = Instant::now();
        driver.ask(BEGIN, &[in_one_second().into()]).success();
        driver.send_run(ENDLESS, params! {}, params! {});
        driver.receive().expect("an answer").1.success();
        let ended = pull_slowly(&mut driver, page, pause, began);
        assert_on_time(&format!("in a transaction, pages of {page}"), ended);
        is_usable(&mut driver);
    }
    // All rows requested in one message, and read slowly.
    let began = Instant::now();
    driver.send_run(ENDLESS, params! {}, in_one_second());
    driver.send_pull(-1);
    driver.receive().expect("an answer").1.success();
    // A client that reads late.
    std::thread::sleep(Duration::from_millis(1_500));
    let code = driver.receive().expect("an answer").1.code().to_owned();
    assert_eq!(code, TIMED_OUT);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    is_usable(&mut driver);
}

#[test]
fn a_result_that_timed_out_holds_nothing_and_commits_nothing() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    driver.send_run(ENDLESS, params! {}, in_one_second());
    driver.send_pull(10);
    driver.receive().expect("an answer").1.success();
    driver.receive().expect("an answer").1.success();
    assert_eq!(server.running_queries(), 1);
    // Without a further PULL it ends all the same.
    let began = Instant::now();
    server.await_running_queries(0);
    assert!(began.elapsed() < Duration::from_secs(5));
    driver.send_pull(10);
    assert_eq!(driver.receive().expect("an answer").1.code(), TIMED_OUT);
    driver.reset();
    // A statement with more rows than are buffered is rolled back.
    let write = "UNWIND range(1, 5000) AS i CREATE (n:Late {i: i}) RETURN n.i";
    driver.send_run(write, params! {}, in_one_second());
    driver.receive().expect("an answer").1.success();
    driver.send_pull(10);
    driver.receive().expect("an answer").1.success();
    // The time of the statement passes.
    std::thread::sleep(Duration::from_millis(1_300));
    driver.send_pull(-1);
    assert_eq!(driver.receive().expect("an answer").1.code(), TIMED_OUT);
    driver.reset();
    // One that was committed before its first row was sent keeps its rows.
    let write = "UNWIND range(1, 50) AS i CREATE (n:Settled {i: i}) RETURN n.i";
    driver.send_run(write, params! {}, in_one_second());
    driver.receive().expect("an answer").1.success();
    driver.send_pull(10);
    driver.receive().expect("an answer").1.success();
    // The time of the statement passes.
    std::thread::sleep(Duration::from_millis(1_300));
    driver.send_pull(-1);
    let (rows, answer) = driver.receive().expect("an answer");
    answer.success();
    assert_eq!(rows.len(), 40);
    // A transaction is not committed after its timeout.
    driver.ask(BEGIN, &[in_one_second().into()]).success();
    driver.run("CREATE (:Late)", params! {}).1.success();
    // The time of the transaction passes.
    std::thread::sleep(Duration::from_millis(1_050));
    assert_eq!(driver.ask(COMMIT, &[]).code(), TIMED_OUT);
    driver.reset();
    let counted = driver.run("MATCH (n:Late) RETURN count(n)", params! {}).0;
    assert_eq!(counted, [[Value::Int(0)]]);
}

/// The server's own limit is on running time: it ends results that are pulled endlessly.
#[test]
fn query_time_ends_pages_that_are_pulled_endlessly() {
    let server = Server::with(&[("limits.query_time", "1s")]);
    let mut driver = Driver::of(&server, "admin");
    let rare = "UNWIND range(1, 100000000) AS a WITH a WHERE a % 1000 = 0 RETURN a";
    for in_transaction in [false, true] {
        if in_transaction {
            driver.ask(BEGIN, &[params! {}.into()]).success();
        }
        let began = Instant::now();
        driver.send_run(rare, params! {}, params! {});
        driver.receive().expect("an answer").1.success();
        let (code, took) = pull_slowly(&mut driver, 50, Duration::ZERO, began);
        assert_eq!(code, TIMED_OUT);
        assert!(took > Duration::from_millis(950), "{took:?}");
        driver.reset();
    }
}

/// `limits.time_ms` of a request is by the clock as well, for collected results, lines and columns.
#[test]
fn time_ms_ends_a_result_over_http_on_time() {
    let server = Server::with(&[("limits.query_time", "5min")]);
    let body = json!({"query": ENDLESS, "limits": {"time_ms": 1_000}}).to_string();
    let path = "/v1/databases/people/query";
    for accept in ["application/jsonl", "application/vnd.apache.arrow.stream"] {
        let client = server.admin().with("Accept", accept);
        let mut stream = client.connect();
        let head = client.head("POST", path);
        let about = "Content-Type: application/json\r\nConnection: close\r\nContent-Length";
        let request = format!("{head}{about}: {}\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let began = Instant::now();
        let (mut last, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let count = stream.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                break;
            }
            last = buffer[..count].to_vec();
            assert!(
                began.elapsed() < Duration::from_secs(15),
                "{accept}: it is not ended"
            );
            if began.elapsed() < Duration::from_millis(1_500) {
                // A client that reads slowly at first.
                std::thread::sleep(Duration::from_millis(30));
            }
        }
        let took = began.elapsed();
        assert!(took > Duration::from_millis(950), "{accept}: {took:?}");
        if accept == "application/jsonl" {
            let last = String::from_utf8_lossy(&last);
            assert!(last.contains("\"kind\":\"Limit\""), "{last}");
        }
    }
    let began = Instant::now();
    let gathered = json!({"query": "UNWIND range(1, 100000000) AS a WITH a ORDER BY a % 7 RETURN count(a)", "limits": {"time_ms": 1_000}});
    let answer = server.admin().json("POST", path, &gathered.to_string());
    assert_eq!(answer.kind(), "Limit");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(server.admin().rows("people", "RETURN 1")[0][0], 1);
}

/// A client that reads nothing, or a little now and then, keeps no query and no snapshot after the deadline.
#[test]
fn a_timeout_ends_a_result_that_is_not_read() {
    let server = Server::with(&[("limits.query_time", "5min")]);
    let body = json!({"query": ENDLESS, "limits": {"time_ms": 1_000}}).to_string();
    let ended = |what: &str, trickle: &mut dyn FnMut()| {
        let began = Instant::now();
        server.await_running_queries(1);
        poll::until("the query ends", || {
            trickle();
            server.running_queries() == 0
        });
        let took = began.elapsed();
        let right = Duration::from_millis(700)..Duration::from_secs(6);
        assert!(right.contains(&took), "{what}: ended after {took:?}");
    };
    for accept in ["application/jsonl", "application/vnd.apache.arrow.stream"] {
        for is_trickling in [false, true] {
            let client = server.admin().with("Accept", accept);
            let mut stream = client.connect();
            let head = client.head("POST", "/v1/databases/people/query");
            let about = "Content-Type: application/json\r\nConnection: close\r\nContent-Length";
            let request = format!("{head}{about}: {}\r\n\r\n{body}", body.len());
            std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
            let mut buffer = [0; 100];
            ended(&format!("{accept}, trickling: {is_trickling}"), &mut || {
                if is_trickling {
                    assert!(stream.read(&mut buffer).unwrap() > 0);
                }
            });
        }
    }
    let mut driver = Driver::of(&server, "admin");
    driver.ask(BEGIN, &[in_one_second().into()]).success();
    driver.send_run(ENDLESS, params! {}, params! {});
    driver.send_pull(-1);
    ended("Bolt, in a transaction", &mut || ());
}
