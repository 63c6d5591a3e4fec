//! Convergent fields: read with a context, changed by operations, looked into without being loaded.

use std::ops::Bound;

use isomer_data::{ConvergentKind, ConvergentOp, ConvergentOrigin, ConvergentOwner, DataError};
use isomer_value::Value;

use crate::{Result, Transaction};

/// What a state has seen, opaque: a removal with it spares what came later. Good for any replica that has seen as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context(Vec<u8>);

impl Context {
    /// Its bytes, to be handed to a client and back.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Context {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

/// A field as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// What it is; nothing where there is no such field.
    pub kind: Option<ConvergentKind>,
    /// Its value.
    pub value: Option<Value>,
    /// What had been seen.
    pub context: Context,
}

/// A change of a field. The first one makes the field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// Counts up, or with a negative number down.
    Counter(i64),
    /// Removes elements from a set, then adds elements.
    Set {
        /// What is added.
        add: Vec<Value>,
        /// What is removed.
        remove: Vec<Value>,
    },
    /// Adds elements to a set that only grows.
    GrowSet(Vec<Value>),
    /// Sets a register whose last value wins.
    Register(Value),
    /// Sets a register that keeps what was set concurrently.
    MultiRegister(Value),
    /// Switches a flag on or off.
    Flag(bool),
    /// Notes values of which the number is estimated.
    Hll {
        /// The values.
        add: Vec<Value>,
        /// The precision of a new one, 4 to 16; 14 where nothing is said.
        precision: Option<u8>,
    },
    /// Removes fields of a map, then changes fields.
    Map {
        /// What is changed, by name.
        update: Vec<(String, Update)>,
        /// Names of what is removed, with all that is in it.
        remove: Vec<String>,
    },
    /// Removes the field and all that is in it.
    Remove,
}

/// A convergent field of a node or relationship: see [`Transaction::field`] and [`crate::Collection::field`].
///
/// ```
/// use isomer_db::{Database, Update, Value, params};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let mut posts = tx.collection("Post");
///     posts.insert(&params! { "_key" => "p1" })?;
///     posts.field("p1", &["likes"])?.update(&Update::Counter(1))?;
///     posts.field("p1", &["tags"])?.update(&Update::Set { add: vec!["new".into()], remove: vec![] })
/// })?;
/// let mut tx = db.begin()?;
/// let mut posts = tx.collection("Post");
/// let mut tags = posts.field("p1", &["tags"])?;
/// let fetched = tags.fetch()?;
/// assert_eq!(fetched.value, Some(["new"].into_iter().map(Value::from).collect()));
/// assert_eq!(tags.contains(&"old".into())?, Some(false));
/// // What was added after the fetch would stay.
/// tags.update_with(&Update::Set { add: vec![], remove: vec!["new".into()] }, Some(&fetched.context))?;
/// assert_eq!(tags.value()?, None);
/// tx.commit()?;
/// # Ok::<(), isomer_db::Error>(())
/// ```
pub struct Field<'t> {
    transaction: &'t mut Transaction,
    owner: ConvergentOwner,
    path: Vec<String>,
}

impl Transaction {
    /// The convergent field of a node or relationship at `path`: one name, or names through maps.
    pub fn field<'t>(&'t mut self, owner: ConvergentOwner, path: &[&str]) -> Field<'t> {
        Field {
            transaction: self,
            owner,
            path: path.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl Field<'_> {
    /// Its value; none where there is no such field.
    pub fn value(&mut self) -> Result<Option<Value>> {
        self.look(|data, owner, path| data.convergent_value(owner, path))
    }

    /// Kind, value and context.
    pub fn fetch(&mut self) -> Result<Fetched> {
        self.look(|data, owner, path| {
            Ok(Fetched {
                kind: data.convergent_kind(owner, path)?,
                value: data.convergent_value(owner, path)?,
                context: Context(data.convergent_context()?),
            })
        })
    }

    /// Whether the set has an element; none where there is no set. One look, whatever its size.
    pub fn contains(&mut self, value: &Value) -> Result<Option<bool>> {
        self.look(|data, owner, path| data.convergent_contains(owner, path, value))
    }

    /// How many elements the set has, or fields the map; none where there is neither. Counted from the keys.
    pub fn size(&mut self) -> Result<Option<u64>> {
        self.look(|data, owner, path| data.convergent_size(owner, path))
    }

    /// At most `limit` elements of the set in their order, from a bound; none where there is no set. Reads no others.
    pub fn page(&mut self, from: Bound<&Value>, limit: usize) -> Result<Option<Vec<Value>>> {
        self.look(|data, owner, path| data.convergent_page(owner, path, from, limit))
    }

    /// Which replicas its value comes from, and whether that is all: at most `most` entries are read. None where there is no field.
    pub fn origins(&mut self, most: usize) -> Result<Option<(Vec<ConvergentOrigin>, bool)>> {
        self.look(|data, owner, path| data.convergent_origins(owner, path, most))
    }

    /// Changes it: all of the update or, with an error, nothing.
    pub fn update(&mut self, update: &Update) -> Result<()> {
        self.update_with(update, None)
    }

    /// As [`Field::update`]; removals take only what `context` has seen.
    ///
    /// `Invalid` for a context of a state that this database has not seen, and for one so old that what it has seen was added up with
    /// what it has not: fetch again.
    pub fn update_with(&mut self, update: &Update, context: Option<&Context>) -> Result<()> {
        let owner = self.owner;
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let context = context.map(Context::as_bytes);
        self.transaction.below(|data| {
            let mark = data.mark();
            let done = apply(data, owner, &path, update, context);
            if done.is_err() {
                data.rollback_to(mark)?;
            }
            data.release(mark);
            done
        })
    }

    fn look<T>(
        &mut self,
        look: impl FnOnce(
            &isomer_data::Transaction,
            ConvergentOwner,
            &[&str],
        ) -> std::result::Result<T, DataError>,
    ) -> Result<T> {
        let owner = self.owner;
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        self.transaction.below(|data| look(data, owner, &path))
    }
}

/// Does an update. As deep as maps may be nested: the layer below refuses longer paths.
fn apply(
    data: &mut isomer_data::Transaction,
    owner: ConvergentOwner,
    path: &[&str],
    update: &Update,
    context: Option<&[u8]>,
) -> std::result::Result<(), DataError> {
    let mut add = |op: ConvergentOp| data.converge(owner, path, &op, None);
    match update {
        Update::Counter(by) => add(ConvergentOp::Count(*by)),
        Update::Set { add, remove } => {
            for value in remove {
                data.converge(owner, path, &ConvergentOp::Remove(value.clone()), context)?;
            }
            add.iter().try_for_each(|value| {
                data.converge(owner, path, &ConvergentOp::Insert(value.clone()), None)
            })
        }
        Update::GrowSet(values) => values
            .iter()
            .try_for_each(|value| add(ConvergentOp::InsertGrowing(value.clone()))),
        Update::Register(value) => add(ConvergentOp::Assign(value.clone())),
        Update::MultiRegister(value) => add(ConvergentOp::AssignMulti(value.clone())),
        Update::Flag(true) => add(ConvergentOp::Enable),
        Update::Flag(false) => data.converge(owner, path, &ConvergentOp::Disable, context),
        Update::Hll {
            add: values,
            precision,
        } => values
            .iter()
            .try_for_each(|value| add(ConvergentOp::Observe(value.clone(), *precision))),
        Update::Map { update, remove } => {
            let mut inner = path.to_vec();
            for name in remove {
                inner.push(name);
                data.converge(owner, &inner, &ConvergentOp::Clear, context)?;
                inner.pop();
            }
            for (name, update) in update {
                inner.push(name);
                apply(data, owner, &inner, update, context)?;
                inner.pop();
            }
            Ok(())
        }
        Update::Remove => data.converge(owner, path, &ConvergentOp::Clear, context),
    }
}
