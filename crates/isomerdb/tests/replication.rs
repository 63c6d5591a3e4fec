//! Peers, exchanges and status through the published API.

use isomerdb::{
    Builder, Database, ErrorKind,
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
