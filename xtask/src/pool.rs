//! Runs tasks in parallel, within limits on processor cores and memory; the longest tasks start first.
//!
//! The limits are estimates that a task declares, not measurements: on a loaded machine, measured values would depend
//! on the load of others and two runs would differ. A task that exceeds a limit by itself runs while no other task
//! does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use crate::live::Status;

/// Interval of progress while no task ends.
const TICK: Duration = Duration::from_millis(250);

/// What a task needs of the machine, and when it starts among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Percent of one core that it keeps busy.
    pub cores_percent: u32,
    /// Memory.
    pub memory_mib: u64,
    /// Expected duration: the longest task starts first, so that no core is idle at the end.
    pub seconds: f64,
    /// It starts before all tasks that are not urgent, because others wait for its result.
    pub is_urgent: bool,
    /// A resource that one task at a time may use.
    pub lock: Option<&'static str>,
}

impl Cost {
    /// A program with one busy thread.
    pub const USUAL: Self = Self {
        cores_percent: 100,
        memory_mib: 1024,
        seconds: 10.0,
        is_urgent: false,
        lock: None,
    };
}

/// Sums over running tasks that the pool keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Percent of one core.
    pub cores_percent: u32,
    /// Memory.
    pub memory_mib: u64,
}

/// Work with a key `K` and a result `T`.
struct Task<K, T> {
    key: K,
    name: String,
    cost: Cost,
    work: Box<dyn FnOnce(&Status) -> T + Send>,
}

/// A task at work.
struct Running<K> {
    id: u64,
    key: K,
    name: String,
    cost: Cost,
    started: Instant,
    status: Status,
}

/// A task that ended.
#[derive(Debug)]
pub struct Finished<K, T> {
    /// Its key.
    pub key: K,
    /// Its name.
    pub name: String,
    /// When it started.
    pub started: Instant,
    /// Its result, or the message of its panic.
    pub result: Result<T, String>,
}

/// Tasks that wait and tasks that run.
pub struct Pool<K, T> {
    limits: Limits,
    waiting: Vec<Task<K, T>>,
    running: Vec<Running<K>>,
    next_id: u64,
    sender: Sender<(u64, Result<T, String>)>,
    receiver: Receiver<(u64, Result<T, String>)>,
}

impl<K, T: Send + 'static> Pool<K, T> {
    /// A pool without tasks.
    pub fn new(limits: Limits) -> Self {
        let (sender, receiver) = channel();
        Self {
            limits,
            waiting: Vec::new(),
            running: Vec::new(),
            next_id: 0,
            sender,
            receiver,
        }
    }

    /// Adds a task, which starts in [`Pool::next`].
    pub fn add(
        &mut self,
        key: K,
        name: impl Into<String>,
        cost: Cost,
        work: impl FnOnce(&Status) -> T + Send + 'static,
    ) {
        self.waiting.push(Task {
            key,
            name: name.into(),
            cost,
            work: Box::new(work),
        });
        // Stable: tasks of equal cost start in the order in which they were added.
        self.waiting.sort_by(|a, b| {
            let order = |cost: &Cost| !cost.is_urgent;
            order(&a.cost)
                .cmp(&order(&b.cost))
                .then(b.cost.seconds.total_cmp(&a.cost.seconds))
        });
    }

    /// Starts every task that fits and waits until a task ends; `None` if there is none left.
    pub fn next(&mut self, on_tick: &mut dyn FnMut(&Self)) -> Option<Finished<K, T>> {
        self.start_fitting();
        if self.running.is_empty() {
            return None;
        }
        let (id, result) = loop {
            match self.receiver.recv_timeout(TICK) {
                Ok(ended) => break ended,
                Err(RecvTimeoutError::Timeout) => on_tick(self),
                Err(RecvTimeoutError::Disconnected) => unreachable!("the pool holds a sender"),
            }
        };
        let at = self.running.iter().position(|task| task.id == id);
        let task = self
            .running
            .swap_remove(at.expect("only running tasks end"));
        Some(Finished {
            key: task.key,
            name: task.name,
            started: task.started,
            result,
        })
    }

    /// Drops the tasks that did not start.
    pub fn cancel(&mut self) {
        self.waiting.clear();
    }

    /// Number of tasks that did not start.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Name, duration and last line of each running task, the longest first.
    pub fn running(&self) -> Vec<(String, Duration, String)> {
        let mut all: Vec<_> = self
            .running
            .iter()
            .map(|task| (task.name.clone(), task.started.elapsed(), task.status.get()))
            .collect();
        all.sort_by_key(|(_, time, _)| std::cmp::Reverse(*time));
        all
    }

    fn start_fitting(&mut self) {
        while let Some(at) = self.waiting.iter().position(|task| self.fits(&task.cost)) {
            let task = self.waiting.remove(at);
            self.start(task);
        }
    }

    fn fits(&self, cost: &Cost) -> bool {
        if self.running.is_empty() {
            return true;
        }
        let all = || self.running.iter().map(|task| &task.cost);
        let cores: u32 = all().map(|cost| cost.cores_percent).sum();
        let memory: u64 = all().map(|cost| cost.memory_mib).sum();
        let is_locked = cost.lock.is_some() && all().any(|running| running.lock == cost.lock);
        !is_locked
            && cores + cost.cores_percent <= self.limits.cores_percent
            && memory + cost.memory_mib <= self.limits.memory_mib
    }

    fn start(&mut self, task: Task<K, T>) {
        let id = self.next_id;
        self.next_id += 1;
        let status = Status::default();
        self.running.push(Running {
            id,
            key: task.key,
            name: task.name,
            cost: task.cost,
            started: Instant::now(),
            status: status.clone(),
        });
        let sender = self.sender.clone();
        let work = task.work;
        thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&status)));
            // The pool is gone if this process is being interrupted.
            sender.send((id, result.map_err(panic_message))).ok();
        });
    }
}

fn panic_message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    format!("panicked: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    const LIMITS: Limits = Limits {
        cores_percent: 200,
        memory_mib: 1000,
    };

    /// The greatest sum of costs at work at any time, and the order of the starts.
    #[derive(Clone, Default)]
    struct Gauge {
        now: Arc<AtomicU64>,
        peak: Arc<AtomicU64>,
        starts: Arc<Mutex<Vec<u64>>>,
    }

    impl Gauge {
        fn task(&self, id: u64, weight: u64) -> impl FnOnce(&Status) -> u64 + Send + 'static {
            let gauge = self.clone();
            move |_| {
                gauge.starts.lock().unwrap().push(id);
                let now = gauge.now.fetch_add(weight, Ordering::SeqCst) + weight;
                gauge.peak.fetch_max(now, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(5));
                gauge.now.fetch_sub(weight, Ordering::SeqCst);
                id
            }
        }

        fn peak(&self) -> u64 {
            self.peak.load(Ordering::SeqCst)
        }
    }

    fn run_all(pool: &mut Pool<(), u64>) -> usize {
        std::iter::from_fn(|| pool.next(&mut |_| {})).count()
    }

    fn check_peak(weight: fn(&Cost) -> u64, cost: Cost, allowed: u64) {
        let (mut pool, gauge) = (Pool::new(LIMITS), Gauge::default());
        for id in 0..12 {
            pool.add((), "task", cost, gauge.task(id, weight(&cost)));
        }
        assert_eq!(run_all(&mut pool), 12);
        assert!(gauge.peak() <= allowed, "{} > {allowed}", gauge.peak());
    }

    #[test]
    fn running_tasks_keep_to_the_limits() {
        let cost = Cost {
            memory_mib: 10,
            ..Cost::USUAL
        };
        check_peak(|cost| cost.cores_percent.into(), cost, 200);
        let memory_mib = 400;
        let cost = Cost {
            cores_percent: 1,
            memory_mib,
            ..cost
        };
        check_peak(|cost| cost.memory_mib, cost, 800);
    }

    #[test]
    fn tasks_run_in_parallel() {
        let mut pool: Pool<(), bool> = Pool::new(LIMITS);
        let barrier = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let barrier = Arc::clone(&barrier);
            let cost = Cost {
                memory_mib: 10,
                ..Cost::USUAL
            };
            pool.add((), "one of two", cost, move |_| {
                barrier.wait();
                true
            });
        }
        assert!(pool.next(&mut |_| {}).unwrap().result.unwrap());
        assert!(pool.next(&mut |_| {}).unwrap().result.unwrap());
    }

    #[test]
    fn a_task_larger_than_the_limits_runs_by_itself() {
        let large = Cost {
            cores_percent: 900,
            memory_mib: 9000,
            ..Cost::USUAL
        };
        check_peak(|_| 1, large, 1);
    }

    #[test]
    fn a_lock_is_held_by_one_task() {
        let locked = Cost {
            cores_percent: 1,
            memory_mib: 1,
            lock: Some("folder"),
            ..Cost::USUAL
        };
        check_peak(|_| 1, locked, 1);
    }

    #[test]
    fn urgent_tasks_start_first_then_long_ones() {
        let (mut pool, gauge) = (Pool::new(LIMITS), Gauge::default());
        let cost = |seconds, is_urgent| Cost {
            cores_percent: 200,
            seconds,
            is_urgent,
            ..Cost::USUAL
        };
        for (id, cost) in [
            (0, cost(1.0, false)),
            (1, cost(50.0, false)),
            (2, cost(5.0, true)),
            (3, cost(20.0, false)),
        ] {
            pool.add((), "task", cost, gauge.task(id, 1));
        }
        run_all(&mut pool);
        assert_eq!(*gauge.starts.lock().unwrap(), [2, 1, 3, 0]);
    }

    #[test]
    fn a_panic_is_the_result_of_its_task() {
        let mut pool: Pool<u8, ()> = Pool::new(LIMITS);
        pool.add(7, "broken", Cost::USUAL, |_| panic!("no reason"));
        let finished = pool.next(&mut |_| {}).unwrap();
        assert_eq!(finished.key, 7);
        assert!(finished.result.unwrap_err().contains("no reason"));
    }

    #[test]
    fn cancelled_tasks_do_not_start() {
        let (mut pool, gauge) = (Pool::new(LIMITS), Gauge::default());
        for id in 0..3 {
            pool.add((), "task", Cost::USUAL, gauge.task(id, 1));
        }
        pool.cancel();
        assert_eq!((pool.waiting_count(), run_all(&mut pool)), (0, 0));
    }
}
