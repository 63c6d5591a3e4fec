//! The front: a small HTTP interface, and the page that uses it.
//!
//! A session is a cookie that scripts cannot read (`HttpOnly`, `SameSite=Strict`), or the header `Session` of a
//! program. Bodies must have the content type JSON, which a form of another site cannot send.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    feed::{self, Hub},
    front::{Answer, Handler, Reply, Request},
    later, now_ms,
    passwords::{Busy, Passwords},
    store::{ChatStore, Id},
};

const SESSION_MS: u64 = 7 * 24 * 3_600_000;
const COOKIE: &str = "chat_session";
const MOST_TEXT: usize = 4_000;
const MOST_NAME: usize = 200;
const MOST_MEMBERS: usize = 100;
/// Maximum number of messages in one answer.
const MOST_MESSAGES: usize = 1_000;

/// Workers for a store whose calls block: as many as it can serve concurrently.
const WAITING_WORKERS: usize = 16;

/// The chat application over a store.
pub struct App {
    store: Arc<dyn ChatStore>,
    hub: Arc<Hub>,
    passwords: Arc<Passwords>,
    /// Whether the store itself reports new messages; unset before the first listener.
    feed: OnceLock<bool>,
    /// Locked while the feed starts.
    beginning: Mutex<()>,
}

/// An error answer.
pub struct Failure(u16, String);

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        eprintln!("a request failed: {error:#}");
        Self(500, "the store failed: see the server's log".into())
    }
}

impl From<Failure> for Answer {
    fn from(Failure(status, text): Failure) -> Self {
        Self::error(status, &text)
    }
}

type Outcome<T> = Result<T, Failure>;

fn refuse<T>(status: u16, text: impl Into<String>) -> Outcome<T> {
    Err(Failure(status, text.into()))
}

fn json_body(status: u16, body: &impl Serialize) -> Outcome<Answer> {
    Ok(Answer {
        status,
        content_type: "application/json",
        fields: Vec::new(),
        body: serde_json::to_vec(body).map_err(anyhow::Error::from)?,
    })
}

fn done() -> Answer {
    Answer {
        status: 204,
        content_type: "",
        fields: Vec::new(),
        body: Vec::new(),
    }
}

fn page(content_type: &'static str, text: &'static str) -> Answer {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    Answer {
        status: 200,
        content_type,
        fields: vec![
            ("Content-Security-Policy", policy.into()),
            ("Referrer-Policy", "no-referrer".into()),
        ],
        body: text.as_bytes().to_vec(),
    }
}

/// Credentials for signing up or logging in.
#[derive(Deserialize)]
struct Credentials {
    username: String,
    password: String,
}

#[derive(Deserialize)]
struct NewChat {
    name: String,
    members: Vec<String>,
}

#[derive(Deserialize)]
struct NewMember {
    username: String,
}

#[derive(Deserialize)]
struct NewMessage {
    text: String,
}

impl Handler for App {
    fn answer(&self, request: &Request<'_>) -> Reply {
        match self.route(request) {
            Ok(reply) => reply,
            Err(failure) => Reply::Whole(failure.into()),
        }
    }

    fn workers(&self) -> usize {
        match self.store.waits() {
            true => WAITING_WORKERS,
            false => thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl App {
    /// The chat application over a store.
    pub fn new(store: Arc<dyn ChatStore>) -> Result<Self> {
        Ok(Self {
            store,
            hub: Arc::default(),
            passwords: Arc::default(),
            feed: OnceLock::new(),
            beginning: Mutex::default(),
        })
    }

    /// Follows the store's own feed, if it has one, from the first listener on: without listeners commits are not
    /// inspected.
    fn begin_feed(&self) -> Result<()> {
        let _one = self
            .beginning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.feed.get().is_none() {
            let hub = self.hub.clone();
            let has_feed = self
                .store
                .listen(Box::new(move |said| hub.notify(said.chat)))?;
            // It is set only here.
            let _ = self.feed.set(has_feed);
        }
        Ok(())
    }

    fn route(&self, request: &Request<'_>) -> Outcome<Reply> {
        let number = |text: &str| id(text).map_or_else(|| refuse(404, "not found"), Ok);
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let answer = match (request.method, &parts[..]) {
            ("GET", [""]) => page("text/html; charset=utf-8", include_str!("page/index.html")),
            ("GET", ["page.js"]) => page(
                "text/javascript; charset=utf-8",
                include_str!("page/page.js"),
            ),
            ("GET", ["page.css"]) => page("text/css; charset=utf-8", include_str!("page/page.css")),
            ("POST", ["api", "users"]) => return self.sign_up(request),
            ("POST", ["api", "session"]) => return self.log_in(request),
            ("GET", ["api", "session"]) => {
                json_body(200, &json!({ "id": self.user(&session(request))? }))?
            }
            ("DELETE", ["api", "session"]) => self.log_out(request)?,
            ("GET", ["api", "chats"]) => self.chats(request)?,
            ("POST", ["api", "chats"]) => self.make_chat(request)?,
            ("GET", ["api", "chats", chat]) => self.chat(request, number(chat)?)?,
            ("DELETE", ["api", "chats", chat]) => {
                return self.delete_chat(request, number(chat)?);
            }
            ("GET", ["api", "chats", chat, "members"]) => self.members(request, number(chat)?)?,
            ("POST", ["api", "chats", chat, "members"]) => {
                self.add_member(request, number(chat)?)?
            }
            ("DELETE", ["api", "chats", chat, "members", user]) => {
                self.remove_member(request, number(chat)?, number(user)?)?
            }
            ("GET", ["api", "chats", chat, "messages"]) => self.messages(request, number(chat)?)?,
            ("POST", ["api", "chats", chat, "messages"]) => {
                return self.send_message(request, number(chat)?);
            }
            ("GET", ["api", "chats", chat, "feed"]) => return self.feed(request, number(chat)?),
            ("GET" | "POST" | "DELETE", _) => return refuse(404, "not found"),
            _ => return refuse(405, "only GET, POST and DELETE are supported"),
        };
        Ok(Reply::Whole(answer))
    }

    /// The authenticated user.
    fn user(&self, session: &Option<String>) -> Outcome<Id> {
        let known = session
            .as_deref()
            .map(|session| self.store.get_user_from_session(session, now_ms()))
            .transpose()?;
        known
            .flatten()
            .map_or_else(|| refuse(401, "log in first"), Ok)
    }

    /// The authenticated user, if a member of the chat.
    fn member(&self, session: &Option<String>, chat: Id) -> Outcome<Id> {
        let user = self.user(session)?;
        if self.store.check_chat_member(chat, user)? {
            return Ok(user);
        }
        // Only members may learn whether a chat exists.
        refuse(403, "you are not a member of this chat")
    }

    fn admin(&self, session: &Option<String>, chat: Id) -> Outcome<Id> {
        let user = self.member(session, chat)?;
        match self.store.get_chat(chat)? {
            Some(found) if found.admin == user => Ok(user),
            _ => refuse(403, "only the creator of the chat may do that"),
        }
    }

    fn sign_up(&self, request: &Request<'_>) -> Outcome<Reply> {
        let asked: Credentials = body(request)?;
        let plain = !asked.username.is_empty()
            && asked.username.len() <= 64
            && !asked.username.contains([':', ','])
            && !asked.username.chars().any(char::is_control);
        if !plain || asked.password.chars().count() < 8 {
            return refuse(
                400,
                "a name of 1 to 64 bytes without `:` and `,`, and a password of 8 characters at least",
            );
        }
        let (store, passwords) = (self.store.clone(), self.passwords.clone());
        on_own_thread(move || {
            let hash = passwords.hash(&asked.password)?.or_else(busy)?;
            match store.create_user(&asked.username, &hash)? {
                Some(id) => json_body(201, &json!({ "id": id })),
                None => refuse(409, "the name is taken"),
            }
        })
    }

    fn log_in(&self, request: &Request<'_>) -> Outcome<Reply> {
        let asked: Credentials = body(request)?;
        let (store, passwords, from) = (self.store.clone(), self.passwords.clone(), request.from);
        on_own_thread(move || {
            let user = store.get_user(&asked.username)?;
            let hash = user.as_ref().map(|user| user.password.as_str());
            let is_right = passwords.is_right(&asked.password, hash, from)?;
            let is_right = is_right.or_else(busy)?;
            let Some(user) = user.filter(|_| is_right) else {
                return refuse(401, "the name or the password is wrong");
            };
            let bytes: [u8; 24] = random()?;
            let session: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            store.set_user_session(&session, user.id, now_ms() + SESSION_MS)?;
            let mut answer = json_body(200, &json!({ "id": user.id, "username": user.username }))?;
            answer
                .fields
                .push(("Set-Cookie", cookie(&session, SESSION_MS / 1000)));
            Ok(answer)
        })
    }

    fn log_out(&self, request: &Request<'_>) -> Outcome<Answer> {
        if let Some(session) = session(request) {
            self.store.remove_session(&session)?;
        }
        let mut answer = done();
        answer.fields.push(("Set-Cookie", cookie("", 0)));
        Ok(answer)
    }

    fn chats(&self, request: &Request<'_>) -> Outcome<Answer> {
        let user = self.user(&session(request))?;
        let chats = self.store.get_chats(user)?;
        #[derive(Serialize)]
        struct Chats<T> {
            chats: T,
        }
        json_body(200, &Chats { chats })
    }

    fn make_chat(&self, request: &Request<'_>) -> Outcome<Answer> {
        let user = self.user(&session(request))?;
        let asked: NewChat = body(request)?;
        if asked.members.is_empty()
            || asked.members.len() > MOST_MEMBERS
            || asked.name.is_empty()
            || asked.name.len() > MOST_NAME
            || asked.name.chars().any(char::is_control)
        {
            return refuse(
                400,
                "1 to 100 members and a name of 1 to 200 bytes, without control characters",
            );
        }
        let mut members = Vec::new();
        for name in &asked.members {
            match self.store.get_user(name)? {
                Some(other) if other.id != user => members.push(other.id),
                Some(_) => {}
                None => return refuse(404, format!("there is no user {name}")),
            }
        }
        members.sort_unstable();
        members.dedup();
        let made = match members[..] {
            [other] => self
                .store
                .create_private_chat(&asked.name, user, other, now_ms())?,
            _ => Some(
                self.store
                    .create_chat(&asked.name, user, &members, now_ms())?,
            ),
        };
        match made {
            Some(id) => json_body(201, &json!({ "id": id })),
            None => refuse(409, "you already have a private chat with them"),
        }
    }

    fn chat(&self, request: &Request<'_>, chat: Id) -> Outcome<Answer> {
        self.member(&session(request), chat)?;
        match self.store.get_chat(chat)? {
            Some(found) => json_body(200, &found),
            None => refuse(404, "the chat was deleted"),
        }
    }

    fn delete_chat(&self, request: &Request<'_>, chat: Id) -> Outcome<Reply> {
        self.admin(&session(request), chat)?;
        let (store, hub) = (self.store.clone(), self.hub.clone());
        on_own_thread(move || {
            store.delete_chat(chat)?;
            // Listeners find out that it was deleted.
            hub.notify(chat);
            Ok(done())
        })
    }

    fn members(&self, request: &Request<'_>, chat: Id) -> Outcome<Answer> {
        self.member(&session(request), chat)?;
        json_body(200, &json!({ "members": self.store.get_members(chat)? }))
    }

    fn add_member(&self, request: &Request<'_>, chat: Id) -> Outcome<Answer> {
        self.admin(&session(request), chat)?;
        let asked: NewMember = body(request)?;
        match self.store.get_user(&asked.username)? {
            None => refuse(404, "there is no user of that name"),
            Some(user) if self.store.add_chat_member(chat, user.id)? => {
                json_body(201, &json!({ "id": user.id }))
            }
            Some(_) => refuse(409, "they are already a member"),
        }
    }

    fn remove_member(&self, request: &Request<'_>, chat: Id, user: Id) -> Outcome<Answer> {
        let session = session(request);
        if self.member(&session, chat)? != user {
            self.admin(&session, chat)?;
        }
        let is_founder = self
            .store
            .get_chat(chat)?
            .is_some_and(|found| found.admin == user);
        if is_founder {
            return refuse(
                409,
                "the creator of a chat cannot leave it, only delete it: no other member could",
            );
        }
        if !self.store.remove_chat_member(chat, user)? {
            return refuse(404, "they are not a member");
        }
        self.hub.notify(chat);
        Ok(done())
    }

    fn messages(&self, request: &Request<'_>, chat: Id) -> Outcome<Answer> {
        self.member(&session(request), chat)?;
        let number = |name| match request.parameter(name).map(id) {
            None => Ok(None),
            Some(Some(number)) => Ok(Some(number)),
            Some(None) => refuse(400, format!("`{name}` is not a number")),
        };
        let (from, to, n) = (number("from")?, number("to")?, number("n")?);
        let n = n.map_or(50, |n| usize::try_from(n).unwrap_or(MOST_MESSAGES));
        let messages = self
            .store
            .get_chat_messages(chat, from, to, n.min(MOST_MESSAGES))?;
        #[derive(Serialize)]
        struct Messages<T> {
            messages: T,
        }
        json_body(200, &Messages { messages })
    }

    fn send_message(&self, request: &Request<'_>, chat: Id) -> Outcome<Reply> {
        let user = self.member(&session(request), chat)?;
        let asked: NewMessage = body(request)?;
        // Control characters take six bytes each in an answer.
        let is_text = |one: char| !one.is_control() || matches!(one, '\n' | '\r' | '\t');
        if asked.text.is_empty() || asked.text.len() > MOST_TEXT || !asked.text.chars().all(is_text)
        {
            return refuse(
                400,
                "a message must have 1 to 4,000 bytes of text, without control characters",
            );
        }
        // A client that begins to listen concurrently reads messages only after the feed has begun.
        let unnotified = (self.feed.get() != Some(&true)).then(|| self.hub.clone());
        let answer = move |said: Result<Option<Id>>| {
            let Some(message) = said? else {
                return refuse(404, "the chat was deleted");
            };
            if let Some(hub) = unnotified {
                hub.notify(chat);
            }
            json_body(201, &json!({ "id": message }))
        };
        let (text, now) = (asked.text, now_ms());
        if !request.shares_worker {
            let said = self.store.add_chat_message(chat, user, &text, now);
            return answer(said).map(Reply::Whole);
        }
        let said = self.store.add_chat_message_later(chat, user, &text, now);
        Ok(Reply::Later(Box::pin(async { whole(answer(said.await)) })))
    }

    /// New messages as server-sent events; `after`, or `Last-Event-ID`, is the number of the last one that the client
    /// has.
    fn feed(&self, request: &Request<'_>, chat: Id) -> Outcome<Reply> {
        let session = session(request);
        self.member(&session, chat)?;
        // Listening begins before the first read, so that no message is missed.
        let heard = self.hub.listen(chat);
        self.begin_feed()?;
        let known = request
            .field("last-event-id")
            .or_else(|| request.parameter("after"))
            .and_then(id);
        let after = match known {
            Some(after) => after.min(i64::MAX as u64 - 1),
            None => {
                let last = self.store.get_chat_messages(chat, None, None, 1)?;
                last.first().map_or(0, |message| message.id)
            }
        };
        let store = self.store.clone();
        let may_read = move |store: &dyn ChatStore| {
            let session = session.as_deref().unwrap_or_default();
            match store.get_user_from_session(session, now_ms())? {
                Some(user) => store.check_chat_member(chat, user),
                None => Ok(false),
            }
        };
        Ok(Reply::Events(Box::new(move |out| {
            feed::follow(&*store, &heard, after, &may_read, out)
        })))
    }
}

/// A number in the range of stores; only digits.
fn id(text: &str) -> Option<Id> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number)?;
    (number <= i64::MAX as u64).then_some(number)
}

fn whole(outcome: Outcome<Answer>) -> Answer {
    outcome.unwrap_or_else(Answer::from)
}

/// Computes a slow answer on its own thread.
fn on_own_thread(work: impl FnOnce() -> Outcome<Answer> + Send + 'static) -> Outcome<Reply> {
    let answer = later::on_thread(move || whole(work()))?;
    Ok(Reply::Later(Box::pin(async {
        answer.await.unwrap_or_else(|_| Answer::failed())
    })))
}

fn busy<T>(why: Busy) -> Outcome<T> {
    match why {
        Busy::Slots => refuse(503, "too many concurrent logins: retry later"),
        Busy::Guesses => refuse(429, "too many wrong passwords: retry in a minute"),
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random bytes: {error}"))?;
    Ok(bytes)
}

fn cookie(session: &str, seconds: u64) -> String {
    format!("{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}")
}

fn session(request: &Request<'_>) -> Option<String> {
    if let Some(shown) = request.field("session") {
        return Some(shown.to_owned());
    }
    let mut pairs = request
        .field("cookie")?
        .split(';')
        .filter_map(|cookie| cookie.trim().split_once('='));
    let found = pairs.find(|(name, _)| *name == COOKIE);
    found.map(|(_, value)| value.to_owned())
}

fn body<T: DeserializeOwned>(request: &Request<'_>) -> Outcome<T> {
    let content_type = request.field("content-type").unwrap_or_default();
    if content_type.split(';').next().map(str::trim) != Some("application/json") {
        return refuse(415, "the body must be application/json");
    }
    let wrong = |error: serde_json::Error| Failure(400, error.to_string());
    let value: serde_json::Value = serde_json::from_slice(request.body).map_err(wrong)?;
    if has_nul(&value) {
        // PostgreSQL does not support U+0000 in texts, so it is refused for all stores.
        return refuse(400, "a text must not contain the character U+0000");
    }
    serde_json::from_value(value).map_err(wrong)
}

/// Whether a string in it contains U+0000; the parser limits nesting.
fn has_nul(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields.values().any(has_nul),
        _ => false,
    }
}
