//! Locks: those of `parking_lot`, or, with the feature `model`, those of the model checker `shuttle`, which
//! tries many interleavings. A thread that may wait while it holds one of these must not hold another kind of
//! lock.

#[cfg(not(feature = "model"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "model")]
pub use model::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use std::time::{Duration, Instant};

#[cfg(feature = "model")]
use shuttle::thread;
#[cfg(not(feature = "model"))]
use std::thread;

/// A background thread of an engine.
pub struct Thread(thread::JoinHandle<()>);

impl Thread {
    /// Starts one; `None` if the system cannot start a thread: in a model now and then.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Option<Self> {
        #[cfg(feature = "model")]
        if shuttle::rand::Rng::gen_ratio(&mut shuttle::rand::thread_rng(), 1, 4) {
            return None;
        }
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn(work).ok().map(Self)
    }

    /// Whether it is the current thread.
    pub fn is_current(&self) -> bool {
        self.0.thread().id() == thread::current().id()
    }

    /// Waits for its end. Does not wait if it is the current thread.
    pub fn join(self) {
        if !self.is_current() {
            // The panic hook has reported its panic.
            let _ = self.0.join();
        }
    }
}

/// Time since `began`; short or long at random in a model.
#[cfg(not(feature = "model"))]
pub fn elapsed(began: Instant) -> Duration {
    began.elapsed()
}

/// Time since `began`; short or long at random in a model.
#[cfg(feature = "model")]
pub fn elapsed(_: Instant) -> Duration {
    use shuttle::rand::Rng as _;

    Duration::from_millis([0, 1, 10][shuttle::rand::thread_rng().gen_range(0..3)])
}

#[cfg(feature = "model")]
mod model {
    //! The interface of `parking_lot` over `shuttle`'s locks. There is no poisoning: a panic ends the model.

    use std::{
        fmt,
        ops::{Deref, DerefMut},
        time::{Duration, Instant},
    };

    use shuttle::sync;

    /// A lock.
    #[derive(Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    /// Guard of a [`Mutex`].
    pub struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        held: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        /// A lock around a value.
        pub fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        /// Acquires it.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            let held = self.0.lock().unwrap_or_else(|held| held.into_inner());
            MutexGuard {
                mutex: self,
                held: Some(held),
            }
        }

        /// The value, through an exclusive reference.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(|held| held.into_inner())
        }

        /// Acquires it if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = self.0.try_lock().ok()?;
            Some(MutexGuard {
                mutex: self,
                held: Some(held),
            })
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("Mutex")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.held.as_ref().expect("given up only while it waits")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect("given up only while it waits")
        }
    }

    /// A reader-writer lock.
    #[derive(Default)]
    pub struct RwLock<T>(sync::RwLock<T>);

    /// Reads a [`RwLock`].
    pub type RwLockReadGuard<'a, T> = sync::RwLockReadGuard<'a, T>;
    /// Writes a [`RwLock`].
    pub type RwLockWriteGuard<'a, T> = sync::RwLockWriteGuard<'a, T>;

    impl<T> RwLock<T> {
        /// A lock around a value.
        pub fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        /// Waits until there is no writer.
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|held| held.into_inner())
        }

        /// Waits until it is free.
        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|held| held.into_inner())
        }
    }

    impl<T> fmt::Debug for RwLock<T> {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("RwLock")
        }
    }

    /// A condition variable.
    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    /// Result of a wait with a timeout.
    #[derive(Clone, Copy, Debug)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Whether the time has elapsed.
        pub fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        /// A new one, without waiters.
        pub fn new() -> Self {
            Self::default()
        }

        /// Wakes one.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        /// Waits for a notification.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("given up only while it waits");
            let again = self.0.wait(held);
            guard.held = Some(again.unwrap_or_else(|held| held.into_inner()));
        }

        /// Yields to other threads; then the time has elapsed.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
            guard.held = None;
            shuttle::thread::yield_now();
            guard.held = guard.mutex.lock().held;
            WaitTimeoutResult(true)
        }

        /// Yields to other threads; then the time has elapsed.
        pub fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            _: Instant,
        ) -> WaitTimeoutResult {
            self.wait_for(guard, Duration::ZERO)
        }
    }
}
