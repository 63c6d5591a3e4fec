//! Convergent fields read as plain values, beside the properties of records, and without loading what is not asked for.

use std::{ops::Bound, sync::Arc};

use isomer_value::{Map, NodeId, PropId, Value, key};

use super::{
    operate::ConvergentOp,
    place::{self, ConvergentKind, from_payload, malformed, skip_item, take_kind},
    rows::Rows,
    spot::{ConvergentOwner, Spot},
    value::{OwnerReading, Reading},
};
use crate::{DataError, Transaction, properties::brief};

/// What a record's property holds as a convergent field, for columns.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarField {
    /// No field: the plain property counts.
    Absent,
    /// A counter, a register of either sort or a flag, as it is read.
    Value(Value),
    /// A field that may be large: a set, a map, a sketch.
    Large,
}

impl Transaction {
    /// For read views: the convergent field of one property, where it is small. Observes nothing, so only in a transaction that
    /// reads. Costs one look, and one per increment that a counter has not folded.
    pub fn scalar_field(
        &self,
        owner: ConvergentOwner,
        prop: PropId,
    ) -> Result<ScalarField, DataError> {
        if !self.store().is_convergent(prop) {
            return Ok(ScalarField::Absent);
        }
        self.field_at(Spot::new(owner, prop, &[]).named(), |kind| {
            use ConvergentKind::{Counter, Flag, MultiRegister, Register};
            matches!(kind, Counter | Register | MultiRegister | Flag)
        })
    }

    /// The value of the convergent field at `path`; none where there is no such field.
    pub fn convergent_value(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Result<Option<Value>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        self.footprint().read_field(spot.named());
        self.value_at(spot.named())
    }

    /// What the field at `path` is.
    pub fn convergent_kind(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Result<Option<ConvergentKind>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        self.footprint().read_field(spot.named());
        Ok(self.kind_at(spot.named())?.map(|(kind, _)| kind))
    }

    /// Whether the set at `path` has an element; none where there is no set. One look, whatever the size.
    pub fn convergent_contains(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        value: &Value,
    ) -> Result<Option<bool>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        let Some((kind, _)) = self.kind_at(spot.named())? else {
            self.footprint().read_field(spot.named());
            return Ok(None);
        };
        if !matches!(kind, ConvergentKind::Set | ConvergentKind::GrowSet) {
            self.footprint().read_field(spot.named());
            return Ok(None);
        }
        let Ok((element, _)) = place::element(value) else {
            self.footprint().read_field(spot.named());
            return Ok(Some(false));
        };
        self.footprint().read_element(&spot.levels(), &element);
        let spot = spot.kind(kind, 0);
        let mut found = false;
        self.scan(
            &[&spot.place[..], &element].concat(),
            &[],
            1,
            &mut |_, _| {
                found = true;
                Ok(false)
            },
        )?;
        Ok(Some(found))
    }

    /// How many elements the set at `path` has, or fields the map; none where there is neither. Counted: it reads the keys, and
    /// makes no values.
    pub fn convergent_size(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
    ) -> Result<Option<u64>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        self.footprint().read_field(spot.named());
        let Some((kind, _)) = self.kind_at(spot.named())? else {
            return Ok(None);
        };
        if !matches!(
            kind,
            ConvergentKind::Set | ConvergentKind::GrowSet | ConvergentKind::Map
        ) {
            return Ok(None);
        }
        let place = spot.kind(kind, 0).place;
        let (mut count, mut last) = (0, Vec::new());
        self.scan(&place, &[], 1024, &mut |key, _| {
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

    /// Elements of the set at `path` in their order, from a bound, at most `limit`; none where there is no set. Reads no others.
    pub fn convergent_page(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        from: Bound<&Value>,
        limit: usize,
    ) -> Result<Option<Vec<Value>>, DataError> {
        let Some(spot) = self.spot_of(owner, path) else {
            return Ok(None);
        };
        self.footprint().read_field(spot.named());
        let kind = match self.kind_at(spot.named())? {
            Some((kind @ (ConvergentKind::Set | ConvergentKind::GrowSet), _)) => kind,
            _ => return Ok(None),
        };
        let place = spot.kind(kind, 0).place;
        let (start, skipped) = match from {
            Bound::Unbounded => (Vec::new(), None),
            Bound::Included(value) => ([&place[..], &key::encode(value)?].concat(), None),
            Bound::Excluded(value) => {
                let element = key::encode(value)?;
                ([&place[..], &element].concat(), Some(element))
            }
        };
        let (mut page, mut last) = (Vec::new(), Vec::new());
        self.scan(&place, &start, limit, &mut |key, value| {
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

    /// The place of a path, unless its first name is no convergent property of anything.
    pub(super) fn spot_of(&self, owner: ConvergentOwner, path: &[&str]) -> Option<Spot> {
        let (first, below) = path.split_first()?;
        let prop = self.find_prop(first)?;
        if !self.store().is_convergent(prop) {
            self.footprint().read_not_convergent(prop);
            return None;
        }
        Some(Spot::new(owner, prop, below))
    }

    /// The value of whatever field stands under a name.
    pub(crate) fn value_at(&self, named: &[u8]) -> Result<Option<Value>, DataError> {
        Ok(match self.field_at(named, |_| true)? {
            ScalarField::Value(value) => Some(value),
            ScalarField::Absent | ScalarField::Large => None,
        })
    }

    /// The value of whatever field stands under a name, where its kind is `read`.
    fn field_at(
        &self,
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
            // Of several kinds under one name the first counts.
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
        &self,
        owners: impl Fn(usize) -> ConvergentOwner,
        start: usize,
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        for (prop, column) in props.iter().zip(out) {
            if !self.store().is_convergent(*prop) {
                self.footprint().read_not_convergent(*prop);
                continue;
            }
            for (at, cell) in column[start..].iter_mut().enumerate() {
                let spot = Spot::new(owners(at), *prop, &[]);
                self.footprint().read_field(spot.named());
                if let Some(value) = self.value_at(spot.named())? {
                    *cell = value;
                }
            }
        }
        Ok(())
    }

    /// Adds an owner's convergent fields to its properties.
    pub(crate) fn overlay_map(
        &self,
        owner: ConvergentOwner,
        properties: &mut Map,
    ) -> Result<(), DataError> {
        if !self.store().shared().own_replica.has_any() {
            self.footprint().read_convergent();
            return Ok(());
        }
        let prefix = owner.prefix();
        let mut footprint = self.footprint();
        footprint.read_convergent();
        footprint.read_field(&prefix);
        drop(footprint);
        let mut reading = OwnerReading::default();
        self.scan(&prefix, &[], 32, &mut |key, value| {
            reading.push(&key[prefix.len()..], value)?;
            Ok(true)
        })?;
        for (prop, value) in reading.finish()? {
            let name = self
                .catalog_ref()
                .prop_name(prop)
                .ok_or_else(|| DataError::corrupt("a convergent field has no name"))?;
            properties.insert(name, value);
        }
        Ok(())
    }

    /// For read views: it was observed in a view that these properties are plain, but for those that it answers: of these
    /// the fields that were read are to be noted, see [`Transaction::note_fields`].
    pub fn note_plain(&self, props: &[PropId]) -> Vec<PropId> {
        let mut fields = Vec::new();
        let mut footprint = self.footprint();
        if footprint.active() {
            for prop in props {
                match self.store().is_convergent(*prop) {
                    true => fields.push(*prop),
                    false => footprint.read_not_convergent(*prop),
                }
            }
        }
        fields
    }

    /// For read views: these convergent properties of a node were observed, or that it does not have them.
    pub fn note_fields(&self, id: NodeId, fields: &[PropId]) {
        let mut footprint = self.footprint();
        for prop in fields {
            footprint.read_field(Spot::new(ConvergentOwner::Node(id), *prop, &[]).named());
        }
    }

    // ---- plain writes where convergent fields may be

    /// A plain write to a path. Where a convergent field stands there, a null clears it (then it is done), and anything else is
    /// refused.
    pub(crate) fn divert(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        value: &Value,
    ) -> Result<bool, DataError> {
        let Some(first) = path.first() else {
            return Ok(false);
        };
        let Some(spot) = self.plain_spot(owner, first)? else {
            return Ok(false);
        };
        let Some((kind, _)) = self.kind_at(spot.named())? else {
            self.footprint_mut().plain_field(spot.top(), true);
            return Ok(false);
        };
        if !value.is_null() {
            return Err(is_convergent(&path.join("."), kind));
        }
        self.converge(owner, path, &ConvergentOp::Clear, None)?;
        Ok(true)
    }

    /// A plain write of several properties: those that hold convergent fields must be given as they are, and are left out.
    pub(crate) fn leave_fields(
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
            let Some(spot) = self.plain_spot(owner, &name)? else {
                continue;
            };
            match self.kind_at(spot.named())? {
                None => self.footprint_mut().plain_field(spot.top(), true),
                Some((kind, _)) if self.value_at(spot.named())?.as_ref() != after.get(&name) => {
                    return Err(is_convergent(&name, kind));
                }
                Some(_) => drop(after.remove(&name)),
            }
        }
        Ok(())
    }

    fn plain_spot(
        &mut self,
        owner: ConvergentOwner,
        name: &str,
    ) -> Result<Option<Spot>, DataError> {
        let prop = self.intern_prop(name)?;
        if !self.store().is_convergent(prop) {
            self.footprint().read_not_convergent(prop);
            return Ok(None);
        }
        let spot = Spot::new(owner, prop, &[]);
        self.footprint().read_field(spot.named());
        Ok(Some(spot))
    }
}

fn is_convergent(name: &str, kind: ConvergentKind) -> DataError {
    let how = match kind {
        ConvergentKind::Counter => "counter.add",
        ConvergentKind::Set => "set.add and set.remove",
        ConvergentKind::GrowSet => "growset.add",
        ConvergentKind::Register => "register.set",
        ConvergentKind::MultiRegister => "multi.set",
        ConvergentKind::Flag => "flag.enable and flag.disable",
        ConvergentKind::Sketch => "hll.add",
        ConvergentKind::Map => "the operations of its fields",
    };
    DataError::invalid(format!(
        "{} is a convergent {} here: change it by {how}, or REMOVE it first",
        brief(&Value::from(name)).trim_matches('"'),
        kind.name()
    ))
}
