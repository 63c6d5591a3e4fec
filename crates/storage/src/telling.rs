//! A thread that wakes those whose commits have ended. What they do then is their own affair: it may take its time, commit,
//! wait for other commits and panic, and must hold up no group.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

use crate::sync::{Condvar, Mutex, Thread};

/// The thread, from its first work on.
#[derive(Default)]
pub(crate) struct Teller {
    mailbox: Arc<Mailbox>,
    thread: Mutex<Option<Thread>>,
}

#[derive(Default)]
struct Mailbox {
    state: Mutex<State>,
    /// Told when there is somebody to be woken, or the thread has to end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wakers: Vec<Waker>,
    ends: bool,
}

impl Teller {
    /// Has these woken: soon, by the thread; here, where it has ended or the system has none to give.
    pub(crate) fn wake(&self, wakers: Vec<Waker>) {
        if wakers.is_empty() {
            return;
        }
        if self.has_thread() {
            let mut state = self.mailbox.state.lock();
            if !state.ends {
                state.wakers.extend(wakers);
                drop(state);
                self.mailbox.changed.notify_one();
                return;
            }
        }
        wake_all(wakers);
    }

    fn has_thread(&self) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let mailbox = self.mailbox.clone();
            *thread = Thread::start("commit-teller", move || mailbox.tell());
        }
        thread.is_some()
    }

    /// Ends the thread once all are woken that it was given.
    pub(crate) fn end(&self) {
        self.mailbox.state.lock().ends = true;
        self.mailbox.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}

impl Mailbox {
    fn tell(&self) {
        loop {
            let mut state = self.state.lock();
            while state.wakers.is_empty() {
                if state.ends {
                    return;
                }
                self.changed.wait(&mut state);
            }
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wake_all(wakers);
        }
    }
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // Its panic is told by the hook, and is nobody else's.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
