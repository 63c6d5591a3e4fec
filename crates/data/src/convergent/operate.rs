//! Convergent operations in a transaction.

use std::sync::Arc;

use isomer_storage::{Durability, GuardMode, KeyRange, Order, Page, PageLimit, StorageError};
use isomer_value::{NodeId, PropId, Value, limits::MAX_NESTING, record::RecordRef};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    clock::{Dot, ReplicaNo, Vector},
    counter,
    effect::{Action, Stamp, keyed},
    place::{
        self, ConvergentKind, SKETCH_PRECISION, SKETCH_PRECISIONS, check_scalar, element, entry,
        payload, take_kind,
    },
    replica::{Gap, Ticket},
    rows::{Rows, RowsMut, Visit},
    sketch,
    spot::{ConvergentOwner, Spot},
};
use crate::{
    DataError, Store, Transaction,
    catalog::{Constraint, ConstraintKind},
    footprint::Item,
    graph::{KEY, row_of},
    keyspace::{self, after_prefix, push_id, take_id},
    properties::brief,
    stream::Change,
};

/// Newest increments of each replica that stay apart when a counter is folded: so many may come after a client has read a
/// context that it removes with.
const KEPT_APART: usize = 64;
/// First byte of a context: its format.
const CONTEXT_FORMAT: u8 = 1;

/// One operation on a convergent field. The first one makes the field.
#[derive(Clone, Debug, PartialEq)]
pub enum ConvergentOp {
    /// Adds to a counter, or with a negative number takes from it.
    Count(i64),
    /// Adds an element to a set.
    Insert(Value),
    /// Adds an element to a set that only grows.
    InsertGrowing(Value),
    /// Removes an element from a set.
    Remove(Value),
    /// Sets a register whose last value wins.
    Assign(Value),
    /// Sets a register that keeps all values set concurrently.
    AssignMulti(Value),
    /// Switches a flag on.
    Enable,
    /// Switches a flag off.
    Disable,
    /// Notes a value in a sketch, of this precision where it is a new one.
    Observe(Value, Option<u8>),
    /// Removes the field, whatever it is, and all below it.
    Clear,
}

/// What a transaction with convergent operations keeps.
pub(crate) struct Ongoing {
    ticket: Ticket,
    seen: Vector,
    time: u64,
    next_op: u32,
    /// Places whose kind was looked at.
    checked: FxHashSet<Vec<u8>>,
    /// Counters that were added to.
    counters: Vec<Spot>,
}

/// What is left to do when the commit is through.
pub(crate) struct AfterCommit {
    pub(crate) ticket: Ticket,
    pub(crate) counters: Vec<Spot>,
}

impl Transaction {
    /// Does `op` to the convergent field of `owner` at `path` (one name, or names through maps, which are made where absent).
    ///
    /// A removal (`Remove`, `Disable`, `Clear`) takes what this transaction sees; with a `context` (see
    /// [`Transaction::convergent_context`]) what its reader saw. Counting, inserting, enabling and observing commute: they
    /// collide with those who have read the field, never with one another.
    ///
    /// # Errors
    /// [`DataError::NotFound`] without the owner; [`DataError::Invalid`] where the field is of another kind, holds a plain value
    /// or an index cannot hold it, and where the context is of a state that this database has not seen, or too old.
    pub fn converge(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        op: &ConvergentOp,
        context: Option<&[u8]>,
    ) -> Result<(), DataError> {
        self.check_writable()?;
        let top = self.check_path(path)?;
        if context.is_some()
            && !matches!(
                op,
                ConvergentOp::Remove(_) | ConvergentOp::Disable | ConvergentOp::Clear
            )
        {
            return Err(DataError::invalid(
                "only removals take a context: leave it out here",
            ));
        }
        let context = context
            .map(|context| self.read_context(context))
            .transpose()?;
        self.store().enter_convergent(top)?;
        let spot = Spot::new(owner, top, &path[1..]);
        let (kind, precision) = match kind_of(op) {
            Some(kind) => (Some(kind), self.check_kind(owner, path, &spot, kind, op)?),
            None => {
                self.check_owner(owner, path[0], &spot)?;
                (None, 0)
            }
        };
        let spot = match kind {
            Some(kind) => spot.kind(kind, precision),
            None => spot,
        };
        let action = action_of(op, context, precision)?;
        self.note_action(&spot, &action)?;
        let before = self.fields_before(owner, top)?;
        let Some(mut before) = before else {
            return self.perform(owner, spot, &action);
        };
        self.note_indexed(&mut before, &spot, &action)?;
        let touched = self.touched_by(&spot, &action)?;
        let mark = self.mark();
        let done = self
            .perform(owner, spot, &action)
            .and_then(|()| self.fields_after(Some(before), &touched));
        match done {
            Ok(()) => self.release(mark),
            Err(_) => self.rollback_to(mark)?,
        }
        done
    }

    /// Checks names and gives the number of the first.
    fn check_path(&self, path: &[&str]) -> Result<PropId, DataError> {
        let Some(first) = path.first() else {
            return Err(DataError::invalid(
                "the path of a property is empty: name a property",
            ));
        };
        if path.len() > MAX_NESTING {
            return Err(DataError::Limit {
                what: "the path of a property".into(),
                size: format!("{} names", path.len()),
                max: format!("{MAX_NESTING} names"),
                advice: "flatten the record",
            });
        }
        let bytes: usize = path.iter().map(|name| name.len()).sum();
        if bytes > place::MAX_ELEMENT_BYTES {
            return Err(DataError::Limit {
                what: "the path of a convergent field".into(),
                size: format!("{bytes} bytes"),
                max: format!("{} bytes", place::MAX_ELEMENT_BYTES),
                advice: "use shorter names",
            });
        }
        if *first == KEY {
            return Err(DataError::invalid(
                "_key names the record: it cannot be a convergent field",
            ));
        }
        self.intern_prop(first)
    }

    /// Makes sure that the owner is there and does not hold the property as a plain value or in an index.
    fn check_owner(
        &mut self,
        owner: ConvergentOwner,
        name: &str,
        spot: &Spot,
    ) -> Result<(), DataError> {
        if let Some(ongoing) = &self.converging
            && ongoing.checked.contains(spot.top())
        {
            return Ok(());
        }
        let (key, noun) = match owner {
            ConvergentOwner::Node(id) => (keyspace::node(id), "node"),
            ConvergentOwner::Relationship(id) => (keyspace::relationship(id), "relationship"),
        };
        let id = owner.parts().1;
        let Some(bytes) = self.read().get(&key)? else {
            match owner {
                ConvergentOwner::Node(_) => self.footprint().read_absent_node(),
                ConvergentOwner::Relationship(_) => self.footprint().read_type_members(None),
            }
            return Err(DataError::NotFound(format!(
                "{noun} {id} does not exist, or was deleted in this transaction"
            )));
        };
        let record = RecordRef::new(&bytes)?;
        match owner {
            ConvergentOwner::Node(id) => {
                self.footprint().read_exists(id, record.labels().next());
                self.check_not_ruled(&record, name)?;
            }
            ConvergentOwner::Relationship(id) => {
                let row = row_of(id, &record)?;
                self.footprint().read_relationship(id, row.type_id);
            }
        }
        self.footprint_mut().plain_field(spot.top(), false);
        let prop = self.intern_prop(name)?;
        if let Some(value) = record.get(prop, &*self.catalog_ref().names)? {
            return Err(DataError::invalid(format!(
                "{name} holds {} as a plain value here: REMOVE it before it becomes a convergent field",
                brief(&value)
            )));
        }
        let place = spot.top().to_vec();
        self.ongoing()?.checked.insert(place);
        Ok(())
    }

    fn check_not_ruled(&self, record: &RecordRef<'_>, name: &str) -> Result<(), DataError> {
        let rules = self.catalog_ref().schema.constraints();
        let rule = rules
            .iter()
            .find(|rule| record.has_label(rule.label) && rule.kind.rules_plain(name));
        match rule {
            Some(rule) => Err(DataError::invalid(format!(
                "{name} must keep the constraint {}, and convergent fields cannot: drop it, or use another property",
                rule.name
            ))),
            None => Ok(()),
        }
    }

    /// Makes sure that the field and the maps on the way are what the operation takes them for, or absent. Answers the precision of
    /// a sketch.
    fn check_kind(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        spot: &Spot,
        kind: ConvergentKind,
        op: &ConvergentOp,
    ) -> Result<u8, DataError> {
        self.check_owner(owner, path[0], spot)?;
        let known = kind != ConvergentKind::Sketch;
        let named = spot.named();
        let checked = [named, &[kind as u8]].concat();
        if known && self.ongoing()?.checked.contains(&checked) {
            return Ok(0);
        }
        self.check_declared(owner, path, kind)?;
        if let ConvergentOwner::Node(id) = owner {
            self.check_indexable(id, path, kind)?;
        }
        let levels = spot.levels();
        let mut found = None;
        for (depth, level) in levels.iter().enumerate().skip(1) {
            let is_leaf = depth == path.len();
            let wanted = if is_leaf { kind } else { ConvergentKind::Map };
            found = self.kind_at(level)?;
            match found {
                Some((held, _)) if held != wanted => {
                    return Err(DataError::invalid(format!(
                        "{} is a {} here, not a {}: use its operations, or REMOVE it first",
                        path[..depth].join("."),
                        held.name(),
                        wanted.name()
                    )));
                }
                Some(_) => {}
                None => break,
            }
            if !is_leaf {
                found = None;
            }
        }
        let wanted = match op {
            ConvergentOp::Observe(_, precision) => *precision,
            _ => None,
        };
        if let Some(precision) = wanted
            && !SKETCH_PRECISIONS.contains(&precision)
        {
            return Err(DataError::invalid(format!(
                "the precision of a sketch is {precision}: it must be from {} to {}",
                SKETCH_PRECISIONS.start(),
                SKETCH_PRECISIONS.end()
            )));
        }
        self.ongoing()?.checked.insert(checked);
        match (kind, found, wanted) {
            (ConvergentKind::Sketch, Some((_, held)), Some(wanted)) if held != wanted => {
                Err(DataError::invalid(format!(
                    "{} has precision {held}, not {wanted}: leave the precision out",
                    path.join(".")
                )))
            }
            (ConvergentKind::Sketch, Some((_, held)), _) => Ok(held),
            (ConvergentKind::Sketch, None, wanted) => Ok(wanted.unwrap_or(SKETCH_PRECISION)),
            _ => Ok(0),
        }
    }

    /// Makes sure that the operation is one of the kind that a constraint declares.
    fn check_declared(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        kind: ConvergentKind,
    ) -> Result<(), DataError> {
        let rules = self.catalog_ref().schema.constraints();
        let declared = |rule: &&Constraint| matches!(rule.kind, ConstraintKind::Convergent { .. });
        let ConvergentOwner::Node(id) = owner else {
            return Ok(());
        };
        if !rules.iter().any(|rule| declared(&rule)) {
            return Ok(());
        }
        let Some(bytes) = self.read().get(&keyspace::node(id))? else {
            return Ok(());
        };
        let record = RecordRef::new(&bytes)?;
        for rule in rules.iter().filter(|rule| record.has_label(rule.label)) {
            let ConstraintKind::Convergent {
                path: field,
                kind: wanted,
            } = &rule.kind
            else {
                continue;
            };
            let is_within = field.0.len() <= path.len()
                && field.0.iter().zip(path).all(|(own, name)| **own == **name);
            let found = match field.0.len() == path.len() {
                true => kind,
                false => ConvergentKind::Map,
            };
            if is_within && found != *wanted {
                return Err(DataError::Violates {
                    label: self
                        .catalog_ref()
                        .label_name(rule.label)
                        .unwrap_or_default()
                        .to_string(),
                    field: field.to_string(),
                    problem: format!("is a {}, not a {}", wanted.name(), found.name()),
                    rule: rule.name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Refuses a node with a convergent field that is not `allowed`.
    pub(crate) fn check_fields(
        &self,
        id: NodeId,
        allowed: impl Fn(&str, &ConvergentKind) -> bool,
    ) -> Result<(), DataError> {
        if !self.store().shared().own_replica.has_any() {
            return Ok(());
        }
        let prefix = ConvergentOwner::Node(id).prefix();
        let mut from = prefix.clone();
        loop {
            let mut found = None;
            self.scan(&prefix, &from, 1, &mut |key, _| {
                let mut rest = &key[prefix.len()..];
                let prop = take_id(&mut rest).ok_or_else(place::malformed)?;
                let named = key.len() - rest.len();
                let (kind, _) = take_kind(&mut rest).ok_or_else(place::malformed)?;
                found = Some((PropId(prop as u32), kind, key[..named].to_vec()));
                Ok(false)
            })?;
            let Some((prop, kind, named)) = found else {
                return Ok(());
            };
            let name = self.catalog_ref().prop_name(prop).unwrap_or_default();
            if !allowed(&name, &kind) {
                return Err(DataError::invalid(format!(
                    "{name} is a convergent {} on node {id}: REMOVE it there first, or use another property",
                    kind.name()
                )));
            }
            match after_prefix(&named) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// What the field at a place is, with a sketch's precision; not noted as observed.
    pub(crate) fn kind_at(&self, named: &[u8]) -> Result<Option<(ConvergentKind, u8)>, DataError> {
        let mut found = None;
        self.scan_named(named, 1, &mut |key, _| {
            found = take_kind(&mut &key[named.len()..]);
            Ok(false)
        })?;
        Ok(found)
    }

    /// All entries of the field at `named`, past those that a folded counter does not hold any more.
    pub(super) fn scan_named(
        &self,
        named: &[u8],
        about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError> {
        let counter = [named, &[ConvergentKind::Counter as u8]].concat();
        let gap = self
            .store()
            .shared()
            .own_replica
            .gap(&counter, self.version());
        scan_past(self.read(), named, gap.as_deref(), about, visit)
    }

    /// Notes in the footprint what an operation observes and changes.
    fn note_action(&mut self, spot: &Spot, action: &Action) -> Result<(), DataError> {
        self.note_guards(spot, action);
        if let Action::Clear {
            context: Some(context),
        } = action
        {
            self.check_sums(spot, context)?;
        }
        Ok(())
    }

    fn note_guards(&mut self, spot: &Spot, action: &Action) {
        let levels = spot.levels();
        let footprint = self.footprint_mut();
        match action {
            Action::Count(_) | Action::Enable | Action::Sketch { .. } => {
                footprint.change_field(&levels);
            }
            Action::Insert { element, .. } => footprint.change_element(&levels, element, false),
            Action::Remove { element, .. } => footprint.change_element(&levels, element, true),
            Action::Assign(_) | Action::Disable { .. } => {
                footprint.change_field(&levels);
                footprint.read_field(spot.named());
            }
            Action::Clear { .. } => footprint.clear_field(&levels),
        }
    }

    /// Refuses a context that covers a part of what is added up already.
    fn check_sums(&self, spot: &Spot, context: &Vector) -> Result<(), DataError> {
        let mut split = false;
        self.scan(&spot.place, &[], 64, &mut |key, value| {
            let parts = entry(&key[spot.owner()..])?;
            split |= parts.kind == ConvergentKind::Counter
                && counter::is_split_by(parts.dot, value, context)?;
            Ok(!split)
        })?;
        if split {
            return Err(DataError::invalid(
                "the context is too old: increments that it has not seen were added up with those that it has; read the field again",
            ));
        }
        Ok(())
    }

    fn perform(
        &mut self,
        owner: ConvergentOwner,
        spot: Spot,
        action: &Action,
    ) -> Result<(), DataError> {
        let mut ongoing = self.take_ongoing()?;
        let op = ongoing.next_op;
        let stamp = Stamp {
            dot: Dot {
                replica: ongoing.ticket.replica,
                number: ongoing.ticket.number,
                op,
            },
            time: ongoing.time,
        };
        let done = match action {
            // Whatever stands there was seen: what others add meanwhile collides.
            Action::Clear { context: None } => self.delete_rows(&spot.place),
            _ => {
                let (replica, number) = (stamp.dot.replica, stamp.dot.number);
                let seen = |dot: Dot| {
                    ongoing.seen.covers(dot) || dot.replica == replica && dot.number == number
                };
                action.apply(self, spot.owner(), &spot.place, stamp, &seen)
            }
        };
        ongoing.next_op += 1;
        if matches!(action, Action::Count(_)) {
            ongoing.counters.push(spot.clone());
        }
        if matches!(action, Action::Clear { .. }) {
            ongoing.checked.clear();
        }
        self.converging = Some(ongoing);
        done?;
        self.log_operation(owner, &spot, op, action);
        Ok(())
    }

    fn log_operation(&mut self, owner: ConvergentOwner, spot: &Spot, op: u32, action: &Action) {
        match owner {
            ConvergentOwner::Node(id) => self.dirty_mut().node(id),
            ConvergentOwner::Relationship(_) => self.dirty_mut().relationship(),
        }
        let mut bytes = Vec::with_capacity(spot.place.len() + 16);
        action.push(&mut bytes);
        self.log(&Change::Converged {
            owner,
            op,
            place: &spot.place[spot.owner()..],
            action: &bytes,
        });
    }

    /// Does what an operation of another replica did.
    pub(crate) fn converge_remote(
        &mut self,
        owner: ConvergentOwner,
        spot: Spot,
        action: &Action,
        (dot, time): (Dot, u64),
        seen: &dyn Fn(Dot) -> bool,
    ) -> Result<(), DataError> {
        let prop = spot.property().ok_or_else(place::malformed)?;
        self.store().enter_convergent(prop)?;
        self.note_guards(&spot, action);
        let stamp = Stamp { dot, time };
        let mut before = self.fields_before(owner, prop)?;
        let mut touched = Vec::new();
        if let Some(before) = &mut before {
            self.note_indexed(before, &spot, action)?;
            touched = self.touched_by(&spot, action)?;
        }
        action.apply(self, spot.owner(), &spot.place, stamp, seen)?;
        self.fields_after(before, &touched)?;
        self.log_operation(owner, &spot, dot.op, action);
        Ok(())
    }

    /// A merge changed the field of a property, without an operation that tells it.
    pub(crate) fn log_merged(&mut self, owner: ConvergentOwner, prop: PropId) {
        self.log(&Change::FieldMerged { owner, prop });
    }

    /// All fields of an owner may have changed.
    pub(crate) fn clear_owner(&mut self, owner: ConvergentOwner) {
        let prefix = owner.prefix();
        self.footprint_mut().clear_field(&[&prefix]);
        match owner {
            ConvergentOwner::Node(id) => self.dirty_mut().node(id),
            ConvergentOwner::Relationship(_) => self.dirty_mut().relationship(),
        }
    }

    /// The transaction's number, its time, and what it has seen.
    pub(crate) fn number(&mut self) -> Result<(ReplicaNo, u64, u64, Vector), DataError> {
        let ongoing = self.ongoing()?;
        let ticket = &ongoing.ticket;
        Ok((
            ticket.replica,
            ticket.number,
            ongoing.time,
            ongoing.seen.clone(),
        ))
    }

    fn ongoing(&mut self) -> Result<&mut Ongoing, DataError> {
        let ongoing = self.take_ongoing()?;
        Ok(self.converging.insert(ongoing))
    }

    /// The transaction's number and what it has seen, taken at its first operation.
    fn take_ongoing(&mut self) -> Result<Box<Ongoing>, DataError> {
        if let Some(ongoing) = self.converging.take() {
            return Ok(ongoing);
        }
        let ticket = self.store().take_number()?;
        let seen = self.store().seen_in(self.read(), Some(ticket.number))?;
        let time = self.store().shared().own_replica.tick(self.now_ms());
        Ok(Box::new(Ongoing {
            ticket,
            seen,
            time,
            next_op: 0,
            checked: FxHashSet::default(),
            counters: Vec::new(),
        }))
    }

    /// A statement was undone: what it made is not there any more.
    pub(crate) fn forget_checked(&mut self) {
        if let Some(ongoing) = &mut self.converging {
            ongoing.checked.clear();
        }
    }

    /// Writes down which transaction it was. Before the commit.
    pub(crate) fn seal_convergent(&mut self) -> Result<Option<AfterCommit>, DataError> {
        let Some(ongoing) = self.converging.take() else {
            return Ok(None);
        };
        if !self.has_writes() {
            return Ok(None);
        }
        let mut settled = Vec::new();
        push_id(
            &mut settled,
            self.store().shared().own_replica.settled_now(),
        );
        self.put(&keyspace::own_number(ongoing.ticket.number), &settled)?;
        self.log(&Change::ConvergedBy {
            replica: ongoing.ticket.replica,
            number: ongoing.ticket.number,
            time: ongoing.time,
            seen: ongoing.seen,
        });
        Ok(Some(AfterCommit {
            ticket: ongoing.ticket,
            counters: ongoing.counters,
        }))
    }

    /// Takes away what a deleted record held.
    pub(crate) fn drop_fields(&mut self, owner: ConvergentOwner) -> Result<(), DataError> {
        if !self.store().shared().own_replica.has_any() {
            return Ok(());
        }
        self.forget_checked();
        self.delete_rows(&owner.prefix())
    }

    /// What this transaction's version has seen, for clients: opaque, and good for any replica that has seen as much.
    pub fn convergent_context(&self) -> Result<Vec<u8>, DataError> {
        let seen = self.store().seen_in(self.read(), None)?;
        let mut context = vec![CONTEXT_FORMAT];
        let own = &self.store().shared().own_replica;
        seen.push_portable(&mut context, |replica| own.name(replica));
        Ok(context)
    }

    fn read_context(&mut self, context: &[u8]) -> Result<Vector, DataError> {
        let own = &self.store().shared().own_replica;
        let parsed = match context.split_first() {
            Some((&CONTEXT_FORMAT, mut rest)) => {
                Vector::take_portable(&mut rest, |name| own.number(name))
                    .filter(|_| rest.is_empty())
            }
            _ => None,
        };
        let unseen = || {
            DataError::invalid(
                "the context is none that this database has seen: read the field here and pass what that returns",
            )
        };
        let context = parsed.ok_or_else(unseen)?;
        let seen = self.store().seen_in(self.read(), None)?;
        if !seen.includes(&context) {
            return Err(unseen());
        }
        Ok(context)
    }
}

fn kind_of(op: &ConvergentOp) -> Option<ConvergentKind> {
    Some(match op {
        ConvergentOp::Count(_) => ConvergentKind::Counter,
        ConvergentOp::Insert(_) | ConvergentOp::Remove(_) => ConvergentKind::Set,
        ConvergentOp::InsertGrowing(_) => ConvergentKind::GrowSet,
        ConvergentOp::Assign(_) => ConvergentKind::Register,
        ConvergentOp::AssignMulti(_) => ConvergentKind::MultiRegister,
        ConvergentOp::Enable | ConvergentOp::Disable => ConvergentKind::Flag,
        ConvergentOp::Observe(..) => ConvergentKind::Sketch,
        ConvergentOp::Clear => return None,
    })
}

fn action_of(
    op: &ConvergentOp,
    context: Option<Vector>,
    precision: u8,
) -> Result<Action, DataError> {
    Ok(match op {
        ConvergentOp::Count(by) => Action::Count(*by),
        ConvergentOp::Insert(value) | ConvergentOp::InsertGrowing(value) => {
            let (element, exact) = element(value)?;
            Action::Insert { element, exact }
        }
        ConvergentOp::Remove(value) => Action::Remove {
            element: element(value)?.0,
            context,
        },
        ConvergentOp::Assign(value) | ConvergentOp::AssignMulti(value) => {
            check_scalar(value, "the value of a register")?;
            Action::Assign(payload(value)?)
        }
        ConvergentOp::Enable => Action::Enable,
        ConvergentOp::Disable => Action::Disable { context },
        ConvergentOp::Observe(value, _) => {
            let (place, rank) = sketch::noted(value, precision)?;
            Action::Sketch { place, rank }
        }
        ConvergentOp::Clear => Action::Clear { context },
    })
}

impl Rows for Transaction {
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError> {
        scan_rows(self.read(), prefix, from, about, visit)
    }
}

impl RowsMut for Transaction {
    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.put(key, value)
    }

    fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError> {
        self.delete(key)
    }

    fn delete_rows(&mut self, prefix: &[u8]) -> Result<(), DataError> {
        let end = after_prefix(prefix);
        self.write(|tx| {
            tx.delete_range(KeyRange {
                start: prefix,
                end: end.as_deref(),
            })
        })
    }
}

/// The rows of an engine's transaction, and where the counter that it folds holds none.
struct EngineRows(Box<dyn isomer_storage::Transaction>, Option<Arc<Gap>>);

impl Rows for EngineRows {
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError> {
        match &self.1 {
            Some(gap) if from.is_empty() => scan_past(&*self.0, prefix, Some(gap), about, visit),
            _ => scan_rows(&*self.0, prefix, from, about, visit),
        }
    }
}

impl RowsMut for EngineRows {
    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        Ok(self.0.put(key, value)?)
    }

    fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError> {
        Ok(self.0.delete(key)?)
    }

    fn delete_rows(&mut self, prefix: &[u8]) -> Result<(), DataError> {
        let end = after_prefix(prefix);
        Ok(self.0.delete_range(KeyRange {
            start: prefix,
            end: end.as_deref(),
        })?)
    }
}

pub(super) fn scan_rows(
    read: &(impl isomer_storage::Read + ?Sized),
    prefix: &[u8],
    from: &[u8],
    about: usize,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let end = after_prefix(prefix);
    scan_between(read, prefix.max(from), end, about, visit)
}

/// All that begins with `prefix` but for what lies in `gap`, where nothing is.
fn scan_past(
    read: &(impl isomer_storage::Read + ?Sized),
    prefix: &[u8],
    gap: Option<&Gap>,
    about: usize,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let Some(gap) = gap else {
        return scan_rows(read, prefix, &[], about, visit);
    };
    let mut goes_on = true;
    // Before the first replica's entries there are none.
    if !gap.is_first {
        let before = Some(gap.from.clone());
        scan_between(read, prefix, before, about, &mut |key, value| {
            goes_on = visit(key, value)?;
            Ok(goes_on)
        })?;
    }
    match goes_on {
        true => scan_between(read, &gap.to, after_prefix(prefix), about, visit),
        false => Ok(()),
    }
}

fn scan_between(
    read: &(impl isomer_storage::Read + ?Sized),
    start: &[u8],
    end: Option<Vec<u8>>,
    about: usize,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let mut rest = Some((start.to_vec(), end));
    let mut page = Page::new();
    let mut keys = about.clamp(1, 8192);
    while let Some((start, end)) = rest.take() {
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        let limit = PageLimit {
            keys,
            bytes: 1 << 20,
        };
        read.scan(range, Order::Ascending, limit, &mut page)?;
        for (key, value) in page.iter() {
            if !visit(key, value)? {
                return Ok(());
            }
        }
        rest = page
            .next()
            .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        keys = (keys * 8).min(8192);
    }
    Ok(())
}

impl Store {
    /// Adds up the increments of counters that were added to often, now that the commit is through.
    pub(crate) fn fold_counters(&self, counters: Vec<Spot>) {
        for spot in counters {
            if self.shared().own_replica.note_count(&spot.place) {
                // Whoever loses against a removal, or meets a full disk, leaves it to the next time.
                drop(self.fold_counter(&spot));
            }
        }
    }

    fn fold_counter(&self, spot: &Spot) -> Result<(), DataError> {
        let stable = match self.is_replicated() {
            true => self.shared().replication.stable(),
            false => self.shared().own_replica.settled(),
        };
        let tx = self.engine().begin()?;
        let own_replica = &self.shared().own_replica;
        let gap = own_replica.gap(&spot.place, tx.version());
        let mut rows = EngineRows(tx, gap);
        for level in spot.levels() {
            let hash = xxh3_128(level);
            rows.0.guard(Item::Cleared(hash).granule(), GuardMode::Read);
            rows.0.guard(Item::Folded(hash).granule(), GuardMode::Add);
        }
        rows.0.guard(
            Item::Folded(xxh3_128(spot.named())).granule(),
            GuardMode::Write,
        );
        if let Some(exists) = owner_exists(spot)? {
            rows.0.guard(exists.granule(), GuardMode::Read);
        }
        let sums = counter::fold(&mut rows, &spot.place, &stable, KEPT_APART)?;
        if sums.is_empty() {
            return Ok(());
        }
        let committed = {
            let _gate = self.shared().gate.read();
            rows.0.commit(Durability::Buffered)
        };
        let version = match committed {
            Ok(version) => version,
            Err(StorageError::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Whatever of this replica is under way has a greater number than what is settled.
        let own = own_replica.own();
        if let Some(sum) = sums.iter().find(|sum| Some(sum.replica) == own) {
            let mut from = spot.place.clone();
            push_id(&mut from, sum.replica.0.into());
            let to = keyed(&spot.place, &[], *sum);
            let is_first = sum.replica.0 == 0;
            own_replica.note_gap(&spot.place, version, from, to, is_first);
        }
        Ok(())
    }
}

/// What a deletion of the owner changes.
fn owner_exists(spot: &Spot) -> Result<Option<Item>, DataError> {
    let owner = &spot.place[..spot.owner()];
    let id = keyspace::sole_id(&owner[2..], "the owner of a convergent field")?;
    Ok(match owner[1] {
        0 => Some(Item::NodeExists(id)),
        1 => Some(Item::Rel(id)),
        _ => None,
    })
}
