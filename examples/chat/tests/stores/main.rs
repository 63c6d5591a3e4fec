//! All stores: one script of the sixteen operations, random histories, and concurrent writers. PostgreSQL is tested
//! if `CHAT_POSTGRES` names an empty database; `run.py test` starts one.

mod front;
mod histories;
mod transport;

use std::{
    sync::{Arc, Barrier, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use isomer_chat::{
    Backend, fill,
    later::Later,
    now_ms, open,
    store::{ChatStore, Durability},
};

/// Waits for a future value.
fn awaited<T>(mut later: Later<T>) -> T {
    struct Sleeper(Thread);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    loop {
        match later.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn script(store: &dyn ChatStore) {
    let ada = store.create_user("ada", "hash-a").unwrap().unwrap();
    let bob = store.create_user("bob", "hash-b").unwrap().unwrap();
    let eve = store.create_user("eve", "hash-e").unwrap().unwrap();
    assert_eq!(
        store.create_user("ada", "other").unwrap(),
        None,
        "names are unique"
    );
    let found = store.get_user("ada").unwrap().unwrap();
    assert_eq!(
        (found.id, &*found.username, &*found.password),
        (ada, "ada", "hash-a")
    );
    assert_eq!(store.get_user("missing").unwrap(), None);

    // Sessions: begun, prolonged, expired and ended.
    let now = now_ms();
    store.set_user_session("s1", ada, now + 60_000).unwrap();
    assert_eq!(store.get_user_from_session("s1", now).unwrap(), Some(ada));
    assert_eq!(
        store.get_user_from_session("s1", now + 60_000).unwrap(),
        None,
        "it has ended"
    );
    store.set_user_session("s1", bob, now + 120_000).unwrap();
    assert_eq!(
        store.get_user_from_session("s1", now + 60_000).unwrap(),
        Some(bob)
    );
    assert!(store.remove_session("s1").unwrap());
    assert!(!store.remove_session("s1").unwrap());
    assert_eq!(store.get_user_from_session("s1", now).unwrap(), None);

    // Ended sessions are deleted when others begin.
    for old in 0..3 {
        let name = format!("old{old}");
        store.set_user_session(&name, ada, now - 60_000).unwrap();
    }
    let is_deleted = |old: i32| {
        let found = store.get_user_from_session(&format!("old{old}"), now - 120_000);
        found.unwrap().is_none()
    };
    // A store whose own expiry deletes them has a shortest life of a session, 1 ms.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        store.set_user_session("new", ada, now + 60_000).unwrap();
        if (0..3).all(is_deleted) {
            break;
        }
        assert!(Instant::now() < deadline, "ended sessions are deleted");
        thread::yield_now();
    }
    assert_eq!(store.get_user_from_session("new", now).unwrap(), Some(ada));
    assert!(store.remove_session("new").unwrap());

    // Chats and members.
    assert!(!store.exists_chat(ada, bob).unwrap());
    let private = store.create_chat("ada and bob", ada, &[bob], 10).unwrap();
    let group = store.create_chat("all", bob, &[ada, eve, bob], 20).unwrap();
    assert_ne!(private, group);
    assert!(store.exists_chat(ada, bob).unwrap() && store.exists_chat(bob, ada).unwrap());
    assert!(
        !store.exists_chat(ada, eve).unwrap(),
        "a chat of three is not private"
    );
    assert!(!store.exists_chat(ada, ada).unwrap());
    let members = |chat| {
        let members = store.get_members(chat).unwrap();
        let named = members.into_iter().map(|one| (one.id, one.username));
        named.collect::<Vec<_>>()
    };
    let named = |id, name: &str| (id, name.to_owned());
    assert_eq!(members(private), [named(ada, "ada"), named(bob, "bob")]);
    assert_eq!(
        members(group),
        [named(ada, "ada"), named(bob, "bob"), named(eve, "eve")]
    );
    let ids = |user| {
        store
            .get_chats(user)
            .unwrap()
            .iter()
            .map(|chat| chat.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(ada), [group, private], "the last activity first");
    assert_eq!(ids(eve), [group]);
    assert_eq!(
        store
            .get_chat(group)
            .unwrap()
            .map(|chat| (chat.name, chat.admin)),
        Some(("all".into(), bob))
    );
    assert_eq!(store.get_chat(999).unwrap(), None);
    assert!(
        store.check_chat_member(group, eve).unwrap()
            && !store.check_chat_member(private, eve).unwrap()
    );
    assert!(store.add_chat_member(private, eve).unwrap());
    assert!(
        !store.add_chat_member(private, eve).unwrap(),
        "she is already a member"
    );
    assert!(
        !store.add_chat_member(999, eve).unwrap() && !store.add_chat_member(private, 999).unwrap()
    );
    assert!(
        !store.exists_chat(ada, bob).unwrap(),
        "it is not private any more"
    );
    assert!(store.remove_chat_member(private, eve).unwrap());
    assert!(!store.remove_chat_member(private, eve).unwrap());
    assert!(store.exists_chat(ada, bob).unwrap());

    // Messages: consecutive numbers from 1 in each chat, ranges as in the study.
    for at in 1..=20 {
        let sender = if at % 2 == 0 { ada } else { bob };
        assert_eq!(
            store
                .add_chat_message(private, sender, &format!("m{at}"), 100 + at)
                .unwrap(),
            Some(at)
        );
    }
    assert_eq!(
        store
            .add_chat_message(group, eve, "first here", 50)
            .unwrap(),
        Some(1)
    );
    assert_eq!(
        store.add_chat_message(999, eve, "nowhere", 50).unwrap(),
        None
    );
    let numbers = |from, to, n| {
        store
            .get_chat_messages(private, from, to, n)
            .unwrap()
            .iter()
            .map(|m| m.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        numbers(None, None, 3),
        [18, 19, 20],
        "the last ones, ascending"
    );
    assert_eq!(
        numbers(None, Some(10), 3),
        [7, 8, 9],
        "the last ones before `to`"
    );
    assert_eq!(numbers(Some(5), None, 3), [5, 6, 7], "from `from` on");
    assert_eq!(
        numbers(Some(5), Some(7), 10),
        [5, 6],
        "`to` is not among them"
    );
    assert_eq!(numbers(Some(19), None, 10), [19, 20]);
    assert_eq!(numbers(Some(7), Some(5), 10), [0; 0]);
    assert_eq!(numbers(Some(21), None, 10), [0; 0]);
    assert_eq!(numbers(None, None, 0), [0; 0]);
    assert_eq!(numbers(None, None, 100).len(), 20);
    let one = store
        .get_chat_messages(private, Some(2), None, 1)
        .unwrap()
        .remove(0);
    assert_eq!((one.sender, &*one.text, one.timestamp), (ada, "m2", 102));
    assert_eq!(ids(ada), [private, group], "the latest is first");

    // Deletes messages and memberships with the chat, and nothing else.
    assert!(store.delete_chat(private).unwrap());
    assert!(!store.delete_chat(private).unwrap());
    assert_eq!(store.get_chat(private).unwrap(), None);
    assert_eq!(
        store.get_chat_messages(private, None, None, 10).unwrap(),
        []
    );
    assert_eq!(members(private), []);
    assert_eq!(ids(ada), [group]);
    assert_eq!(
        store
            .get_chat_messages(group, None, None, 10)
            .unwrap()
            .len(),
        1
    );
    let next = store.create_chat("next", eve, &[], 200).unwrap();
    assert!(
        next != private && next != group,
        "numbers are not used twice"
    );
    assert_eq!(
        store.add_chat_message(next, eve, "alone", 201).unwrap(),
        Some(1)
    );
}

/// Concurrent writers: nothing is lost and no number assigned twice, which the study's program could not guarantee.
fn races(store: &Arc<dyn ChatStore>, has_feed: bool) {
    let users: Vec<u64> = (0..8)
        .map(|at| {
            store
                .create_user(&format!("racer{at}"), "*")
                .unwrap()
                .unwrap()
        })
        .collect();
    let chat = store.create_chat("race", users[0], &users, 1).unwrap();
    let (sender, heard) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let listens = store
        .listen(Box::new(move |said| {
            // The receiver is gone after the end.
            let _ = sender.lock().unwrap().send(said);
        }))
        .unwrap();
    assert_eq!(listens, has_feed);
    // Both sides request a private chat concurrently and repeatedly: one is created.
    let private = Arc::new(Barrier::new(users.len()));
    let asking: Vec<_> = (0..users.len())
        .map(|at| {
            let (store, private) = (store.clone(), private.clone());
            let (own, other) = (users[at % 2], users[(at + 1) % 2]);
            thread::spawn(move || {
                private.wait();
                store.create_private_chat("two", own, other, 1).unwrap()
            })
        })
        .collect();
    let made = asking
        .into_iter()
        .filter_map(|thread| thread.join().unwrap())
        .count();
    assert_eq!(made, 1, "private chats of two");
    let barrier = Arc::new(Barrier::new(users.len()));
    let threads: Vec<_> = users
        .iter()
        .map(|user| {
            let (store, barrier, user) = (store.clone(), barrier.clone(), *user);
            thread::spawn(move || {
                barrier.wait();
                for at in 0..20 {
                    store
                        .add_chat_message(chat, user, &format!("{user} says {at}"), 2)
                        .unwrap()
                        .unwrap();
                }
                // All of them begin on one snapshot, and all but one conflict at first.
                let begin = |at| {
                    let text = format!("{user} says {at}");
                    let mut added = store.add_chat_message_later(chat, user, &text, 2);
                    let polled = added.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    (added, polled)
                };
                let begun: Vec<_> = (20..25).map(begin).collect();
                for (added, polled) in begun {
                    let outcome = match polled {
                        Poll::Ready(outcome) => outcome,
                        Poll::Pending => awaited(added),
                    };
                    outcome.unwrap().unwrap();
                }
                (store.create_user("wanted by all", "*").unwrap()).is_some()
            })
        })
        .collect();
    let winners = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .filter(|won| *won)
        .count();
    assert_eq!(winners, 1, "one got the name");
    let messages = store.get_chat_messages(chat, Some(0), None, 1000).unwrap();
    assert_eq!(
        messages.iter().map(|m| m.id).collect::<Vec<_>>(),
        (1..=200).collect::<Vec<u64>>()
    );
    for user in &users {
        let mut own: Vec<_> = messages
            .iter()
            .filter(|m| m.sender == *user)
            .map(|m| m.text.clone())
            .collect();
        // Any of the concurrent ones may commit first.
        own[20..].sort_unstable();
        let said = |at| format!("{user} says {at}");
        assert_eq!(own, (0..25).map(said).collect::<Vec<_>>());
    }
    if has_feed {
        let mut last = 0;
        while last < 200 {
            let said = heard
                .recv_timeout(std::time::Duration::from_secs(10))
                .expect("the feed reports it");
            if said.chat == chat {
                assert!(said.message > last, "in order");
                last = said.message;
            }
        }
    }
}

fn opened(backend: Backend, postgres: &str) -> (tempfile::TempDir, Arc<dyn ChatStore>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = open(backend, &path, postgres, Durability::Asynchronous).unwrap();
    (folder, store)
}

/// Runs everything on new stores; `renew` empties the one that is not in a folder.
fn all(backend: Backend, postgres: &str, renew: impl Fn()) {
    let (_folder, store) = opened(backend, postgres);
    script(&*store);
    races(
        &store,
        matches!(backend, Backend::Isomer | Backend::IsomerKv),
    );
    for seed in [1, 2, 3] {
        renew();
        let (_folder, store) = opened(backend, postgres);
        histories::compare(&*store, seed);
    }
    renew();
    let (_folder, store) = opened(backend, postgres);
    let size = fill::Size {
        users: 30,
        chats: 20,
        messages: 5,
        readers: 2,
    };
    let read = fill::fill(&*store, size).unwrap();
    let reader = store
        .get_user_from_session(&fill::session(0), now_ms())
        .unwrap()
        .unwrap();
    assert_eq!(store.get_chats(reader).unwrap().len(), 20);
    let last = store.get_chat_messages(read[0], None, None, 10).unwrap();
    assert_eq!(last.len(), 5);
    front::over_http(store, read[0]);
}

/// Committed data survives closing and reopening the store.
fn reopened(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let chat = {
        let store = open(backend, &path, "", Durability::Synced).unwrap();
        let ada = store.create_user("ada", "*").unwrap().unwrap();
        let chat = store.create_chat("alone", ada, &[], 1).unwrap();
        assert_eq!(
            store.add_chat_message(chat, ada, "hello", 2).unwrap(),
            Some(1)
        );
        chat
    };
    let store = open(backend, &path, "", Durability::Synced).unwrap();
    let ada = store.get_user("ada").unwrap().unwrap().id;
    assert_eq!(
        store.add_chat_message(chat, ada, "again", 3).unwrap(),
        Some(2)
    );
    assert_eq!(store.create_user("ada", "*").unwrap(), None);
    assert!(store.create_chat("next", ada, &[], 4).unwrap() > chat);
}

#[test]
fn isomer() {
    all(Backend::Isomer, "", || {});
    reopened(Backend::Isomer);
}

#[test]
fn isomer_kv() {
    all(Backend::IsomerKv, "", || {});
    reopened(Backend::IsomerKv);
}

#[test]
fn leveldb() {
    all(Backend::Leveldb, "", || {});
    reopened(Backend::Leveldb);
}

#[test]
#[ignore = "needs a PostgreSQL that CHAT_POSTGRES names: examples/chat/run.py test starts one"]
fn postgresql() {
    let parameters = std::env::var("CHAT_POSTGRES").expect("CHAT_POSTGRES names a database");
    all(Backend::Postgresql, &parameters, || {
        let mut client = postgres::Client::connect(&parameters, postgres::NoTls).unwrap();
        client
            .batch_execute("DROP TABLE messages, members, chats, sessions, users")
            .unwrap();
    });
}
