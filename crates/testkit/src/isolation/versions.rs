//! From events to dependencies: which transaction wrote which version of an object, read it, replaced it.

use std::collections::{HashMap, HashSet};

use super::{
    anomaly::{Anomaly, Class},
    graph::{Colours, Edge},
    history::{Element, Event, History, ObjectId, Outcome},
};

/// One overwrote the other's version.
pub(super) const WW: Colours = 1;
/// One read the other's version.
pub(super) const WR: Colours = 2;
/// One overwrote what the other had read.
pub(super) const RW: Colours = 4;
/// One changed the matches of a predicate that the other had read.
pub(super) const RW_PREDICATE: Colours = 8;
/// One ended before the other began.
pub(super) const RT: Colours = 16;

/// Operations on one object, by committed transactions.
#[derive(Default)]
struct Object {
    /// Reads of other transactions' writes: (reader, version). Lists and sets keep all elements, registers
    /// one value or none.
    reads: Vec<(u32, Vec<Element>)>,
    /// Final writes of committed transactions: (writer, elements in order, what it had read before).
    writes: Vec<(u32, Vec<Element>, Option<Vec<Element>>)>,
    removals: HashMap<Element, u32>,
    kind: Kind,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    List,
    Register,
    Set,
}

/// The writer of an element, and whether it was its final write to a register.
struct Writer {
    txn: u32,
    is_final: bool,
}

/// Dependencies, and anomalies found without a graph.
pub(super) struct Dependencies<'a> {
    history: &'a History,
    committed: Vec<bool>,
    writers: HashMap<(ObjectId, Element), Writer>,
    pub edges: Vec<Edge>,
    pub anomalies: Vec<Anomaly>,
}

impl<'a> Dependencies<'a> {
    pub fn new(history: &'a History) -> Self {
        let mut this = Self {
            history,
            committed: Vec::new(),
            writers: HashMap::new(),
            edges: Vec::new(),
            anomalies: Vec::new(),
        };
        this.find_writers();
        this.decide_outcomes();
        let mut objects: Vec<Object> = Vec::new();
        objects.resize_with(history.objects.len(), Object::default);
        for txn in 0..history.txns.len() as u32 {
            if this.committed[txn as usize] {
                this.replay(txn, &mut objects);
            }
        }
        for (id, object) in objects.iter().enumerate() {
            match object.kind {
                Kind::List => this.list(id as ObjectId, object),
                Kind::Register => this.register(id as ObjectId, object),
                Kind::Set => this.set(id as ObjectId, object),
                Kind::Unknown => {}
            }
        }
        this
    }

    /// Whether a transaction took effect.
    pub fn is_committed(&self, txn: u32) -> bool {
        self.committed[txn as usize]
    }

    fn find_writers(&mut self) {
        for (txn, record) in self.history.txns.iter().enumerate() {
            let txn = txn as u32;
            let mut last: HashMap<ObjectId, Element> = HashMap::new();
            for event in &record.events {
                let (object, element) = match *event {
                    Event::Append { object, element } | Event::Add { object, element } => {
                        (object, element)
                    }
                    Event::Write { object, value } => {
                        if let Some(before) = last.insert(object, value) {
                            self.writers.insert(
                                (object, before),
                                Writer {
                                    txn,
                                    is_final: false,
                                },
                            );
                        }
                        (object, value)
                    }
                    _ => continue,
                };
                self.writers.insert(
                    (object, element),
                    Writer {
                        txn,
                        is_final: true,
                    },
                );
            }
        }
    }

    /// A transaction with an unknown outcome counts as committed if another one saw one of its writes.
    fn decide_outcomes(&mut self) {
        let txns = &self.history.txns;
        self.committed = txns
            .iter()
            .map(|txn| txn.outcome == Outcome::Committed)
            .collect();
        for (reader, txn) in txns.iter().enumerate() {
            for event in &txn.events {
                let seen: &[Element] = match event {
                    Event::List { seen, .. } | Event::Members { seen, .. } => seen,
                    Event::Read { seen, .. } => seen.as_slice(),
                    _ => continue,
                };
                for element in seen {
                    let Some(writer) = self.writers.get(&(event.object(), *element)) else {
                        continue;
                    };
                    if writer.txn as usize != reader
                        && txns[writer.txn as usize].outcome == Outcome::Unknown
                    {
                        self.committed[writer.txn as usize] = true;
                    }
                }
            }
        }
    }

    /// Separates a transaction's reads of own writes (checked here) from reads of others' writes (kept).
    fn replay(&mut self, txn: u32, objects: &mut [Object]) {
        let history = self.history;
        let mut own: HashMap<ObjectId, Vec<Element>> = HashMap::new();
        let mut gone: HashSet<Element> = HashSet::new();
        let mut first_read: HashMap<ObjectId, Vec<Element>> = HashMap::new();
        let mut read_before_write: HashMap<ObjectId, Vec<Element>> = HashMap::new();
        for event in &history.txns[txn as usize].events {
            let id = event.object();
            let object = &mut objects[id as usize];
            match event {
                Event::Append { element, .. } | Event::Add { element, .. } => {
                    object.kind = if matches!(event, Event::Append { .. }) {
                        Kind::List
                    } else {
                        Kind::Set
                    };
                    own.entry(id).or_default().push(*element);
                    if let Some(read) = first_read.get(&id) {
                        read_before_write.entry(id).or_insert_with(|| read.clone());
                    }
                }
                Event::Write { value, .. } => {
                    object.kind = Kind::Register;
                    own.insert(id, vec![*value]);
                    if let Some(read) = first_read.get(&id) {
                        read_before_write.entry(id).or_insert_with(|| read.clone());
                    }
                }
                Event::Remove { element, .. } => {
                    object.kind = Kind::Set;
                    object.removals.insert(*element, txn);
                    gone.insert(*element);
                }
                Event::List { seen, .. } => {
                    object.kind = Kind::List;
                    let mine = own.get(&id).map_or(&[][..], Vec::as_slice);
                    let Some(others) = seen.strip_suffix(mine) else {
                        self.report(
                            Class::Internal,
                            format!(
                                "T{txn} read {seen:?} in {} after it appended {mine:?}",
                                self.name(id)
                            ),
                        );
                        continue;
                    };
                    first_read.entry(id).or_insert_with(|| others.to_vec());
                    object.reads.push((txn, others.to_vec()));
                }
                Event::Read { seen, .. } => {
                    object.kind = Kind::Register;
                    match own.get(&id).and_then(|own| own.last()) {
                        Some(mine) if *seen != Some(*mine) => self.report(
                            Class::Internal,
                            format!(
                                "T{txn} read {seen:?} in {} after it wrote {mine}",
                                self.name(id)
                            ),
                        ),
                        Some(_) => {}
                        None => {
                            first_read
                                .entry(id)
                                .or_insert_with(|| seen.iter().copied().collect());
                            object.reads.push((txn, seen.iter().copied().collect()));
                        }
                    }
                }
                Event::Members { seen, .. } => {
                    object.kind = Kind::Set;
                    let mine = own.get(&id).map_or(&[][..], Vec::as_slice);
                    let kept = mine
                        .iter()
                        .all(|element| gone.contains(element) || seen.contains(element));
                    if !kept || seen.iter().any(|element| gone.contains(element)) {
                        self.report(
                            Class::Internal,
                            format!("T{txn} saw {seen:?} in {} after it added {mine:?} and removed {gone:?}", self.name(id)),
                        );
                    }
                    // An element it removed itself must have been read before: it counts as a read of another
                    // transaction's version.
                    let others = seen
                        .iter()
                        .copied()
                        .filter(|element| !mine.contains(element));
                    object.reads.push((txn, others.collect()));
                }
            }
        }
        for (id, elements) in own {
            objects[id as usize]
                .writes
                .push((txn, elements, read_before_write.remove(&id)));
        }
    }

    fn list(&mut self, id: ObjectId, object: &Object) {
        let empty = Vec::new();
        let longest = object
            .reads
            .iter()
            .map(|(_, seen)| seen)
            .max_by_key(|seen| seen.len())
            .unwrap_or(&empty)
            .clone();
        for pair in longest.windows(2) {
            if let (Some(before), Some(after)) =
                (self.writer(id, pair[0]), self.writer(id, pair[1]))
            {
                self.edge(before, after, WW, id);
            }
        }
        for (reader, seen) in &object.reads {
            self.check_readable(id, *reader, seen);
            if !longest.starts_with(seen) {
                self.report(
                    Class::IncompatibleOrder,
                    format!(
                        "{} was read as {} by T{reader} and as {} by another",
                        self.name(id),
                        tail(seen),
                        tail(&longest)
                    ),
                );
                continue;
            }
            let last = seen.last().and_then(|element| self.writer(id, *element));
            let next = longest
                .get(seen.len())
                .and_then(|element| self.writer(id, *element));
            if let Some(last) = last {
                if next == Some(last) && last != *reader {
                    self.report(
                        Class::G1b,
                        format!(
                            "T{reader} read {} amid the appends of T{last}: {}",
                            self.name(id),
                            tail(seen)
                        ),
                    );
                }
                self.edge(last, *reader, WR, id);
            }
            if let Some(next) = next {
                self.edge(*reader, next, RW, id);
            }
        }
        self.lost_updates(id, object);
        let present: HashSet<Element> = longest.iter().copied().collect();
        self.lost_writes(id, object, &present);
    }

    /// The known part of a register's version order: a writer follows the version that it read; a writer that
    /// read none follows those that had ended before it began.
    fn register(&mut self, id: ObjectId, object: &Object) {
        let mut followers: HashMap<Option<Element>, Vec<u32>> = HashMap::new();
        let mut by_end: Vec<(u64, u64, Element)> = Vec::new();
        for (writer, elements, _) in &object.writes {
            let txn = &self.history.txns[*writer as usize];
            by_end.extend(elements.last().map(|value| (txn.end, txn.begin, *value)));
        }
        by_end.sort_unstable();
        for (writer, _, read) in &object.writes {
            if let Some(read) = read {
                followers
                    .entry(read.last().copied())
                    .or_default()
                    .push(*writer);
                continue;
            }
            let begin = self.history.txns[*writer as usize].begin;
            let before = &by_end[..by_end.partition_point(|(end, ..)| *end < begin)];
            // Of those that had ended, the maximal ones.
            let latest_begin = before.iter().map(|(_, begin, _)| *begin).max();
            let mut any = false;
            for (end, _, value) in before.iter().rev() {
                if latest_begin.is_some_and(|latest| *end < latest) {
                    break;
                }
                followers.entry(Some(*value)).or_default().push(*writer);
                any = true;
            }
            if !any {
                followers.entry(None).or_default().push(*writer);
            }
        }
        for (version, after) in &followers {
            let Some(before) = version.and_then(|value| self.writer(id, value)) else {
                continue;
            };
            for writer in after {
                self.edge(before, *writer, WW, id);
            }
        }
        for (reader, seen) in &object.reads {
            self.check_readable(id, *reader, seen);
            if let Some(writer) = seen.last().and_then(|value| self.writer(id, *value)) {
                self.edge(writer, *reader, WR, id);
            }
            for writer in followers.get(&seen.last().copied()).into_iter().flatten() {
                self.edge(*reader, *writer, RW, id);
            }
        }
        self.lost_updates(id, object);
        self.lost_register_writes(id, object);
    }

    fn set(&mut self, id: ObjectId, object: &Object) {
        let added: Vec<(u32, Element)> = object
            .writes
            .iter()
            .flat_map(|(writer, elements, _)| elements.iter().map(|element| (*writer, *element)))
            .collect();
        for (element, remover) in &object.removals {
            if let Some(adder) = self.writer(id, *element) {
                self.edge(adder, *remover, WW, id);
            }
        }
        for (reader, seen) in &object.reads {
            self.check_readable(id, *reader, seen);
            let members: HashSet<Element> = seen.iter().copied().collect();
            for element in seen {
                if let Some(adder) = self.writer(id, *element) {
                    self.edge(adder, *reader, WR, id);
                }
                if let Some(remover) = object.removals.get(element) {
                    self.edge(*reader, *remover, RW_PREDICATE, id);
                }
            }
            for (adder, element) in &added {
                // An element that was added and removed may be missing for either reason.
                if !members.contains(element) && !object.removals.contains_key(element) {
                    self.edge(*reader, *adder, RW_PREDICATE, id);
                }
            }
        }
    }

    fn check_readable(&mut self, id: ObjectId, reader: u32, seen: &[Element]) {
        for element in seen {
            match self.writers.get(&(id, *element)) {
                None => self.report(
                    Class::Garbage,
                    format!(
                        "T{reader} read {element} in {}, which no transaction wrote",
                        self.name(id)
                    ),
                ),
                Some(Writer { txn, .. }) if !self.committed[*txn as usize] => {
                    let story = format!(
                        "T{reader} read {element} in {}, of T{txn}, which aborted",
                        self.name(id)
                    );
                    self.report(Class::G1a, story);
                }
                Some(Writer {
                    txn,
                    is_final: false,
                }) if *txn != reader => {
                    let story = format!(
                        "T{reader} read {element} in {}, which T{txn} overwrote before it committed",
                        self.name(id)
                    );
                    self.report(Class::G1b, story);
                }
                Some(_) => {}
            }
        }
    }

    fn lost_updates(&mut self, id: ObjectId, object: &Object) {
        let mut by_version: HashMap<&[Element], u32> = HashMap::new();
        for (writer, _, read) in &object.writes {
            let Some(read) = read else { continue };
            if let Some(other) = by_version.insert(read, *writer) {
                let story = format!(
                    "T{other} and T{writer} both read {} in {} and overwrote it",
                    tail(read),
                    self.name(id)
                );
                self.report(Class::LostUpdate, story);
            }
        }
    }

    fn lost_writes(&mut self, id: ObjectId, object: &Object, present: &HashSet<Element>) {
        let txns = &self.history.txns;
        let last_begin = object
            .reads
            .iter()
            .map(|(reader, _)| txns[*reader as usize].begin)
            .max()
            .unwrap_or(0);
        for (writer, elements, _) in &object.writes {
            if txns[*writer as usize].end < last_begin
                && let Some(element) = elements.iter().find(|element| !present.contains(element))
            {
                let story = format!(
                    "T{writer} appended {element} to {} and committed; later readers do not see it",
                    self.name(id)
                );
                self.report(Class::LostWrite, story);
            }
        }
    }

    /// A register that reads as empty after a write to it had committed.
    fn lost_register_writes(&mut self, id: ObjectId, object: &Object) {
        let txns = &self.history.txns;
        let first = object
            .writes
            .iter()
            .map(|(writer, ..)| (txns[*writer as usize].end, *writer))
            .min();
        let Some((first_end, writer)) = first else {
            return;
        };
        let empty = object
            .reads
            .iter()
            .find(|(reader, seen)| seen.is_empty() && txns[*reader as usize].begin > first_end);
        if let Some((reader, _)) = empty {
            self.report(
                Class::LostWrite,
                format!(
                    "T{writer} wrote {} and committed; T{reader} finds nothing there",
                    self.name(id)
                ),
            );
        }
    }

    fn writer(&self, id: ObjectId, element: Element) -> Option<u32> {
        let writer = self.writers.get(&(id, element))?;
        self.committed[writer.txn as usize].then_some(writer.txn)
    }

    fn edge(&mut self, from: u32, to: u32, colour: Colours, label: ObjectId) {
        if from != to {
            self.edges.push(Edge {
                from,
                to,
                colour,
                label,
            });
        }
    }

    fn name(&self, id: ObjectId) -> &str {
        &self.history.objects[id as usize]
    }

    fn report(&mut self, class: Class, story: String) {
        self.anomalies.push(Anomaly { class, story });
    }
}

/// The tail of a list, for display.
fn tail(seen: &[Element]) -> String {
    const SHOWN: usize = 6;
    match seen.len() {
        0..=SHOWN => format!("{seen:?}"),
        count => format!(
            "[{} more, {}",
            count - SHOWN,
            &format!("{:?}", &seen[count - SHOWN..])[1..]
        ),
    }
}
