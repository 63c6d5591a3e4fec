//! Properties that stay in their record's bytes until somebody looks at them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{RecordRef, corrupt, decoder::Shapes, payload};
use crate::{Map, Names, PropId, ValueError, map::Entry};

/// Makes [`Map`]s that decode when they are first looked at: a result of whole records is handed over as their bytes, and
/// what nobody reads is never decoded.
///
/// A record is read through before (bounds, order, UTF-8, names), so that damage is found here and decoding it later cannot
/// fail; one with a named time zone is decoded at once, as zones are looked up outside. Names once known stay known. One sealer serves the records of one batch and one thread; its maps may go anywhere.
#[derive(Debug)]
pub struct RecordSealer {
    source: Arc<Source>,
    /// Every property number below this has a name.
    named_below: u32,
}

/// What the maps of a batch have in common.
struct Source {
    names: Arc<dyn Names + Send + Sync>,
    /// How many were opened, and what they had in common.
    opened: Mutex<(u32, Shapes)>,
}

/// A record's properties, not decoded yet or decoded once.
#[derive(Debug)]
pub(crate) struct Sealed {
    record: Box<[u8]>,
    len: usize,
    source: Arc<Source>,
    entries: OnceLock<Vec<Entry>>,
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
        }
    }

    /// As [`RecordRef::properties`], decoded when it is first looked at. Memory until then: a copy of the bytes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or a property has no name.
    pub fn properties(&self, record: &RecordRef<'_>) -> Result<Map, ValueError> {
        if !self.may_seal(record)? {
            return record.properties(&*self.source.names);
        }
        Ok(self.sealed(record.bytes.into(), record.len()))
    }

    /// As [`RecordSealer::properties`], of a record's bytes that nobody else needs: they are not copied.
    pub fn properties_of(&self, bytes: Vec<u8>) -> Result<Map, ValueError> {
        let record = RecordRef::new(&bytes)?;
        if !self.may_seal(&record)? {
            return record.properties(&*self.source.names);
        }
        let len = record.len();
        Ok(self.sealed(bytes.into_boxed_slice(), len))
    }

    fn sealed(&self, record: Box<[u8]>, len: usize) -> Map {
        Map::sealed(Sealed {
            record,
            len,
            source: self.source.clone(),
            entries: OnceLock::new(),
        })
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
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.get_or_init(|| self.source.open(&self.record))
    }

    pub(crate) fn into_entries(mut self) -> Vec<Entry> {
        match self.entries.take() {
            Some(entries) => entries,
            None => self.source.open(&self.record),
        }
    }

    /// Bytes held while nobody has looked, with the entries that looking will make beside the record, which stays; nothing
    /// once somebody has.
    pub(crate) fn unopened_bytes(&self) -> Option<usize> {
        self.entries
            .get()
            .is_none()
            .then(|| size_of::<Self>() + self.record.len() + self.len * size_of::<Entry>())
    }
}

impl Clone for Sealed {
    fn clone(&self) -> Self {
        Self {
            record: self.record.clone(),
            len: self.len,
            source: self.source.clone(),
            // Cheaper to copy than to decode again.
            entries: self.entries.clone(),
        }
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
        let sealer = RecordSealer::new(Arc::new(table));
        let seal = || sealer.properties(&record).expect("sound");
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
            let map = RecordSealer::new(Arc::new(table))
                .properties(&record)
                .expect("sound");
            assert_eq!(map.unopened_bytes(), None);
            assert_eq!(map, properties);
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
                match RecordSealer::new(names.clone()).properties(&record) {
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
                assert!(
                    RecordSealer::new(names.clone())
                        .properties(&record)
                        .is_err()
                );
            }
        }
        assert!(
            refused > 100 && opened > 100,
            "{refused} refused, {opened} opened"
        );
        let nothing: Arc<dyn Names + Send + Sync> = Arc::new(NameTable::default());
        let record = RecordRef::new(&bytes).expect("a record");
        assert!(RecordSealer::new(nothing).properties(&record).is_err());
    }
}
