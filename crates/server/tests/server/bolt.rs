//! Bolt: its states, its rights and its limits, message by message.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use isomer_db::{Map, Point, Value, params};
use isomer_server::{
    access::Role,
    bolt::{MESSAGES, MessageNeeds},
};
use isomer_testkit::poll;
use isomer_value::Crs;

use crate::{
    driver::{
        Answer, BEGIN, COMMIT, DISCARD, Driver, GOODBYE, HELLO, LOGOFF, LOGON, PULL, RESET,
        ROLLBACK, ROUTE, RUN, is_waiting, message,
    },
    support::{PASSWORD, Server},
};

const FORBIDDEN: &str = "Neo.ClientError.Security.Forbidden";

fn on(database: &str) -> Map {
    params! { "db" => database }
}

fn none() -> Map {
    Map::new()
}

/// The fields of a message that names a database.
fn fields(tag: u8, database: &str) -> Vec<Value> {
    match tag {
        RUN => vec!["RETURN 1".into(), none().into(), on(database).into()],
        BEGIN => vec![on(database).into()],
        ROUTE => vec![none().into(), Value::empty_list(), on(database).into()],
        PULL | DISCARD => vec![params! { "n" => -1 }.into()],
        HELLO | LOGON => vec![none().into()],
        0x54 => vec![0.into()],
        _ => Vec::new(),
    }
}

/// Every message and every role, on the role's database and on others.
#[test]
fn every_message_is_refused_to_every_role_without_the_right() {
    let server = Server::with(&[("limits.login_failures", "100000")]);
    let mut tried = 0;
    for role in [
        None,
        Some(Role::Reader),
        Some(Role::Editor),
        Some(Role::Schema),
        Some(Role::Replica),
        Some(Role::Admin),
    ] {
        let name = format!("only-{}", role.map_or("none", Role::name));
        let rights = match role {
            None => "{}".to_owned(),
            Some(role) => format!("{{\"people\":\"{}\"}}", role.name()),
        };
        server.user(&name, &rights);
        for kind in MESSAGES
            .iter()
            .filter(|kind| kind.needs == MessageNeeds::Database)
        {
            for database in ["people", "other", "nowhere", "../people", "*", "system"] {
                let mut driver = Driver::of(&server, &name);
                let answer = driver.ask(kind.tag, &fields(kind.tag, database));
                let context = format!("{} on {database} as {name}: {answer:?}", kind.name);
                // Every client has the database of administration, which has no data.
                if database == "people" && role.is_some() || database == "system" {
                    assert_eq!(answer.code(), "success", "{context}");
                } else {
                    assert_eq!(answer.code(), FORBIDDEN, "{context}");
                }
                tried += 1;
            }
        }
    }
    // Unauthenticated clients are refused, and what was not opened cannot be used.
    for kind in MESSAGES
        .iter()
        .filter(|kind| kind.needs != MessageNeeds::Public)
    {
        for logged_in in [false, true] {
            let mut driver = if logged_in {
                Driver::of(&server, "only-admin")
            } else {
                Driver::greeted(&server)
            };
            if logged_in && kind.needs != MessageNeeds::Opened {
                continue;
            }
            let answer = driver.ask(kind.tag, &fields(kind.tag, "people"));
            assert_eq!(
                answer.code(),
                "Neo.ClientError.Request.Invalid",
                "{}",
                kind.name
            );
            assert!(driver.has_ended(), "{}", kind.name);
            tried += 1;
        }
    }
    assert!(tried > 80, "{tried}");
}

/// The class of a statement is determined by its plan, alone and in a transaction.
#[test]
fn statements_do_no_more_than_their_role_allows() {
    let server = Server::new();
    let statements = [
        (Role::Reader, "MATCH (n) RETURN count(n)"),
        (Role::Editor, "CREATE (:A)"),
        (Role::Editor, "CALL kv.put('b', 'k', 1)"),
        (
            Role::Schema,
            "CREATE INDEX a_x IF NOT EXISTS FOR (n:A) ON (n.x)",
        ),
        (Role::Admin, "SHOW QUERIES"),
    ];
    for role in Role::ALL {
        let name = format!("only-{}", role.name());
        server.user(&name, &format!("{{\"people\":\"{}\"}}", role.name()));
        let mut driver = Driver::of(&server, &name);
        for (need, statement) in statements {
            let alone = driver.run(statement, on("people")).1;
            let context = format!("{statement} as {name}: {alone:?}");
            assert_eq!(alone.code() == FORBIDDEN, role < need, "{context}");
            driver.reset();
            driver.ask(BEGIN, &[on("people").into()]).success();
            let within = driver.run(statement, none()).1;
            assert_eq!(
                within.code() == FORBIDDEN,
                role < need,
                "{context}: {within:?}"
            );
            driver.reset();
            if role >= Role::Editor && need > Role::Reader {
                let mut extra = on("people");
                extra.insert("mode", "r".into());
                let read = driver.run(statement, extra).1;
                let expected = "Neo.ClientError.Statement.AccessMode";
                assert_eq!(read.code(), expected, "{context}");
                driver.reset();
            }
        }
    }
}

#[test]
fn logins_are_checked_limited_and_ended() {
    let server = Server::with(&[("limits.login_failures", "4")]);
    let token = server.user("ada", "{\"people\":\"reader\"}");
    let log_on = |extra: Map| {
        let mut driver = Driver::greeted(&server);
        let answer = driver.ask(LOGON, &[extra.into()]);
        (driver, answer)
    };
    let basic = |name: &str, password: &str| params! { "scheme" => "basic", "principal" => name, "credentials" => password };
    let bearer = |token: &str| params! { "scheme" => "bearer", "credentials" => token };
    let (mut known, answer) = log_on(bearer(&token));
    assert_eq!(answer.code(), "success");
    assert_eq!(known.run("RETURN 1", none()).0, [[Value::Int(1)]]);
    let mut other = Driver::of(&server, "ada");

    // A revoked right is gone with the next message.
    let admin = server.admin();
    let expired = "Neo.ClientError.Security.AuthorizationExpired";
    let id = admin.get("/v1/tokens?all").value()["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["user"] == "ada")
        .unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(admin.delete(&format!("/v1/tokens/{id}")).status, 204);
    assert_eq!(known.run("RETURN 1", none()).1.code(), expired);
    assert_eq!(other.run("RETURN 1", none()).1.code(), "success");
    let password = "{\"password\":\"another battery\"}";
    assert_eq!(
        admin.json("PUT", "/v1/users/ada/password", password).status,
        204
    );
    assert_eq!(other.run("RETURN 1", none()).1.code(), expired);
    // Another login over the same connection.
    let mut driver = Driver::of(&server, "admin");
    driver.ask(LOGOFF, &[]).success();
    driver
        .ask(LOGON, &[basic("admin", PASSWORD).into()])
        .success();
    assert_eq!(driver.run("RETURN 1", none()).1.code(), "success");

    let unauthorized = "Neo.ClientError.Security.Unauthorized";
    let (mut wrong, first) = log_on(basic("ada", "wrong password"));
    let (_, second) = log_on(basic("eve", "wrong password"));
    assert_eq!(first.code(), unauthorized);
    assert_eq!(first, second, "known and unknown users get the same answer");
    assert!(wrong.has_ended());
    assert_eq!(
        log_on(params! { "scheme" => "none" }).1.code(),
        unauthorized
    );
    for _ in 0..2 {
        log_on(basic("admin", "a guess"));
    }
    let held_up = "Neo.ClientError.Security.AuthenticationRateLimit";
    assert_eq!(log_on(basic("admin", "a guess")).1.code(), held_up);
    // After too many failures even the right password gets the same answer, however recently it was verified.
    assert_eq!(log_on(basic("admin", PASSWORD)).1.code(), held_up);
    assert_eq!(log_on(basic("ada", "another battery")).1.code(), held_up);
}

#[test]
fn before_a_login_message_size_and_time_are_limited() {
    let server = Server::with(&[("limits.head_time", "400ms")]);
    let greeted = || Driver::greeted(&server);
    // Long, deeply nested and malformed messages.
    let mut long = greeted();
    let text = "x".repeat(20_000);
    let answer = long.ask(LOGON, &[params! { "scheme" => text.as_str() }.into()]);
    assert_eq!(answer.code(), "Neo.ClientError.General.LimitExceeded");
    assert!(long.has_ended());
    let mut deep = greeted();
    let mut nested = Value::Null;
    for _ in 0..100 {
        nested = vec![nested].into();
    }
    let answer = deep.ask(LOGON, &[params! { "scheme" => nested }.into()]);
    assert_eq!(answer.code(), "Neo.ClientError.Request.Invalid");
    assert!(deep.has_ended());
    for lie in [
        vec![0xb1, LOGON, 0xda, 0x7f, 0xff, 0xff, 0xff],
        vec![0xb1, LOGON, 0xa1, 0x81, b'a', 0xd6, 0x7f, 0xff, 0xff, 0xff],
        vec![0xb1, LOGON, 0xa1, 0xd2, 0x7f, 0xff, 0xff, 0xff],
        vec![0xb1, 0x99, 0xa0],
        vec![0x01],
        vec![0xbf, LOGON],
    ] {
        let mut driver = greeted();
        let mut bytes = (lie.len() as u16).to_be_bytes().to_vec();
        bytes.extend(&lie);
        bytes.extend([0, 0]);
        driver.stream.write_all(&bytes).unwrap();
        assert_eq!(
            driver.receive().unwrap().1.code(),
            "Neo.ClientError.Request.Invalid",
            "{lie:02X?}"
        );
        assert!(driver.has_ended());
    }
    // No login, half a login, no handshake.
    for bytes in [&b""[..], &[0, 40, 0xb1, LOGON]] {
        let began = Instant::now();
        let mut silent = greeted();
        silent.stream.write_all(bytes).unwrap();
        assert!(silent.has_ended());
        assert!(began.elapsed() < Duration::from_secs(8));
    }
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x60\x60\xb0", b""] {
        let mut stream = TcpStream::connect(server.bolt_address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(8)))
            .unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        // The server may discard what it has not read.
        assert!(!ended.is_err_and(|error| is_waiting(&error)), "{bytes:?}");
        // A request of HTTP that asks for no WebSocket is refused in HTTP.
        if bytes.starts_with(b"GET ") {
            assert!(answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
        } else {
            assert!(answer.is_empty(), "{answer:?}");
        }
    }
    // 5.5 and 3 are not supported.
    let mut stream = TcpStream::connect(server.bolt_address()).unwrap();
    let mut bytes = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 5, 5, 0, 0, 0, 3];
    bytes.resize(20, 0);
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [0; 4]);
}

#[test]
fn a_manifest_offers_all_versions() {
    let server = Server::new();
    let mut stream = TcpStream::connect(server.bolt_address()).unwrap();
    let mut bytes = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 1, 0xff];
    bytes.resize(20, 0);
    stream.write_all(&bytes).unwrap();
    let mut manifest = [0; 18];
    stream.read_exact(&mut manifest).unwrap();
    assert_eq!(
        manifest,
        [0, 0, 1, 0xff, 3, 0, 2, 8, 5, 0, 4, 4, 5, 0, 3, 4, 4, 0]
    );
    stream.write_all(&[0, 0, 7, 5, 0]).unwrap();
    let mut driver = Driver { stream };
    driver.ask(HELLO, &[none().into()]).success();
    let basic = params! { "scheme" => "basic", "principal" => "admin", "credentials" => PASSWORD };
    driver.ask(LOGON, &[basic.into()]).success();
    assert_eq!(driver.run("RETURN 7", none()).0, [[Value::Int(7)]]);
}

#[test]
fn older_versions_authenticate_with_the_first_message() {
    let server = Server::new();
    for version in [(4, 4), (5, 0)] {
        for patched in [false, true] {
            let mut hello =
                params! { "scheme" => "basic", "principal" => "admin", "credentials" => PASSWORD };
            if patched {
                hello.insert("patch_bolt", vec![Value::from("utc")].into());
            }
            let mut driver = Driver::connect(server.bolt_address(), version);
            let said = driver.ask(HELLO, &[hello.into()]).success();
            assert!(
                said.get("server")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .starts_with("Neo4j/")
            );
            assert_eq!(
                said.contains("patch_bolt"),
                patched && version == (4, 4),
                "{version:?}"
            );
            let rows = driver
                .run("RETURN datetime('2026-11-21T20:00:00+02:00') AS d", none())
                .0;
            let text = isomer_db::temporal::to_text(&rows[0][0]).unwrap();
            assert_eq!(text, "2026-11-21T20:00+02:00");
            let wrong = driver.run("RETURN", none()).1;
            assert_eq!(wrong.code(), "Neo.ClientError.Statement.SyntaxError");
            driver.reset();
            // They do not define LOGON.
            assert_eq!(
                driver.ask(LOGON, &[none().into()]).code(),
                "Neo.ClientError.Request.Invalid"
            );
        }
    }
}

#[test]
fn after_a_failure_all_messages_are_ignored_until_a_reset() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    // All in one write, as drivers send it.
    for (query, pull) in [
        ("RETURN 1", true),
        ("RETRUN 2", true),
        ("CREATE (:No)", true),
    ] {
        driver.send_run(query, none(), none());
        if pull {
            driver.send_pull(-1);
        }
    }
    let codes: Vec<String> = (0..6)
        .map(|_| driver.receive().unwrap().1.code().to_owned())
        .collect();
    let syntax = "Neo.ClientError.Statement.SyntaxError";
    assert_eq!(
        codes,
        [
            "success", "success", syntax, "ignored", "ignored", "ignored"
        ]
    );
    assert_eq!(driver.ask(COMMIT, &[]), Answer::Ignored);
    driver.reset();
    let count = driver.run("MATCH (n:No) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
    // A failed transaction is rolled back.
    driver.ask(BEGIN, &[none().into()]).success();
    driver.run("CREATE (:No)", none()).1.success();
    assert_eq!(
        driver.run("RETURN 1 / 0", none()).1.code(),
        "Neo.ClientError.Statement.ArithmeticError"
    );
    driver.reset();
    let count = driver.run("MATCH (n:No) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
    // A message that is not allowed in the state closes the connection.
    for (first, then) in [
        (vec![], PULL),
        (vec![], COMMIT),
        (vec![], ROLLBACK),
        (vec![BEGIN], BEGIN),
        (vec![BEGIN], ROUTE),
        (vec![BEGIN], PULL),
        (vec![RUN], RUN),
        (vec![RUN], BEGIN),
        (vec![RUN], LOGOFF),
        (vec![], HELLO),
    ] {
        let mut driver = Driver::of(&server, "admin");
        for tag in &first {
            driver.ask(*tag, &fields(*tag, "people")).success();
        }
        let answer = driver.ask(then, &fields(then, "people"));
        let context = format!("{first:02X?} {then:02X}: {answer:?}");
        assert_eq!(
            answer.code(),
            "Neo.ClientError.Request.Invalid",
            "{context}"
        );
        assert!(driver.has_ended(), "{context}");
    }
    let mut driver = Driver::of(&server, "admin");
    driver.send(GOODBYE, &[]);
    assert!(driver.has_ended());
}

#[test]
fn a_reset_cancels_the_running_query_and_skips_queued_messages() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let long = "UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)";
    driver.send_run(long, none(), none());
    driver.send_pull(-1);
    driver.receive().unwrap().1.success();
    server.await_running_queries(1);
    driver.send_run("CREATE (:No)", none(), none());
    driver.send_pull(-1);
    let began = Instant::now();
    driver.send(RESET, &[]);
    for _ in 0..3 {
        assert_eq!(driver.receive().unwrap().1, Answer::Ignored);
    }
    assert_eq!(driver.receive().unwrap().1, Answer::Success(none()));
    assert!(began.elapsed() < Duration::from_secs(5));
    let count = driver.run("MATCH (n:No) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
    // A client that disconnects cancels its query, too.
    driver.send_run(long, none(), none());
    driver.send_pull(-1);
    server.await_running_queries(1);
    drop(driver);
    server.await_running_queries(0);
}

/// Drivers that read and write concurrently learn from `has_more` that they must discard, and may have sent `RESET`
/// already.
#[test]
fn a_late_message_about_a_result_that_a_reset_ended_is_harmless() {
    let server = Server::new();
    let rows = "UNWIND range(1, 100000) AS n RETURN n";
    for (late, answer) in [(PULL, Answer::Ignored), (DISCARD, Answer::Success(none()))] {
        let mut driver = Driver::of(&server, "admin");
        driver.send_run(rows, none(), none());
        driver.receive().unwrap().1.success();
        driver.send_pull(3);
        assert_eq!(driver.receive().unwrap().0.len(), 3);
        driver.reset();
        assert_eq!(driver.ask(late, &fields(late, "people")), answer);
        let (rows, answer) = driver.run("RETURN 1", none());
        assert_eq!(
            (rows, answer.code()),
            (vec![vec![Value::Int(1)]], "success")
        );
    }
    // Once for each result of a transaction.
    let mut driver = Driver::of(&server, "admin");
    driver.ask(BEGIN, &[none().into()]).success();
    for _ in 0..2 {
        driver.send_run(rows, none(), none());
        driver.receive().unwrap().1.success();
    }
    driver.reset();
    for result in 0..2 {
        let discard = params! { "n" => -1, "qid" => result };
        driver.ask(DISCARD, &[discard.into()]).success();
    }
    assert_eq!(
        driver.ask(DISCARD, &fields(DISCARD, "people")).code(),
        "Neo.ClientError.Request.Invalid"
    );
    assert!(driver.has_ended());
    // After another message the client knows of the end, and after the end of a result it must not request more.
    for since in [RUN, RESET] {
        let mut driver = Driver::of(&server, "admin");
        driver.send_run(rows, none(), none());
        driver.receive().unwrap().1.success();
        driver.reset();
        match since {
            RUN => driver.run("RETURN 1", none()).1.success(),
            _ => driver.ask(since, &[]).success(),
        };
        assert_eq!(
            driver.ask(DISCARD, &fields(DISCARD, "people")).code(),
            "Neo.ClientError.Request.Invalid"
        );
        assert!(driver.has_ended());
    }
}

#[test]
fn rows_are_sent_as_they_are_requested() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let query = "UNWIND range(1, $n) AS n RETURN n, 'row ' + n AS text";
    driver.send_run(query, params! { "n" => 2_500 }, none());
    let run = driver.receive().unwrap().1.success();
    assert_eq!(
        run.get("fields"),
        Some(&vec![Value::from("n"), "text".into()].into())
    );
    let mut sum = 0;
    for (count, more) in [(1_000, true), (1, true), (1_499, false)] {
        driver.send_pull(count);
        let (rows, answer) = driver.receive().unwrap();
        assert_eq!(rows.len() as i64, count);
        sum += rows.iter().filter_map(|row| row[0].as_int()).sum::<i64>();
        let answer = answer.success();
        if more {
            assert_eq!(answer, params! { "has_more" => true });
        } else {
            // If exactly the remaining rows were requested, `has_more` may be true or false.
            let ended = !answer.contains("has_more");
            assert_eq!(ended, answer.contains("bookmark"), "{answer:?}");
            if !ended {
                driver.send_pull(1);
                let (rows, answer) = driver.receive().unwrap();
                assert!(rows.is_empty() && answer.success().contains("bookmark"));
            }
        }
    }
    assert_eq!(sum, 2_500 * 2_501 / 2);
    // The rest is discarded, and the writes are made all the same.
    driver.send_run(
        "UNWIND range(1, 5000) AS n CREATE (:D) RETURN n",
        none(),
        none(),
    );
    driver.receive().unwrap().1.success();
    driver.send_pull(1);
    assert_eq!(driver.receive().unwrap().0.len(), 1);
    let done = driver
        .ask(DISCARD, &[params! { "n" => -1 }.into()])
        .success();
    let stats = done.get("stats").unwrap().as_map().unwrap();
    assert_eq!(stats.get("nodes-created"), Some(&Value::Int(5_000)));
    let count = driver.run("MATCH (d:D) RETURN count(d)", none()).0;
    assert_eq!(count, [[Value::Int(5_000)]]);
    // The remaining rows of a reading query are not produced.
    let began = Instant::now();
    driver.send_run("UNWIND range(1, 1000000000) AS n RETURN n", none(), none());
    driver.receive().unwrap().1.success();
    driver.send_pull(1);
    assert_eq!(driver.receive().unwrap().0.len(), 1);
    driver
        .ask(DISCARD, &[params! { "n" => -1 }.into()])
        .success();
    assert!(began.elapsed() < Duration::from_secs(5));
    // A result that is not consumed leaves no trace.
    driver.send_run("CREATE (:E)", none(), none());
    driver.receive().unwrap().1.success();
    driver.reset();
    let count = driver.run("MATCH (e:E) RETURN count(e)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
}

#[test]
fn results_of_a_transaction_can_be_interleaved() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    driver.run("UNWIND range(1, 3000) AS n CREATE (:N {n: n})", none());
    driver.ask(BEGIN, &[none().into()]).success();
    let open = |driver: &mut Driver, query: &str| {
        driver.send_run(query, none(), none());
        let run = driver.receive().unwrap().1.success();
        run.get("qid").unwrap().as_int().unwrap()
    };
    let pull = |driver: &mut Driver, result: i64, count: i64| {
        driver.send(PULL, &[params! { "n" => count, "qid" => result }.into()]);
        let (rows, answer) = driver.receive().unwrap();
        (rows.len(), answer.success().contains("has_more"))
    };
    let first = open(&mut driver, "MATCH (n:N) RETURN n.n AS n");
    let second = open(&mut driver, "UNWIND range(1, 10) AS n RETURN n");
    assert_eq!((first, second), (0, 1));
    assert_eq!(pull(&mut driver, first, 10), (10, true));
    assert_eq!(pull(&mut driver, second, 4), (4, true));
    // Later writes are invisible to open results, and visible to new ones.
    let third = open(&mut driver, "UNWIND range(1, 50) AS n CREATE (:N {n: 0})");
    assert_eq!(pull(&mut driver, third, -1), (0, false));
    assert_eq!(pull(&mut driver, first, -1), (2_990, false));
    assert_eq!(pull(&mut driver, second, -1), (6, false));
    let (rows, answer) = driver.run("MATCH (n:N) RETURN count(n)", none());
    assert_eq!(
        (rows[0][0].clone(), answer.code()),
        (Value::Int(3_050), "success")
    );
    let committed = driver.ask(COMMIT, &[]).success();
    let bookmark = committed.get("bookmark").unwrap().as_str().unwrap();
    assert!(bookmark.starts_with("isomer:people:"), "{bookmark}");
    driver.ask(BEGIN, &[none().into()]).success();
    driver
        .run("MATCH (n:N) DETACH DELETE n", none())
        .1
        .success();
    driver.ask(ROLLBACK, &[]).success();
    let count = driver.run("MATCH (n:N) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(3_050)]]);
}

#[test]
fn bookmarks_databases_and_users_are_validated() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let done = driver.run("CREATE (:B)", none()).1.success();
    assert_eq!(done.get("db"), Some(&"people".into()));
    let bookmark = done.get("bookmark").unwrap().clone();
    let with = |bookmark: Value| params! { "bookmarks" => vec![bookmark] };
    assert_eq!(driver.run("RETURN 1", with(bookmark)).1.code(), "success");
    let later = with("isomer:people:999999".into());
    assert_eq!(
        driver.run("RETURN 1", later).1.code(),
        "Neo.TransientError.Transaction.BookmarkTimeout"
    );
    driver.reset();
    let foreign = with("isomer:other:999999".into());
    assert_eq!(driver.run("RETURN 1", foreign).1.code(), "success");
    assert_eq!(
        driver.run("RETURN 1", with("FB:kcwQ".into())).1.code(),
        "Neo.ClientError.Transaction.InvalidBookmark"
    );
    driver.reset();
    assert_eq!(
        driver.run("RETURN 1", on("nowhere")).1.code(),
        "Neo.ClientError.Database.DatabaseNotFound"
    );
    driver.reset();
    let (rows, _) = driver.run("MATCH (b:B) RETURN count(b)", on("other"));
    assert_eq!(rows, [[Value::Int(0)]]);
    let other = driver.run("RETURN 1", params! { "imp_user" => "bob" }).1;
    assert_eq!(other.code(), FORBIDDEN);
    let Answer::Failure { message, .. } = other else {
        panic!("no failure")
    };
    assert!(message.contains("log in as that user"), "{message}");
    driver.reset();
    // A client that names no database gets the first one that its user has a right on.
    server.user("bob", "{\"other\":\"reader\"}");
    let mut bob = Driver::of(&server, "bob");
    let done = bob.run("RETURN 1", none()).1.success();
    assert_eq!(done.get("db"), Some(&"other".into()));
    // The routing table contains only this server.
    let routing = params! { "address" => "db.example:7687" };
    let table = bob
        .ask(ROUTE, &[routing.into(), Value::empty_list(), none().into()])
        .success();
    let table = table.get("rt").unwrap().as_map().unwrap();
    assert_eq!(table.get("db"), Some(&"other".into()));
    let servers = table.get("servers").unwrap().as_list().unwrap();
    assert_eq!(servers.len(), 3);
    for server in servers {
        let addresses = server.as_map().unwrap().get("addresses").unwrap();
        assert_eq!(addresses, &vec![Value::from("db.example:7687")].into());
    }
}

#[test]
fn points_outside_of_the_earth_are_refused_as_by_point() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let sent = |driver: &mut Driver, crs, x, y| {
        let point = params! { "point" => Point { crs, x, y, z: 0.0 } };
        driver.run_with("RETURN $point", point, none()).1
    };
    for (crs, x, y) in [
        (Crs::Wgs84, 180.0, -90.0),
        (Crs::Wgs84Height, -180.0, 90.0),
        (Crs::Cartesian, 500.0, 100.0),
    ] {
        assert_eq!(sent(&mut driver, crs, x, y).code(), "success");
    }
    for (crs, x, y) in [
        (Crs::Wgs84, 500.0, 100.0),
        (Crs::Wgs84, 0.0, 90.5),
        (Crs::Wgs84Height, -180.5, 0.0),
        (Crs::Wgs84, f64::NAN, 0.0),
        (Crs::Cartesian, 0.0, f64::INFINITY),
    ] {
        let answer = sent(&mut driver, crs, x, y);
        driver.reset();
        let context = format!("{crs:?} {x} {y}: {answer:?}");
        let expected = "Neo.ClientError.Statement.ArgumentError";
        assert_eq!(answer.code(), expected, "{context}");
    }
}

#[test]
fn parameters_may_be_nested_as_deeply_as_values() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    // Encoded by hand, as the writer enforces the limit.
    let sent = |driver: &mut Driver, levels: usize| {
        let mut message = vec![0xb3, RUN, 0x89];
        message.extend(b"RETURN $v");
        message.extend([0xa1, 0x81, b'v']);
        message.extend(vec![0x91; levels]);
        message.extend([0xc0, 0xa0]);
        let size = message.len() as u16;
        driver.stream.write_all(&size.to_be_bytes()).unwrap();
        driver.stream.write_all(&message).unwrap();
        driver.stream.write_all(&[0, 0]).unwrap();
        driver.receive().unwrap().1
    };
    sent(&mut driver, 128).success();
    driver.reset();
    let Answer::Failure { message, .. } = sent(&mut driver, 129) else {
        panic!("129 levels were taken");
    };
    assert!(message.contains("more than 128 levels deep"), "{message}");
}

#[test]
fn explain_has_the_columns_of_its_query_and_no_rows() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    for (query, columns) in [
        (
            "EXPLAIN UNWIND [1, 2] AS n RETURN n, n + 1 AS m",
            &["n", "m"][..],
        ),
        ("EXPLAIN CREATE (:No)", &[]),
    ] {
        for in_transaction in [false, true] {
            if in_transaction {
                driver.ask(BEGIN, &[none().into()]).success();
            }
            driver.send_run(query, none(), none());
            driver.send_pull(-1);
            let run = driver.receive().unwrap().1.success();
            let columns: Vec<Value> = columns.iter().map(|name| (*name).into()).collect();
            assert_eq!(run.get("fields"), Some(&columns.into()), "{query}");
            let (rows, done) = driver.receive().unwrap();
            assert!(
                rows.is_empty() && done.success().contains("plan"),
                "{query}"
            );
            if in_transaction {
                driver.ask(COMMIT, &[]).success();
            }
        }
    }
    let count = driver.run("MATCH (n:No) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
}

#[test]
fn unknown_labels_and_types_are_notified() {
    let server = Server::new();
    let mut driver = Driver::of(&server, "admin");
    let statuses = |driver: &mut Driver, query: &str| -> Vec<String> {
        let done = driver.run(query, none()).1.success();
        let statuses = done.get("statuses").unwrap().as_list().unwrap();
        statuses
            .iter()
            .map(|status| {
                let status = status.as_map().unwrap().get("gql_status").unwrap();
                status.as_str().unwrap().to_owned()
            })
            .collect()
    };
    let query = "MATCH (a:Person)-[:KNOWS]->(b) RETURN a.name";
    assert_eq!(statuses(&mut driver, query), ["02000", "01N50", "01N51"]);
    let query = "MATCH (a:Person)-[:KNOWS]->(b) RETURN b.name";
    driver
        .run("CREATE (:Person)-[:KNOWS]->(:Person)", none())
        .1
        .success();
    assert_eq!(statuses(&mut driver, query), ["00000"]);
}

#[test]
fn conflicts_are_retried_by_the_server_or_the_driver() {
    let server = Server::new();
    Driver::of(&server, "admin")
        .run("CREATE (:Counter {_key: 1, n: 0})", none())
        .1
        .success();
    let add = "MATCH (c:Counter {_key: 1}) SET c.n = c.n + 1 RETURN c.n";
    // A single statement is retried by the server.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut driver = Driver::of(&server, "admin");
                for _ in 0..25 {
                    assert_eq!(driver.run(add, none()).1.code(), "success");
                }
            });
        }
    });
    // A conflict in a transaction is reported to the driver, which has to retry it.
    let mut one = Driver::of(&server, "admin");
    let mut two = Driver::of(&server, "admin");
    for driver in [&mut one, &mut two] {
        driver.ask(BEGIN, &[none().into()]).success();
        driver.run(add, none()).1.success();
    }
    one.ask(COMMIT, &[]).success();
    let lost = two.ask(COMMIT, &[]);
    assert_eq!(lost.code(), "Neo.TransientError.Transaction.Outdated");
    two.reset();
    let rows = two.run("MATCH (c:Counter) RETURN c.n", none()).0;
    assert_eq!(rows, [[Value::Int(101)]]);
}

/// A transaction of one statement that returned nothing runs again on the server when it loses a race: many clients
/// that count in one property need no retries over the network.
#[test]
fn the_server_runs_transactions_of_one_silent_statement_again() {
    const CLIENTS: i64 = 40;
    let server = Server::new();
    let run = |query: &str| Driver::of(&server, "admin").run(query, none());
    run("CREATE (:Counter {_key: 1, n: 0})").1.success();
    let add = "MATCH (c:Counter {_key: 1}) SET c.n = c.n + 1";
    let drivers: Vec<Driver> = (0..CLIENTS).map(|_| Driver::of(&server, "admin")).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for mut driver in drivers {
            scope.spawn(move || {
                for _ in 0..2 {
                    driver.ask(BEGIN, &[none().into()]).success();
                    driver.run(add, none()).1.success();
                    assert_eq!(driver.ask(COMMIT, &[]).code(), "success");
                }
            });
        }
    });
    println!(
        "80 increments by 40 clients over Bolt: {:?}",
        began.elapsed()
    );
    let counted = |expected: i64| {
        let rows = run("MATCH (c:Counter) RETURN c.n").0;
        assert_eq!(rows, [[Value::Int(expected)]]);
    };
    counted(2 * CLIENTS);
    // Not if the client knows more of it: a second statement, other counters.
    let once = "MATCH (c:Counter {_key: 1}) WHERE c.once IS NULL SET c.once = 1, c.n = c.n + 1";
    let twice = [add, "MATCH (c:Counter {_key: 1}) SET c.m = 1"];
    for statements in [&[once][..], &twice] {
        let mut pair = [Driver::of(&server, "admin"), Driver::of(&server, "admin")];
        for driver in &mut pair {
            driver.ask(BEGIN, &[none().into()]).success();
            for statement in statements {
                driver.run(statement, none()).1.success();
            }
        }
        pair[0].ask(COMMIT, &[]).success();
        let lost = pair[1].ask(COMMIT, &[]);
        assert_eq!(lost.code(), "Neo.TransientError.Transaction.Outdated");
    }
    counted(2 * CLIENTS + 2);
}

/// Results that are not read hold no thread: other clients are served.
#[test]
fn slow_readers_do_not_block_other_clients() {
    let server = Server::with(&[("limits.requests", "2"), ("limits.write_time", "2s")]);
    let mut slow: Vec<Driver> = (0..6).map(|_| Driver::of(&server, "admin")).collect();
    for driver in &mut slow {
        let query = "UNWIND range(1, 100000000) AS n RETURN n, 'a text that takes some room' AS t";
        driver.open(query, none());
        driver.send_pull(-1);
    }
    // The first rows have arrived at each.
    for driver in &slow {
        assert_eq!(driver.stream.peek(&mut [0]).unwrap(), 1);
    }
    let mut driver = Driver::of(&server, "admin");
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(driver.run("RETURN 1", none()).1.code(), "success");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    // They are disconnected in time.
    server.await_running_queries(0);
}

#[test]
fn the_time_of_queries_transactions_and_silence_is_limited() {
    let server = Server::with(&[
        ("limits.query_time", "10s"),
        ("limits.transaction_time", "1s"),
        ("limits.bolt_idle_time", "2500ms"),
    ]);
    let timed_out = "Neo.ClientError.Transaction.TransactionTimedOut";
    let mut driver = Driver::of(&server, "admin");
    let long = "UNWIND range(1, 100000000) AS a WITH a WHERE a % 7 = 8 RETURN count(a)";
    let began = Instant::now();
    let answer = driver.run(long, params! { "tx_timeout" => 200 }).1;
    assert_eq!(answer.code(), timed_out);
    assert!(began.elapsed() < Duration::from_secs(5));
    driver.reset();
    driver.ask(BEGIN, &[none().into()]).success();
    driver.run("CREATE (:No)", none()).1.success();
    let began = Instant::now();
    let ended = poll::until_some("the transaction ends", || {
        let answer = driver.run("RETURN 1", none()).1;
        Some(answer).filter(|answer| answer.code() != "success")
    });
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(ended.code(), timed_out);
    driver.reset();
    let count = driver.run("MATCH (n:No) RETURN count(n)", none()).0;
    assert_eq!(count, [[Value::Int(0)]]);
    let began = Instant::now();
    assert!(driver.has_ended(), "nothing was sent for too long");
    assert!(began.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_stopping_server_waits_for_transactions_but_not_for_idle_connections() {
    let mut server = Server::new();
    let mut idle = Driver::of(&server, "admin");
    let mut busy = Driver::of(&server, "admin");
    busy.ask(BEGIN, &[none().into()]).success();
    busy.run("CREATE (:Last)", none()).1.success();
    let people = server.people.clone();
    let running = std::mem::replace(&mut server, Server::new()).running;
    let stopping = std::thread::spawn(move || {
        let began = Instant::now();
        running.stop().unwrap();
        began.elapsed()
    });
    assert!(idle.has_ended());
    // The server has stopped accepting; the transaction is still open.
    let count = people.query("MATCH (l:Last) RETURN l").unwrap().len();
    assert_eq!(count, 0);
    busy.ask(COMMIT, &[]).success();
    assert!(busy.has_ended());
    assert!(stopping.join().unwrap() < Duration::from_secs(8));
}

#[test]
fn messages_are_counted_and_audited() {
    let server = Server::new();
    server.user("ada", "{\"people\":\"editor\"}");
    let mut driver = Driver::of(&server, "ada");
    driver.run("CREATE (:Secret {word: 'xyzzy'})", none());
    driver.run("RETURN 'plugh'", on("other"));
    drop(driver);
    // The user name of a failed login is recorded, except if it may be a password or came with a token.
    for (scheme, name) in [
        ("basic", "eve"),
        ("basic", "my long password!"),
        ("bearer", "mallory"),
    ] {
        let shown = params! { "scheme" => scheme, "principal" => name, "credentials" => "wrong" };
        Driver::greeted(&server).ask(LOGON, &[shown.into()]);
    }
    let log = std::fs::read_to_string(server.folder.path().join("system/audit.jsonl")).unwrap();
    let line = |action: &str, status: u64| {
        log.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|line| line["action"] == action && line["status"] == status)
            .unwrap_or_else(|| panic!("{action} {status} in {log}"))
    };
    assert_eq!(line("BOLT LOGON", 200)["user"], "ada");
    assert_eq!(line("BOLT LOGON", 401)["user"], "eve");
    let named = log.lines().filter(|line| line.contains("LOGON"));
    assert_eq!(
        named.filter(|line| line.contains("\"user\":null")).count(),
        2
    );
    let written = line("BOLT PULL", 200);
    assert_eq!(written["class"], "write");
    assert_eq!(written["database"], "people");
    assert_eq!(line("BOLT RUN", 403)["database"], "other");
    for secret in ["xyzzy", "plugh", PASSWORD, "my long", "mallory", "wrong"] {
        assert!(!log.contains(secret), "{secret}");
    }
    let figures = server.admin().get("/metrics").text().to_owned();
    for line in [
        "isomer_bolt_messages_total{message=\"RUN\",status=\"2xx\"} 1",
        "isomer_bolt_messages_total{message=\"RUN\",status=\"4xx\"} 1",
        "isomer_bolt_message_seconds_count{message=\"PULL\"} 1",
    ] {
        assert!(figures.lines().any(|has| has == line), "{line}\n{figures}");
    }
}

#[test]
fn the_size_and_the_number_of_messages_are_limited() {
    let server = Server::with(&[("limits.body", "1MiB")]);
    let mut driver = Driver::of(&server, "admin");
    let text = "x".repeat(900_000);
    let query = "RETURN size($text)";
    let sized = driver.run_with(query, params! { "text" => text.as_str() }, none());
    assert_eq!(sized.0, [[Value::Int(900_000)]]);
    // More values than the memory limit for a message of that length allows.
    let many: Value = vec![Value::Null; 900_000].into();
    let answer = driver.run_with("RETURN size($l)", params! { "l" => many }, none());
    assert_eq!(answer.1.code(), "Neo.ClientError.Statement.ArgumentError");
    driver.reset();
    let pipelined = message(RUN, &fields(RUN, "people"));
    let pull = message(PULL, &fields(PULL, "people"));
    let mut writing = driver.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..3_000 {
            writing.write_all(&pipelined).unwrap();
            writing.write_all(&pull).unwrap();
        }
    });
    for _ in 0..3_000 {
        driver.receive().unwrap().1.success();
        assert_eq!(driver.receive().unwrap().0, [[Value::Int(1)]]);
    }
    writer.join().unwrap();
    let too_long = "x".repeat(2_000_000);
    driver.send_run(query, params! { "text" => too_long.as_str() }, none());
    assert_eq!(
        driver.receive().unwrap().1.code(),
        "Neo.ClientError.General.LimitExceeded"
    );
}
