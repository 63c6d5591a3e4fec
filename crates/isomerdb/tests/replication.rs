//! Peers, exchanges and status through the published API.

use isomerdb::{
    Builder, Database, ErrorKind, Sharing,
    replication::{PeerOptions, add_peer, peers, remove_peer, status, sync_once},
};

/// Two databases that are never open for each other agree through a folder.
#[test]
fn two_databases_agree_through_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let medium = folder.path().join("medium").display().to_string();
    let options = Builder::default();
    let one = Database::open(folder.path().join("one")).unwrap();
    let other = Database::open(folder.path().join("other")).unwrap();
    assert!(status(&one).unwrap().is_none() && peers(&one).unwrap().is_empty());

    let from_one = add_peer(&one, &medium, &PeerOptions::new()).unwrap();
    let from_other = add_peer(&other, &medium, &PeerOptions::new()).unwrap();
    assert_eq!((from_one.exchanged_ms, &from_one.problem), (None, &None));
    one.query("CREATE (:Task {_key: 'wash'})").unwrap();
    assert_eq!(sync_once(&one, &from_one, &options).unwrap().sent, 1);
    let first = sync_once(&other, &from_other, &options).unwrap();
    assert_eq!((first.received, first.sent), (1, 0));

    other
        .query("MATCH (t:Task {_key: 'wash'}) SET t.done = true")
        .unwrap();
    sync_once(&other, &from_other, &options).unwrap();
    sync_once(&one, &from_one, &options).unwrap();
    let done = one.query("MATCH (t:Task) WHERE t.done RETURN t._key");
    assert_eq!(done.unwrap().deserialize::<String>().unwrap(), ["wash"]);

    let status = status(&one).unwrap().unwrap();
    assert_eq!(status.conflicts, 0);
    assert!(!status.is_joining && !status.lines.is_empty());
    assert_eq!(status.peers, peers(&one).unwrap());
    assert!(status.peers[0].exchanged_ms.is_some() && status.peers[0].problem.is_none());
}

/// Each failure has a kind, and is recorded at the peer.
#[test]
fn failures_have_kinds_and_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let missing = PeerOptions::new().token_file(folder.path().join("token"));
    let refused = add_peer(&db, "https://localhost:1/people", &missing).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(
        status(&db).unwrap().is_none(),
        "a refused peer makes no replica"
    );

    let medium = folder.path().join("medium");
    let peer = add_peer(&db, &medium.display().to_string(), &PeerOptions::new()).unwrap();
    std::fs::write(&medium, "a file in place of a folder").unwrap();
    let failed = sync_once(&db, &peer, &Builder::default()).unwrap_err();
    let problem = peers(&db).unwrap().remove(0).problem.unwrap();
    assert_eq!(problem.message, failed.to_string());
    assert!(!problem.is_quarantined);

    assert!(remove_peer(&db, &peer.name).unwrap());
    assert!(!remove_peer(&db, &peer.name).unwrap());
    let gone = sync_once(&db, &peer, &Builder::default()).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

/// A new database can be open in several processes. It becomes a replica if it is not, without being opened again, and
/// from then on one process at a time has it open.
#[test]
fn a_database_becomes_a_replica_when_no_other_process_has_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let (path, medium) = (folder.path().join("db"), folder.path().join("medium"));
    let medium = medium.display().to_string();
    let db = Database::open(&path).unwrap();
    assert_eq!(Sharing::at(&path), Some(Sharing::Shared));
    // As a rule, in another process.
    let other = Database::open(&path).unwrap();
    let add = || add_peer(&db, &medium, &PeerOptions::new());
    let refused = add().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let others = format!("end these processes: {} (library)", std::process::id());
    assert!(refused.to_string().contains(&others), "{refused}");
    assert!(status(&db).unwrap().is_none());
    let count = "MERGE (n:Note {_key: 1}) SET n.read = counter.add(n.read, 1)";
    for writer in [&db, &other] {
        writer.query(count).unwrap();
    }
    other.close().unwrap();

    let peer = add().unwrap();
    let in_use = Database::open(&path).unwrap_err();
    assert_eq!(in_use.kind(), ErrorKind::Unavailable);
    db.query(count).unwrap();
    sync_once(&db, &peer, &Builder::default()).unwrap();
    db.close().unwrap();

    let read = |path: &str| {
        let db = Database::open(path).unwrap();
        let rows = db.query("MATCH (n:Note) RETURN n.read").unwrap();
        let read = rows.single().unwrap().deserialize::<(i64,)>().unwrap().0;
        // It is a replica, which is opened exclusively without being asked to.
        assert!(Database::open(path).is_err());
        assert!(status(&db).unwrap().is_some());
        assert_eq!(db.check().run().unwrap(), Vec::<String>::new());
        db.close().unwrap();
        read
    };
    assert_eq!((read(&path.display().to_string()), read(&medium)), (3, 3));
    let db = Database::open(&path).unwrap();
    db.query(count).unwrap();
    sync_once(&db, &peer, &Builder::default()).unwrap();
    // A restored replica, and a copy of one, are replicas, too.
    let backups = folder.path().join("backups");
    db.backup(&backups).run().unwrap();
    let restored = folder.path().join("restored");
    Database::restore(&backups, &restored).run().unwrap();
    assert_eq!(read(&restored.display().to_string()), 4);
    db.close().unwrap();
    assert_eq!(read(&medium), 4);
}
