//! Convergent fields read as plain values, together with the properties of records, without loading fields that were
//! not requested.

use std::{ops::Bound, sync::Arc};

use isomer_layout::{
    DataError,
    convergent::{
        place::{self, ConvergentKind, from_payload, malformed, skip_item, take_kind},
        position::{ConvergentOwner, FieldPosition},
        rows::Rows,
        sketch::Ranks,
        value::{OwnerReading, Reading},
    },
    properties::brief,
};
use isomer_value::{Map, NodeId, PropId, Value, key};

use super::operate::ConvergentOp;
use crate::{Fields, FieldsMut};

/// The convergent field of a record's property, for columns.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarField {
    /// No field: the plain property is read.
    Absent,
    /// The value of a counter, a register of either sort or a flag.
    Value(Value),
    /// A field that may be large: a set, a map, a sketch.
    Large,
}

/// The state of a HyperLogLog sketch, for copies of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SketchRanks {
    /// The sketch has `2^precision` places.
    pub precision: u8,
    /// The greatest rank of each place that holds one: (place, rank), ascending by place.
    pub ranks: Vec<(u16, u8)>,
}

impl Fields<'_> {
    /// For read views: the convergent field of one property, where it is small. Observes nothing, so only in a
    /// read-only transaction. Costs one lookup, and one per increment that a counter has not folded.
    pub fn scalar(self, owner: ConvergentOwner, prop: PropId) -> Result<ScalarField, DataError> {
        if !self.tx.store().is_convergent(prop) {
            return Ok(ScalarField::Absent);
        }
        self.field_at(FieldPosition::new(owner, prop, &[]).named(), |kind| {
            use ConvergentKind::{Counter, Flag, MultiRegister, Register};
            matches!(kind, Counter | Register | MultiRegister | Flag)
        })
    }

    /// The value of the convergent field at `path`; `None` if the field does not exist.
    pub fn value(self, owner: ConvergentOwner, path: &[&str]) -> Result<Option<Value>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        self.value_at(position.named())
    }

    /// The kind of the field at `path`.
    pub fn kind(
        self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Result<Option<ConvergentKind>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        Ok(self.kind_at(position.named())?.map(|(kind, _)| kind))
    }

    /// The first of a record's properties that is a convergent field, with its kind.
    pub fn field_among(
        self,
        owner: ConvergentOwner,
        properties: &Map,
    ) -> Result<Option<(Arc<str>, ConvergentKind)>, DataError> {
        if self.tx.store().convergent_properties() == 0 {
            return Ok(None);
        }
        for name in properties.names() {
            if let Some(kind) = self.kind(owner, &[name])? {
                return Ok(Some((name.clone(), kind)));
            }
        }
        Ok(None)
    }

    /// The state of the sketch at `path`; `None` if the sketch does not exist. Cost: one scan over the places that hold
    /// a rank.
    pub fn ranks(
        self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Result<Option<SketchRanks>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        let Some((ConvergentKind::Sketch, precision)) = self.kind_at(position.named())? else {
            return Ok(None);
        };
        let place = position.kind(ConvergentKind::Sketch, precision).place;
        let mut ranks = Ranks::new(precision);
        self.tx.scan(&place, &[], 1024, &mut |key, _| {
            let (item, _) = key[place.len()..]
                .split_first_chunk::<3>()
                .ok_or_else(malformed)?;
            ranks.note(u16::from_be_bytes([item[0], item[1]]), item[2]);
            Ok(true)
        })?;
        Ok(Some(SketchRanks {
            precision,
            ranks: ranks.held(),
        }))
    }

    /// Whether the set at `path` has an element; `None` if the set does not exist. One lookup, whatever the size.
    pub fn contains(
        self,
        owner: ConvergentOwner,
        path: &[&str],
        value: &Value,
    ) -> Result<Option<bool>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        let Some((kind, _)) = self.kind_at(position.named())? else {
            self.tx.footprint().read_field(position.named());
            return Ok(None);
        };
        if !matches!(kind, ConvergentKind::Set | ConvergentKind::GrowSet) {
            self.tx.footprint().read_field(position.named());
            return Ok(None);
        }
        let Ok((element, _)) = place::element(value) else {
            self.tx.footprint().read_field(position.named());
            return Ok(Some(false));
        };
        self.tx
            .footprint()
            .read_element(&position.levels(), &element);
        let position = position.kind(kind, 0);
        let mut found = false;
        self.tx.scan(
            &[&position.place[..], &element].concat(),
            &[],
            1,
            &mut |_, _| {
                found = true;
                Ok(false)
            },
        )?;
        Ok(Some(found))
    }

    /// How many elements the set at `path` has, or fields the map; `None` if neither exists. Counts the keys,
    /// without decoding values.
    pub fn size(self, owner: ConvergentOwner, path: &[&str]) -> Result<Option<u64>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        let Some((kind, _)) = self.kind_at(position.named())? else {
            return Ok(None);
        };
        if !matches!(
            kind,
            ConvergentKind::Set | ConvergentKind::GrowSet | ConvergentKind::Map
        ) {
            return Ok(None);
        }
        let place = position.kind(kind, 0).place;
        let (mut count, mut last) = (0, Vec::new());
        self.tx.scan(&place, &[], 1024, &mut |key, _| {
            let rest = &key[place.len()..];
            if last.is_empty() || !rest.starts_with(&last) {
                count += 1;
                let mut after = rest;
                match kind {
                    ConvergentKind::Map => {
                        drop(place::take_name(&mut after).ok_or_else(malformed)?)
                    }
                    _ => skip_item(kind, &mut after)?,
                }
                last.clear();
                last.extend_from_slice(&rest[..rest.len() - after.len()]);
            }
            Ok(true)
        })?;
        Ok(Some(count))
    }

    /// Elements of the set at `path` in their order, from a bound, at most `limit`; `None` if the set does not exist.
    /// Reads no others.
    pub fn page(
        self,
        owner: ConvergentOwner,
        path: &[&str],
        from: Bound<&Value>,
        limit: usize,
    ) -> Result<Option<Vec<Value>>, DataError> {
        let Some(position) = self.position_of(owner, path) else {
            return Ok(None);
        };
        self.tx.footprint().read_field(position.named());
        let kind = match self.kind_at(position.named())? {
            Some((kind @ (ConvergentKind::Set | ConvergentKind::GrowSet), _)) => kind,
            _ => return Ok(None),
        };
        let place = position.kind(kind, 0).place;
        let (start, skipped) = match from {
            Bound::Unbounded => (Vec::new(), None),
            Bound::Included(value) => ([&place[..], &key::encode(value)?].concat(), None),
            Bound::Excluded(value) => {
                let element = key::encode(value)?;
                ([&place[..], &element].concat(), Some(element))
            }
        };
        let (mut page, mut last) = (Vec::new(), Vec::new());
        self.tx.scan(&place, &start, limit, &mut |key, value| {
            let rest = &key[place.len()..];
            let is_skipped = skipped
                .as_ref()
                .is_some_and(|skipped| rest.starts_with(skipped));
            if is_skipped || !last.is_empty() && rest.starts_with(&last) {
                return Ok(true);
            }
            if page.len() == limit {
                return Ok(false);
            }
            let (element, length) = key::decode_prefix(rest)?;
            last = rest[..length].to_vec();
            page.push(match value.is_empty() {
                true => element,
                false => from_payload(value)?,
            });
            Ok(true)
        })?;
        Ok(Some(page))
    }

    /// The position of a path, unless its first name is not a convergent property of any record.
    pub(super) fn position_of(
        self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Option<FieldPosition> {
        let (first, below) = path.split_first()?;
        let prop = self.tx.name_ids().find_prop(first)?;
        if !self.tx.store().is_convergent(prop) {
            self.tx.footprint().read_not_convergent(prop);
            return None;
        }
        Some(FieldPosition::new(owner, prop, below))
    }

    /// The value of the field under a name, of any kind.
    pub(crate) fn value_at(self, named: &[u8]) -> Result<Option<Value>, DataError> {
        Ok(match self.field_at(named, |_| true)? {
            ScalarField::Value(value) => Some(value),
            ScalarField::Absent | ScalarField::Large => None,
        })
    }

    /// The value of the field under a name, if its kind is `read`.
    fn field_at(
        self,
        named: &[u8],
        read: impl Fn(ConvergentKind) -> bool,
    ) -> Result<ScalarField, DataError> {
        let mut reading: Option<(Vec<u8>, Reading)> = None;
        let mut is_large = false;
        self.scan_named(named, 64, &mut |key, value| {
            let below = &key[named.len()..];
            let (head, reading) = match &mut reading {
                Some(reading) => reading,
                none => {
                    let mut rest = below;
                    let (kind, precision) = take_kind(&mut rest).ok_or_else(malformed)?;
                    if !read(kind) {
                        is_large = true;
                        return Ok(false);
                    }
                    let head = below[..below.len() - rest.len()].to_vec();
                    none.insert((head, Reading::new(kind, precision)))
                }
            };
            // Of several kinds under one name the first is read.
            if !below.starts_with(head) {
                return Ok(false);
            }
            reading.push(&below[head.len()..], value)?;
            Ok(true)
        })?;
        Ok(match reading {
            Some((_, reading)) => ScalarField::Value(reading.finish()?),
            None if is_large => ScalarField::Large,
            None => ScalarField::Absent,
        })
    }

    /// Puts the values of convergent properties into columns of which the first `start` rows are of others.
    pub(crate) fn overlay_columns(
        self,
        owners: impl Fn(usize) -> ConvergentOwner,
        start: usize,
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        for (prop, column) in props.iter().zip(out) {
            if !self.tx.store().is_convergent(*prop) {
                self.tx.footprint().read_not_convergent(*prop);
                continue;
            }
            for (at, cell) in column[start..].iter_mut().enumerate() {
                let position = FieldPosition::new(owners(at), *prop, &[]);
                self.tx.footprint().read_field(position.named());
                if let Some(value) = self.value_at(position.named())? {
                    *cell = value;
                }
            }
        }
        Ok(())
    }

    /// Adds an owner's convergent fields to its properties.
    pub(crate) fn overlay_map(
        self,
        owner: ConvergentOwner,
        properties: &mut Map,
    ) -> Result<(), DataError> {
        if !self.tx.store().shared().own_replica.has_any() {
            self.tx.footprint().read_convergent();
            return Ok(());
        }
        let prefix = owner.prefix();
        let mut footprint = self.tx.footprint();
        footprint.read_convergent();
        footprint.read_field(&prefix);
        drop(footprint);
        let mut reading = OwnerReading::default();
        self.tx.scan(&prefix, &[], 32, &mut |key, value| {
            reading.push(&key[prefix.len()..], value)?;
            Ok(true)
        })?;
        for (prop, value) in reading.finish()? {
            let name = self
                .tx
                .names()
                .prop_name(prop)
                .ok_or_else(|| DataError::corrupt("a convergent field has no name"))?;
            properties.insert(name, value);
        }
        Ok(())
    }

    /// For read views: observes, by a view, that these properties are plain, except those that are returned: the ones
    /// of these that were read must be recorded, see [`Fields::note_fields`].
    pub fn note_plain(self, props: &[PropId]) -> Vec<PropId> {
        let mut fields = Vec::new();
        let mut footprint = self.tx.footprint();
        if footprint.active() {
            for prop in props {
                match self.tx.store().is_convergent(*prop) {
                    true => fields.push(*prop),
                    false => footprint.read_not_convergent(*prop),
                }
            }
        }
        fields
    }

    /// For read views: these convergent properties of a node were observed, or that it does not have them.
    pub fn note_fields(self, id: NodeId, fields: &[PropId]) {
        let mut footprint = self.tx.footprint();
        for prop in fields {
            footprint.read_field(FieldPosition::new(ConvergentOwner::Node(id), *prop, &[]).named());
        }
    }
}

impl FieldsMut<'_> {
    // ---- plain writes to convergent fields

    /// Routes a plain write to a convergent field. Where `path` leads to one, null clears it (the result is true:
    /// nothing is left to do), and any other value is refused.
    pub(crate) fn route_to_convergent_field(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        value: &Value,
    ) -> Result<bool, DataError> {
        let Some(first) = path.first() else {
            return Ok(false);
        };
        let Some(position) = self.plain_position(owner, first)? else {
            return Ok(false);
        };
        let Some((kind, _)) = self.tx.fields().kind_at(position.named())? else {
            self.tx.footprint_mut().plain_field(position.top(), true);
            return Ok(false);
        };
        if !value.is_null() {
            return Err(is_convergent(&path.join("."), kind));
        }
        self.converge(owner, path, &ConvergentOp::Clear, None)?;
        Ok(true)
    }

    /// A plain write of several properties: convergent fields must keep their values, and are left out.
    pub(crate) fn strip_convergent_fields(
        &mut self,
        owner: ConvergentOwner,
        before: &Map,
        after: &mut Map,
    ) -> Result<(), DataError> {
        let changed: Vec<Arc<str>> = after
            .iter()
            .filter(|(name, value)| before.get(name) != Some(*value))
            .map(|(name, _)| name.clone())
            .collect();
        for name in changed {
            let Some(position) = self.plain_position(owner, &name)? else {
                continue;
            };
            match self.tx.fields().kind_at(position.named())? {
                None => self.tx.footprint_mut().plain_field(position.top(), true),
                Some((kind, _))
                    if self.tx.fields().value_at(position.named())?.as_ref()
                        != after.get(&name) =>
                {
                    return Err(is_convergent(&name, kind));
                }
                Some(_) => drop(after.remove(&name)),
            }
        }
        Ok(())
    }

    fn plain_position(
        &mut self,
        owner: ConvergentOwner,
        name: &str,
    ) -> Result<Option<FieldPosition>, DataError> {
        let prop = self.tx.name_ids().intern_prop(name)?;
        if !self.tx.store().is_convergent(prop) {
            self.tx.footprint().read_not_convergent(prop);
            return Ok(None);
        }
        let position = FieldPosition::new(owner, prop, &[]);
        self.tx.footprint().read_field(position.named());
        Ok(Some(position))
    }
}

fn is_convergent(name: &str, kind: ConvergentKind) -> DataError {
    DataError::invalid(format!(
        "{} is a convergent {} here: change it by {}, or REMOVE it first",
        brief(&Value::from(name)).trim_matches('"'),
        kind.name(),
        kind.operations()
    ))
}
