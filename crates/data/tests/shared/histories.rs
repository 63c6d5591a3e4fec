//! Random histories of processes that take turns: after each step every process reads what the model holds.

use std::collections::BTreeSet;

use isomer_data::{
    Access, BucketKind, BucketOptions, ConstraintKind, ConstraintSpec, ConvergentOp,
    ConvergentOwner, DataError, DataStore, Expiry, FieldPath, IndexField, IndexSpec, SchemaChange,
    ScopeName, Transaction, ValueType,
};
use isomer_value::{Map, Value};

use crate::{
    model::{COLLECTIONS, COUNTED, Content, TYPES},
    processes::{SharedDatabase, assert_sound},
};

/// A small random generator (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % most
    }

    pub fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

const BUCKETS: [&str; 3] = ["sessions", "tags", "emails"];
const SEQUENCES: [&str; 2] = ["invoice", "ticket"];
const KEYS: u64 = 12;
const COUNTED_NODES: i64 = 3;

fn write<T>(
    store: &DataStore,
    body: impl FnOnce(&mut Transaction) -> Result<T, DataError>,
) -> Result<T, DataError> {
    let mut tx = store.begin(Access::Write)?;
    let value = body(&mut tx)?;
    tx.commit()?;
    Ok(value)
}

struct History {
    dice: Dice,
    model: Content,
    /// Names of properties so far.
    properties: u64,
    /// The last number of each gapped sequence that was taken.
    taken: BTreeSet<u64>,
    now_ms: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            model: Content::default(),
            properties: 1,
            taken: BTreeSet::new(),
            now_ms: 1_000_000,
        }
    }

    fn prepare(&mut self, store: &DataStore) {
        write(store, |tx| {
            for key in 0..COUNTED_NODES {
                let mut document = Map::new();
                document.insert("_key", Value::Int(key));
                tx.documents_mut().insert(COUNTED, &document)?;
            }
            Ok(())
        })
        .expect("no conflict");
        for key in 0..COUNTED_NODES {
            self.model.counters.insert(key, 0);
            self.model.sets.insert(key, BTreeSet::new());
        }
    }

    /// One step of the process `store`. Processes take turns: nothing conflicts.
    fn step(&mut self, store: &DataStore) -> &'static str {
        match self.dice.below(22) {
            0..4 => self.put_document(store),
            4 | 5 => self.remove_document(store),
            6 | 7 => self.link(store),
            8..11 => self.put_entry(store),
            11 => self.change_bucket(store),
            12 => self.multi(store),
            13 => self.sequence(store),
            14 => self.take_numbers(store),
            15..18 => self.converge(store),
            18 | 19 => self.change_schema(store),
            20 => self.keep_ends(store),
            _ => {
                store.sweep_expired(u64::MAX).expect("no error");
                "sweep"
            }
        }
    }

    fn put_document(&mut self, store: &DataStore) -> &'static str {
        let collection = self.dice.one_of(&COLLECTIONS);
        let key = self.dice.below(KEYS) as i64;
        if self.dice.below(4) == 0 {
            self.properties += 1;
        }
        let name = format!("p{}", self.dice.below(self.properties));
        let value = Value::Int(self.dice.below(50) as i64);
        let mut document = Map::new();
        document.insert(name.as_str(), value.clone());
        let known = self.model.documents.entry((collection.to_owned(), key));
        let is_known = matches!(known, std::collections::btree_map::Entry::Occupied(_));
        known.or_default().insert(name, value);
        write(store, |tx| match is_known {
            true => tx
                .documents_mut()
                .patch(collection, &Value::Int(key), &document),
            false => {
                document.insert("_key", Value::Int(key));
                tx.documents_mut().insert(collection, &document).map(drop)
            }
        })
        .expect("no conflict");
        "put a document"
    }

    fn remove_document(&mut self, store: &DataStore) -> &'static str {
        let collection = self.dice.one_of(&COLLECTIONS);
        let key = self.dice.below(KEYS) as i64;
        let at = (collection.to_owned(), key);
        let was = self.model.documents.remove(&at).is_some();
        self.model
            .links
            .retain(|(_, one, other), _| *one != at && *other != at);
        let removed = write(store, |tx| {
            tx.documents_mut()
                .remove(collection, &Value::Int(key), true)
        });
        assert_eq!(removed.expect("no conflict"), was);
        "remove a document"
    }

    fn link(&mut self, store: &DataStore) -> &'static str {
        let count = self.model.documents.len() as u64;
        if count == 0 {
            return "nothing";
        }
        let mut one_of = || {
            let at = self.dice.below(count) as usize;
            let key = self.model.documents.keys().nth(at);
            key.cloned().expect("there are as many")
        };
        let (one, other) = (one_of(), one_of());
        let rel_type = self.dice.one_of(&TYPES);
        write(store, |tx| {
            let type_id = tx.name_ids().intern_type(rel_type)?;
            let node = |(collection, key): &(String, i64)| {
                let found = tx.documents().node(collection, &Value::Int(*key))?;
                Ok::<_, DataError>(found.expect("the model has it"))
            };
            let (source, target) = (node(&one)?, node(&other)?);
            tx.graph_mut()
                .create_relationship(type_id, source, target, &Map::new())
        })
        .expect("no conflict");
        let link = (rel_type.to_owned(), one, other);
        *self.model.links.entry(link).or_default() += 1;
        "link"
    }

    /// The kind of a bucket, by its name.
    fn options(bucket: &str) -> BucketOptions {
        match bucket {
            "tags" => BucketOptions::multi_value(),
            "emails" => BucketOptions::reversible(),
            _ => BucketOptions::default(),
        }
    }

    fn put_entry(&mut self, store: &DataStore) -> &'static str {
        let bucket = ["sessions", "emails"][self.dice.below(2) as usize];
        let key = vec![self.dice.below(8) as u8];
        let Some(entries) = self.model.buckets.get_mut(bucket) else {
            return "nothing";
        };
        match self.dice.below(4) {
            0 => {
                entries.remove(&key);
                write(store, |tx| tx.kv_mut().delete(bucket, &key)).expect("no conflict");
            }
            kind => {
                let value = vec![self.dice.below(3) as u8; 2];
                let expires = (kind == 1).then(|| self.now_ms + 1 + self.dice.below(40));
                entries.insert(key.clone(), (value.clone(), expires));
                let expiry = expires.map_or(Expiry::Never, Expiry::At);
                write(store, |tx| {
                    tx.kv_mut().put_with(bucket, &key, &value, expiry)
                })
                .expect("no conflict");
            }
        }
        "put an entry"
    }

    fn change_bucket(&mut self, store: &DataStore) -> &'static str {
        let bucket = self.dice.one_of(&BUCKETS);
        let options = Self::options(bucket);
        let is_multi = options.kind == BucketKind::Multi;
        let known =
            self.model.buckets.contains_key(bucket) || self.model.multis.contains_key(bucket);
        if !known {
            write(store, |tx| tx.kv_mut().create_bucket(bucket, options)).expect("no conflict");
            match is_multi {
                true => drop(self.model.multis.insert(bucket.to_owned(), BTreeSet::new())),
                false => drop(
                    self.model
                        .buckets
                        .insert(bucket.to_owned(), Default::default()),
                ),
            }
            return "create a bucket";
        }
        assert!(
            write(store, |tx| tx.kv_mut().create_bucket(bucket, options)).is_err(),
            "it exists"
        );
        if self.dice.below(3) > 0 {
            return "refuse a bucket";
        }
        let dropped = write(store, |tx| tx.kv_mut().drop_bucket(bucket));
        assert!(dropped.expect("no conflict"));
        self.model.buckets.remove(bucket);
        self.model.multis.remove(bucket);
        self.model.sequences.iter_mut().for_each(|((of, _), last)| {
            if of == bucket {
                *last = 0;
            }
        });
        if bucket == "sessions" {
            self.taken.clear();
        }
        "drop a bucket"
    }

    fn multi(&mut self, store: &DataStore) -> &'static str {
        let (key, value) = (
            vec![self.dice.below(8) as u8],
            vec![self.dice.below(3) as u8],
        );
        let Some(pairs) = self.model.multis.get_mut("tags") else {
            return "nothing";
        };
        match self.dice.below(3) {
            0 => {
                pairs.remove(&(key.clone(), value.clone()));
                write(store, |tx| tx.kv_mut().remove("tags", &key, &value)).expect("no conflict");
            }
            _ => {
                pairs.insert((key.clone(), value.clone()));
                write(store, |tx| tx.kv_mut().add("tags", &key, &value)).expect("no conflict");
            }
        }
        "several values"
    }

    fn sequence(&mut self, store: &DataStore) -> &'static str {
        if !self.model.buckets.contains_key("emails") {
            return "nothing";
        }
        let sequence = self.dice.one_of(&SEQUENCES);
        let next = write(store, |tx| tx.kv_mut().sequence_next("emails", sequence));
        let at = ("emails".to_owned(), sequence.to_owned());
        let last = self.model.sequences.entry(at).or_default();
        *last += 1;
        assert_eq!(next.expect("no conflict"), *last);
        "a sequence"
    }

    /// Numbers with gaps: none is given twice, by whatever process.
    fn take_numbers(&mut self, store: &DataStore) -> &'static str {
        if !self.model.buckets.contains_key("sessions") {
            return "nothing";
        }
        for _ in 0..self.dice.below(40) {
            let number = store.sequence_take("sessions", "session").expect("taken");
            assert!(self.taken.insert(number), "{number} is given twice");
        }
        "take numbers"
    }

    fn converge(&mut self, store: &DataStore) -> &'static str {
        let key = self.dice.below(COUNTED_NODES as u64) as i64;
        let (amount, element) = (self.dice.below(9) as i64 - 3, self.dice.below(5) as i64);
        let set = self.model.sets.get_mut(&key).expect("prepared");
        let (name, op) = match self.dice.below(4) {
            0 => {
                set.insert(element);
                ("tags", ConvergentOp::Insert(Value::Int(element)))
            }
            1 => {
                set.remove(&element);
                ("tags", ConvergentOp::Remove(Value::Int(element)))
            }
            _ => {
                *self.model.counters.entry(key).or_default() += amount;
                ("count", ConvergentOp::Count(amount))
            }
        };
        write(store, |tx| {
            let node = tx.documents().node(COUNTED, &Value::Int(key))?;
            let owner = ConvergentOwner::Node(node.expect("prepared"));
            tx.fields_mut().converge(owner, &[name], &op, None)
        })
        .expect("no conflict");
        "converge"
    }

    fn change_schema(&mut self, store: &DataStore) -> &'static str {
        let label = self.dice.one_of(&COLLECTIONS).to_owned();
        let path = FieldPath::top(&format!("p{}", self.dice.below(3)));
        let name = format!("{label}_{}", path.0[0]);
        let rule = format!("{name}_number");
        let change = match self.dice.below(4) {
            0 if self.model.indexes.insert(name.clone()) => SchemaChange::CreateIndex {
                spec: IndexSpec {
                    name: Some(name),
                    scope: ScopeName::Label(label),
                    fields: vec![IndexField { path, each: false }],
                    unique: false,
                },
                if_not_exists: false,
            },
            1 if self.model.indexes.remove(&name) => SchemaChange::DropIndex {
                name,
                if_exists: false,
            },
            2 if self.model.constraints.insert(rule.clone()) => SchemaChange::CreateConstraint {
                spec: ConstraintSpec {
                    name: Some(rule),
                    scope: ScopeName::Label(label),
                    kind: ConstraintKind::Type {
                        path,
                        types: vec![ValueType::Int],
                    },
                    unique_fields: Vec::new(),
                },
                if_not_exists: false,
            },
            3 if self.model.constraints.remove(&rule) => SchemaChange::DropConstraint {
                name: rule,
                if_exists: false,
            },
            _ => return "nothing",
        };
        store.change_schema(change).expect("no conflict");
        "change the schema"
    }

    fn keep_ends(&mut self, store: &DataStore) -> &'static str {
        let rel_type = self.dice.one_of(&TYPES);
        let keep = self.model.keepers.insert(rel_type.to_owned());
        if !keep {
            self.model.keepers.remove(rel_type);
        }
        store.keep_endpoints(rel_type, keep).expect("no conflict");
        "keep ends"
    }
}

fn run(seed: u64, processes: usize, steps: usize, follows: bool) {
    let database = SharedDatabase::new(follows);
    let mut stores = database.open_all(processes);
    let mut history = History::new(seed);
    history.prepare(&stores[0]);
    for step in 0..steps {
        let at = history.dice.below(processes as u64) as usize;
        match history.dice.below(60) {
            0 => {
                // A process ends, and another one begins: the last one closes the database.
                drop(stores.remove(at));
                if history.dice.below(4) == 0 {
                    stores.clear();
                }
                while stores.len() < processes {
                    stores.push(database.open());
                }
            }
            1..4 => {
                let ms = history.dice.below(30);
                database.clock.advance(ms);
                history.now_ms += ms;
            }
            _ => {
                let what = history.step(&stores[at]);
                let expected = history.model.clone().at(history.now_ms);
                for (reader, store) in stores.iter().enumerate() {
                    let found = Content::read(store, &expected).at(history.now_ms);
                    assert_eq!(
                        found, expected,
                        "seed {seed}, step {step}: process {at} did `{what}`, process {reader} reads"
                    );
                }
            }
        }
        if step % 50 == 49 {
            stores.iter().for_each(assert_sound);
        }
    }
    stores.iter().for_each(assert_sound);
}

#[test]
fn processes_that_take_turns_read_what_the_others_committed() {
    for seed in 0..6 {
        run(seed, 2 + seed as usize % 2, 300, false);
    }
}

#[test]
fn processes_that_follow_the_log_read_the_same() {
    for seed in 100..103 {
        run(seed, 3, 200, true);
    }
}
