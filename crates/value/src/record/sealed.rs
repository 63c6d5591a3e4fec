//! Lazily decoded properties: they stay encoded in their record's bytes until the first access.

use std::sync::{Arc, Mutex, PoisonError};

use super::{decoder::Shapes, format::corrupt, payload, record_ref::RecordRef};
use crate::{
    Map, Names, PropId, ValueError,
    map::{NamedValue, OpenRecord, SealedBatch, SealedRecord},
};

/// Creates [`Map`]s that are decoded on first access: a result of whole records is passed on as bytes, and
/// values that the client does not read are never decoded.
///
/// A record is validated first (bounds, order, UTF-8, names), so that damage is found here and later decoding
/// cannot fail; a record with a named time zone is decoded at once, because zones are looked up outside of
/// the database. A name that exists stays valid.
///
/// Records are collected into batches of about 16 KiB that share one allocation: many small allocations cost
/// more to free than to read. A map keeps the bytes of its whole batch alive. A sealer belongs to one thread;
/// its maps may be sent to any thread.
#[derive(Debug)]
pub struct RecordSealer {
    source: Arc<Source>,
    /// Every property number below this has a name.
    named_below: u32,
    bytes: Vec<u8>,
    records: Vec<SealedRecord>,
    /// The collected records, in order: maps that were decoded at once, and `None` for those in `records`.
    gathered: Vec<Option<Map>>,
}

/// Size in bytes at which a batch is handed over.
const BATCH_BYTES: usize = 16 << 10;

/// State shared by the maps of one sealer.
struct Source {
    names: Arc<dyn Names + Send + Sync>,
    /// Number of maps decoded, and the state they share.
    opened: Mutex<(u32, Shapes)>,
}

impl RecordSealer {
    /// A sealer with these names.
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

    /// Collects a record's properties, as [`RecordRef::properties`] returns them, for
    /// [`RecordSealer::finish`]. Memory: a copy of its bytes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or a property has no name; then the record was not collected.
    pub fn gather(&mut self, record: &RecordRef<'_>) -> Result<(), ValueError> {
        let (Some(kept), true) = (
            SealedRecord::at(self.bytes.len(), record.bytes.len(), record.len()),
            self.may_seal(record)?,
        ) else {
            let decoded = record.properties(&*self.source.names)?;
            self.gathered.push(Some(decoded));
            return Ok(());
        };
        self.bytes.extend_from_slice(record.bytes);
        self.records.push(kept);
        self.gathered.push(None);
        Ok(())
    }

    /// Whether the batch has reached its target size.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.gathered.len() >= BATCH_BYTES / 64
    }

    /// The properties of all collected records, in order; starts a new batch.
    pub fn finish(&mut self) -> impl Iterator<Item = Map> {
        // After a full batch, expect the next one to be as large.
        let next = if self.is_full() {
            Vec::with_capacity(self.bytes.len())
        } else {
            Vec::new()
        };
        let bytes = std::mem::replace(&mut self.bytes, next);
        let records = std::mem::take(&mut self.records);
        let batch = Arc::new(SealedBatch::new(self.source.clone(), bytes, records));
        let mut at = 0;
        std::mem::take(&mut self.gathered)
            .into_iter()
            .map(move |decoded| {
                decoded.unwrap_or_else(|| {
                    at += 1;
                    Map::sealed(batch.clone(), at - 1)
                })
            })
    }

    /// The properties of one record; takes over its bytes without copying.
    ///
    /// # Errors
    /// Like [`RecordSealer::gather`].
    pub fn seal(names: Arc<dyn Names + Send + Sync>, bytes: Vec<u8>) -> Result<Map, ValueError> {
        let sealer = Self::new(names);
        let record = RecordRef::new(&bytes)?;
        let (Some(kept), true) = (
            SealedRecord::at(0, bytes.len(), record.len()),
            sealer.may_seal(&record)?,
        ) else {
            return record.properties(&*sealer.source.names);
        };
        let batch = SealedBatch::new(sealer.source, bytes, vec![kept]);
        Ok(Map::sealed(Arc::new(batch), 0))
    }

    /// Validates a record; returns whether decoding it later cannot fail.
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

impl OpenRecord for Source {
    fn open(&self, record: &[u8]) -> Vec<NamedValue> {
        let decoded = || -> Result<Map, ValueError> {
            let record = RecordRef::new(record)?;
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.0 += 1;
            if opened.0 == 1 {
                // Looking up shared state pays off from the second record on.
                drop(opened);
                return record.properties(&*self.names);
            }
            let known = opened.1.properties(&record, &*self.names);
            known.or_else(|_| record.properties(&*self.names))
        };
        let map = decoded().expect("the record was validated when it was sealed");
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

    /// A sealed map equals the decoded one in every operation, and stays sealed until the first access.
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
        // The second and third record use the shape cache.
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
        // A clone shares the decoded form of the original, but is modified independently.
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

    /// Batches are handed over in order, and each starts empty.
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

    /// A named time zone may be missing at the time of access: such a record is decoded at once, at any
    /// nesting depth.
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

    /// For arbitrary bytes: whatever is accepted by the sealer decodes, and equals the eagerly decoded
    /// record.
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
