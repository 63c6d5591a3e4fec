//! The interface of a chat application to its store: the sixteen operations of the founding study.

use std::future;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::later::Later;

/// Number of a user, of a chat, of a message within its chat.
pub type Id = u64;

/// A user.
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
    /// Display name.
    pub name: String,
    /// Time of the last message, milliseconds since 1970.
    pub last_activity: u64,
    /// The creator.
    pub admin: Id,
}

/// A message. Numbers in a chat are consecutive and grow with time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Number within the chat, from 1.
    pub id: Id,
    /// The sender.
    pub sender: Id,
    /// The text.
    pub text: String,
    /// Time, milliseconds since 1970.
    pub timestamp: u64,
}

/// Notification of a committed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The chat.
    pub chat: Id,
    /// Its number.
    pub message: Id,
}

/// Called with each new message.
pub type Listener = Box<dyn Fn(NewMessage) + Send + Sync>;

/// The sixteen operations, and one that combines two of them.
pub trait ChatStore: Send + Sync {
    /// The chats of a user, the one with the last activity first.
    fn get_chats(&self, user: Id) -> Result<Vec<Chat>>;
    /// The user of that name.
    fn get_user(&self, username: &str) -> Result<Option<User>>;
    /// Whether two users have a private chat.
    fn exists_chat(&self, one: Id, two: Id) -> Result<bool>;
    /// Messages in ascending order: the first `n` of `from..to`; without `from` the last `n` before `to`.
    fn get_chat_messages(
        &self,
        chat: Id,
        from: Option<Id>,
        to: Option<Id>,
        n: usize,
    ) -> Result<Vec<Message>>;
    /// Adds a member; false if it was one already.
    fn add_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Removes a member; false if it was not one.
    fn remove_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Whether the user is a member.
    fn check_chat_member(&self, chat: Id, user: Id) -> Result<bool>;
    /// Adds a message; returns its number, or `None` if the chat does not exist.
    fn add_chat_message(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Result<Option<Id>>;
    /// Like [`ChatStore::add_chat_message`], without blocking on the commit if the store supports that.
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
    /// Creates a chat with these members and its admin.
    fn create_chat(&self, name: &str, admin: Id, members: &[Id], timestamp: u64) -> Result<Id>;
    /// Creates a chat of two, unless they have one: in one transaction, so that concurrent requests create one chat.
    fn create_private_chat(
        &self,
        name: &str,
        admin: Id,
        other: Id,
        timestamp: u64,
    ) -> Result<Option<Id>>;
    /// Deletes a chat with its messages; false if it did not exist.
    fn delete_chat(&self, chat: Id) -> Result<bool>;
    /// A chat.
    fn get_chat(&self, chat: Id) -> Result<Option<Chat>>;
    /// Creates a user; `None` if the name is taken.
    fn create_user(&self, username: &str, password: &str) -> Result<Option<Id>>;
    /// The user of a session, unless it has ended.
    fn get_user_from_session(&self, session: &str, now: u64) -> Result<Option<Id>>;
    /// Begins or prolongs a session.
    fn set_user_session(&self, session: &str, user: Id, expiry: u64) -> Result<()>;
    /// Ends a session; false if it did not exist.
    fn remove_session(&self, session: &str) -> Result<bool>;
    /// The members of a chat, in ascending order of their numbers.
    fn get_members(&self, chat: Id) -> Result<Vec<Member>>;

    /// Maintenance that the store's manual recommends after bulk writes.
    fn filled(&self) -> Result<()> {
        Ok(())
    }

    /// Whether reading blocks on a server or another thread, so that other requests can run in the meantime.
    fn waits(&self) -> bool {
        true
    }

    /// Follows new messages through the store's own change feed, from now on; false if the store has none, so that
    /// writers must notify listeners.
    fn listen(&self, _listener: Listener) -> Result<bool> {
        Ok(false)
    }
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk.
    Synced,
    /// When it is in the operating system's buffers, or soon will be.
    Asynchronous,
}
