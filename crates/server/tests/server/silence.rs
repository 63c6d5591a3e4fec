//! Silent connections: closed in time, without affecting other clients.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use isomer_db::{Value, params};

use crate::{
    driver::{Driver, HELLO, LOGOFF},
    support::{Server, read_answer},
};

const ONE: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// How long the server keeps a connection over which these pieces are sent with this pause.
fn kept_for(address: SocketAddr, pieces: &[&[u8]], pause: Duration) -> Duration {
    let mut stream = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    for piece in pieces {
        // A slow client.
        std::thread::sleep(pause);
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    began.elapsed()
}

/// One time limit for everything before the first request or the login, from the accept on: pieces do not prolong it.
#[test]
fn a_connection_has_one_time_limit_until_its_first_request_or_login() {
    let server = Server::with(&[
        ("limits.head_time", "3s"),
        ("limits.idle_time", "1min"),
        ("limits.bolt_idle_time", "1min"),
    ]);
    let (http, bolt) = (server.address(), server.bolt_address());
    let mut version = vec![0x60, 0x60, 0xb0, 0x17, 0, 0, 8, 5];
    version.resize(20, 0);
    let hello = crate::driver::message(HELLO, &[params! { "user_agent" => "test/1.0" }.into()]);
    let pause = Duration::from_millis(1_200);
    let kept = [
        ("silent HTTP", kept_for(http, &[], pause)),
        (
            "half a head",
            kept_for(http, &[b"GET /he", b"alth HTTP/1.1\r\n"], pause),
        ),
        ("silent Bolt", kept_for(bolt, &[], pause)),
        (
            "half a handshake",
            kept_for(bolt, &[&version[..4], &version[4..9]], pause),
        ),
        ("no login", kept_for(bolt, &[&version, &hello], pause)),
    ];
    for (what, kept) in kept {
        let right = Duration::from_millis(2_900)..Duration::from_millis(4_500);
        assert!(right.contains(&kept), "{what}: {kept:?}");
    }
    // After the first request it may be idle for longer, and so may a driver that has logged in; after a logout the
    // initial limit applies again.
    let mut stream = server.client("").connect();
    let mut driver = Driver::of(&server, "admin");
    stream.write_all(ONE).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    // Longer than the first limit.
    std::thread::sleep(Duration::from_millis(4_000));
    stream.write_all(ONE).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 200);
    driver.ask(LOGOFF, &[]).success();
    let began = Instant::now();
    assert!(driver.has_ended());
    let kept = began.elapsed();
    assert!(
        kept > Duration::from_millis(2_900) && kept < Duration::from_secs(10),
        "{kept:?}"
    );
    let figures = server.admin().get("/metrics").text().to_owned();
    assert!(
        figures.contains("isomer_connections_slow_total 6"),
        "{figures}"
    );
}

/// Opens `count` silent connections from several loopback addresses.
fn silent(address: SocketAddr, count: usize, addresses: u8) -> Vec<std::net::TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut streams = Vec::with_capacity(count);
        for at in 0..count {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            let own = Ipv4Addr::new(127, 0, 0, 2 + (at % usize::from(addresses)) as u8);
            socket.bind((own, 0).into()).unwrap();
            let stream = socket.connect(address).await.unwrap();
            streams.push(stream.into_std().unwrap());
        }
        streams
    })
}

fn counted(figures: &str, name: &str) -> u64 {
    let line = figures
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {figures}"))
}

/// However many connections are silent, `/health` is answered, users can log in, and authenticated clients are not
/// affected.
#[test]
fn silent_connections_lock_no_client_out() {
    // A third of this process's open files for the client side: more connections than the server admits.
    let files = isomer_server::files::room_for_connections(60_000);
    let strangers = (files / 2).min(10_000);
    assert!(strangers >= 1_000, "too few open files are allowed");
    let most = strangers / 4;
    // What 16 addresses may have together is below the limit of all connections.
    let few = (strangers / 256).max(8);
    for (addresses, of_address) in [(1, None), (1, Some(few)), (16, None), (16, Some(few))] {
        let server = Server::with(&[
            ("limits.connections", &most.to_string()),
            (
                "limits.connections_per_address",
                &of_address.unwrap_or(1_000_000).to_string(),
            ),
            ("limits.head_time", "2min"),
        ]);
        let admin = server.admin();
        let mut kept = admin.connect();
        let me = admin.head("GET", "/v1/me") + "\r\n";
        kept.write_all(me.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut kept).unwrap().status, 200);
        let mut driver = Driver::of(&server, "admin");
        let mut http = silent(server.address(), strangers / 2, addresses);
        http.extend(silent(server.bolt_address(), strangers / 2, addresses));
        let began = Instant::now();
        assert_eq!(server.client("").get("/health").status, 200);
        let token = server.login("admin");
        assert_eq!(server.client(&token).rows("people", "RETURN 1")[0][0], 1);
        let one = [[Value::Int(1)]];
        assert_eq!(
            Driver::of(&server, "admin").run("RETURN 1", params! {}).0,
            one
        );
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        kept.write_all(me.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut kept).unwrap().status, 200);
        assert_eq!(driver.run("RETURN 1", params! {}).0, one);
        let figures = server.client(&token).get("/metrics").text().to_owned();
        // Each connection beyond the lower of the two limits closes another one. Some that the server has not yet
        // accepted are not counted.
        let places = match of_address {
            Some(few) => few * usize::from(addresses),
            None => most,
        };
        let evicted = counted(&figures, "isomer_connections_evicted_total");
        let expected = (strangers - places) as u64;
        assert!(
            (expected * 9 / 10..=expected + 20).contains(&evicted),
            "{evicted} of {expected}: {figures}"
        );
        assert_eq!(counted(&figures, "isomer_connections_refused_total"), 0);
        let because_of_address = match of_address {
            Some(_) => evicted,
            None => 0,
        };
        assert_eq!(
            counted(&figures, "isomer_connections_address_limited_total"),
            because_of_address
        );
        drop(http);
    }
}

/// Clients that send requests and never authenticate do not lock users out either.
#[test]
fn clients_that_never_log_in_lock_no_user_out() {
    let server = Server::with(&[("limits.connections", "60")]);
    let mut driver = Driver::of(&server, "admin");
    let mut strangers = Vec::new();
    for _ in 0..100 {
        // One that requests `/health` and stays, and one that never completes the body of its login.
        let mut stream = server.client("").connect();
        stream.write_all(ONE).unwrap();
        let _ = read_answer(&mut stream);
        let mut login = server.client("").connect();
        let head = "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        let _ = login.write_all(head.as_bytes());
        strangers.push((stream, login));
    }
    let token = server.login("admin");
    assert_eq!(server.client(&token).get("/v1/me").status, 200);
    assert_eq!(driver.run("RETURN 1", params! {}).0, [[Value::Int(1)]]);
    assert_eq!(
        Driver::of(&server, "admin")
            .run("RETURN 1", params! {})
            .0
            .len(),
        1
    );
}
