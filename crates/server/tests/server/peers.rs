//! Another database as a peer of this server: authentication, transports, and what is exchanged.

use std::sync::Arc;

use isomer_db::{
    Database,
    internals::{
        DatabaseInternals as _,
        data::{Access, DataStore},
    },
};
use isomer_sync::{
    ErrorKind, ExchangeReport, FileDownloads, Remote, RemoteOptions, Result, exchange,
};

use crate::support::Server;

fn replica() -> (Database, DataStore) {
    let database = Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("in memory");
    let store = database.store().expect("a store");
    isomer_replication::begin_replication(&store).expect("a replica");
    (database, store)
}

fn with(url: &str, options: RemoteOptions, store: &DataStore) -> Result<ExchangeReport> {
    let mut peer = Remote::new(url, options)?;
    exchange(store, &mut peer, &mut |_| ())
}

fn plain(server: &Server, token: &str, store: &DataStore) -> Result<ExchangeReport> {
    let url = format!("http://{}/people", server.address());
    let options = RemoteOptions {
        token: Some(token.to_owned()),
        ..RemoteOptions::default()
    };
    with(&url, options, store)
}

fn put(store: &DataStore, key: &[u8], bytes: usize) {
    let mut tx = store.begin(Access::Write).expect("begun");
    // Incompressible.
    let mut state = key
        .iter()
        .fold(7_u64, |sum, byte| sum * 257 + u64::from(*byte));
    let value: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    tx.kv_mut().put("b", key, &value).expect("put");
    tx.commit().expect("committed");
}

fn keys(store: &DataStore) -> usize {
    let tx = store.begin(Access::Read).expect("begun");
    (0..=255_u8)
        .filter(|key| tx.kv().get("b", &[*key]).expect("read").is_some())
        .count()
}

/// A wrong token, none, and that of a user who may read and write but not replicate: nothing is exchanged, and the
/// peer is not quarantined, as an administrator may correct it.
#[test]
fn only_replicas_are_admitted() {
    let server = Server::new();
    let people = server.people.store().expect("a store");
    isomer_replication::begin_replication(&people).expect("a replica");
    put(&people, b"\x01", 10);
    let (_own, store) = replica();
    put(&store, b"\x02", 10);
    let writer = server.user("writer", "{\"people\": \"editor\"}");
    for token in ["nonsense", "", &writer] {
        let refused = plain(&server, token, &store).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
        assert!(!refused.quarantines(), "{refused}");
        assert!(refused.to_string().contains("replica"), "{refused}");
    }
    assert_eq!((keys(&people), keys(&store)), (1, 1));
    let token = server.user("peer", "{\"people\": \"replica\"}");
    plain(&server, &token, &store).expect("exchanged");
    assert_eq!((keys(&people), keys(&store)), (2, 2));
}

/// With TLS and the name in the certificate; not under another name, nor with an untrusted certificate.
#[test]
fn a_peer_behind_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["own", "other"] {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .expect("a certificate");
        std::fs::write(path(&format!("{name}.pem")), made.cert.pem()).expect("written");
        let key = made.signing_key.serialize_pem();
        std::fs::write(path(&format!("{name}.key")), key).expect("written");
    }
    let shown = |name: &str| path(name).display().to_string();
    let server = Server::with(&[
        ("without_authentication", "true"),
        ("bolt", ""),
        ("tls.certificate", &shown("own.pem")),
        ("tls.key", &shown("own.key")),
    ]);
    let (_own, store) = replica();
    put(&store, b"\x01", 10);
    let to = |host: &str, trusted: &str| {
        let url = format!("https://{host}:{}/people", server.address().port());
        let options = RemoteOptions {
            certificates: Some(path(trusted)),
            ..RemoteOptions::default()
        };
        with(&url, options, &store)
    };
    for (host, trusted) in [("localhost", "other.pem"), ("127.0.0.1", "own.pem")] {
        let refused = to(host, trusted).expect_err("not trusted");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    }
    assert_eq!(keys(&server.people.store().expect("a store")), 0);
    assert_eq!(to("localhost", "own.pem").expect("exchanged").sent, 1);
    assert_eq!(keys(&server.people.store().expect("a store")), 1);
    // `LOAD CSV` checks certificates in the same way.
    let loaded = |host: &str, trusted: &str| {
        let address = format!("https://{host}:{}/", server.address().port());
        let certificates = Some(path(trusted));
        let db = Database::builder()
            .csv_urls([&address], Arc::new(FileDownloads { certificates }))
            .and_then(|builder| builder.open_in_memory())
            .expect("a database");
        let load = format!("LOAD CSV FROM '{address}health' AS row RETURN row[0] AS text");
        db.query(&load)
            .map(|rows| rows.rows()[0].values()[0].clone())
    };
    for (host, trusted) in [("localhost", "other.pem"), ("127.0.0.1", "own.pem")] {
        let refused = loaded(host, trusted).expect_err("not trusted");
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
    // What arrives is JSON, not CSV.
    let read = loaded("localhost", "own.pem").expect_err("a quote in a field");
    assert!(read.to_string().contains("health, line 1"), "{read}");
    // A peer that connects without TLS is refused.
    let url = format!("http://127.0.0.1:{}/people", server.address().port());
    let refused = with(&url, RemoteOptions::default(), &store).expect_err("no TLS");
    assert!(!matches!(refused.kind(), ErrorKind::Denied), "{refused}");
}

/// Data from before the first peer is in no log: it is sent as a state transfer of several pages.
#[test]
fn state_transfers_over_http() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    for key in 0..12_u8 {
        put(&people, &[key], 1 << 20);
    }
    let (_own, store) = replica();
    put(&store, b"\xfe", 10);
    isomer_replication::begin_replication(&people).expect("a replica");
    let done = plain(&server, &token, &store).expect("exchanged");
    assert!(done.joined && done.pages >= 3, "{done:?}");
    assert_eq!((keys(&people), keys(&store)), (13, 13));
    // In the other direction: what the server lacks is pushed, in the end all of it.
    let full = Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("in memory");
    let full = full.store().expect("a store");
    for key in 100..112_u8 {
        put(&full, &[key], 1 << 20);
    }
    isomer_replication::begin_replication(&full).expect("a replica");
    plain(&server, &token, &full).expect("exchanged");
    assert_eq!((keys(&people), keys(&full)), (25, 25));
    assert!(!people.is_joining());
}

/// An evicted replica is refused and cannot push; the others continue.
#[test]
fn an_evicted_replica_is_refused() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    isomer_replication::begin_replication(&people).expect("a replica");
    let ((_one, gone), (_other, stays)) = (replica(), replica());
    for store in [&gone, &stays] {
        plain(&server, &token, store).expect("exchanged");
    }
    let id = isomer_replication::begin_replication(&gone)
        .expect("a replica")
        .id;
    assert!(isomer_replication::evict_member(&people, &id).expect("evicted"));
    put(&gone, b"\x01", 10);
    put(&people, b"\x02", 10);
    let refused = plain(&server, &token, &gone).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("evicted"), "{refused}");
    // The second time it has already what it received the first time.
    for _ in 0..2 {
        plain(&server, &token, &stays).expect("exchanged");
    }
    assert_eq!((keys(&people), keys(&gone), keys(&stays)), (1, 1, 1));
    assert!(
        isomer_replication::replica_members(&people)
            .expect("members")
            .iter()
            .any(|one| one.is_evicted)
    );
    // The log is trimmed, as no replica needs it.
    assert_eq!(
        isomer_replication::replication_status(&people)
            .expect("a status")
            .log_entries,
        0
    );
}

/// An invalid frame, or one of another version, is refused with a frame, and changes nothing; the client reports why.
#[test]
fn invalid_frames_are_refused() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    isomer_replication::begin_replication(&people).expect("a replica");
    let client = server.client(&token);
    let send = |bytes: &[u8]| {
        let head = [("Content-Type", "application/octet-stream")];
        client.send("POST", "/v1/databases/people/replication", &head, bytes)
    };
    let frame = [b"isomsync".as_slice(), &[0; 24]].concat();
    for bytes in [b"".as_slice(), b"nonsense", &[0xff; 4096], &frame] {
        let answer = send(bytes);
        assert_eq!(answer.status, 200, "{answer:?}");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            said.contains("Invalid") || said.contains("Unsupported"),
            "{said}"
        );
    }
    assert!(
        isomer_replication::replica_members(&people)
            .expect("members")
            .is_empty()
    );
    assert_eq!(keys(&people), 0);
}

/// Invalid data and frames other than a greeting do not turn a database into a replica: imports still work, and its
/// status says that it is not a replica. A greeting does.
#[test]
fn invalid_data_does_not_create_a_replica() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let admin = server.admin();
    let people = server.people.store().expect("a store");
    let send = |bytes: &[u8]| {
        let head = [("Content-Type", "application/octet-stream")];
        server
            .client(&token)
            .send("POST", "/v1/databases/people/replication", &head, bytes)
    };
    let import = |key: &str| {
        let head = [("Content-Type", "application/jsonl")];
        let line = format!("{{\"id\": \"{key}\"}}\n");
        let path = "/v1/databases/people/import/nodes?label=Person&key=id";
        admin.send("POST", path, &head, line.as_bytes()).status
    };
    let status = || {
        server
            .client(&token)
            .get("/v1/databases/people/replication")
            .value()
    };
    for bytes in [
        b"xx".as_slice(),
        b"",
        &[0xff; 4096],
        b"isomsync\x01\x02\x00",
    ] {
        let answer = send(bytes);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert!(!people.is_replicated());
    assert_eq!(import("before"), 200);
    assert!(status()["replica"].is_null());
    assert_eq!(
        admin
            .json(
                "PUT",
                "/v1/databases/people/replication/clock",
                "{\"accept_until\": null}"
            )
            .status,
        400
    );

    let (_own, store) = replica();
    plain(&server, &token, &store).expect("exchanged");
    assert!(people.is_replicated());
    assert_eq!(import("after"), 422);
    let report = status();
    assert!(report["replica"].is_string(), "{report}");
    assert_eq!(report["members"][0]["lacked_transactions"], 0, "{report}");
    let until = "{\"accept_until\": \"2126-12-01T00:00:00Z\"}";
    let report = admin.json("PUT", "/v1/databases/people/replication/clock", until);
    assert_eq!(
        report.value()["accepts_stamps_until"],
        "2126-12-01T00:00:00Z",
        "{report:?}"
    );
    assert!(isomer_replication::accepted_clock_ms(&people) > 0);
    let wrong = admin.json(
        "PUT",
        "/v1/databases/people/replication/clock",
        "{\"accept_until\": \"soon\"}",
    );
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let none = admin.json(
        "PUT",
        "/v1/databases/people/replication/clock",
        "{\"accept_until\": null}",
    );
    assert!(none.value()["accepts_stamps_until"].is_null(), "{none:?}");
}
