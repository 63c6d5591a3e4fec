//! Engines that take turns pass the conformance scripts, and agree with a model on random histories.

use std::sync::Arc;

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{
    Engine, MemoryEngine,
    conformance::{EngineTurns, Random, Subject, SubjectOptions, random_history},
};
use tempfile::TempDir;

use super::{assert_sound, open, small};

/// Engines without threads flush, compact and follow between the calls.
fn maintain_by_hand(engines: &[Arc<LsmEngine>], turn: u64) {
    let mut random = Random(turn);
    if random.below(8) > 0 {
        return;
    }
    let engine = &engines[random.below(engines.len() as u64) as usize];
    match random.below(4) {
        0 if engine.maintains() => engine.flush().expect("flushed"),
        1 if engine.maintains() => engine.compact().expect("merged"),
        2 if engine.maintains() => engine.compact_all().expect("merged"),
        _ => engine.follow().expect("follows"),
    }
}

fn in_turns(engines: Vec<Arc<LsmEngine>>, by_hand: bool) -> EngineTurns<LsmEngine> {
    let turns = EngineTurns::new(engines).maintained_by(LsmEngine::maintains);
    if by_hand {
        turns.before_turn(maintain_by_hand)
    } else {
        turns
    }
}

/// Some engines on one folder.
struct Several {
    folder: TempDir,
    options: LsmOptions,
    count: usize,
    reopened: usize,
    engine: Option<Arc<EngineTurns<LsmEngine>>>,
}

impl Several {
    fn new(count: usize, options: LsmOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engines = (0..count).map(|_| Arc::new(open(folder.path(), &options)));
        let engine = in_turns(engines.collect(), !options.background);
        Self {
            engine: Some(Arc::new(engine)),
            folder,
            options,
            count,
            reopened: 0,
        }
    }
}

impl Subject for Several {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("open")
    }

    /// Each time another one is closed and opened again, and now and then all of them are.
    fn reopen(&mut self) {
        let before = self.engine.take().expect("open");
        let before = Arc::into_inner(before).expect("the engine is still in use");
        let (mut engines, turn) = before.into_parts();
        self.reopened += 1;
        let at = self.reopened % (self.count + 1);
        if at == self.count {
            engines.clear();
        } else {
            engines.remove(at);
        }
        while engines.len() < self.count {
            engines.push(Arc::new(open(self.folder.path(), &self.options)));
        }
        for engine in &engines {
            engine.follow().expect("follows");
        }
        let maintainers = engines.iter().filter(|engine| engine.maintains());
        assert_eq!(maintainers.count(), 1, "one process maintains the tables");
        let engine = in_turns(engines, !self.options.background).continued_from(turn);
        self.engine = Some(Arc::new(engine.expect("statistics")));
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        let is_open = self.engine.take().is_some();
        if is_open && !std::thread::panicking() {
            assert_sound(&open(self.folder.path(), &self.options));
        }
    }
}

fn with(options: SubjectOptions, count: usize, background: bool) -> Box<dyn Subject> {
    let options = LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..small(background)
    };
    Box::new(Several::new(count, options))
}

fn usual(options: SubjectOptions) -> Box<dyn Subject> {
    let options = LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        sharing: isomer_lsm::LogSharing::Shared,
        ..LsmOptions::default()
    };
    Box::new(Several::new(1, options))
}

fn one(options: SubjectOptions) -> Box<dyn Subject> {
    with(options, 1, true)
}

fn two(options: SubjectOptions) -> Box<dyn Subject> {
    with(options, 2, true)
}

mod usual_sizes {
    isomer_storage::conformance_tests!(super::usual);
}

mod one_process {
    isomer_storage::conformance_tests!(super::one);
}

mod two_processes {
    isomer_storage::conformance_tests!(super::two);
}

struct Memory(Arc<MemoryEngine>);

impl Subject for Memory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    fn reopen(&mut self) {}
}

/// One, two and three engines on a folder, with threads and without, agree with the memory engine and the model.
#[test]
fn random_histories_match_the_model() {
    for seed in 3000..3012 {
        let memory: Box<dyn Subject> = Box::new(Memory(Arc::default()));
        let mut subjects = vec![memory];
        for (count, background) in [(1, true), (2, false), (2, true), (3, false)] {
            subjects.push(with(SubjectOptions::default(), count, background));
        }
        random_history(seed, 1000, &mut subjects);
    }
}
