//! Data of the load test: users with twenty private chats each, and chats with many messages for the readers.

use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::store::{ChatStore, Id};

/// Size of the data.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Users.
    pub users: u64,
    /// Private chats per user.
    pub chats: u64,
    /// Messages in each chat of a reader.
    pub messages: u64,
    /// Users that have a session and a chat with many messages.
    pub readers: u64,
}

/// The session of a load test user: predictable, so that a script can send it.
pub fn session(user: u64) -> String {
    format!("load-{user:04}")
}

/// Fills an empty store; returns for each reader the chat that it reads and writes.
pub fn fill(store: &dyn ChatStore, size: Size) -> Result<Vec<Id>> {
    let mut users = Vec::new();
    for at in 0..size.users {
        let made = store.create_user(&format!("user{at:04}"), "*")?;
        users.push(made.context("the store is not empty: it has a user already")?);
    }
    let mut clock = 1_700_000_000_000;
    // Every user has a chat with each of the next ones in a ring: twenty in all, created by either.
    for (at, one) in users.iter().enumerate() {
        for step in 1..=size.chats / 2 {
            let two = users[(at + step as usize) % users.len()];
            clock += 1;
            store.create_chat(&format!("chat of {one} and {two}"), *one, &[two], clock)?;
        }
    }
    let mut read = Vec::new();
    for (user, reader) in users.into_iter().zip(0..size.readers) {
        store.set_user_session(&session(reader), user, u64::MAX / 4)?;
        let chats = store.get_chats(user)?;
        read.push(chats.first().context("a reader has chats")?.id);
    }
    // Concurrent, as a store behind a socket spends its time waiting.
    let outcomes: Vec<Result<()>> = thread::scope(|scope| {
        let talks: Vec<_> = read
            .iter()
            .map(|chat| scope.spawn(move || talk(store, *chat, size.messages, clock)))
            .collect();
        let ended = talks.into_iter().map(|talk| {
            talk.join()
                .unwrap_or_else(|_| Err(anyhow!("a thread that filled a chat panicked")))
        });
        ended.collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    store.filled()?;
    Ok(read)
}

/// Writes messages of the members of a chat in turn.
fn talk(store: &dyn ChatStore, chat: Id, messages: u64, began: u64) -> Result<()> {
    let members = store.get_members(chat)?;
    for (number, member) in (0..messages).zip(members.iter().cycle()) {
        let text = format!("message number {number} of a long conversation");
        store.add_chat_message(chat, member.id, &text, began + number)?;
    }
    Ok(())
}
