//! Convergent operations in a transaction.

use std::sync::Arc;

use isomer_layout::{
    DataError,
    catalog::{
        rules::described,
        schema::{Constraint, ConstraintKind},
    },
    convergent::{
        clock::{Dot, ReplicaNo, Vector},
        counter,
        effect::{Action, Stamp, keyed},
        place::{
            self, ConvergentKind, SKETCH_PRECISION, SKETCH_PRECISIONS, check_scalar, element,
            entry, payload, take_kind,
        },
        position::{ConvergentOwner, FieldPosition},
        rows::{Rows, RowsMut, Visit},
        sketch,
    },
    graph::{rows::row_of, state::KEY},
    keyspace::{self, after_prefix, push_id, take_id},
    properties::brief,
    stream::change::Change,
};
use isomer_storage::{Durability, GuardMode, KeyRange, Order, Page, PageLimit, StorageError};
use isomer_value::{PropId, Value, limits::MAX_NESTING, record::RecordRef};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use super::replica::Gap;
use crate::{
    DataStore, Fields, FieldsMut, Transaction,
    convergent::ongoing::{AfterCommit, Ongoing},
    footprint::Item,
};

/// Newest increments of each replica that folding a counter keeps apart: this number may be added after a client has
/// read the context with which it removes.
const KEPT_APART: usize = 64;
/// First byte of a context: its format.
const CONTEXT_FORMAT: u8 = 1;

/// One operation on a convergent field. The first one creates the field.
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
    /// Records a value in a sketch, of this precision where it is a new one.
    Observe(Value, Option<u8>),
    /// Records a rank in a place of a sketch of this precision, as returned by [`Fields::ranks`]: for
    /// copies.
    Rank {
        /// The sketch's precision.
        precision: u8,
        /// Below 2^precision.
        place: u16,
        /// At least 1.
        rank: u8,
    },
    /// Removes the field, of any kind, and all below it.
    Clear,
}

impl FieldsMut<'_> {
    /// Applies `op` to the convergent field of `owner` at `path` (one name, or names through maps, which are created
    /// where absent).
    ///
    /// A removal (`Remove`, `Disable`, `Clear`) removes what this transaction sees; with a `context` (see
    /// [`Fields::context`]) what its reader saw. Counting, inserting, enabling and observing commute:
    /// they conflict with transactions that have read the field, never with one another.
    ///
    /// # Errors
    /// [`DataError::NotFound`] without the owner; [`DataError::Invalid`] if the field is of another kind, holds a
    /// plain value or an index cannot hold it, and where the context is of a state that this database has not seen, or
    /// too old.
    pub fn converge(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        op: &ConvergentOp,
        context: Option<&[u8]>,
    ) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let top = self.tx.fields().check_path(path)?;
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
        // Before the first entry is written. Readers and indexes use this to skip the lookup of
        // convergent fields in records of properties that never were convergent.
        self.tx.store().enter_convergent(top)?;
        let position = FieldPosition::new(owner, top, &path[1..]);
        let (kind, precision) = match kind_of(op) {
            Some(kind) => (
                Some(kind),
                self.check_kind(owner, path, &position, kind, op)?,
            ),
            None => {
                self.check_owner(owner, path[0], &position)?;
                (None, 0)
            }
        };
        let position = match kind {
            Some(kind) => position.kind(kind, precision),
            None => position,
        };
        let action = action_of(op, context, precision)?;
        self.note_action(&position, &action)?;
        // Most properties are in no index that holds convergent fields: these need no savepoint, as a
        // failed operation has changed no index.
        let before = self.tx.indexes_mut().fields_before(owner, top)?;
        let Some(mut before) = before else {
            return self.perform(owner, position, &action);
        };
        self.tx
            .indexes_mut()
            .note_indexed(&mut before, &position, &action)?;
        let touched = self.tx.indexes().touched_by(&position, &action)?;
        // An index can refuse a value after the entry was written. The caller may continue the
        // transaction after the error, so the entry and its index rows are rolled back together here.
        let mark = self.tx.savepoint();
        let done = self
            .perform(owner, position, &action)
            .and_then(|()| self.tx.indexes_mut().fields_after(Some(before), &touched));
        match done {
            Ok(()) => self.tx.release(mark),
            Err(_) => self.tx.rollback_to(mark)?,
        }
        done
    }

    /// Checks that the owner exists and does not have the property as a plain value or in an index.
    fn check_owner(
        &mut self,
        owner: ConvergentOwner,
        name: &str,
        position: &FieldPosition,
    ) -> Result<(), DataError> {
        if let Some(ongoing) = &self.tx.converging
            && ongoing.checked.contains(position.top())
        {
            return Ok(());
        }
        let (key, noun) = match owner {
            ConvergentOwner::Node(id) => (keyspace::node(id), "node"),
            ConvergentOwner::Relationship(id) => (keyspace::relationship(id), "relationship"),
        };
        let id = owner.parts().1;
        // The absence was observed, too: a transaction that creates the owner
        // must conflict with this one.
        let Some(bytes) = self.tx.read().get(&key)? else {
            match owner {
                ConvergentOwner::Node(_) => self.tx.footprint().read_absent_node(),
                ConvergentOwner::Relationship(_) => self.tx.footprint().read_type_members(None),
            }
            return Err(DataError::NotFound(format!(
                "{noun} {id} does not exist, or was deleted in this transaction"
            )));
        };
        let record = RecordRef::new(&bytes)?;
        match owner {
            ConvergentOwner::Node(id) => {
                self.tx.footprint().read_exists(id, record.labels().next());
            }
            ConvergentOwner::Relationship(id) => {
                let row = row_of(id, &record)?;
                self.tx.footprint().read_relationship(id, row.type_id);
            }
        }
        self.tx.fields().check_not_ruled(&record, name)?;
        // Observed once per transaction and place. A concurrent transaction that sets the property as a
        // plain value conflicts, so that a record never has both.
        self.tx.footprint_mut().plain_field(position.top(), false);
        let prop = self.tx.name_ids().intern_prop(name)?;
        if let Some(value) = record.get(prop, &*self.tx.names().names)? {
            return Err(DataError::invalid(format!(
                "{name} holds {} as a plain value here: REMOVE it before it becomes a convergent field",
                brief(&value)
            )));
        }
        let place = position.top().to_vec();
        self.ongoing()?.checked.insert(place);
        Ok(())
    }

    /// Checks that the field and the enclosing maps have the kinds that the operation expects, or are absent. Returns
    /// the precision of a sketch.
    fn check_kind(
        &mut self,
        owner: ConvergentOwner,
        path: &[&str],
        position: &FieldPosition,
        kind: ConvergentKind,
        op: &ConvergentOp,
    ) -> Result<u8, DataError> {
        self.check_owner(owner, path[0], position)?;
        // The precision of a sketch is part of its key and of the result, so it is looked up each time.
        let known = kind != ConvergentKind::Sketch;
        let named = position.named();
        let checked = [named, &[kind as u8]].concat();
        if known && self.ongoing()?.checked.contains(&checked) {
            return Ok(0);
        }
        self.tx.fields().check_declared(owner, path, kind)?;
        self.tx.indexes().check_indexable(owner, path, kind)?;
        let levels = position.levels();
        let mut found = None;
        for (depth, level) in levels.iter().enumerate().skip(1) {
            let is_leaf = depth == path.len();
            let wanted = if is_leaf { kind } else { ConvergentKind::Map };
            // `kind_at` does not observe the field, or all first operations on a field would conflict: only
            // those of different kinds may. A field in an index is observed by `note_indexed`.
            found = self.tx.fields().kind_at(level)?;
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
                None => {
                    // All that is below is absent, too.
                    for (depth, level) in levels.iter().enumerate().skip(depth) {
                        let is_leaf = depth == path.len();
                        let created = if is_leaf { kind } else { ConvergentKind::Map };
                        self.tx.footprint_mut().create_field(level, created);
                    }
                    break;
                }
            }
            if !is_leaf {
                found = None;
            }
        }
        let wanted = match op {
            ConvergentOp::Observe(_, precision) => *precision,
            ConvergentOp::Rank { precision, .. } => Some(*precision),
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

    /// Declares in the footprint what an operation observes and changes.
    fn note_action(&mut self, position: &FieldPosition, action: &Action) -> Result<(), DataError> {
        self.note_guards(position, action);
        if let Action::Clear {
            context: Some(context),
        } = action
        {
            self.tx.fields().check_sums(position, context)?;
        }
        Ok(())
    }

    fn note_guards(&mut self, position: &FieldPosition, action: &Action) {
        let levels = position.levels();
        let footprint = self.tx.footprint_mut();
        match action {
            Action::Count(_) | Action::Enable | Action::Sketch { .. } => {
                footprint.change_field(&levels);
            }
            Action::Insert { element, .. } => footprint.change_element(&levels, element, false),
            Action::Remove { element, .. } => footprint.change_element(&levels, element, true),
            // These remove what they have seen: a concurrent change must conflict, or it would depend on
            // the order of commits whether it is removed. Counting, inserting and enabling commute.
            Action::Assign(_) | Action::Disable { .. } => {
                footprint.change_field(&levels);
                footprint.read_field(position.named());
            }
            Action::Clear { .. } => footprint.clear_field(&levels),
        }
    }

    fn perform(
        &mut self,
        owner: ConvergentOwner,
        position: FieldPosition,
        action: &Action,
    ) -> Result<(), DataError> {
        if let Action::Count(by) = action {
            self.check_sum(&position, *by)?;
        }
        // Moved out of the transaction, which `apply` borrows; it is put back below in any case.
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
            // All existing rows were seen: concurrent additions conflict.
            Action::Clear { context: None } => self.tx.delete_rows(&position.place),
            _ => {
                let (replica, number) = (stamp.dot.replica, stamp.dot.number);
                // Entries of this transaction count as seen: a later operation of it replaces an earlier one.
                let seen = |dot: Dot| {
                    ongoing.seen.covers(dot) || dot.replica == replica && dot.number == number
                };
                action.apply(self.tx, position.owner(), &position.place, stamp, &seen)
            }
        };
        // Also after a failure. A savepoint undoes rows, not numbers: a dot that was used
        // twice would name two operations.
        ongoing.next_op += 1;
        if matches!(action, Action::Count(_)) {
            ongoing.counters.push(position.clone());
        }
        // The kinds that were checked do not exist any more, and another kind may be created.
        if matches!(action, Action::Clear { .. }) {
            ongoing.checked.clear();
        }
        // Before the error is returned: the number must stay registered as under
        // way until the transaction ends.
        self.tx.converging = Some(ongoing);
        done?;
        self.log_operation(owner, &position, op, action);
        Ok(())
    }

    /// Refuses an increment after which the counter, as this transaction sees it, is beyond 64 bits. Increments do not
    /// conflict: concurrent ones may still add up to more, and then the counter shows the nearest integer.
    fn check_sum(&self, position: &FieldPosition, by: i64) -> Result<(), DataError> {
        let store = self.tx.store();
        let own_replica = &store.shared().own_replica;
        // What other processes add is not counted: then the sum is read each time.
        if !store.is_shared() && own_replica.take_room(&position.place, by.unsigned_abs()) {
            return Ok(());
        }
        let mut before = 0_i128;
        let gap = own_replica.gap(&position.place, self.tx.version());
        scan_past(
            self.tx.read(),
            &position.place,
            gap.as_deref(),
            256,
            &mut |_, value| {
                before = before.saturating_add(counter::amount(value)?.0);
                Ok(true)
            },
        )?;
        let after = before.saturating_add(by.into());
        if i64::try_from(after).is_err() {
            return Err(DataError::invalid(format!(
                "the counter would be {after}, which does not fit into 64 bits: nothing was changed"
            )));
        }
        // Earlier increments of this transaction may be rolled back: what it sees is no base for others.
        let ongoing = self.tx.converging.as_ref();
        let mut counted = ongoing.into_iter().flat_map(|ongoing| &ongoing.counters);
        if !counted.any(|one| one.place == position.place) {
            let most = before.unsigned_abs().max(after.unsigned_abs());
            let left = u128::from(i64::MAX.unsigned_abs()).saturating_sub(most);
            own_replica.note_room(&position.place, u64::try_from(left).unwrap_or(0));
        }
        Ok(())
    }

    fn log_operation(
        &mut self,
        owner: ConvergentOwner,
        position: &FieldPosition,
        op: u32,
        action: &Action,
    ) {
        match owner {
            ConvergentOwner::Node(id) => self.tx.changes.dirty.node(id),
            ConvergentOwner::Relationship(_) => self.tx.changes.dirty.relationship(),
        }
        let mut bytes = Vec::with_capacity(position.place.len() + 16);
        action.push(&mut bytes);
        self.tx.log(&Change::Converged {
            owner,
            op,
            place: &position.place[position.owner()..],
            action: &bytes,
        });
    }

    /// Applies an operation of another replica.
    #[doc(hidden)]
    pub fn converge_remote(
        &mut self,
        owner: ConvergentOwner,
        position: FieldPosition,
        action: &Action,
        (dot, time): (Dot, u64),
        seen: &dyn Fn(Dot) -> bool,
    ) -> Result<(), DataError> {
        let prop = position.property().ok_or_else(place::malformed)?;
        self.tx.store().enter_convergent(prop)?;
        self.note_guards(&position, action);
        let stamp = Stamp { dot, time };
        // No savepoint: a transaction of another replica is applied entirely or not at all, so an error
        // rolls back the whole transaction. Kinds, constraints and declarations are not checked: the
        // operation took place elsewhere, and refusing it here would make the replicas diverge.
        let mut before = self.tx.indexes_mut().fields_before(owner, prop)?;
        let mut touched = Vec::new();
        if let Some(before) = &mut before {
            self.tx
                .indexes_mut()
                .note_indexed(before, &position, action)?;
            touched = self.tx.indexes().touched_by(&position, action)?;
        }
        action.apply(self.tx, position.owner(), &position.place, stamp, seen)?;
        if let Action::Count(by) = action {
            let own_replica = &self.tx.store().shared().own_replica;
            if !own_replica.take_room(&position.place, by.unsigned_abs()) {
                // The next increment here reads the sum.
                own_replica.note_room(&position.place, 0);
            }
        }
        self.tx.indexes_mut().fields_after(before, &touched)?;
        self.log_operation(owner, &position, dot.op, action);
        Ok(())
    }

    /// A merge changed the field of a property, without an operation in the change stream.
    #[doc(hidden)]
    pub fn log_merged(&mut self, owner: ConvergentOwner, prop: PropId) {
        self.tx.log(&Change::FieldMerged { owner, prop });
    }

    /// All fields of an owner may have changed.
    #[doc(hidden)]
    pub fn clear_owner(&mut self, owner: ConvergentOwner) {
        let prefix = owner.prefix();
        self.tx.footprint_mut().clear_field(&[&prefix]);
        match owner {
            ConvergentOwner::Node(id) => self.tx.changes.dirty.node(id),
            ConvergentOwner::Relationship(_) => self.tx.changes.dirty.relationship(),
        }
    }

    /// The transaction's number, its time, and its vector.
    #[doc(hidden)]
    pub fn number(&mut self) -> Result<(ReplicaNo, u64, u64, Vector), DataError> {
        let ongoing = self.ongoing()?;
        let ticket = &ongoing.ticket;
        Ok((
            ticket.replica,
            ticket.number,
            ongoing.time,
            ongoing.seen.clone(),
        ))
    }

    pub(crate) fn ongoing(&mut self) -> Result<&mut Ongoing, DataError> {
        let ongoing = self.take_ongoing()?;
        Ok(self.tx.converging.insert(ongoing))
    }

    /// The transaction's number and its vector, taken at its first operation.
    fn take_ongoing(&mut self) -> Result<Box<Ongoing>, DataError> {
        if let Some(ongoing) = self.tx.converging.take() {
            return Ok(ongoing);
        }
        // The number first, then the vector: `seen_in` may then ignore all own numbers from this one
        // on, which are given out later and cannot be in the snapshot.
        let ticket = self.tx.store().numbering().take()?;
        let seen = self
            .tx
            .store()
            .numbering()
            .seen_in(self.tx.read(), Some(ticket.number))?;
        // The time decides between concurrent values only: what this transaction has seen it replaces,
        // whatever the times. So the order of this call and of `seen_in` does not matter.
        let own = &self.tx.store().shared().own_replica;
        own.follow_clock(self.tx.store().options().clock.now_ms());
        let time = own.tick(self.tx.now_ms());
        Ok(Box::new(Ongoing {
            ticket,
            seen,
            time,
            next_op: 0,
            checked: FxHashSet::default(),
            counters: Vec::new(),
        }))
    }

    /// A statement was rolled back: the fields that it created do not exist any more.
    pub(crate) fn forget_checked(&mut self) {
        if let Some(ongoing) = &mut self.tx.converging {
            ongoing.checked.clear();
        }
    }

    /// Records the number of the transaction. Before the commit.
    pub(crate) fn finish_convergent(&mut self) -> Result<Option<AfterCommit>, DataError> {
        let Some(ongoing) = self.tx.converging.take() else {
            return Ok(None);
        };
        // Dropping the ticket gives the number up; other replicas then do not wait for it.
        if !self.tx.has_writes() {
            return Ok(None);
        }
        if self.tx.store().is_shared() {
            // Another process may have declared this number given up since it was reserved. Then validation
            // fails: no state contains a number that counts as given up.
            let number = ongoing.ticket.number;
            self.tx.footprint_mut().read_number(number);
        }
        let mut settled = Vec::new();
        // The watermark goes with the number. After a backup was restored, it tells which of the
        // missing numbers had been given up, and which may exist in other replicas (`put_restored`).
        push_id(
            &mut settled,
            self.tx.store().shared().own_replica.settled_now(),
        );
        self.tx
            .put(&keyspace::own_number(ongoing.ticket.number), &settled)?;
        self.tx.log(&Change::ConvergedBy {
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

    /// Deletes the fields of a deleted record.
    #[doc(hidden)]
    pub fn drop_fields(&mut self, owner: ConvergentOwner) -> Result<(), DataError> {
        if !self.tx.store().shared().own_replica.has_any() {
            return Ok(());
        }
        self.forget_checked();
        self.tx.delete_rows(&owner.prefix())
    }

    fn read_context(&mut self, context: &[u8]) -> Result<Vector, DataError> {
        let own = &self.tx.store().shared().own_replica;
        let parsed = match context.split_first() {
            Some((&CONTEXT_FORMAT, mut rest)) => {
                Vector::take_portable(&mut rest, |name| own.number(name))
                    .filter(|_| rest.is_empty())
            }
            _ => None,
        };
        let unseen = || {
            DataError::invalid(
                "the context is unknown, or covers operations that this database has not applied: read the field here and pass the context that this returns",
            )
        };
        // A context beyond this state would name entries that have not arrived yet. Replicas that have
        // them would remove them, and this one would not.
        let context = parsed.ok_or_else(unseen)?;
        let seen = self.tx.store().numbering().seen_in(self.tx.read(), None)?;
        if !seen.includes(&context) {
            return Err(unseen());
        }
        Ok(context)
    }
}

impl Fields<'_> {
    /// Checks names and gives the number of the first.
    fn check_path(self, path: &[&str]) -> Result<PropId, DataError> {
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
        self.tx.name_ids().intern_prop(first)
    }

    fn check_not_ruled(self, record: &RecordRef<'_>, name: &str) -> Result<(), DataError> {
        let rules = self.tx.names().schema.constraints();
        let rule = rules
            .iter()
            .find(|rule| rule.scope.covers(record) && rule.kind.rules_plain(name));
        match rule {
            Some(rule) => Err(DataError::invalid(format!(
                "{name} must keep the constraint {}, and convergent fields cannot: drop it, or use another property",
                rule.name
            ))),
            None => Ok(()),
        }
    }

    /// Checks that the operation fits the kind that a constraint declares.
    fn check_declared(
        self,
        owner: ConvergentOwner,
        path: &[&str],
        kind: ConvergentKind,
    ) -> Result<(), DataError> {
        let rules = self.tx.names().schema.constraints();
        let declared = |rule: &&Constraint| matches!(rule.kind, ConstraintKind::Convergent { .. });
        if !rules.iter().any(|rule| declared(&rule)) {
            return Ok(());
        }
        let Some(bytes) = self.tx.read().get(&owner.record_key())? else {
            return Ok(());
        };
        let record = RecordRef::new(&bytes)?;
        for rule in rules.iter().filter(|rule| rule.scope.covers(&record)) {
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
                        .tx
                        .names()
                        .scope_name(rule.scope)
                        .unwrap_or_default()
                        .as_ref()
                        .into(),
                    record: described(Some(owner), None).into(),
                    field: field.to_string().into(),
                    problem: format!("is a {}, not a {}", wanted.name(), found.name()).into(),
                    rule: rule.name.to_string().into(),
                });
            }
        }
        Ok(())
    }

    /// Refuses a record with a convergent field that is not `allowed`.
    pub(crate) fn check_fields(
        self,
        owner: ConvergentOwner,
        allowed: impl Fn(&str, &ConvergentKind) -> bool,
    ) -> Result<(), DataError> {
        if !self.tx.store().shared().own_replica.has_any() {
            return Ok(());
        }
        let prefix = owner.prefix();
        // One lookup per property instead of one per entry: after the first entry of a property the
        // scan seeks behind all of them.
        let mut from = prefix.clone();
        loop {
            let mut found = None;
            self.tx.scan(&prefix, &from, 1, &mut |key, _| {
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
            let name = self.tx.names().prop_name(prop).unwrap_or_default();
            if !allowed(&name, &kind) {
                return Err(DataError::invalid(format!(
                    "{name} is a convergent {} on {}: REMOVE it there first, or use another property",
                    kind.name(),
                    described(Some(owner), None)
                )));
            }
            match after_prefix(&named) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// The kind of the field at a place, with a sketch's precision; does not observe it.
    pub(crate) fn kind_at(self, named: &[u8]) -> Result<Option<(ConvergentKind, u8)>, DataError> {
        let mut found = None;
        self.scan_named(named, 1, &mut |key, _| {
            found = take_kind(&mut &key[named.len()..]);
            Ok(false)
        })?;
        Ok(found)
    }

    /// All entries of the field at `named`, skipping the gap that a folded counter left.
    pub(crate) fn scan_named(
        self,
        named: &[u8],
        about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError> {
        let counter = [named, &[ConvergentKind::Counter as u8]].concat();
        let gap = self
            .tx
            .store()
            .shared()
            .own_replica
            .gap(&counter, self.tx.version());
        scan_past(self.tx.read(), named, gap.as_deref(), about, visit)
    }

    /// Refuses a context that covers only a part of a folded sum.
    fn check_sums(self, position: &FieldPosition, context: &Vector) -> Result<(), DataError> {
        let mut split = false;
        self.tx.scan(&position.place, &[], 64, &mut |key, value| {
            let parts = entry(&key[position.owner()..])?;
            split |= parts.kind == ConvergentKind::Counter
                && counter::is_split_by(parts.dot, value, context)?;
            Ok(!split)
        })?;
        if split {
            return Err(DataError::invalid(
                "the context is too old: increments that it covers were folded together with later ones; read the field again",
            ));
        }
        Ok(())
    }

    /// The context of this transaction's version, for clients: opaque, and valid for any replica that has seen as much.
    pub fn context(self) -> Result<Vec<u8>, DataError> {
        let seen = self.tx.store().numbering().seen_in(self.tx.read(), None)?;
        let mut context = vec![CONTEXT_FORMAT];
        let own = &self.tx.store().shared().own_replica;
        seen.push_portable(&mut context, |replica| own.name(replica));
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
        ConvergentOp::Observe(..) | ConvergentOp::Rank { .. } => ConvergentKind::Sketch,
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
        ConvergentOp::Rank { place, rank, .. } => {
            let is_there = u32::from(*place) < 1 << precision;
            if !is_there || !(1..=65 - precision).contains(rank) {
                return Err(DataError::invalid(format!(
                    "a sketch of precision {precision} has no rank {rank} in place {place}"
                )));
            }
            Action::Sketch {
                place: *place,
                rank: *rank,
            }
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
        self.write(prefix.len(), |tx| {
            tx.delete_range(KeyRange {
                start: prefix,
                end: end.as_deref(),
            })
        })
    }
}

/// The rows of an engine's transaction, and the empty gap of the counter that is folded.
struct EngineRows(
    pub(crate) Box<dyn isomer_storage::EngineTransaction>,
    Option<Arc<Gap>>,
);

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

pub(crate) fn scan_rows(
    read: &(impl isomer_storage::Read + ?Sized),
    prefix: &[u8],
    from: &[u8],
    about: usize,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let end = after_prefix(prefix);
    scan_between(read, prefix.max(from), end, about, visit)
}

/// All keys with `prefix`, except those in `gap`, which is empty.
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
    let mut continues = true;
    // The range before the first replica's entries is empty.
    if !gap.is_first {
        let before = Some(gap.from.clone());
        scan_between(read, prefix, before, about, &mut |key, value| {
            continues = visit(key, value)?;
            Ok(continues)
        })?;
    }
    match continues {
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

impl DataStore {
    /// Folds the counters with many increments, after the commit.
    pub(crate) fn fold_counters(&self, counters: Vec<FieldPosition>) {
        for position in counters {
            if self.shared().own_replica.note_count(&position.place) {
                // On a conflict with a removal, or a full disk, a later commit folds the counter.
                drop(self.fold_counter(&position));
            }
        }
    }

    fn fold_counter(&self, position: &FieldPosition) -> Result<(), DataError> {
        // Computed before the snapshot is taken, which then contains every stable increment.
        // Increments of transactions in progress are not stable and have other keys, so a fold
        // never conflicts with counting.
        let stable = match self.is_replicated() {
            true => self.shared().replica_state.stable(),
            false => self.shared().own_replica.settled(),
        };
        let tx = self.engine().begin()?;
        let stable = match self.is_shared() {
            true => self.shared().own_replica.settled_stored(&*tx)?,
            false => stable,
        };
        let own_replica = &self.shared().own_replica;
        let gap = own_replica.gap(&position.place, tx.version());
        let mut rows = EngineRows(tx, gap);
        // A removal of the counter or of anything around it changes `Cleared` and observes `Folded`;
        // the fold does the opposite. So of a removal and a fold that run concurrently, the second one
        // conflicts, and a removal with a context never meets a sum that its check had not seen.
        for level in position.levels() {
            let hash = xxh3_128(level);
            rows.0.guard(Item::Cleared(hash).granule(), GuardMode::Read);
            rows.0.guard(Item::Folded(hash).granule(), GuardMode::Add);
        }
        rows.0.guard(
            Item::Folded(xxh3_128(position.named())).granule(),
            GuardMode::Write,
        );
        // Deleting the owner deletes its fields as one range without looking at them. Without this, the
        // sum would be written behind it and stay as an entry without an owner.
        if let Some(exists) = owner_exists(position)? {
            rows.0.guard(exists.granule(), GuardMode::Read);
        }
        let sums = counter::fold(&mut rows, &position.place, &stable, KEPT_APART)?;
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
        // Numbers of this replica that are under way are greater than the settled ones.
        let own = own_replica.own();
        if let Some(sum) = sums.iter().find(|sum| Some(sum.replica) == own) {
            let mut from = position.place.clone();
            push_id(&mut from, sum.replica.0.into());
            let to = keyed(&position.place, &[], *sum);
            let is_first = sum.replica.0 == 0;
            own_replica.note_gap(&position.place, version, from, to, is_first);
        }
        Ok(())
    }
}

/// What deleting the owner changes.
fn owner_exists(position: &FieldPosition) -> Result<Option<Item>, DataError> {
    let owner = &position.place[..position.owner()];
    let id = keyspace::sole_id(&owner[2..], "the owner of a convergent field")?;
    Ok(match owner[1] {
        0 => Some(Item::NodeExists(id)),
        1 => Some(Item::Rel(id)),
        _ => None,
    })
}
