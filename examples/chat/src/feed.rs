//! Notifications of new messages: the listeners of each chat, and their event streams.

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

/// Messages that are read and written at a time: at the maximum length, 128 KiB are buffered for the client.
const PAGE: usize = 16;

/// The listeners of a chat, each with a number.
type Places = Vec<(u64, SyncSender<()>)>;

/// The listeners of all chats.
#[derive(Default)]
pub struct Hub {
    listeners: Mutex<HashMap<Id, Places>>,
}

/// Registration of a listener; ends when dropped.
pub struct Listening {
    hub: Arc<Hub>,
    chat: Id,
    number: u64,
    heard: Receiver<()>,
}

impl Hub {
    /// Wakes the listeners of a chat, which then read the new messages.
    pub fn notify(&self, chat: Id) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, sender) in listeners.get(&chat).into_iter().flatten() {
            // Full: the listener has not read since the last notification, and will see this message, too.
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

/// Writes the messages after number `after` as they arrive, until the client has disconnected or may no longer read
/// them.
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
        // A removed member, or one whose session has ended, receives nothing more.
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
            // A write that fails reveals that the client has disconnected.
            Err(RecvTimeoutError::Timeout) => out.write_all(b":\n\n")?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_wakes_its_own_listeners_and_forgets_dropped_ones() {
        let hub = Arc::new(Hub::default());
        let (one, two, other) = (hub.listen(1), hub.listen(1), hub.listen(2));
        hub.notify(1);
        hub.notify(1);
        for listening in [&one, &two] {
            assert!(listening.heard.try_recv().is_ok());
            assert!(
                listening.heard.try_recv().is_err(),
                "one notification is enough"
            );
        }
        assert!(other.heard.try_recv().is_err());
        drop(one);
        let three = hub.listen(1);
        drop(two);
        hub.notify(1);
        assert!(three.heard.try_recv().is_ok());
        drop((three, other));
        assert!(hub.listeners.lock().unwrap().is_empty());
    }
}
