//! Convergent fields: read with a causal context, changed by operations, queried without loading them.

use std::ops::{Bound, Deref, RangeBounds};

use isomer_data::{ConvergentKind, ConvergentOp, ConvergentOwner, DataError, FieldOrigin};
use isomer_value::{Value, order::cmp_order};

use crate::{Items, ReadTransaction, Result, WriteTransaction};

/// The causal context of a read, opaque: a removal with it does not affect concurrent or later additions. Valid on any
/// replica that has applied as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context(Vec<u8>);

impl Context {
    /// Its bytes, to be sent to a client and back.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Context {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// The result of [`ReadField::fetch`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldState {
    /// Its kind; none if there is no such field.
    pub kind: Option<ConvergentKind>,
    /// Its value.
    pub value: Option<Value>,
    /// The causal context of this state.
    pub context: Context,
}

/// The replicas that the value of a field comes from: the result of [`ReadField::origins`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldOrigins {
    /// The replicas, with the contribution of each.
    pub replicas: Vec<FieldOrigin>,
    /// Whether all entries of the field were read.
    pub is_complete: bool,
}

/// A change of a field. The first one creates the field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// Increments, or with a negative number decrements.
    Counter(i64),
    /// Removes elements from a set, then adds elements.
    Set {
        /// Elements to add.
        add: Vec<Value>,
        /// Elements to remove.
        remove: Vec<Value>,
    },
    /// Adds elements to a grow-only set.
    GrowSet(Vec<Value>),
    /// Sets a last-writer-wins register.
    Register(Value),
    /// Sets a multi-value register, which keeps concurrent values.
    MultiRegister(Value),
    /// Sets or clears a flag.
    Flag(bool),
    /// Adds values to a cardinality estimate (HyperLogLog).
    Sketch {
        /// The values.
        add: Vec<Value>,
        /// The precision of a new one, 4 to 16; 14 by default.
        precision: Option<u8>,
    },
    /// Removes fields of a map, then changes fields.
    Map {
        /// Changes by name.
        update: Vec<(String, Update)>,
        /// Names of fields to remove, with their content.
        remove: Vec<String>,
    },
    /// Removes the field with its content.
    Remove,
}

/// A convergent field of a node or relationship in a transaction that reads: see [`ReadTransaction::field`] and
/// [`crate::ReadCollection::field`].
pub struct ReadField<'t> {
    transaction: &'t ReadTransaction,
    owner: ConvergentOwner,
    path: Vec<String>,
}

/// A convergent field of a node or relationship: see [`WriteTransaction::field`] and [`crate::Collection::field`]. All
/// methods of [`ReadField`] are available.
///
/// ```
/// use isomerdb::{Database, Update, Value, params};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let posts = tx.collection("Post");
///     posts.insert(&params! { "_key" => "p1" })?;
///     posts.field("p1", &["likes"])?.update(&Update::Counter(1))?;
///     posts.field("p1", &["tags"])?.update(&Update::Set { add: vec!["new".into()], remove: vec![] })
/// })?;
/// let tx = db.begin()?;
/// let tags = tx.collection("Post").field("p1", &["tags"])?;
/// let fetched = tags.fetch()?;
/// assert_eq!(fetched.value, Some(["new"].into_iter().map(Value::from).collect()));
/// assert_eq!(tags.contains(&"old".into())?, Some(false));
/// // What was added after the fetch would stay.
/// let tags = tags.with_context(fetched.context);
/// tags.update(&Update::Set { add: vec![], remove: vec!["new".into()] })?;
/// assert_eq!(tags.value()?, None);
/// tx.commit()?;
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub struct Field<'t> {
    read: ReadField<'t>,
    /// What removals may affect.
    context: Option<Context>,
}

impl<'t> Deref for Field<'t> {
    type Target = ReadField<'t>;

    fn deref(&self) -> &ReadField<'t> {
        &self.read
    }
}

impl ReadTransaction {
    /// The convergent field of a node or relationship at `path`: one name, or names through maps.
    pub fn field<'t>(&'t self, owner: ConvergentOwner, path: &[&str]) -> ReadField<'t> {
        ReadField {
            transaction: self,
            owner,
            path: path.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl WriteTransaction {
    /// The convergent field of a node or relationship at `path`: one name, or names through maps.
    pub fn field<'t>(&'t self, owner: ConvergentOwner, path: &[&str]) -> Field<'t> {
        Field::new(ReadTransaction::field(self, owner, path))
    }
}

impl<'t> ReadField<'t> {
    /// Its value; none if there is no such field.
    pub fn value(&self) -> Result<Option<Value>> {
        self.with_owner(|data, owner, path| data.fields().value(owner, path))
    }

    /// Kind, value and context.
    pub fn fetch(&self) -> Result<FieldState> {
        self.with_owner(|data, owner, path| {
            Ok(FieldState {
                kind: data.fields().kind(owner, path)?,
                value: data.fields().value(owner, path)?,
                context: Context(data.fields().context()?),
            })
        })
    }

    /// Whether the set contains an element; none if there is no set. A single lookup for any size.
    pub fn contains(&self, value: &Value) -> Result<Option<bool>> {
        self.with_owner(|data, owner, path| data.fields().contains(owner, path, value))
    }

    /// Number of elements of the set, or of fields of the map; none if there is neither. Counted from the keys.
    pub fn size(&self) -> Result<Option<u64>> {
        self.with_owner(|data, owner, path| data.fields().size(owner, path))
    }

    /// The elements of the set within `range`, in order; `None` if the field is not a set. [`Items::limit`] limits how
    /// many are read.
    ///
    /// ```
    /// use isomerdb::{Database, Update, Value, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// let first = db.transact(|tx| {
    ///     tx.collection("Post").insert(&params! { "_key" => "p" })?;
    ///     let days = tx.collection("Post").field("p", &["days"])?;
    ///     days.update(&Update::Set { add: (1..=9).map(Value::from).collect(), remove: vec![] })?;
    ///     let Some(days) = days.elements(Value::from(3)..)? else { return Ok(vec![]) };
    ///     days.limit(2).collect::<isomerdb::Result<Vec<_>>>()
    /// })?;
    /// assert_eq!(first, [Value::from(3), Value::from(4)]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn elements(&self, range: impl RangeBounds<Value>) -> Result<Option<Items<'t, Value>>> {
        let (transaction, owner, path) = (self.transaction, self.owner, self.path.clone());
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let read = move |from: Bound<&Value>, limit| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            transaction.reading(|data| data.fields().page(owner, &path, from, limit))
        };
        if read(Bound::Unbounded, 0)?.is_none() {
            return Ok(None);
        }
        let is_before_end = move |value: &Value| match &end {
            Bound::Unbounded => true,
            Bound::Included(end) => cmp_order(value, end).is_le(),
            Bound::Excluded(end) => cmp_order(value, end).is_lt(),
        };
        Ok(Some(Items::new(move |after: Option<&Value>, limit| {
            let from = after.map_or(start.as_ref(), Bound::Excluded);
            let mut page = read(from, limit)?.unwrap_or_default();
            // A page that is cut is the last one.
            page.truncate(page.partition_point(&is_before_end));
            Ok(page)
        })))
    }

    /// The replicas that its value comes from; none if there is no field. At most `max_entries` entries are read.
    pub fn origins(&self, max_entries: usize) -> Result<Option<FieldOrigins>> {
        let found =
            self.with_owner(|data, owner, path| data.fields().origins(owner, path, max_entries))?;
        Ok(found.map(|(replicas, is_complete)| FieldOrigins {
            replicas,
            is_complete,
        }))
    }

    fn with_owner<T>(
        &self,
        look: impl FnOnce(
            &isomer_data::Transaction,
            ConvergentOwner,
            &[&str],
        ) -> std::result::Result<T, DataError>,
    ) -> Result<T> {
        let owner = self.owner;
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        self.transaction.reading(|data| look(data, owner, &path))
    }
}

impl<'t> Field<'t> {
    pub(crate) fn new(read: ReadField<'t>) -> Self {
        Self {
            read,
            context: None,
        }
    }

    /// Limits removals by its updates to what `context` covers; without a context, to what this transaction reads.
    pub fn with_context(mut self, context: impl Into<Option<Context>>) -> Self {
        self.context = context.into();
        self
    }

    /// Changes it: applies the whole update or, with an error, nothing.
    ///
    /// `Invalid` for a context of a state that this database has not applied, and for one so old that the operations it
    /// covers were merged with others: fetch again.
    pub fn update(&self, update: &Update) -> Result<()> {
        let ReadField {
            transaction,
            owner,
            path,
        } = &self.read;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let context = self.context.as_ref().map(Context::as_bytes);
        transaction.writing(|data| {
            let mark = data.savepoint();
            let done = apply(data, *owner, &path, update, context);
            if done.is_err() {
                data.rollback_to(mark)?;
            }
            data.release(mark);
            done
        })
    }
}

/// Applies an update. Recurses as deep as maps may be nested: the layer below refuses longer paths.
fn apply(
    data: &mut isomer_data::Transaction,
    owner: ConvergentOwner,
    path: &[&str],
    update: &Update,
    context: Option<&[u8]>,
) -> std::result::Result<(), DataError> {
    let mut add = |op: ConvergentOp| data.fields_mut().converge(owner, path, &op, None);
    match update {
        Update::Counter(by) => add(ConvergentOp::Count(*by)),
        Update::Set { add, remove } => {
            for value in remove {
                data.fields_mut().converge(
                    owner,
                    path,
                    &ConvergentOp::Remove(value.clone()),
                    context,
                )?;
            }
            add.iter().try_for_each(|value| {
                data.fields_mut()
                    .converge(owner, path, &ConvergentOp::Insert(value.clone()), None)
            })
        }
        Update::GrowSet(values) => values
            .iter()
            .try_for_each(|value| add(ConvergentOp::InsertGrowing(value.clone()))),
        Update::Register(value) => add(ConvergentOp::Assign(value.clone())),
        Update::MultiRegister(value) => add(ConvergentOp::AssignMulti(value.clone())),
        Update::Flag(true) => add(ConvergentOp::Enable),
        Update::Flag(false) => {
            data.fields_mut()
                .converge(owner, path, &ConvergentOp::Disable, context)
        }
        Update::Sketch {
            add: values,
            precision,
        } => values
            .iter()
            .try_for_each(|value| add(ConvergentOp::Observe(value.clone(), *precision))),
        Update::Map { update, remove } => {
            let mut inner = path.to_vec();
            for name in remove {
                inner.push(name);
                data.fields_mut()
                    .converge(owner, &inner, &ConvergentOp::Clear, context)?;
                inner.pop();
            }
            for (name, update) in update {
                inner.push(name);
                apply(data, owner, &inner, update, context)?;
                inner.pop();
            }
            Ok(())
        }
        Update::Remove => data
            .fields_mut()
            .converge(owner, path, &ConvergentOp::Clear, context),
    }
}
