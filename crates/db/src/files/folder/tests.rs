//! Links in the way of an import or export, which only some systems have.
#![cfg(unix)]

use std::os::unix::fs::symlink;

use super::*;

fn outside() -> tempfile::TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("private")).unwrap();
    for name in ["secret", "private/secret"] {
        fs::write(outside.path().join(name), "theirs").unwrap();
    }
    outside
}

#[test]
fn links_are_left_out_of_an_import() {
    let (outside, from) = (outside(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("sub")).unwrap();
    fs::write(from.path().join("sub/note"), "ours").unwrap();
    for (target, link) in [
        ("secret", "file"),
        ("private", "sub/folder"),
        ("nothing", "sub/dangling"),
    ] {
        symlink(outside.path().join(target), from.path().join(link)).unwrap();
    }
    symlink(from.path(), from.path().join("sub/circle")).unwrap();
    let db = Database::open_in_memory().unwrap();
    let copied = db.import_folder(from.path(), "/in").unwrap();
    assert_eq!((copied.files, copied.folders, copied.bytes), (1, 2, 4));
    let tx = db.begin_read().unwrap();
    let names = |path: &str| -> Vec<String> {
        let list = tx.files().list(path).unwrap();
        list.into_iter().map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(
        (names("/in"), names("/in/sub")),
        (vec!["sub".into()], vec!["note".into()])
    );
    // Including the one that is named itself.
    let link = from.path().join("file");
    assert_eq!(db.import_folder(link, "/link").unwrap(), Copied::default());
}

#[test]
fn an_export_writes_through_no_link_and_into_nothing_else() {
    let outside = outside();
    let (theirs, db) = (outside.path(), Database::open_in_memory().unwrap());
    db.transact(|tx| tx.files().create_folders("/private"))
        .unwrap();
    for path in ["/private/secret", "/note"] {
        let mut writer = db.create_file(path).unwrap();
        io::Write::write_all(&mut writer, b"ours").unwrap();
        writer.finish().unwrap();
    }
    let refused = |occupy: &dyn Fn(&Path), at: &str| {
        let to = tempfile::tempdir().unwrap();
        let at = to.path().join(at);
        occupy(&at);
        let error = db.export_folder("/", to.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", at.display())), "{error}");
        assert!(error.contains("already exists"), "{error}");
    };
    let link = |target: &str| {
        let target = theirs.join(target);
        move |at: &Path| symlink(&target, at).unwrap()
    };
    refused(&link("secret"), "note");
    refused(&link("nothing"), "note");
    refused(&link("private"), "private");
    refused(&|at| fs::create_dir(at).unwrap(), "note");
    refused(&|at| fs::write(at, "a file").unwrap(), "private");
    for name in ["secret", "private/secret"] {
        assert_eq!(fs::read_to_string(theirs.join(name)).unwrap(), "theirs");
    }
    assert!(!theirs.join("nothing").exists());
    // A caller that names a link means the folder behind it; an existing file is replaced.
    let (to, link) = (theirs.join("private"), theirs.join("link"));
    symlink(&to, &link).unwrap();
    assert_eq!(db.export_folder("/private", &link).unwrap().files, 1);
    assert_eq!(fs::read_to_string(to.join("secret")).unwrap(), "ours");
    let link = theirs.join("another");
    symlink(theirs.join("secret"), &link).unwrap();
    assert!(db.export_folder("/note", &link).is_err());
}
