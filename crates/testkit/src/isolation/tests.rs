//! Constructed histories: every class of anomaly is found where it is, and not elsewhere.

use super::*;

/// `history!`-like builder: objects by name, moments that follow the order of the calls.
#[derive(Default)]
struct Script {
    history: History,
    clock: u64,
}

const A: ObjectId = 0;
const B: ObjectId = 1;

impl Script {
    fn new() -> Self {
        let objects = vec!["a".to_owned(), "b".to_owned()];
        Self {
            history: History {
                objects,
                txns: Vec::new(),
            },
            clock: 1_000,
        }
    }

    /// A transaction concurrent with all others created by `during`.
    fn during(mut self, events: &[Event], outcome: Outcome) -> Self {
        let begin = self.history.txns.len() as u64;
        let end = 500 + begin;
        self.history.txns.push(Txn {
            events: events.to_vec(),
            outcome,
            begin,
            end,
        });
        self
    }

    /// A transaction after all others.
    fn after(mut self, events: &[Event]) -> Self {
        self.clock += 2;
        let (begin, end) = (self.clock, self.clock + 1);
        self.history.txns.push(Txn {
            events: events.to_vec(),
            outcome: Outcome::Committed,
            begin,
            end,
        });
        self
    }

    fn commits(self, events: &[Event]) -> Self {
        self.during(events, Outcome::Committed)
    }

    fn aborts(self, events: &[Event]) -> Self {
        self.during(events, Outcome::Aborted)
    }

    fn classes(self) -> Vec<Class> {
        let report = check(&self.history);
        for anomaly in &report.anomalies {
            println!("{anomaly}");
        }
        report.classes()
    }
}

fn append(object: ObjectId, element: Element) -> Event {
    Event::Append { object, element }
}
fn list(object: ObjectId, seen: &[Element]) -> Event {
    Event::List {
        object,
        seen: seen.to_vec(),
    }
}
fn write(object: ObjectId, value: Element) -> Event {
    Event::Write { object, value }
}
fn read(object: ObjectId, seen: impl Into<Option<Element>>) -> Event {
    Event::Read {
        object,
        seen: seen.into(),
    }
}
fn add(object: ObjectId, element: Element) -> Event {
    Event::Add { object, element }
}
fn remove(object: ObjectId, element: Element) -> Event {
    Event::Remove { object, element }
}
fn members(object: ObjectId, seen: &[Element]) -> Event {
    Event::Members {
        object,
        seen: seen.to_vec(),
    }
}

#[test]
fn a_serial_history_is_clean() {
    let classes = Script::new()
        .after(&[list(A, &[]), append(A, 1), list(A, &[1])])
        .after(&[list(A, &[1]), append(A, 2), append(A, 3)])
        .after(&[read(B, None), write(B, 10), read(B, 10), write(B, 11)])
        .after(&[list(A, &[1, 2, 3]), read(B, 11)])
        .classes();
    assert_eq!(classes, []);
}

#[test]
fn concurrent_transactions_that_can_be_ordered_are_clean() {
    let classes = Script::new()
        .commits(&[list(A, &[]), append(B, 1)])
        .commits(&[list(B, &[]), list(A, &[])])
        .commits(&[append(A, 2)])
        .aborts(&[list(A, &[]), append(A, 9)])
        .after(&[list(A, &[2]), list(B, &[1])])
        .classes();
    assert_eq!(classes, []);
}

#[test]
fn adding_to_a_set_commutes() {
    let classes = Script::new()
        .commits(&[add(A, 1), add(B, 2)])
        .commits(&[add(A, 3), add(B, 4)])
        .after(&[members(A, &[3, 1]), members(B, &[2, 4])])
        .after(&[members(A, &[1, 3]), remove(A, 1), members(A, &[3])])
        .after(&[members(A, &[3])])
        .classes();
    assert_eq!(classes, []);
}

#[test]
fn g0_two_writers_in_both_orders() {
    let classes = Script::new()
        .commits(&[append(A, 1), append(B, 2)])
        .commits(&[append(A, 3), append(B, 4)])
        .after(&[list(A, &[1, 3]), list(B, &[4, 2])])
        .classes();
    assert_eq!(classes, [Class::G0]);
}

#[test]
fn g1a_a_value_of_an_aborted_transaction() {
    assert_eq!(
        Script::new()
            .aborts(&[append(A, 1)])
            .commits(&[list(A, &[1])])
            .classes(),
        [Class::G1a]
    );
    assert_eq!(
        Script::new()
            .aborts(&[write(A, 1)])
            .commits(&[read(A, 1)])
            .classes(),
        [Class::G1a]
    );
    assert_eq!(
        Script::new()
            .aborts(&[add(A, 1)])
            .commits(&[members(A, &[1])])
            .classes(),
        [Class::G1a]
    );
}

#[test]
fn g1b_a_value_that_its_writer_overwrote() {
    let register = Script::new()
        .commits(&[write(A, 1), write(A, 2)])
        .commits(&[read(A, 1)]);
    assert_eq!(register.classes(), [Class::G1b]);
    let appends = Script::new()
        .commits(&[append(A, 1), append(A, 2)])
        .commits(&[list(A, &[1])])
        .after(&[list(A, &[1, 2])]);
    assert!(appends.classes().contains(&Class::G1b));
}

#[test]
fn g1c_two_transactions_that_read_each_other() {
    let classes = Script::new()
        .commits(&[write(A, 1), read(B, 2)])
        .commits(&[write(B, 2), read(A, 1)])
        .classes();
    assert_eq!(classes, [Class::G1c]);
}

#[test]
fn lost_update_two_overwrite_one_version() {
    let registers = Script::new()
        .commits(&[write(A, 1)])
        .commits(&[read(A, 1), write(A, 2)])
        .commits(&[read(A, 1), write(A, 3)]);
    assert_eq!(registers.classes(), [Class::LostUpdate]);
    let lists = Script::new()
        .commits(&[list(A, &[]), append(A, 1)])
        .commits(&[list(A, &[]), append(A, 2)])
        .after(&[list(A, &[1, 2])]);
    assert_eq!(lists.classes(), [Class::LostUpdate]);
}

#[test]
fn a_lost_update_that_also_loses_the_write() {
    let classes = Script::new()
        .commits(&[list(A, &[]), append(A, 1)])
        .commits(&[list(A, &[]), append(A, 2)])
        .after(&[list(A, &[2])])
        .classes();
    assert_eq!(classes, [Class::LostWrite, Class::LostUpdate]);
}

#[test]
fn g_single_a_reader_between_two_writes_of_one_transaction() {
    let classes = Script::new()
        .commits(&[append(A, 1), append(B, 2)])
        .commits(&[list(A, &[1]), list(B, &[])])
        .after(&[list(A, &[1]), list(B, &[2])])
        .classes();
    assert_eq!(classes, [Class::GSingle]);
}

#[test]
fn write_skew_each_reads_what_the_other_writes() {
    let lists = Script::new()
        .commits(&[list(A, &[]), append(B, 1)])
        .commits(&[list(B, &[]), append(A, 2)])
        .after(&[list(A, &[2]), list(B, &[1])]);
    assert_eq!(lists.classes(), [Class::WriteSkew]);
    let registers = Script::new()
        .commits(&[read(A, None), read(B, None), write(A, 1)])
        .commits(&[read(A, None), read(B, None), write(B, 2)]);
    assert_eq!(registers.classes(), [Class::WriteSkew]);
}

#[test]
fn phantom_each_adds_what_the_other_did_not_see() {
    let classes = Script::new()
        .commits(&[members(A, &[]), add(A, 1)])
        .commits(&[members(A, &[]), add(A, 2)])
        .after(&[members(A, &[1, 2])])
        .classes();
    assert_eq!(classes, [Class::Phantom]);
}

#[test]
fn phantom_across_a_set_and_a_register() {
    let classes = Script::new()
        .commits(&[members(A, &[]), read(B, None), write(B, 7)])
        .commits(&[read(B, None), add(A, 1)])
        .classes();
    assert_eq!(classes, [Class::Phantom]);
}

#[test]
fn phantom_through_a_removal() {
    let classes = Script::new()
        .commits(&[add(A, 1)])
        .commits(&[members(A, &[1]), read(B, None), write(B, 7)])
        .commits(&[members(A, &[1]), remove(A, 1), read(B, None)])
        .classes();
    assert_eq!(classes, [Class::Phantom]);
}

#[test]
fn internal_a_transaction_misses_its_own_write() {
    assert_eq!(
        Script::new()
            .commits(&[append(A, 1), list(A, &[])])
            .classes(),
        [Class::Internal]
    );
    assert_eq!(
        Script::new()
            .commits(&[write(A, 1), read(A, None)])
            .classes(),
        [Class::Internal]
    );
    assert_eq!(
        Script::new()
            .commits(&[add(A, 1), members(A, &[])])
            .classes(),
        [Class::Internal]
    );
}

#[test]
fn garbage_a_value_that_was_never_written() {
    assert_eq!(
        Script::new().commits(&[read(A, 5)]).classes(),
        [Class::Garbage]
    );
}

#[test]
fn a_committed_write_must_be_seen_later() {
    assert!(
        Script::new()
            .after(&[append(A, 1)])
            .after(&[list(A, &[])])
            .classes()
            .contains(&Class::LostWrite)
    );
    assert!(
        Script::new()
            .after(&[write(A, 1)])
            .after(&[read(A, None)])
            .classes()
            .contains(&Class::LostWrite)
    );
}

#[test]
fn readers_of_different_orders() {
    let classes = Script::new()
        .commits(&[append(A, 1)])
        .commits(&[append(A, 2)])
        .commits(&[list(A, &[1, 2])])
        .commits(&[list(A, &[2])])
        .classes();
    assert_eq!(classes, [Class::IncompatibleOrder]);
}

#[test]
fn a_stale_read_shows_in_real_time_alone() {
    let classes = Script::new()
        .after(&[write(A, 1)])
        .after(&[read(A, 1), write(A, 2)])
        .after(&[read(A, 1)])
        .classes();
    assert_eq!(classes, [Class::Stale]);
    let set = Script::new()
        .after(&[add(A, 1)])
        .after(&[members(A, &[])])
        .classes();
    assert_eq!(set, [Class::Stale]);
}

#[test]
fn an_unknown_outcome_counts_as_what_was_seen() {
    let seen = Script::new()
        .during(&[append(A, 1)], Outcome::Unknown)
        .commits(&[list(A, &[1])]);
    assert_eq!(seen.classes(), []);
    let unseen = Script::new()
        .during(&[append(A, 1)], Outcome::Unknown)
        .after(&[list(A, &[])]);
    assert_eq!(unseen.classes(), []);
}

/// A simulated serializable store with a random schedule yields clean histories: the checker has no false
/// positives.
#[test]
fn random_serial_executions_are_clean() {
    for seed in 0..50_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let recorder = Recorder::new();
        let names = [
            "list 0",
            "list 1",
            "register 0",
            "register 1",
            "set 0",
            "set 1",
        ];
        let ids: Vec<ObjectId> = names.iter().map(|name| recorder.object(name)).collect();
        let mut lists: [Vec<Element>; 2] = Default::default();
        let mut registers: [Option<Element>; 2] = Default::default();
        let mut sets: [Vec<Element>; 2] = Default::default();
        for _ in 0..200 {
            let mut recording = recorder.begin();
            let saved = (lists.clone(), registers, sets.clone());
            for _ in 0..1 + next(5) {
                let which = next(2) as usize;
                match next(7) {
                    0 => {
                        let element = recorder.element();
                        lists[which].push(element);
                        recording.push(append(ids[which], element));
                    }
                    1 => recording.push(list(ids[which], &lists[which])),
                    2 => {
                        let value = recorder.element();
                        registers[which] = Some(value);
                        recording.push(write(ids[2 + which], value));
                    }
                    3 => recording.push(read(ids[2 + which], registers[which])),
                    4 => {
                        let element = recorder.element();
                        sets[which].push(element);
                        recording.push(add(ids[4 + which], element));
                    }
                    5 => recording.push(members(ids[4 + which], &sets[which])),
                    _ => {
                        recording.push(members(ids[4 + which], &sets[which]));
                        if let Some(element) = sets[which].pop() {
                            recording.push(remove(ids[4 + which], element));
                        }
                    }
                }
            }
            let outcome = if next(5) == 0 {
                Outcome::Aborted
            } else {
                Outcome::Committed
            };
            if outcome == Outcome::Aborted {
                (lists, registers, sets) = saved;
            }
            recorder.end(recording, outcome);
        }
        let report = check(&recorder.finish());
        assert_eq!(report.anomalies, [], "seed {seed}");
    }
}
