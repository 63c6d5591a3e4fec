//! Scripts that every shared log and every store of shared objects must pass. Each panics at the first deviation.

use std::{sync::Barrier, thread, time::Duration};

use crate::{Append, BlobError, Blobs, Created, LogError, Replaced, SharedLog, Tag};

/// How many threads race for a position or a name.
const RACERS: usize = 16;
/// How many positions or names they race for.
const ROUNDS: u64 = 50;

/// Runs all scripts for logs; `make` returns an empty log.
pub fn log<L: SharedLog>(make: impl Fn() -> L) {
    appends_take_their_turn(&make());
    reads_are_pages(&make());
    trimmed_records_are_gone(&make());
    one_of_many_gets_a_position(&make());
    a_waiter_sees_what_is_appended(&make());
    large_records_are_refused(&make());
    a_reservation_is_no_obstacle_to_its_owner(&make());
    a_log_has_an_identity(&make(), &make());
}

fn a_log_has_an_identity(log: &impl SharedLog, other: &impl SharedLog) {
    assert_eq!(log.id(), log.id());
    assert_ne!(log.id(), other.id(), "two logs");
    assert!(!log.grace().is_zero());
}

fn appends_take_their_turn(log: &impl SharedLog) {
    assert_eq!(log.end(), Ok(1));
    assert_eq!(log.first(), Ok(1));
    assert_eq!(log.read(1, 1 << 20), Ok(Vec::new()));
    assert_eq!(log.append(2, b"b"), Err(LogError::Gap { at: 2, end: 1 }));
    assert_eq!(log.append(1, b"a"), Ok(Append::Appended));
    assert_eq!(log.append(1, b"other"), Ok(Append::Taken));
    assert_eq!(
        log.append(1, b"a"),
        Ok(Append::Taken),
        "the same record again"
    );
    assert_eq!(log.append(2, b""), Ok(Append::Appended), "an empty record");
    assert_eq!(log.end(), Ok(3));
    assert_eq!(log.sync(3), Ok(()));
    assert_eq!(log.read(1, 1 << 20), Ok(vec![b"a".to_vec(), Vec::new()]));
    assert_eq!(log.read(2, 1 << 20), Ok(vec![Vec::new()]));
    assert_eq!(log.read(3, 1 << 20), Ok(Vec::new()));
}

fn reads_are_pages(log: &impl SharedLog) {
    for at in 1..=10 {
        assert_eq!(log.append(at, &[at as u8; 100]), Ok(Append::Appended));
    }
    assert_eq!(log.read(4, 0).map(|page| page.len()), Ok(1), "at least one");
    let page = log.read(4, 250).expect("a page");
    assert!((2..=3).contains(&page.len()), "{}", page.len());
    assert_eq!(page[0], [4; 100]);
    let mut next = 1;
    while next < 11 {
        for record in log.read(next, 250).expect("a page") {
            assert_eq!(record, [next as u8; 100]);
            next += 1;
        }
    }
}

fn trimmed_records_are_gone(log: &impl SharedLog) {
    for at in 1..=5 {
        assert_eq!(log.append(at, b"x"), Ok(Append::Appended));
    }
    assert_eq!(log.trim(3), Ok(()));
    assert_eq!(log.trim(2), Ok(()), "trimming less changes nothing");
    assert_eq!(log.first(), Ok(3));
    assert_eq!(log.read(2, 100), Err(LogError::Trimmed { first: 3 }));
    let late = log.append(2, b"late");
    let is_allowed = matches!(
        late,
        Ok(Append::Appended | Append::Taken) | Err(LogError::Trimmed { .. })
    );
    assert!(is_allowed, "{late:?}");
    let read = log.read(2, 100);
    assert_eq!(
        read,
        Err(LogError::Trimmed { first: 3 }),
        "no part of the log"
    );
    assert_eq!((log.first(), log.end()), (Ok(3), Ok(6)));
    assert_eq!(log.read(3, 100).map(|page| page.len()), Ok(3));
    assert_eq!(log.end(), Ok(6));
    assert!(log.trim(7).is_err(), "beyond the end");
    assert_eq!(log.trim(6), Ok(()));
    assert_eq!(log.append(6, b"y"), Ok(Append::Appended), "all was trimmed");
    assert_eq!(log.read(6, 100), Ok(vec![b"y".to_vec()]));
}

fn one_of_many_gets_a_position(log: &impl SharedLog) {
    let barrier = Barrier::new(RACERS);
    let race = |racer: usize| {
        let mut won = 0;
        for at in 1..=ROUNDS {
            barrier.wait();
            match log.append(at, &[racer as u8]) {
                Ok(Append::Appended) => {
                    won += 1;
                    assert!(log.end().expect("an end") > at);
                    let there = log.read(at, 0).expect("the record");
                    assert_eq!(there, [[racer as u8]]);
                }
                Ok(Append::Taken) => {}
                other => panic!("{other:?}"),
            }
            barrier.wait();
        }
        won
    };
    let won: u64 = thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| scope.spawn(move || race(racer)))
            .collect();
        let ends = racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"));
        ends.sum()
    });
    assert_eq!(won, ROUNDS, "each position has one winner");
    assert_eq!(log.end(), Ok(ROUNDS + 1));
}

fn a_waiter_sees_what_is_appended(log: &impl SharedLog) {
    assert_eq!(log.wait(0, Duration::ZERO), Ok(1), "the end is above it");
    assert_eq!(log.wait(1, Duration::from_millis(1)), Ok(1), "nothing came");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| log.wait(1, Duration::from_secs(60)));
        assert_eq!(log.append(1, b"a"), Ok(Append::Appended));
        assert_eq!(waiter.join().expect("no panic"), Ok(2));
    });
}

fn a_reservation_is_no_obstacle_to_its_owner(log: &impl SharedLog) {
    log.release();
    for at in 1..=3 {
        assert_eq!(log.reserve(Duration::from_secs(60)), Ok(()));
        assert_eq!(log.reserve(Duration::from_millis(1)), Ok(()), "renewed");
        assert_eq!(log.append(at, b"a"), Ok(Append::Appended));
        log.release();
    }
    assert_eq!(log.append(4, b"b"), Ok(Append::Appended));
}

fn large_records_are_refused(log: &impl SharedLog) {
    let max = log.max_record_bytes();
    let refused = log.append(1, &vec![0; max + 1]);
    assert_eq!(
        refused,
        Err(LogError::TooLarge {
            bytes: max + 1,
            max
        })
    );
    assert_eq!(log.end(), Ok(1));
}

/// Runs all scripts for objects; `make` returns an empty store.
pub fn blobs<B: Blobs>(make: impl Fn() -> B) {
    objects_are_created_once(&make());
    a_replace_needs_the_current_tag(&make());
    one_of_many_creates_an_object(&make());
    names_are_checked(&make());
    lists_have_all_names_in_order(&make());
}

fn created(blobs: &impl Blobs, name: &str, content: &[u8]) -> Tag {
    match blobs.create(name, content) {
        Ok(Created::Created(tag)) => tag,
        other => panic!("{other:?}"),
    }
}

fn objects_are_created_once(blobs: &impl Blobs) {
    assert_eq!(blobs.get("a/b"), Ok(None));
    assert_eq!(blobs.get_range("a/b", 0..1), Ok(None));
    let tag = created(blobs, "a/b", b"0123456789");
    assert_eq!(blobs.create("a/b", b"0123456789"), Ok(Created::Exists));
    assert_eq!(blobs.get("a/b"), Ok(Some((b"0123456789".to_vec(), tag))));
    for (range, bytes) in [
        (0..3, &b"012"[..]),
        (8..99, b"89"),
        (10..11, b""),
        (50..60, b""),
    ] {
        assert_eq!(blobs.get_range("a/b", range), Ok(Some(bytes.to_vec())));
    }
    created(blobs, "a/c", b"");
    created(blobs, "ab", b"x");
    let names = |prefix| blobs.list(prefix).expect("names");
    assert_eq!(names("a/"), ["a/b", "a/c"]);
    assert_eq!(names(""), ["a/b", "a/c", "ab"]);
    assert_eq!(blobs.remove("a/b"), Ok(()));
    assert_eq!(blobs.remove("a/b"), Ok(()), "it is gone already");
    assert_eq!(names("a/"), ["a/c"]);
}

fn a_replace_needs_the_current_tag(blobs: &impl Blobs) {
    let first = created(blobs, "manifest", b"1");
    let second = match blobs.replace("manifest", &first, b"2") {
        Ok(Replaced::Replaced(tag)) => tag,
        other => panic!("{other:?}"),
    };
    assert_ne!(first, second);
    assert_eq!(
        blobs.replace("manifest", &first, b"3"),
        Ok(Replaced::Changed)
    );
    assert_eq!(
        blobs.get("manifest"),
        Ok(Some((b"2".to_vec(), second.clone())))
    );
    // The same content again is another one.
    let third = blobs.replace("manifest", &second, b"1");
    assert!(matches!(third, Ok(Replaced::Replaced(_))), "{third:?}");
    assert_eq!(
        blobs.replace("manifest", &first, b"4"),
        Ok(Replaced::Changed)
    );
    assert_eq!(
        blobs.replace("missing", &first, b"5"),
        Ok(Replaced::Changed)
    );
    assert_eq!(blobs.get("missing"), Ok(None));
}

fn one_of_many_creates_an_object(blobs: &impl Blobs) {
    let barrier = Barrier::new(RACERS);
    let race = |racer: usize| {
        let mut won = 0;
        for round in 0..ROUNDS {
            barrier.wait();
            let name = format!("race/{round}");
            if let Created::Created(_) = blobs.create(&name, &[racer as u8]).expect("an answer") {
                won += 1;
                let there = blobs
                    .get(&name)
                    .expect("an answer")
                    .expect("it was created");
                assert_eq!(there.0, [racer as u8]);
            }
        }
        won
    };
    let won: u64 = thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| scope.spawn(move || race(racer)))
            .collect();
        let ends = racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"));
        ends.sum()
    });
    assert_eq!(won, ROUNDS, "each name has one winner");
}

fn names_are_checked(blobs: &impl Blobs) {
    let long = "x".repeat(201);
    let long_path = ["abcd"; 41].join("/");
    for name in [
        "", "/", "/a", "a/", "a//b", "..", ".", "a/../b", "./a", "a b", "ä", "a\0", "a\\b", "c:a",
        "a.", "a./b", "A", "a/B", "a*", &long, &long_path,
    ] {
        let is_refused = |error| matches!(error, BlobError::Name(refused) if refused == name);
        assert!(blobs.create(name, b"").is_err_and(is_refused), "{name}");
        assert!(blobs.get(name).is_err_and(is_refused), "{name}");
        assert!(blobs.get_range(name, 0..1).is_err_and(is_refused), "{name}");
        let tag = Tag("1".into());
        assert!(
            blobs.replace(name, &tag, b"").is_err_and(is_refused),
            "{name}"
        );
        assert!(blobs.remove(name).is_err_and(is_refused), "{name}");
    }
    assert_eq!(blobs.list(""), Ok(Vec::new()));
    // Names that some file systems have other plans for.
    let longest = "x".repeat(200);
    let names = [
        "-",
        ".a",
        "a",
        "a/b",
        "a/b/c",
        "a.b",
        "aux",
        "con",
        "lpt1.txt",
        "nul/a",
        "tables/0-9_a.z",
        &longest,
    ];
    for name in names {
        created(blobs, name, name.as_bytes());
    }
    for name in names {
        let content = blobs.get(name).expect("an answer").expect("it exists").0;
        assert_eq!(content, name.as_bytes());
    }
}

fn lists_have_all_names_in_order(blobs: &impl Blobs) {
    assert_eq!(blobs.list(""), Ok(Vec::new()));
    assert_eq!(blobs.list("a"), Ok(Vec::new()));
    let mut names: Vec<String> = (0..300).map(|number| format!("t/{}", number * 7)).collect();
    names.extend(["t", "t-", "t.t", "t/a/b", "t/a-b", "u"].map(String::from));
    for name in &names {
        created(blobs, name, b"");
    }
    names.sort();
    assert_eq!(blobs.list(""), Ok(names.clone()));
    for prefix in [
        "t", "t/", "t/1", "t/a", "t/a/", "t/a/b", "t/a/b/", "t.", "u", "uu", "v",
    ] {
        let expected: Vec<&String> = names
            .iter()
            .filter(|name| name.starts_with(prefix))
            .collect();
        let listed = blobs.list(prefix).expect("names");
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{prefix}");
    }
    // No name begins with these.
    for prefix in ["/", "T", "..", "../", "t//", "t\0", "ä"] {
        assert_eq!(blobs.list(prefix), Ok(Vec::new()), "{prefix}");
    }
    let (_, tag) = blobs.get("u").expect("an answer").expect("it exists");
    assert!(matches!(
        blobs.replace("u", &tag, b"2"),
        Ok(Replaced::Replaced(_))
    ));
    assert_eq!(
        blobs.list("u"),
        Ok(vec!["u".to_owned()]),
        "replaced, and listed once"
    );
    assert_eq!(blobs.remove("u"), Ok(()));
    assert_eq!(blobs.list("u"), Ok(Vec::new()));
    created(blobs, "u", b"3");
    assert_eq!(blobs.list("u"), Ok(vec!["u".to_owned()]), "created again");
}
