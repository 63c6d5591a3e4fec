//! Properties that stay in their record's bytes until somebody looks at them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{RecordRef, corrupt, decoder::Shapes, payload};
use crate::{Map, Names, PropId, ValueError, map::Entry};

/// Makes [`Map`]s that decode when they are first looked at: a result of whole records is handed over as their bytes, and
/// what nobody reads is never decoded.
///
/// A record is read through before (bounds, order, UTF-8, names), so that damage is found here and decoding it later cannot
/// fail; one with a named time zone is decoded at once, as zones are looked up outside. Names once known stay known.
///
/// Records are gathered into batches of about 16 KiB that share one allocation: many small ones cost more to free than
/// to read. Who keeps one map of a batch keeps its bytes. One sealer serves one thread; its maps may go anywhere.
#[derive(Debug)]
pub struct RecordSealer {
    source: Arc<Source>,
    /// Every property number below this has a name.
    named_below: u32,
    bytes: Vec<u8>,
    records: Vec<Kept>,
    /// What was gathered, in order: maps that were decoded at once, and nothing for those of `records`.
    gathered: Vec<Option<Map>>,
}

/// A batch of records is handed over when it holds so many bytes.
const BATCH_BYTES: usize = 16 << 10;

/// What the maps of a sealer have in common.
struct Source {
    names: Arc<dyn Names + Send + Sync>,
    /// How many were opened, and what they had in common.
    opened: Mutex<(u32, Shapes)>,
}

/// Records that were gathered together.
#[derive(Debug)]
struct Batch {
    source: Arc<Source>,
    bytes: Vec<u8>,
    records: Vec<Kept>,
}

/// A record in a batch, not decoded yet or decoded once.
#[derive(Debug)]
struct Kept {
    start: u32,
    end: u32,
    /// Number of properties.
    len: u32,
    entries: OnceLock<Vec<Entry>>,
}

/// A record's properties in its batch. Clones share what is decoded.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    batch: Arc<Batch>,
    at: u32,
}

impl RecordSealer {
    /// Seals with these names.
    pub fn new(names: Arc<dyn Names + Send + Sync>) -> Self {
        Self {
            named_below: names.named_below(),
            source: Arc::new(Source {
                names,
                opened: Mutex::default(),
            }),
            bytes: Vec::new(),
            records: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Gathers a record's properties, as [`RecordRef::properties`] gives them, for [`RecordSealer::finish`]. Memory: a copy of its
    /// bytes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or a property has no name; then nothing was gathered.
    pub fn gather(&mut self, record: &RecordRef<'_>) -> Result<(), ValueError> {
        let (Some(kept), true) = (Kept::at(self.bytes.len(), record), self.may_seal(record)?)
        else {
            let decoded = record.properties(&*self.source.names)?;
            self.gathered.push(Some(decoded));
            return Ok(());
        };
        self.bytes.extend_from_slice(record.bytes);
        self.records.push(kept);
        self.gathered.push(None);
        Ok(())
    }

    /// Whether as much is gathered as a batch should hold.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.gathered.len() >= BATCH_BYTES / 64
    }

    /// The properties of all records that were gathered, in that order; the next batch is empty.
    pub fn finish(&mut self) -> impl Iterator<Item = Map> {
        // After a full batch the next one will be about as large.
        let next = match self.is_full() {
            true => Vec::with_capacity(self.bytes.len()),
            false => Vec::new(),
        };
        let bytes = std::mem::replace(&mut self.bytes, next);
        let batch = Arc::new(Batch {
            source: self.source.clone(),
            bytes,
            records: std::mem::take(&mut self.records),
        });
        let mut at = 0;
        std::mem::take(&mut self.gathered)
            .into_iter()
            .map(move |decoded| {
                decoded.unwrap_or_else(|| {
                    at += 1;
                    let batch = batch.clone();
                    Map::sealed(Sealed { batch, at: at - 1 })
                })
            })
    }

    /// The properties of one record, whose bytes nobody else needs: they are not copied.
    ///
    /// # Errors
    /// As [`RecordSealer::gather`].
    pub fn seal(names: Arc<dyn Names + Send + Sync>, bytes: Vec<u8>) -> Result<Map, ValueError> {
        let sealer = Self::new(names);
        let record = RecordRef::new(&bytes)?;
        let (Some(kept), true) = (Kept::at(0, &record), sealer.may_seal(&record)?) else {
            return record.properties(&*sealer.source.names);
        };
        let batch = Arc::new(Batch {
            source: sealer.source,
            bytes,
            records: vec![kept],
        });
        Ok(Map::sealed(Sealed { batch, at: 0 }))
    }

    /// Reads a record through: whether decoding it later cannot fail.
    fn may_seal(&self, record: &RecordRef<'_>) -> Result<bool, ValueError> {
        let named = |prop: PropId| {
            if prop.0 < self.named_below || self.source.names.name(prop).is_some() {
                Ok(())
            } else {
                Err(corrupt(0, "a property has no name"))
            }
        };
        let (mut last, mut lasts) = (None, true);
        for field in record.iter_raw() {
            let (prop, raw) = field?;
            if last.replace(prop) >= Some(prop) {
                return Err(corrupt(1, "its property ids are not sorted"));
            }
            named(prop)?;
            lasts &= payload::check_value(raw, &named)?;
        }
        Ok(lasts)
    }
}

impl Sealed {
    fn kept(&self) -> &Kept {
        &self.batch.records[self.at as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.kept().len as usize
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        let kept = self.kept();
        kept.entries
            .get_or_init(|| self.batch.source.open(self.batch.record(kept)))
    }

    pub(crate) fn into_entries(mut self) -> Vec<Entry> {
        let at = self.at as usize;
        match Arc::get_mut(&mut self.batch).and_then(|batch| batch.records[at].entries.take()) {
            Some(entries) => entries,
            // Where somebody has looked it is cheaper to copy than to decode again.
            None => match self.kept().entries.get() {
                Some(entries) => entries.clone(),
                None => self.batch.source.open(self.batch.record(self.kept())),
            },
        }
    }

    /// Bytes held while nobody has looked, with the entries that looking will make beside the record, which stays; nothing
    /// once somebody has.
    pub(crate) fn unopened_bytes(&self) -> Option<usize> {
        let kept = self.kept();
        let record = (kept.end - kept.start) as usize;
        kept.entries
            .get()
            .is_none()
            .then(|| size_of::<Kept>() + record + self.len() * size_of::<Entry>())
    }
}

impl Kept {
    /// A record that begins at `start` of its batch; nothing where it would not fit.
    fn at(start: usize, record: &RecordRef<'_>) -> Option<Self> {
        Some(Self {
            start: u32::try_from(start).ok()?,
            end: u32::try_from(start + record.bytes.len()).ok()?,
            len: u32::try_from(record.len()).ok()?,
            entries: OnceLock::new(),
        })
    }
}

impl Batch {
    fn record(&self, kept: &Kept) -> &[u8] {
        &self.bytes[kept.start as usize..kept.end as usize]
    }
}

impl Source {
    fn open(&self, record: &[u8]) -> Vec<Entry> {
        let decoded = || -> Result<Map, ValueError> {
            let record = RecordRef::new(record)?;
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.0 += 1;
            if opened.0 == 1 {
                // Looking for what records have in common pays from the second on.
                drop(opened);
                return record.properties(&*self.names);
            }
            let known = opened.1.properties(&record, &*self.names);
            known.or_else(|_| record.properties(&*self.names))
        };
        let map = decoded().expect("the record was read through when it was sealed");
        map.into_entries()
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelId, NameTable, Value, record::RecordBuilder};

    fn table_and_record() -> (NameTable, Map, Vec<u8>) {
        let mut table = NameTable::default();
        let nested: Map = [("z", Value::Int(1)), ("a", Value::from("x"))]
            .into_iter()
            .collect();
        let properties: Map = [
            ("name", Value::from("Ada")),
            ("age", Value::Int(36)),
            ("bytes", Value::Bytes(vec![0, 255].into())),
            ("score", Value::Float(1.5)),
            ("none", Value::Null),
            ("long", Value::from("é".repeat(100))),
            (
                "list",
                Value::from(vec![Value::Bool(true), Value::Map(Arc::new(nested))]),
            ),
        ]
        .into_iter()
        .collect();
        let mut builder = RecordBuilder::node(&[LabelId(3)]);
        builder.put_all(&properties, &mut table).expect("it fits");
        (table, properties, builder.finish().expect("it fits"))
    }

    /// A sealed map is in every respect the decoded one, and stays sealed until it is looked into.
    #[test]
    fn sealed_maps_are_the_decoded_ones() {
        let (table, properties, bytes) = table_and_record();
        let record = RecordRef::new(&bytes).expect("a record");
        let mut sealer = RecordSealer::new(Arc::new(table.clone()));
        for _ in 0..8 {
            sealer.gather(&record).expect("sound");
        }
        let mut batch = sealer.finish();
        let mut seal = || batch.next().expect("gathered");
        let sealed = seal();
        assert_eq!(sealed.len(), properties.len());
        assert!(!sealed.is_empty());
        assert!(
            sealed
                .unopened_bytes()
                .is_some_and(|held| held >= bytes.len())
        );
        assert_eq!(sealed.get("age"), Some(&Value::Int(36)));
        assert_eq!(sealed.unopened_bytes(), None);
        // The second and third take the way by shapes.
        for sealed in [seal(), seal(), seal().clone()] {
            assert_eq!(sealed, properties);
            assert_eq!(sealed.iter().count(), properties.len());
        }
        let entries: Vec<_> = seal().into_iter().collect();
        assert_eq!(entries, properties.clone().into_iter().collect::<Vec<_>>());
        let mut changed = seal();
        assert_eq!(changed.remove("age"), Some(Value::Int(36)));
        assert_eq!(changed.insert("age", Value::Int(36)), None);
        assert_eq!(changed, properties);
        *changed.get_mut("name").expect("there") = Value::Null;
        assert_ne!(changed, seal());
        // A clone knows what the other one opened, and changes for itself.
        let (first, mut second) = (seal(), RecordSealer::seal(Arc::new(table), bytes.clone()));
        let third = second.clone().expect("sound");
        let second = second.as_mut().expect("sound");
        assert_eq!(third.get("age"), first.get("age"));
        assert_eq!(second.unopened_bytes(), None);
        second.insert("age", Value::Null);
        assert_ne!(*second, third);
        assert_eq!(third, properties);
        assert_eq!(batch.count(), 0);
    }

    /// Batches are handed over in order, and begin anew.
    #[test]
    fn records_are_sealed_in_batches() {
        let (table, properties, bytes) = table_and_record();
        let record = RecordRef::new(&bytes).expect("a record");
        let empty = RecordBuilder::node(&[]).finish().expect("it fits");
        let empty = RecordRef::new(&empty).expect("a record");
        let mut sealer = RecordSealer::new(Arc::new(table));
        for round in 0..3 {
            let mut count = 0;
            while !sealer.is_full() {
                sealer
                    .gather(if count % 2 == 0 { &record } else { &empty })
                    .expect("sound");
                count += 1;
            }
            assert!((10..=BATCH_BYTES / 64).contains(&count), "{round} {count}");
            let maps: Vec<Map> = sealer.finish().collect();
            assert_eq!(maps.len(), count);
            for (at, map) in maps.into_iter().enumerate() {
                assert!(map.unopened_bytes().is_some());
                match at % 2 {
                    0 => assert_eq!(map, properties),
                    _ => assert!(map.is_empty() && map.iter().next().is_none()),
                }
            }
        }
        assert_eq!(sealer.finish().count(), 0);
    }

    /// A named time zone may be gone when somebody looks: such a record is decoded at once, at whatever depth it holds one.
    #[test]
    fn named_time_zones_are_looked_up_at_once() {
        let text = "2026-11-22T01:26:00+01:00[Europe/Rome]";
        let zoned = Value::from(text.parse::<jiff::Zoned>().expect("a zoned date-time"));
        let nested: Map = [("at", Value::from(vec![zoned.clone()]))]
            .into_iter()
            .collect();
        for value in [zoned, Value::Map(Arc::new(nested))] {
            let properties: Map = [("n", Value::Int(1)), ("when", value)]
                .into_iter()
                .collect();
            let mut table = NameTable::default();
            let mut builder = RecordBuilder::node(&[LabelId(3)]);
            builder.put_all(&properties, &mut table).expect("it fits");
            let bytes = builder.finish().expect("it fits");
            let record = RecordRef::new(&bytes).expect("a record");
            let mut sealer = RecordSealer::new(Arc::new(table.clone()));
            sealer.gather(&record).expect("sound");
            let gathered = sealer.finish().next().expect("gathered");
            let alone = RecordSealer::seal(Arc::new(table), bytes.clone()).expect("sound");
            for map in [gathered, alone] {
                assert_eq!(map.unopened_bytes(), None);
                assert_eq!(map, properties);
            }
        }
    }

    /// Whatever is done to the bytes: what seals opens, and is what decodes at once.
    #[test]
    fn damage_is_found_when_it_is_sealed() {
        let (table, _, bytes) = table_and_record();
        let names: Arc<dyn Names + Send + Sync> = Arc::new(table.clone());
        let (mut refused, mut opened) = (0, 0);
        for at in 0..bytes.len() {
            for flip in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << flip;
                let Ok(record) = RecordRef::new(&damaged) else {
                    refused += 1;
                    continue;
                };
                match RecordSealer::seal(names.clone(), damaged.clone()) {
                    Ok(map) => {
                        opened += 1;
                        let wanted = record.properties(&table).expect("what seals decodes");
                        // NaN is not equal to itself.
                        assert_eq!(format!("{map:?}"), format!("{wanted:?}"));
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        for len in 0..bytes.len() {
            if let Ok(record) = RecordRef::new(&bytes[..len]) {
                let mut sealer = RecordSealer::new(names.clone());
                assert!(sealer.gather(&record).is_err());
                assert_eq!(sealer.finish().count(), 0);
            }
        }
        assert!(
            refused > 100 && opened > 100,
            "{refused} refused, {opened} opened"
        );
        let nothing: Arc<dyn Names + Send + Sync> = Arc::new(NameTable::default());
        assert!(RecordSealer::seal(nothing, bytes).is_err());
    }
}
