//! The chat in the study's key design, on any ordered store of keys and values.
//!
//! | key | value |
//! |---|---|
//! | `user:$user:username`, `user:$user:password` | texts |
//! | `user:$user:chats` | numbers of the chats where the user is a member, with commas between them |
//! | `username:$username:userId` | number |
//! | `session:$session:expiry`, `session:$session:userId` | numbers |
//! | `sessions:$expiry:$session` | the session: those that have ended first (not the study's, whose sessions stay for ever) |
//! | `chat:$chat:name`, `chat:$chat:lastActivity`, `chat:$chat:admin` | text, numbers |
//! | `chat:$chat:members` | numbers of the members, with commas between them |
//! | `chat:$chat:messages:nextId` | number of the next message |
//! | `chat:$chat:message:$message` | the message, as JSON (the study's aggregated form) |
//! | `users:nextId`, `chats:nextId` | numbers |
//!
//! Numbers in keys have twelve digits, so that the order of keys is theirs.

use std::future;

use anyhow::{Context, Result};

use crate::{
    later::Later,
    store::{Chat, ChatStore, Id, Listener, Member, Message, NewMessage, User},
};

/// Operations of a transaction.
pub trait Keys {
    /// The value of a key.
    fn get(&mut self, key: &str) -> Result<Option<String>>;
    /// Calls with the index and the value of each of these keys that exists: in one batch, if the store supports
    /// that.
    fn visit_many(
        &mut self,
        keys: &[&str],
        visit: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = self.get(key)? {
                visit(at, &value)?;
            }
        }
        Ok(())
    }
    /// Puts a value.
    fn put(&mut self, key: &str, value: &str) -> Result<()>;
    /// Deletes a key.
    fn delete(&mut self, key: &str) -> Result<()>;
    /// Keys in `from..to` with their values, the first `limit` of them; this transaction's own writes need not be
    /// included.
    fn range(&mut self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, String)>>;
}

/// An ordered store with transactions.
pub trait KeyStore: Send + Sync {
    /// Runs a writing transaction atomically.
    fn transact<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T>;
    /// Runs a reading transaction.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T>;
    /// Runs a writing transaction, without blocking until its commit if the store supports that.
    fn transact_later<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Later<Result<T>> {
        Box::pin(future::ready(self.transact(work)))
    }
    /// Whether reading blocks on a server or another thread.
    fn waits(&self) -> bool;
    /// Calls with each key that is put below `chat:`, from now on; false if the store has no feed.
    fn follow(&self, _heard: Box<dyn Fn(&str) + Send + Sync>) -> Result<bool> {
        Ok(false)
    }
}

/// The chat on such a store.
pub struct KeyedChat<S>(pub S);

/// Ended sessions that are deleted when one begins.
const ENDED_AT_ONCE: usize = 10;

/// Above all numbers.
const LAST: Id = 999_999_999_999;

/// `$kind:$number:$field`, built without formatting: a chat list needs twenty of them.
fn key(kind: &str, number: Id, field: &str) -> String {
    let digits = number.to_string();
    let zeros = &"000000000000"[digits.len().min(12)..];
    [kind, ":", zeros, &digits, ":", field].concat()
}

fn user_key(user: Id, field: &str) -> String {
    key("user", user, field)
}
fn chat_key(chat: Id, field: &str) -> String {
    key("chat", chat, field)
}
fn message_key(chat: Id, message: Id) -> String {
    format!("chat:{chat:012}:message:{message:012}")
}

fn number(text: &str) -> Result<Id> {
    text.parse()
        .with_context(|| format!("`{text}` is stored where a number is expected"))
}

fn number_at(keys: &mut dyn Keys, key: &str) -> Result<Option<Id>> {
    keys.get(key)?.map(|text| number(&text)).transpose()
}

fn list_at(keys: &mut dyn Keys, key: &str) -> Result<Vec<Id>> {
    let text = keys.get(key)?.unwrap_or_default();
    text.split(',')
        .filter(|one| !one.is_empty())
        .map(number)
        .collect()
}

fn put_list(keys: &mut dyn Keys, key: &str, list: &[Id]) -> Result<()> {
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    keys.put(key, &texts.join(","))
}

/// The next number of a sequence stored under a key, from 1.
fn next_number(keys: &mut dyn Keys, key: &str) -> Result<Id> {
    let next = number_at(keys, key)?.unwrap_or(1);
    keys.put(key, &(next + 1).to_string())?;
    Ok(next)
}

/// Those of these chats that exist.
fn read_chats(keys: &mut dyn Keys, chats: &[Id]) -> Result<Vec<Chat>> {
    const PARTS: [&str; 3] = ["admin", "lastActivity", "name"];
    // One buffer for all of them, as they are many and small.
    let (mut text, mut ends) = (String::with_capacity(chats.len() * 96), vec![0]);
    for chat in chats {
        let prefix = chat_key(*chat, "");
        for part in PARTS {
            text.extend([&prefix, part]);
            ends.push(text.len());
        }
    }
    let each = ends.windows(2).map(|ends| &text[ends[0]..ends[1]]);
    let wanted: Vec<&str> = each.collect();
    let mut read = vec![(0, 0, None); chats.len()];
    keys.visit_many(&wanted, &mut |at, value| {
        let (admin, last_activity, name) = &mut read[at / PARTS.len()];
        match at % PARTS.len() {
            0 => *admin = number(value)?,
            1 => *last_activity = number(value)?,
            _ => *name = Some(value.to_owned()),
        }
        Ok(())
    })?;
    let each = chats.iter().zip(read);
    let there = each.filter_map(|(id, (admin, last_activity, name))| {
        Some(Chat {
            id: *id,
            name: name?,
            last_activity,
            admin,
        })
    });
    Ok(there.collect())
}

fn read_chat(keys: &mut dyn Keys, chat: Id) -> Result<Option<Chat>> {
    Ok(read_chats(keys, &[chat])?.pop())
}

/// Whether two users have a private chat.
fn have_chat(keys: &mut dyn Keys, one: Id, two: Id) -> Result<bool> {
    for chat in list_at(keys, &user_key(one, "chats"))? {
        let members = list_at(keys, &chat_key(chat, "members"))?;
        if members.len() == 2 && members.contains(&one) && members.contains(&two) && one != two {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates a chat with these members.
fn put_chat(keys: &mut dyn Keys, name: &str, admin: Id, all: &[Id], timestamp: u64) -> Result<Id> {
    let id = next_number(keys, "chats:nextId")?;
    keys.put(&chat_key(id, "name"), name)?;
    keys.put(&chat_key(id, "admin"), &admin.to_string())?;
    keys.put(&chat_key(id, "lastActivity"), &timestamp.to_string())?;
    let mut known = Vec::new();
    for user in all {
        if keys.get(&user_key(*user, "username"))?.is_none() {
            continue;
        }
        known.push(*user);
        let mut chats = list_at(keys, &user_key(*user, "chats"))?;
        chats.push(id);
        put_list(keys, &user_key(*user, "chats"), &chats)?;
    }
    put_list(keys, &chat_key(id, "members"), &known)?;
    Ok(id)
}

/// Appends a message to its chat; returns its number, or `None` if the chat does not exist.
fn put_message(
    keys: &mut dyn Keys,
    chat: Id,
    sender: Id,
    text: &str,
    timestamp: u64,
) -> Result<Option<Id>> {
    if keys.get(&chat_key(chat, "name"))?.is_none() {
        return Ok(None);
    }
    let id = next_number(keys, &chat_key(chat, "messages:nextId"))?;
    let message = Message {
        id,
        sender,
        text: text.to_owned(),
        timestamp,
    };
    keys.put(&message_key(chat, id), &serde_json::to_string(&message)?)?;
    keys.put(&chat_key(chat, "lastActivity"), &timestamp.to_string())?;
    Ok(Some(id))
}

/// Deletes a session; returns whether it existed.
fn take_session(keys: &mut dyn Keys, session: &str) -> Result<bool> {
    let key = format!("session:{session}:expiry");
    let Some(expiry) = number_at(keys, &key)? else {
        return Ok(false);
    };
    keys.delete(&key)?;
    keys.delete(&format!("session:{session}:userId"))?;
    keys.delete(&expiry_key(expiry, session))?;
    Ok(true)
}

fn expiry_key(expiry: u64, session: &str) -> String {
    format!("sessions:{expiry:015}:{session}")
}

impl<S: KeyStore> ChatStore for KeyedChat<S> {
    fn get_chats(&self, user: Id) -> Result<Vec<Chat>> {
        self.0.read(move |keys| {
            let list = list_at(keys, &user_key(user, "chats"))?;
            let mut chats = read_chats(keys, &list)?;
            chats.sort_by_key(|chat| (std::cmp::Reverse(chat.last_activity), chat.id));
            Ok(chats)
        })
    }

    fn get_user(&self, username: &str) -> Result<Option<User>> {
        let username = username.to_owned();
        self.0.read(move |keys| {
            let Some(id) = number_at(keys, &format!("username:{username}:userId"))? else {
                return Ok(None);
            };
            let password = keys.get(&user_key(id, "password"))?.unwrap_or_default();
            Ok(Some(User {
                id,
                username: username.clone(),
                password,
            }))
        })
    }

    fn exists_chat(&self, one: Id, two: Id) -> Result<bool> {
        self.0.read(move |keys| have_chat(keys, one, two))
    }

    fn get_chat_messages(
        &self,
        chat: Id,
        from: Option<Id>,
        to: Option<Id>,
        n: usize,
    ) -> Result<Vec<Message>> {
        self.0.read(move |keys| {
            // Numbers are consecutive: the position of the last n is known without reading them.
            let (first, last) = match from {
                Some(from) => (from, to.unwrap_or(LAST)),
                None => {
                    let next = number_at(keys, &chat_key(chat, "messages:nextId"))?.unwrap_or(1);
                    let last = to.map_or(next, |to| to.min(next));
                    (last.saturating_sub(n as Id), last)
                }
            };
            let found = keys.range(&message_key(chat, first), &message_key(chat, last), n)?;
            found
                .iter()
                .map(|(_, text)| Ok(serde_json::from_str(text)?))
                .collect()
        })
    }

    fn add_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        self.0.transact(move |keys| {
            if read_chat(keys, chat)?.is_none() || keys.get(&user_key(user, "username"))?.is_none()
            {
                return Ok(false);
            }
            let mut members = list_at(keys, &chat_key(chat, "members"))?;
            if members.contains(&user) {
                return Ok(false);
            }
            members.push(user);
            put_list(keys, &chat_key(chat, "members"), &members)?;
            let mut chats = list_at(keys, &user_key(user, "chats"))?;
            chats.push(chat);
            put_list(keys, &user_key(user, "chats"), &chats)?;
            Ok(true)
        })
    }

    fn remove_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        self.0.transact(move |keys| {
            let mut members = list_at(keys, &chat_key(chat, "members"))?;
            let before = members.len();
            members.retain(|member| *member != user);
            if members.len() == before {
                return Ok(false);
            }
            put_list(keys, &chat_key(chat, "members"), &members)?;
            let mut chats = list_at(keys, &user_key(user, "chats"))?;
            chats.retain(|one| *one != chat);
            put_list(keys, &user_key(user, "chats"), &chats)?;
            Ok(true)
        })
    }

    fn check_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        self.0
            .read(move |keys| Ok(list_at(keys, &chat_key(chat, "members"))?.contains(&user)))
    }

    fn add_chat_message(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        let text = text.to_owned();
        self.0
            .transact(move |keys| put_message(keys, chat, sender, &text, timestamp))
    }

    fn add_chat_message_later(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Later<Result<Option<Id>>> {
        let text = text.to_owned();
        let work = move |keys: &mut dyn Keys| put_message(keys, chat, sender, &text, timestamp);
        self.0.transact_later(work)
    }

    fn create_chat(&self, name: &str, admin: Id, members: &[Id], timestamp: u64) -> Result<Id> {
        let (name, mut all) = (name.to_owned(), members.to_vec());
        all.push(admin);
        all.sort_unstable();
        all.dedup();
        self.0
            .transact(move |keys| put_chat(keys, &name, admin, &all, timestamp))
    }

    fn create_private_chat(
        &self,
        name: &str,
        admin: Id,
        other: Id,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        let name = name.to_owned();
        self.0.transact(move |keys| {
            if have_chat(keys, admin, other)? {
                return Ok(None);
            }
            put_chat(keys, &name, admin, &[admin, other], timestamp).map(Some)
        })
    }

    fn delete_chat(&self, chat: Id) -> Result<bool> {
        self.0.transact(move |keys| {
            let there = read_chat(keys, chat)?.is_some();
            for user in list_at(keys, &chat_key(chat, "members"))? {
                let mut chats = list_at(keys, &user_key(user, "chats"))?;
                chats.retain(|one| *one != chat);
                put_list(keys, &user_key(user, "chats"), &chats)?;
            }
            for (key, _) in
                keys.range(&chat_key(chat, ""), &chat_key(chat, "\u{7f}"), usize::MAX)?
            {
                keys.delete(&key)?;
            }
            Ok(there)
        })
    }

    fn get_chat(&self, chat: Id) -> Result<Option<Chat>> {
        self.0.read(move |keys| read_chat(keys, chat))
    }

    fn create_user(&self, username: &str, password: &str) -> Result<Option<Id>> {
        let (username, password) = (username.to_owned(), password.to_owned());
        self.0.transact(move |keys| {
            let name_key = format!("username:{username}:userId");
            if keys.get(&name_key)?.is_some() {
                return Ok(None);
            }
            let id = next_number(keys, "users:nextId")?;
            keys.put(&name_key, &id.to_string())?;
            keys.put(&user_key(id, "username"), &username)?;
            keys.put(&user_key(id, "password"), &password)?;
            Ok(Some(id))
        })
    }

    fn get_user_from_session(&self, session: &str, now: u64) -> Result<Option<Id>> {
        let session = session.to_owned();
        self.0.read(move |keys| {
            let expiry = number_at(keys, &format!("session:{session}:expiry"))?;
            if expiry.is_none_or(|expiry| expiry <= now) {
                return Ok(None);
            }
            number_at(keys, &format!("session:{session}:userId"))
        })
    }

    fn set_user_session(&self, session: &str, user: Id, expiry: u64) -> Result<()> {
        let session = session.to_owned();
        self.0.transact(move |keys| {
            // A few ended sessions are deleted with each new one, so that they do not accumulate.
            let over = keys.range(
                &expiry_key(0, ""),
                &expiry_key(crate::now_ms(), ""),
                ENDED_AT_ONCE,
            )?;
            for (_, ended) in over {
                take_session(keys, &ended)?;
            }
            take_session(keys, &session)?;
            keys.put(&format!("session:{session}:expiry"), &expiry.to_string())?;
            keys.put(&format!("session:{session}:userId"), &user.to_string())?;
            keys.put(&expiry_key(expiry, &session), &session)
        })
    }

    fn remove_session(&self, session: &str) -> Result<bool> {
        let session = session.to_owned();
        self.0.transact(move |keys| take_session(keys, &session))
    }

    fn get_members(&self, chat: Id) -> Result<Vec<Member>> {
        self.0.read(move |keys| {
            let mut members = list_at(keys, &chat_key(chat, "members"))?;
            members.sort_unstable();
            let named = members.into_iter().map(|id| {
                let username = keys.get(&user_key(id, "username"))?.unwrap_or_default();
                Ok(Member { id, username })
            });
            named.collect()
        })
    }

    fn waits(&self) -> bool {
        self.0.waits()
    }

    fn listen(&self, listener: Listener) -> Result<bool> {
        self.0.follow(Box::new(move |key| {
            let mut parts = key.split(':');
            if let (Some("chat"), Some(chat), Some("message"), Some(message)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
                && let (Ok(chat), Ok(message)) = (chat.parse(), message.parse())
            {
                listener(NewMessage { chat, message });
            }
        }))
    }
}
