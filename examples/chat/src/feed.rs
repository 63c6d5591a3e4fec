//! Messages as they are said: who listens to which chat, and the stream of events that each of them gets.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
};

use anyhow::Result;

use crate::{
    front::HEARTBEAT,
    store::{ChatStore, Id},
};

/// Messages that are looked up and written at once: with the longest of them 128 KiB wait for the client.
const PAGE: usize = 16;

/// The listeners of a chat, each with the number of its place.
type Places = Vec<(u64, SyncSender<()>)>;

/// Who listens to which chat.
#[derive(Default)]
pub struct Hub {
    listeners: Mutex<HashMap<Id, Places>>,
}

/// A place at the hub, given back when it is dropped.
pub struct Listening {
    hub: Arc<Hub>,
    chat: Id,
    number: u64,
    heard: Receiver<()>,
}

impl Hub {
    /// Wakes those who listen to a chat: they look for themselves what is new.
    pub fn tell(&self, chat: Id) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, sender) in listeners.get(&chat).into_iter().flatten() {
            // Full: it has not looked since it was told last, and will see this, too.
            let _ = sender.try_send(());
        }
    }

    /// Listens to a chat from now on.
    pub fn listen(self: &Arc<Self>, chat: Id) -> Listening {
        let (sender, heard) = sync_channel(1);
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of_chat = listeners.entry(chat).or_default();
        let number = of_chat.last().map_or(0, |(number, _)| number + 1);
        of_chat.push((number, sender));
        Listening {
            hub: self.clone(),
            chat,
            number,
            heard,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self
            .hub
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(of_chat) = listeners.get_mut(&self.chat) {
            of_chat.retain(|(number, _)| *number != self.number);
            if of_chat.is_empty() {
                listeners.remove(&self.chat);
            }
        }
    }
}

/// Writes the messages after number `after` as they come, until the client is gone or may not read them any more.
pub fn follow(
    store: &dyn ChatStore,
    listening: &Listening,
    mut after: Id,
    may_read: &dyn Fn(&dyn ChatStore) -> Result<bool>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let failed = |error: anyhow::Error| {
        eprintln!("a feed ended: {error:#}");
        io::Error::other(error)
    };
    loop {
        // Whoever was taken out of the chat, or whose session ended, hears nothing more.
        if !may_read(store).map_err(failed)? {
            return Ok(());
        }
        let new = store
            .get_chat_messages(listening.chat, Some(after + 1), None, PAGE)
            .map_err(failed)?;
        let mut events = Vec::new();
        for message in &new {
            write!(
                events,
                "id: {}\ndata: {}\n\n",
                message.id,
                serde_json::to_string(message)?
            )?;
            after = message.id;
        }
        let has_more = new.len() == PAGE;
        drop(new);
        out.write_all(&events)?;
        if has_more {
            continue;
        }
        drop(events);
        match listening.heard.recv_timeout(HEARTBEAT) {
            Ok(()) => {}
            // It is how a client that went away is noticed.
            Err(RecvTimeoutError::Timeout) => out.write_all(b":\n\n")?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_wakes_its_own_listeners_and_forgets_those_that_went() {
        let hub = Arc::new(Hub::default());
        let (one, two, other) = (hub.listen(1), hub.listen(1), hub.listen(2));
        hub.tell(1);
        hub.tell(1);
        for listening in [&one, &two] {
            assert!(listening.heard.try_recv().is_ok());
            assert!(listening.heard.try_recv().is_err(), "told once is enough");
        }
        assert!(other.heard.try_recv().is_err());
        drop(one);
        let three = hub.listen(1);
        drop(two);
        hub.tell(1);
        assert!(three.heard.try_recv().is_ok());
        drop((three, other));
        assert!(hub.listeners.lock().unwrap().is_empty());
    }
}
