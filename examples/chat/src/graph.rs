//! The chat on IsomerDB's query language: users, chats and messages are documents, membership is a relationship,
//! sessions are keys that expire.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
};

use anyhow::{Result, anyhow};
use isomerdb::{
    BucketOptions, Database, Durability as Commit, Error, ErrorKind, KvChangeKind, Map, Prepared,
    QueryResult, Value, WatchGuard, WatchScope, WriteTransaction, params,
};
use serde::de::DeserializeOwned;

use crate::{
    later::{self, Later},
    store::{Chat, ChatStore, Durability, Id, Listener, Member, Message, NewMessage, User},
};

/// Bucket that signals new messages: the number of the last one, by chat.
const SPOKEN: &str = "spoken";
const SESSIONS: &str = "sessions";
const NUMBERS: &str = "numbers";

/// The store.
pub struct GraphStore {
    db: Database,
    queries: Arc<Queries>,
    watching: Mutex<Vec<WatchGuard>>,
}

/// The prepared queries.
macro_rules! queries {
    ($($name:ident: $text:expr;)*) => {
        struct Queries { $($name: Prepared,)* }

        impl Queries {
            fn prepare(db: &Database) -> isomerdb::Result<Self> {
                Ok(Self { $($name: db.prepare($text)?,)* })
            }
        }
    };
}

queries! {
    chats: "MATCH (:User {_key: $user})-[:MEMBER_OF]->(c:Chat) \
        RETURN c._key, c.name, c.lastActivity, c.admin ORDER BY c.lastActivity DESC, c._key";
    user: "MATCH (u:User {username: $name}) RETURN u._key, u.password";
    private: "MATCH (:User {_key: $one})-[:MEMBER_OF]->(c:Chat)<-[:MEMBER_OF]-(:User {_key: $two}) \
        WHERE COUNT { (c)<-[:MEMBER_OF]-() } = 2 RETURN 1 LIMIT 1";
    first_messages: "MATCH (m:Message) WHERE m.chat = $chat AND m.id >= $from AND m.id < $to \
        RETURN m.id, m.sender, m.text, m.timestamp ORDER BY m.chat, m.id LIMIT $n";
    last_messages: "MATCH (m:Message) WHERE m.chat = $chat AND m.id < $to \
        RETURN m.id, m.sender, m.text, m.timestamp ORDER BY m.chat DESC, m.id DESC LIMIT $n";
    join: "MATCH (u:User {_key: $user}), (c:Chat {_key: $chat}) WHERE NOT EXISTS { (u)-[:MEMBER_OF]->(c) } \
        CREATE (u)-[:MEMBER_OF]->(c) RETURN 1";
    leave: "MATCH (:User {_key: $user})-[m:MEMBER_OF]->(:Chat {_key: $chat}) DELETE m RETURN 1";
    is_member: "MATCH (:User {_key: $user})-[:MEMBER_OF]->(:Chat {_key: $chat}) RETURN 1";
    say: "MATCH (c:Chat {_key: $chat}) WITH c, c.said + 1 AS id SET c += {said: id, lastActivity: $at} \
        CREATE (:Message {chat: $chat, id: id, sender: $sender, text: $text, timestamp: $at}) RETURN id";
    new_chat: "CREATE (c:Chat {_key: $id, name: $name, admin: $admin, lastActivity: $at, said: 0}) \
        WITH c UNWIND $members AS key WITH DISTINCT c, key MATCH (u:User {_key: key}) CREATE (u)-[:MEMBER_OF]->(c)";
    delete_chat: "MATCH (c:Chat {_key: $chat}) DETACH DELETE c RETURN 1";
    delete_messages: "MATCH (m:Message) WHERE m.chat = $chat DELETE m";
    chat: "MATCH (c:Chat {_key: $chat}) RETURN c._key, c.name, c.lastActivity, c.admin";
    new_user: "CREATE (:User {_key: $id, username: $name, password: $password})";
    begin_session: "CALL kv.put('sessions', $session, {user: $user, expiry: $expiry}, $left)";
    members: "MATCH (:Chat {_key: $chat})<-[:MEMBER_OF]-(u:User) RETURN u._key, u.username ORDER BY u._key";
}

impl Queries {
    /// Adds a message in a transaction; returns its number, or `None` if the chat does not exist.
    fn add_message(
        &self,
        tx: &WriteTransaction,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> isomerdb::Result<Option<Id>> {
        let message = params! { "chat" => number(chat), "sender" => number(sender), "text" => text, "at" => number(timestamp) };
        let Some((id,)) = one::<(Id,)>(&tx.query_prepared(&self.say, message)?)? else {
            return Ok(None);
        };
        // In the same transaction, so that the message is visible when the change of this bucket is reported.
        tx.bucket(SPOKEN).put(chat.to_be_bytes(), number(id))?;
        Ok(Some(id))
    }
}

impl GraphStore {
    /// Opens it, or creates it with its indexes.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let commit = match durability {
            Durability::Synced => Commit::Synced,
            Durability::Asynchronous => Commit::Buffered,
        };
        let db = Database::builder()
            .create(true)
            .durability(commit)
            .open(folder)?;
        for statement in [
            "CREATE CONSTRAINT username IF NOT EXISTS FOR (u:User) REQUIRE u.username IS UNIQUE",
            "CREATE INDEX said IF NOT EXISTS FOR (m:Message) ON (m.chat, m.id)",
        ] {
            db.query(statement)?;
        }
        for bucket in [SPOKEN, SESSIONS] {
            match db.transact(|tx| tx.bucket(bucket).create(BucketOptions::default())) {
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Self {
            queries: Arc::new(Queries::prepare(&db)?),
            db,
            watching: Mutex::default(),
        })
    }

    fn new_chat(
        &self,
        tx: &WriteTransaction,
        name: &str,
        admin: Id,
        members: &[Id],
        timestamp: u64,
    ) -> isomerdb::Result<Id> {
        let id = tx.bucket(NUMBERS).next_number("chats")?;
        let members: Vec<Value> = members.iter().copied().chain([admin]).map(number).collect();
        let new = params! { "id" => number(id), "name" => name, "admin" => number(admin), "at" => number(timestamp), "members" => members };
        tx.query_prepared(&self.queries.new_chat, new)?;
        Ok(id)
    }
}

/// Whether a query returns a row.
fn any(query: &Prepared, parameters: Map) -> Result<bool> {
    Ok(!query.query(parameters)?.is_empty())
}

/// The only row, if any.
fn one<T: DeserializeOwned>(rows: &QueryResult) -> isomerdb::Result<Option<T>> {
    rows.iter().next().map(|row| row.deserialize()).transpose()
}

fn number(id: Id) -> Value {
    Value::Int(i64::try_from(id).unwrap_or(i64::MAX))
}

fn chat((id, name, last_activity, admin): (Id, String, u64, Id)) -> Chat {
    Chat {
        id,
        name,
        last_activity,
        admin,
    }
}

impl ChatStore for GraphStore {
    fn get_chats(&self, user: Id) -> Result<Vec<Chat>> {
        let rows = self
            .queries
            .chats
            .query(params! { "user" => number(user) })?;
        Ok(rows.deserialize()?.into_iter().map(chat).collect())
    }

    fn get_user(&self, username: &str) -> Result<Option<User>> {
        let rows = self.queries.user.query(params! { "name" => username })?;
        Ok(one(&rows)?.map(|(id, password)| User {
            id,
            username: username.to_owned(),
            password,
        }))
    }

    fn exists_chat(&self, one: Id, two: Id) -> Result<bool> {
        let pair = params! { "one" => number(one), "two" => number(two) };
        Ok(one != two && any(&self.queries.private, pair)?)
    }

    fn get_chat_messages(
        &self,
        chat: Id,
        from: Option<Id>,
        to: Option<Id>,
        n: usize,
    ) -> Result<Vec<Message>> {
        let n = Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let mut wanted =
            params! { "chat" => number(chat), "to" => number(to.unwrap_or(u64::MAX)), "n" => n };
        let rows = match from {
            Some(from) => {
                wanted.insert("from", number(from));
                self.queries.first_messages.query(wanted)?
            }
            None => self.queries.last_messages.query(wanted)?,
        };
        let mut messages = Vec::with_capacity(rows.len());
        for row in &rows {
            let (id, sender, text, timestamp) = row.deserialize()?;
            messages.push(Message {
                id,
                sender,
                text,
                timestamp,
            });
        }
        if from.is_none() {
            messages.reverse();
        }
        Ok(messages)
    }

    fn add_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        let pair = params! { "user" => number(user), "chat" => number(chat) };
        any(&self.queries.join, pair)
    }

    fn remove_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        let pair = params! { "user" => number(user), "chat" => number(chat) };
        any(&self.queries.leave, pair)
    }

    fn check_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        let pair = params! { "user" => number(user), "chat" => number(chat) };
        any(&self.queries.is_member, pair)
    }

    fn add_chat_message(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        Ok(self
            .db
            .transact(|tx| self.queries.add_message(tx, chat, sender, text, timestamp))?)
    }

    fn add_chat_message_later(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Later<Result<Option<Id>>> {
        let (queries, text) = (self.queries.clone(), text.to_owned());
        let work =
            move |tx: &WriteTransaction| queries.add_message(tx, chat, sender, &text, timestamp);
        later::transact(self.db.clone(), work)
    }

    fn create_chat(&self, name: &str, admin: Id, members: &[Id], timestamp: u64) -> Result<Id> {
        Ok(self
            .db
            .transact(|tx| self.new_chat(tx, name, admin, members, timestamp))?)
    }

    fn create_private_chat(
        &self,
        name: &str,
        admin: Id,
        other: Id,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        Ok(self.db.transact(|tx| {
            let pair = params! { "one" => number(admin), "two" => number(other) };
            if !tx.query_prepared(&self.queries.private, pair)?.is_empty() {
                return Ok(None);
            }
            self.new_chat(tx, name, admin, &[other], timestamp)
                .map(Some)
        })?)
    }

    fn delete_chat(&self, chat: Id) -> Result<bool> {
        Ok(self.db.transact(|tx| {
            let gone = || params! { "chat" => number(chat) };
            let found = tx.query_prepared(&self.queries.delete_chat, gone())?;
            tx.query_prepared(&self.queries.delete_messages, gone())?;
            tx.bucket(SPOKEN).delete(chat.to_be_bytes())?;
            Ok(!found.is_empty())
        })?)
    }

    fn get_chat(&self, id: Id) -> Result<Option<Chat>> {
        let rows = self.queries.chat.query(params! { "chat" => number(id) })?;
        Ok(one(&rows)?.map(chat))
    }

    fn create_user(&self, username: &str, password: &str) -> Result<Option<Id>> {
        let made = self.db.transact(|tx| {
            let id = tx.bucket(NUMBERS).next_number("users")?;
            let user = params! { "id" => number(id), "name" => username, "password" => password };
            tx.query_prepared(&self.queries.new_user, user)?;
            Ok(id)
        });
        match made {
            Ok(id) => Ok(Some(id)),
            Err(error) if Error::kind(&error) == ErrorKind::Exists => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn get_user_from_session(&self, session: &str, now: u64) -> Result<Option<Id>> {
        // A key lookup needs no statement, although a statement wrote the key.
        let found = self.db.read(|tx| tx.bucket(SESSIONS).get(session))?;
        let number = |name| found.as_ref()?.as_map()?.get(name)?.as_int();
        let is_valid = number("expiry").is_some_and(|expiry| expiry.unsigned_abs() > now);
        Ok(number("user").filter(|_| is_valid).map(i64::unsigned_abs))
    }

    fn set_user_session(&self, session: &str, user: Id, expiry: u64) -> Result<()> {
        let left = expiry.saturating_sub(crate::now_ms()).max(1);
        let begun = params! { "session" => session, "user" => number(user), "expiry" => number(expiry), "left" => number(left) };
        self.queries.begin_session.query(begun)?;
        Ok(())
    }

    fn remove_session(&self, session: &str) -> Result<bool> {
        Ok(self.db.transact(|tx| {
            let sessions = tx.bucket(SESSIONS);
            let there = sessions.get(session)?.is_some();
            sessions.delete(session)?;
            Ok(there)
        })?)
    }

    fn get_members(&self, chat: Id) -> Result<Vec<Member>> {
        let rows = self
            .queries
            .members
            .query(params! { "chat" => number(chat) })?;
        let member = |(id, username)| Member { id, username };
        Ok(rows.deserialize()?.into_iter().map(member).collect())
    }

    fn waits(&self) -> bool {
        false
    }

    fn listen(&self, listener: Listener) -> Result<bool> {
        let heard = move |change: isomerdb::Result<isomerdb::KvChange>| {
            if let Ok(change) = change
                && let KvChangeKind::Put { key, value, .. } = change.kind
                && let (Ok(chat), Some(message)) = (<[u8; 8]>::try_from(&key[..]), value.as_int())
            {
                listener(NewMessage {
                    chat: Id::from_be_bytes(chat),
                    message: message.unsigned_abs(),
                });
            }
            ControlFlow::Continue(())
        };
        let watcher = self.db.on_change(SPOKEN, WatchScope::All, None, heard)?;
        let mut watching = self
            .watching
            .lock()
            .map_err(|_| anyhow!("a watcher panicked"))?;
        watching.push(watcher);
        Ok(true)
    }
}
