//! Another database as a peer of this server: who is let in, over what, and what comes through.

use isomer_db::{
    Database,
    data::{Access, Store},
};
use isomer_sync::{ErrorKind, Exchanged, Remote, RemoteOptions, Result, exchange};

use crate::support::Server;

fn replica() -> (Database, Store) {
    let database = Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("in memory");
    let store = database.store().expect("a store");
    store.begin_replication().expect("a replica");
    (database, store)
}

fn with(url: &str, options: RemoteOptions, store: &Store) -> Result<Exchanged> {
    let mut peer = Remote::new(url, options)?;
    exchange(store, &mut peer, &mut |_| ())
}

fn plain(server: &Server, token: &str, store: &Store) -> Result<Exchanged> {
    let url = format!("http://{}/people", server.address());
    let options = RemoteOptions {
        token: Some(token.to_owned()),
        ..RemoteOptions::default()
    };
    with(&url, options, store)
}

fn put(store: &Store, key: &[u8], bytes: usize) {
    let mut tx = store.begin(Access::Write).expect("begun");
    // Does not get smaller by packing.
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
    tx.kv_put("b", key, &value).expect("put");
    tx.commit().expect("committed");
}

fn keys(store: &Store) -> usize {
    let tx = store.begin(Access::Read).expect("begun");
    (0..=255_u8)
        .filter(|key| tx.kv_get("b", &[*key]).expect("read").is_some())
        .count()
}

/// A wrong token, none, and one of somebody who may read and write, but is no replica: nothing goes either way, and nobody is
/// quarantined, as somebody may mend it.
#[test]
fn only_replicas_are_let_in() {
    let server = Server::new();
    let people = server.people.store().expect("a store");
    people.begin_replication().expect("a replica");
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

/// With TLS, by the name in the certificate; not under another name, nor by a certificate that is not trusted.
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
    // Whoever speaks in the clear to it is not answered as a peer.
    let url = format!("http://127.0.0.1:{}/people", server.address().port());
    let refused = with(&url, RemoteOptions::default(), &store).expect_err("no TLS");
    assert!(!matches!(refused.kind(), ErrorKind::Denied), "{refused}");
}

/// What was there before the first peer is in no log: it comes, and goes, as a snapshot of several pages.
#[test]
fn snapshots_over_http() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    for key in 0..12_u8 {
        put(&people, &[key], 1 << 20);
    }
    let (_own, store) = replica();
    put(&store, b"\xfe", 10);
    people.begin_replication().expect("a replica");
    let done = plain(&server, &token, &store).expect("exchanged");
    assert!(done.joined && done.pages >= 3, "{done:?}");
    assert_eq!((keys(&people), keys(&store)), (13, 13));
    // And the other way: what the server lacks is handed over, in the end all at once.
    let full = Database::builder()
        .memory(256 << 20)
        .open_in_memory()
        .expect("in memory");
    let full = full.store().expect("a store");
    for key in 100..112_u8 {
        put(&full, &[key], 1 << 20);
    }
    full.begin_replication().expect("a replica");
    plain(&server, &token, &full).expect("exchanged");
    assert_eq!((keys(&people), keys(&full)), (25, 25));
    assert!(!people.is_joining());
}

/// A replica that was evicted is told so and gives nothing away; the others go on.
#[test]
fn an_evicted_replica_is_refused() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    people.begin_replication().expect("a replica");
    let ((_one, gone), (_other, stays)) = (replica(), replica());
    for store in [&gone, &stays] {
        plain(&server, &token, store).expect("exchanged");
    }
    let id = gone.begin_replication().expect("a replica").id;
    assert!(people.evict_member(&id).expect("evicted"));
    put(&gone, b"\x01", 10);
    put(&people, b"\x02", 10);
    let refused = plain(&server, &token, &gone).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("evicted"), "{refused}");
    // The second time it says that it has what came the first time.
    for _ in 0..2 {
        plain(&server, &token, &stays).expect("exchanged");
    }
    assert_eq!((keys(&people), keys(&gone), keys(&stays)), (1, 1, 1));
    assert!(
        people
            .replica_members()
            .expect("members")
            .iter()
            .any(|one| one.is_evicted)
    );
    // Nobody waits for it: the log is cut.
    assert_eq!(
        people.replication_status().expect("a status").log_entries,
        0
    );
}

/// Anything that is no frame of this version is refused in a frame, and changes nothing; the connection's client says why.
#[test]
fn what_is_no_frame() {
    let server = Server::new();
    let token = server.user("peer", "{\"people\": \"replica\"}");
    let people = server.people.store().expect("a store");
    people.begin_replication().expect("a replica");
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
    assert!(people.replica_members().expect("members").is_empty());
    assert_eq!(keys(&people), 0);
}
