//! Random histories on a store, compared with a naive model of the sixteen operations. Every store is compared with
//! the same model on the same histories, so all of them behave alike.
//!
//! Stores choose the numbers of users and chats: a history refers to them by their order of creation.

use std::collections::{BTreeMap, BTreeSet};

use isomer_chat::store::{ChatStore, Id};

/// Steps of a history.
const STEPS: usize = 1_500;

/// Pseudo-random numbers of a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone)]
struct ModelChat {
    name: String,
    admin: usize,
    last_activity: u64,
    members: BTreeSet<usize>,
    messages: Vec<(usize, String, u64)>,
}

#[derive(Default)]
struct Model {
    users: Vec<(String, String)>,
    chats: Vec<Option<ModelChat>>,
    sessions: BTreeMap<String, (usize, u64)>,
}

/// A store and the numbers that it assigned.
struct Numbered<'s> {
    store: &'s dyn ChatStore,
    users: Vec<Id>,
    chats: Vec<Id>,
}

/// A number that no store has assigned.
const UNKNOWN: Id = 900_000_000;

impl Numbered<'_> {
    fn user(&self, at: usize) -> Id {
        self.users.get(at).copied().unwrap_or(UNKNOWN)
    }
    fn chat(&self, at: usize) -> Id {
        self.chats.get(at).copied().unwrap_or(UNKNOWN)
    }
    fn user_at(&self, id: Id) -> usize {
        let at = self.users.iter().position(|known| *known == id);
        at.unwrap_or_else(|| panic!("the store returned a user {id} that was not created"))
    }
    fn chat_at(&self, id: Id) -> usize {
        let at = self.chats.iter().position(|known| *known == id);
        at.unwrap_or_else(|| panic!("the store returned a chat {id} that was not created"))
    }
}

/// Runs the history of a seed on an empty store. Sessions end long after the present, or long before it, as the
/// store's time is a parameter.
pub fn compare(store: &dyn ChatStore, seed: u64) {
    let mut random = Random(seed | 1);
    let mut model = Model::default();
    let mut real = Numbered {
        store,
        users: Vec::new(),
        chats: Vec::new(),
    };
    let start = isomer_chat::now_ms();
    for step in 0..STEPS {
        let clock = 1_000 + step as u64;
        // One more than there are: a user that does not exist.
        let user = random.below(model.users.len() as u64 + 1) as usize;
        let chat = random.below(model.chats.len() as u64 + 1) as usize;
        let context = format!("seed {seed}, step {step}");
        match random.below(100) {
            0..8 => create_user(&mut random, &mut model, &mut real, &context),
            8..16 => create_chat(&mut random, &mut model, &mut real, clock, &context),
            16..50 => {
                let text = format!("{step}: \"hé\" , : \u{1f600}");
                let sent = real
                    .store
                    .add_chat_message(real.chat(chat), real.user(user), &text, clock)
                    .unwrap();
                let expected = model.chat_mut(chat).map(|found| {
                    found.messages.push((user, text, clock));
                    found.last_activity = clock;
                    found.messages.len() as Id
                });
                assert_eq!(sent, expected, "{context}");
                // A sender must exist: its name is looked up for the answers.
                if user == model.users.len()
                    && let Some(found) = model.chat_mut(chat)
                    && let Some(last) = found.messages.last_mut()
                {
                    last.0 = usize::MAX;
                }
            }
            50..56 => {
                let real_said = real
                    .store
                    .add_chat_member(real.chat(chat), real.user(user))
                    .unwrap();
                let is_user = user < model.users.len();
                let expected = is_user
                    && model
                        .chat_mut(chat)
                        .is_some_and(|found| found.members.insert(user));
                assert_eq!(real_said, expected, "{context}");
            }
            56..61 => {
                let removed = real
                    .store
                    .remove_chat_member(real.chat(chat), real.user(user))
                    .unwrap();
                let expected = model
                    .chat_mut(chat)
                    .is_some_and(|found| found.members.remove(&user));
                assert_eq!(removed, expected, "{context}");
            }
            61..63 => {
                let deleted = real.store.delete_chat(real.chat(chat)).unwrap();
                let expected = model.chats.get_mut(chat).and_then(Option::take).is_some();
                assert_eq!(deleted, expected, "{context}");
            }
            63..70 => sessions(&mut random, &mut model, &real, start, &context),
            _ => look(&mut random, &model, &real, chat, user, &context),
        }
    }
    // At the end, everything.
    let context = format!("seed {seed}, at the end");
    for chat in 0..=model.chats.len() {
        let user = chat % (model.users.len() + 1);
        look(&mut random, &model, &real, chat, user, &context);
    }
}

impl Model {
    fn chat_mut(&mut self, at: usize) -> Option<&mut ModelChat> {
        self.chats.get_mut(at)?.as_mut()
    }

    fn chat(&self, at: usize) -> Option<&ModelChat> {
        self.chats.get(at)?.as_ref()
    }
}

fn create_user(random: &mut Random, model: &mut Model, real: &mut Numbered<'_>, context: &str) {
    let name = format!("user {}", random.below(30));
    let made = real.store.create_user(&name, "hash").unwrap();
    let is_new = model.users.iter().all(|(taken, _)| *taken != name);
    assert_eq!(made.is_some(), is_new, "{context}: `{name}`");
    if let Some(id) = made {
        assert!(
            !real.users.contains(&id),
            "{context}: {id} was assigned twice"
        );
        real.users.push(id);
        model.users.push((name, "hash".into()));
    }
}

fn create_chat(
    random: &mut Random,
    model: &mut Model,
    real: &mut Numbered<'_>,
    clock: u64,
    context: &str,
) {
    if model.users.is_empty() {
        return;
    }
    let count = model.users.len() as u64;
    let admin = random.below(count) as usize;
    // Private ones, groups, and sometimes a member that does not exist, or the same one twice.
    let members: Vec<usize> = (0..[0, 1, 1, 2, 4][random.below(5) as usize])
        .map(|_| {
            let more = u64::from(random.chance(10));
            random.below(count + more) as usize
        })
        .collect();
    let name = format!("chat {clock}");
    let ids: Vec<Id> = members.iter().map(|at| real.user(*at)).collect();
    let id = real
        .store
        .create_chat(&name, real.user(admin), &ids, clock)
        .unwrap();
    assert!(
        !real.chats.contains(&id),
        "{context}: {id} was assigned twice"
    );
    real.chats.push(id);
    let known = members.into_iter().filter(|at| *at < model.users.len());
    model.chats.push(Some(ModelChat {
        name,
        admin,
        last_activity: clock,
        members: known.chain([admin]).collect(),
        messages: Vec::new(),
    }));
}

fn sessions(
    random: &mut Random,
    model: &mut Model,
    real: &Numbered<'_>,
    start: u64,
    context: &str,
) {
    let name = format!("session{}", random.below(6));
    let hour = 3_600_000;
    match random.below(4) {
        0 if !model.users.is_empty() => {
            let user = random.below(model.users.len() as u64) as usize;
            let expiry = start + hour * (1 + random.below(5));
            real.store
                .set_user_session(&name, real.user(user), expiry)
                .unwrap();
            model.sessions.insert(name, (user, expiry));
        }
        1 => {
            let removed = real.store.remove_session(&name).unwrap();
            assert_eq!(removed, model.sessions.remove(&name).is_some(), "{context}");
        }
        _ => {
            let now = start + hour * random.below(7);
            let found = real.store.get_user_from_session(&name, now).unwrap();
            let expected = model
                .sessions
                .get(&name)
                .filter(|(_, expiry)| *expiry > now);
            assert_eq!(
                found,
                expected.map(|(user, _)| real.user(*user)),
                "{context}: `{name}`"
            );
        }
    }
}

/// Everything that can be read about a chat and a user.
fn look(
    random: &mut Random,
    model: &Model,
    real: &Numbered<'_>,
    chat: usize,
    user: usize,
    context: &str,
) {
    let (chat_id, user_id) = (real.chat(chat), real.user(user));
    let found = model.chat(chat);

    let seen = real.store.get_chat(chat_id).unwrap();
    assert_eq!(
        seen.map(|one| (one.name, real.user_at(one.admin), one.last_activity)),
        found.map(|one| (one.name.clone(), one.admin, one.last_activity)),
        "{context}: chat {chat}"
    );
    let members = real.store.get_members(chat_id).unwrap();
    assert!(members.is_sorted_by_key(|member| member.id), "{context}");
    let mut members: Vec<(usize, String)> = members
        .into_iter()
        .map(|member| (real.user_at(member.id), member.username))
        .collect();
    members.sort();
    let expected: Vec<(usize, String)> = found
        .into_iter()
        .flat_map(|one| &one.members)
        .map(|at| (*at, model.users[*at].0.clone()))
        .collect();
    assert_eq!(members, expected, "{context}: members of chat {chat}");
    assert_eq!(
        real.store.check_chat_member(chat_id, user_id).unwrap(),
        found.is_some_and(|one| one.members.contains(&user)),
        "{context}"
    );

    let chats: Vec<usize> = real
        .store
        .get_chats(user_id)
        .unwrap()
        .iter()
        .map(|one| real.chat_at(one.id))
        .collect();
    let mut expected: Vec<(u64, Id, usize)> = model
        .chats
        .iter()
        .enumerate()
        .filter_map(|(at, one)| Some((at, one.as_ref()?)))
        .filter(|(_, one)| one.members.contains(&user))
        .map(|(at, one)| (u64::MAX - one.last_activity, real.chat(at), at))
        .collect();
    expected.sort_unstable();
    let expected: Vec<usize> = expected.into_iter().map(|(_, _, at)| at).collect();
    assert_eq!(chats, expected, "{context}: chats of user {user}");

    let other = random.below(model.users.len() as u64 + 1) as usize;
    let private = model
        .chats
        .iter()
        .flatten()
        .any(|one| user != other && one.members == BTreeSet::from([user, other]));
    assert_eq!(
        real.store.exists_chat(user_id, real.user(other)).unwrap(),
        private,
        "{context}: users {user} and {other}"
    );
    if let Some((name, password)) = model.users.get(user) {
        let seen = real.store.get_user(name).unwrap().unwrap();
        assert_eq!(
            (seen.id, &seen.username, &seen.password),
            (user_id, name, password),
            "{context}"
        );
    }
    messages(random, found, real, chat_id, context);
}

fn messages(
    random: &mut Random,
    chat: Option<&ModelChat>,
    real: &Numbered<'_>,
    chat_id: Id,
    context: &str,
) {
    let said = chat.map_or(0, |one| one.messages.len() as u64);
    let bound = |random: &mut Random| random.chance(60).then(|| random.below(said + 3));
    let (from, to) = (bound(random), bound(random));
    let n = random.below(said + 3) as usize;
    let seen: Vec<_> = real
        .store
        .get_chat_messages(chat_id, from, to, n)
        .unwrap()
        .into_iter()
        .map(|one| {
            let sender = if one.sender == UNKNOWN {
                usize::MAX
            } else {
                real.user_at(one.sender)
            };
            (one.id, sender, one.text, one.timestamp)
        })
        .collect();
    let all = chat.into_iter().flat_map(|one| &one.messages).zip(1_u64..);
    let mut expected: Vec<_> = all
        .map(|((sender, text, at), id)| (id, *sender, text.clone(), *at))
        .filter(|(id, ..)| *id >= from.unwrap_or(0) && to.is_none_or(|to| *id < to))
        .collect();
    match from {
        Some(_) => expected.truncate(n),
        None => drop(expected.drain(..expected.len().saturating_sub(n))),
    }
    assert_eq!(
        seen, expected,
        "{context}: messages from {from:?} to {to:?}, {n} of them"
    );
}
