//! Two databases that never meet, and agree through a folder that is carried between them:
//! `cargo run --example replicas --features replication`.

use std::path::Path;

use isomerdb::{Builder, Database, Result, replication};

/// Exchanges with all peers of a database.
fn sync(name: &str, db: &Database) -> Result<()> {
    for peer in replication::peers(db)? {
        let done = replication::sync_once(db, &peer, &Builder::default())?;
        println!("{name}: {} received, {} sent", done.received, done.sent);
    }
    Ok(())
}

fn open(path: &Path, medium: &Path) -> Result<Database> {
    let db = Database::open(path)?;
    let options = replication::PeerOptions::new();
    replication::add_peer(&db, &medium.display().to_string(), &options)?;
    Ok(db)
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("isomerdb-replicas-{}", std::process::id()));
    let medium = folder.join("medium");
    let home = open(&folder.join("home"), &medium)?;
    let office = open(&folder.join("office"), &medium)?;

    home.query("CREATE (:Task {_key: 'wash'})-[:BEFORE]->(:Task {_key: 'iron'})")?;
    sync("home  ", &home)?;
    sync("office", &office)?;
    office.query("MATCH (t:Task {_key: 'wash'}) SET t.done = true")?;
    sync("office", &office)?;
    sync("home  ", &home)?;

    let done = home.query("MATCH (t:Task) WHERE t.done RETURN t._key")?;
    println!("done: {}", done.deserialize::<String>()?.join(" "));
    if let Some(status) = replication::status(&home)? {
        println!(
            "{} conflicts, {} peer",
            status.conflicts,
            status.peers.len()
        );
    }
    home.close()?;
    office.close()?;
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

// Prints:
//
// home  : 0 received, 1 sent
// office: 1 received, 0 sent
// office: 0 received, 1 sent
// home  : 1 received, 0 sent
// done: wash
// 0 conflicts, 1 peer
