//! What a chat application asks of its store: the sixteen operations of the founding study, and what they mean.

use std::future;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::later::Later;

/// Number of a user, of a chat, of a message within its chat.
pub type Id = u64;

/// Somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Number.
    pub id: Id,
    /// Unique.
    pub username: String,
    /// Hash of the password.
    pub password: String,
}

/// A member of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Number.
    pub id: Id,
    /// Name.
    pub username: String,
}

/// A chat; one with exactly two members is private.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chat {
    /// Number.
    pub id: Id,
    /// For people.
    pub name: String,
    /// When something was last said, milliseconds since 1970.
    pub last_activity: u64,
    /// Who made it.
    pub admin: Id,
}

/// What was said. Numbers in a chat are adjacent and grow with time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Number within the chat, from 1.
    pub id: Id,
    /// Who said it.
    pub sender: Id,
    /// What.
    pub text: String,
    /// When, milliseconds since 1970.
    pub timestamp: u64,
}

/// Told to those who listen: a message was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// In which chat.
    pub chat: Id,
    /// Its number.
    pub message: Id,
}

/// Called with each new message.
pub type Listener = Box<dyn Fn(Said) + Send + Sync>;

/// The sixteen operations, and the one that two of them make together.
pub trait ChatStore: Send + Sync {
    /// The chats of a user, the one with the last activity first.
    fn get_chats(&self, user: Id) -> Result<Vec<Chat>>;
    /// The user of that name.
    fn get_user(&self, username: &str) -> Result<Option<User>>;
    /// Whether two users have a private chat.
    fn exists_chat(&self, one: Id, two: Id) -> Result<bool>;
    /// Messages in ascending order: from `from` (inclusive) up to `to` (exclusive), the first `n` of them; without `from`
    /// the last `n` before `to`.
    fn get_chat_messages(
        &self,
        chat: Id,
        from: Option<Id>,
        to: Option<Id>,
        n: usize,
    ) -> Result<Vec<Message>>;
    /// Whether the user was no member and is one now.
    fn add_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Whether the user was a member and is none now.
    fn remove_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Whether the user is a member.
    fn check_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Says something; the message's number, nothing where there is no such chat.
    fn add_chat_message(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Result<Option<Id>>;
    /// The same without waiting for the commit, where the store can do that.
    fn add_chat_message_later(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Later<Result<Option<Id>>> {
        let added = self.add_chat_message(chat, sender, text, timestamp);
        Box::pin(future::ready(added))
    }
    /// Makes a chat with these members and its admin.
    fn create_chat(&self, name: &str, admin: Id, members: &[Id], timestamp: u64) -> Result<Id>;
    /// Makes a chat of two, unless they have one already: both in one transaction, so that two who ask at once get one chat.
    fn create_private_chat(
        &self,
        name: &str,
        admin: Id,
        other: Id,
        timestamp: u64,
    ) -> Result<Option<Id>>;
    /// Deletes a chat with all that was said in it; whether it was there.
    fn delete_chat(&self, chat: Id) -> Result<bool>;
    /// A chat.
    fn get_chat(&self, chat: Id) -> Result<Option<Chat>>;
    /// Makes a user; nothing where the name is taken.
    fn create_user(&self, username: &str, password: &str) -> Result<Option<Id>>;
    /// Whose session this is, unless it has ended.
    fn get_user_from_session(&self, session: &str, now: u64) -> Result<Option<Id>>;
    /// Begins a session, or prolongs it.
    fn set_user_session(&self, session: &str, user: Id, expiry: u64) -> Result<()>;
    /// Ends a session; whether there was one.
    fn remove_session(&self, session: &str) -> Result<bool>;
    /// The members of a chat, in ascending order of their numbers.
    fn get_members(&self, chat: Id) -> Result<Vec<Member>>;

    /// Does what the store's manual advises after so much was written.
    fn filled(&self) -> Result<()> {
        Ok(())
    }

    /// Whether reading waits for somebody, a server or another thread: then others can be at work meanwhile.
    fn waits(&self) -> bool {
        true
    }

    /// Follows new messages through the store's own change feed, from now on; false where the store has none, and whoever
    /// writes has to tell.
    fn listen(&self, _listener: Listener) -> Result<bool> {
        Ok(false)
    }
}

/// When a commit is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk.
    Synced,
    /// In the operating system's hands, or soon there.
    Asynchronous,
}
