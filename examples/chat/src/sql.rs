//! The chat on PostgreSQL: plain SQL, one round trip per operation if SQL can express it, prepared on every
//! connection.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use postgres::{Client, NoTls, Row};

use crate::store::{Chat, ChatStore, Durability, Id, Member, Message, User};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS users (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, username text UNIQUE NOT NULL, password text NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (id text PRIMARY KEY, user_id bigint NOT NULL, expiry bigint NOT NULL);
CREATE INDEX IF NOT EXISTS sessions_end ON sessions (expiry);
CREATE TABLE IF NOT EXISTS chats (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, last_activity bigint NOT NULL, admin bigint NOT NULL, said bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS members (chat bigint REFERENCES chats ON DELETE CASCADE, user_id bigint REFERENCES users ON DELETE CASCADE, PRIMARY KEY (user_id, chat));
CREATE INDEX IF NOT EXISTS members_of ON members (chat);
CREATE TABLE IF NOT EXISTS messages (chat bigint REFERENCES chats ON DELETE CASCADE, id bigint, sender bigint NOT NULL, body text NOT NULL, timestamp bigint NOT NULL, PRIMARY KEY (chat, id));
";

const CHATS: &str = "SELECT c.id, c.name, c.last_activity, c.admin FROM members m JOIN chats c ON c.id = m.chat WHERE m.user_id = $1 ORDER BY c.last_activity DESC, c.id";
const SAY: &str = "WITH c AS (UPDATE chats SET said = said + 1, last_activity = $4 WHERE id = $1 RETURNING said) \
    INSERT INTO messages SELECT $1, c.said, $2, $3, $4 FROM c RETURNING id";
const FIRST: &str = "SELECT id, sender, body, timestamp FROM messages WHERE chat = $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4";
const LAST: &str = "SELECT id, sender, body, timestamp FROM messages WHERE chat = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
const SESSION: &str = "SELECT user_id FROM sessions WHERE id = $1 AND expiry > $2";
const PRIVATE: &str = "SELECT 1 FROM members a JOIN members b ON a.chat = b.chat WHERE a.user_id = $1 AND b.user_id = $2 AND $1 <> $2 \
    AND (SELECT count(*) FROM members m WHERE m.chat = a.chat) = 2 LIMIT 1";
const NEW_CHAT: &str =
    "INSERT INTO chats (name, last_activity, admin) VALUES ($1, $2, $3) RETURNING id";
const JOIN: &str = "INSERT INTO members SELECT DISTINCT $1::bigint, u.id FROM users u WHERE u.id = ANY($2::bigint[])";
const MEMBER: &str = "SELECT 1 FROM members WHERE chat = $1 AND user_id = $2";

struct Connection {
    client: Client,
    statements: std::collections::HashMap<&'static str, postgres::Statement>,
}

impl Connection {
    fn rows(
        &mut self,
        text: &'static str,
        parameters: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        if !self.statements.contains_key(text) {
            self.statements.insert(text, self.client.prepare(text)?);
        }
        Ok(self.client.query(&self.statements[text], parameters)?)
    }
}

/// The store: a pool of connections.
pub struct SqlStore {
    parameters: String,
    durability: Durability,
    free: Mutex<Vec<Connection>>,
    given_back: Condvar,
}

const CONNECTIONS: usize = 16;

/// A pooled connection, returned when dropped.
struct PooledConnection<'s> {
    store: &'s SqlStore,
    connection: Option<Connection>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        self.store.lock().extend(self.connection.take());
        self.store.given_back.notify_one();
    }
}

impl SqlStore {
    /// Connects to an empty database or an earlier one of the chat; `parameters` as in libpq.
    pub fn connect(parameters: &str, durability: Durability) -> Result<Self> {
        let store = Self {
            parameters: parameters.to_owned(),
            durability,
            free: Mutex::default(),
            given_back: Condvar::new(),
        };
        let mut connections = Vec::new();
        for at in 0..CONNECTIONS {
            let mut connection = store.open()?;
            if at == 0 {
                connection.client.batch_execute(TABLES)?;
            }
            connections.push(connection);
        }
        *store.lock() = connections;
        Ok(store)
    }

    fn open(&self) -> Result<Connection> {
        let mut client = Client::connect(&self.parameters, NoTls)?;
        let mode = match self.durability {
            Durability::Synced => "on",
            Durability::Asynchronous => "off",
        };
        client.batch_execute(&format!("SET synchronous_commit = {mode}"))?;
        Ok(Connection {
            client,
            statements: Default::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses a connection, which is always returned; one that PostgreSQL has closed is reopened.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut free = self.lock();
        let connection = loop {
            match free.pop() {
                Some(connection) => break connection,
                None => {
                    let waiting = self.given_back.wait(free);
                    free = waiting.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(free);
        let mut lent = PooledConnection {
            store: self,
            connection: Some(connection),
        };
        let connection = lent
            .connection
            .as_mut()
            .expect("it is present until dropped");
        if connection.client.is_closed() {
            *connection = self.open()?;
        }
        work(connection)
    }

    fn rows(
        &self,
        text: &'static str,
        parameters: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        self.with(|connection| connection.rows(text, parameters))
    }
}

fn number(id: Id) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

fn id(row: &Row, at: usize) -> Id {
    row.get::<_, i64>(at).unsigned_abs()
}

fn chat(row: &Row) -> Chat {
    Chat {
        id: id(row, 0),
        name: row.get(1),
        last_activity: id(row, 2),
        admin: id(row, 3),
    }
}

fn new_chat(
    transaction: &mut postgres::Transaction<'_>,
    name: &str,
    admin: Id,
    members: &[Id],
    timestamp: u64,
) -> Result<Id> {
    let members: Vec<i64> = members.iter().copied().chain([admin]).map(number).collect();
    let row = transaction.query_one(NEW_CHAT, &[&name, &number(timestamp), &number(admin)])?;
    transaction.execute(JOIN, &[&row.get::<_, i64>(0), &members])?;
    Ok(id(&row, 0))
}

impl ChatStore for SqlStore {
    fn filled(&self) -> Result<()> {
        // Without statistics, the plans of the first minute differ from the later ones: autovacuum runs later.
        self.with(|connection| Ok(connection.client.batch_execute("VACUUM ANALYZE")?))
    }

    fn get_chats(&self, user: Id) -> Result<Vec<Chat>> {
        Ok(self
            .rows(CHATS, &[&number(user)])?
            .iter()
            .map(chat)
            .collect())
    }

    fn get_user(&self, username: &str) -> Result<Option<User>> {
        let rows = self.rows(
            "SELECT id, password FROM users WHERE username = $1",
            &[&username],
        )?;
        Ok(rows.first().map(|row| User {
            id: id(row, 0),
            username: username.to_owned(),
            password: row.get(1),
        }))
    }

    fn exists_chat(&self, one: Id, two: Id) -> Result<bool> {
        Ok(!self
            .rows(PRIVATE, &[&number(one), &number(two)])?
            .is_empty())
    }

    fn get_chat_messages(
        &self,
        chat: Id,
        from: Option<Id>,
        to: Option<Id>,
        n: usize,
    ) -> Result<Vec<Message>> {
        let (to, n) = (
            to.map_or(i64::MAX, number),
            i64::try_from(n).unwrap_or(i64::MAX),
        );
        let rows = match from {
            Some(from) => self.rows(FIRST, &[&number(chat), &number(from), &to, &n])?,
            None => self.rows(LAST, &[&number(chat), &to, &n])?,
        };
        let message = |row: &Row| Message {
            id: id(row, 0),
            sender: id(row, 1),
            text: row.get(2),
            timestamp: id(row, 3),
        };
        let mut messages: Vec<Message> = rows.iter().map(message).collect();
        if from.is_none() {
            messages.reverse();
        }
        Ok(messages)
    }

    fn add_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        let text = "INSERT INTO members SELECT c.id, u.id FROM chats c, users u WHERE c.id = $1 AND u.id = $2 ON CONFLICT DO NOTHING RETURNING 1";
        Ok(!self.rows(text, &[&number(chat), &number(user)])?.is_empty())
    }

    fn remove_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        let text = "DELETE FROM members WHERE chat = $1 AND user_id = $2 RETURNING 1";
        Ok(!self.rows(text, &[&number(chat), &number(user)])?.is_empty())
    }

    fn check_chat_member(&self, chat: Id, user: Id) -> Result<bool> {
        Ok(!self
            .rows(MEMBER, &[&number(chat), &number(user)])?
            .is_empty())
    }

    fn add_chat_message(
        &self,
        chat: Id,
        sender: Id,
        text: &str,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        let rows = self.rows(
            SAY,
            &[&number(chat), &number(sender), &text, &number(timestamp)],
        )?;
        Ok(rows.first().map(|row| id(row, 0)))
    }

    fn create_chat(&self, name: &str, admin: Id, members: &[Id], timestamp: u64) -> Result<Id> {
        self.with(|connection| {
            let mut transaction = connection.client.transaction()?;
            let made = new_chat(&mut transaction, name, admin, members, timestamp)?;
            transaction.commit()?;
            Ok(made)
        })
    }

    fn create_private_chat(
        &self,
        name: &str,
        admin: Id,
        other: Id,
        timestamp: u64,
    ) -> Result<Option<Id>> {
        let pair = format!("{}:{}", admin.min(other), admin.max(other));
        self.with(|connection| {
            let mut transaction = connection.client.transaction()?;
            // Serialises concurrent requests for the same pair.
            let turn = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            transaction.execute(turn, &[&pair])?;
            let found = transaction.query(PRIVATE, &[&number(admin), &number(other)])?;
            if !found.is_empty() {
                return Ok(None);
            }
            let made = new_chat(&mut transaction, name, admin, &[other], timestamp)?;
            transaction.commit()?;
            Ok(Some(made))
        })
    }

    fn delete_chat(&self, chat: Id) -> Result<bool> {
        Ok(!self
            .rows(
                "DELETE FROM chats WHERE id = $1 RETURNING 1",
                &[&number(chat)],
            )?
            .is_empty())
    }

    fn get_chat(&self, id: Id) -> Result<Option<Chat>> {
        let rows = self.rows(
            "SELECT id, name, last_activity, admin FROM chats WHERE id = $1",
            &[&number(id)],
        )?;
        Ok(rows.first().map(chat))
    }

    fn create_user(&self, username: &str, password: &str) -> Result<Option<Id>> {
        let text = "INSERT INTO users (username, password) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id";
        Ok(self
            .rows(text, &[&username, &password])?
            .first()
            .map(|row| id(row, 0)))
    }

    fn get_user_from_session(&self, session: &str, now: u64) -> Result<Option<Id>> {
        Ok(self
            .rows(SESSION, &[&session, &number(now)])?
            .first()
            .map(|row| id(row, 0)))
    }

    fn set_user_session(&self, session: &str, user: Id, expiry: u64) -> Result<()> {
        // A few ended sessions are deleted with each new one, so that they do not accumulate.
        let text = "WITH ended AS (DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expiry < $4 AND id <> $1 ORDER BY expiry LIMIT 10 FOR UPDATE SKIP LOCKED)) \
            INSERT INTO sessions VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET user_id = $2, expiry = $3";
        let now = number(crate::now_ms());
        self.rows(text, &[&session, &number(user), &number(expiry), &now])?;
        Ok(())
    }

    fn remove_session(&self, session: &str) -> Result<bool> {
        Ok(!self
            .rows(
                "DELETE FROM sessions WHERE id = $1 RETURNING 1",
                &[&session],
            )?
            .is_empty())
    }

    fn get_members(&self, chat: Id) -> Result<Vec<Member>> {
        let rows = self.rows(
            "SELECT u.id, u.username FROM members m JOIN users u ON u.id = m.user_id WHERE m.chat = $1 ORDER BY u.id",
            &[&number(chat)],
        )?;
        let member = |row: &Row| Member {
            id: id(row, 0),
            username: row.get(1),
        };
        Ok(rows.iter().map(member).collect())
    }
}
