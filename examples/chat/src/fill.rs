//! The data of the load test: users, each in twenty private chats, and chats with many messages for those who read.

use std::thread;

use anyhow::{Context, Result, anyhow};

use crate::store::{ChatStore, Id};

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Users.
    pub users: u64,
    /// Private chats of each.
    pub chats: u64,
    /// Messages in each chat that is read.
    pub messages: u64,
    /// Users that have a session and a chat with so many messages.
    pub readers: u64,
}

/// The session of a user of the load test: known, so that a script can show it.
pub fn session(user: u64) -> String {
    format!("load-{user:04}")
}

/// Fills an empty store; for each reader the chat that he reads and writes.
pub fn fill(store: &dyn ChatStore, size: Size) -> Result<Vec<Id>> {
    let mut users = Vec::new();
    for at in 0..size.users {
        let made = store.create_user(&format!("user{at:04}"), "*")?;
        users.push(made.context("the store is not empty: a user is there already")?);
    }
    let mut clock = 1_700_000_000_000;
    // Everybody has a chat with each of the next ones round the circle: twenty in all, begun by either.
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
    // Several at once: a store on the other side of a socket spends its time waiting.
    let outcomes: Vec<Result<()>> = thread::scope(|scope| {
        let talks: Vec<_> = read
            .iter()
            .map(|chat| scope.spawn(move || talk(store, *chat, size.messages, clock)))
            .collect();
        let ended = talks.into_iter().map(|talk| {
            talk.join()
                .unwrap_or_else(|_| Err(anyhow!("a thread that filled a chat ended in a bug")))
        });
        ended.collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    store.filled()?;
    Ok(read)
}

/// The members of a chat talk in turn.
fn talk(store: &dyn ChatStore, chat: Id, messages: u64, began: u64) -> Result<()> {
    let members = store.get_members(chat)?;
    for (number, member) in (0..messages).zip(members.iter().cycle()) {
        let text = format!("message number {number} of a long conversation");
        store.add_chat_message(chat, member.id, &text, began + number)?;
    }
    Ok(())
}
