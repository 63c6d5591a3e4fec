//! Relationship types that keep their ends: their constraints, which each replica declares for itself. What they do to
//! the transactions of replicas is in the crate `replication`.

use isomer_layout::{
    DataError,
    catalog::{
        keepers::{EndpointKeeper, default_keeper},
        names::NameKind,
    },
    keyspace,
};
use isomer_storage::Durability;
use isomer_value::TypeId;

use crate::{
    Constraints, DataStore,
    schema_change::{SchemaEditor, clash::Existing},
};

impl DataStore {
    /// Sets whether relationships of a type that are made here from now on keep their ends: a deletion of an end in
    /// another replica that has not seen the relationship does not delete it. Each replica sets this for its own
    /// relationships.
    ///
    /// # Errors
    /// [`DataError::NameExists`] if the default name of the constraint is taken by another one, or by an index:
    /// create it by a statement, under another name; [`DataError::Limit`] for a name that is too long; those of a
    /// commit.
    pub fn keep_endpoints(&self, type_name: &str, keep: bool) -> Result<(), DataError> {
        let editor = SchemaEditor::begin(self)?;
        let name = default_keeper(type_name);
        let is_kept = || {
            let mut keepers = self.endpoint_keepers().into_iter();
            keepers.any(|own| *own.rel_type == *type_name)
        };
        if keep
            && !is_kept()
            && let Some(holder) =
                Existing::new(self.catalog(), self.endpoint_keepers()).holder(&name)
        {
            return Err(DataError::NameExists {
                what: "an index or constraint named",
                name: holder.to_string(),
            });
        }
        editor.keep_endpoints_as(type_name, keep.then_some(""))
    }

    /// The types whose new relationships keep their ends, by name.
    pub fn endpoint_keepers(&self) -> Vec<EndpointKeeper> {
        let catalog = self.catalog();
        let keepers = self.shared().keepers.read();
        let listed = keepers.iter().filter_map(|(id, name)| {
            let rel_type = catalog.type_name(*id)?;
            let name = match name.is_empty() {
                true => default_keeper(&rel_type).into(),
                false => name.clone(),
            };
            Some(EndpointKeeper { name, rel_type })
        });
        let mut listed: Vec<EndpointKeeper> = listed.collect();
        listed.sort_by(|one, other| one.rel_type.cmp(&other.rel_type));
        listed
    }
}

impl SchemaEditor<'_> {
    /// Lets new relationships of a type keep their ends, by a constraint of this name; `None` removes it.
    pub(crate) fn keep_endpoints_as(
        &self,
        type_name: &str,
        name: Option<&str>,
    ) -> Result<(), DataError> {
        let type_id = TypeId(self.store.intern(NameKind::Type, type_name)?);
        // Not locked during the commit, before which those of other processes are entered; this editor alone changes
        // them.
        let keepers = &self.store.shared().keepers;
        if name == Some("") && keepers.read().contains_key(&type_id) {
            return Ok(());
        }
        let mut tx = self.store.engine().begin()?;
        match name {
            Some(name) => tx.put(&keyspace::keeper(type_id), name.as_bytes())?,
            None => tx.delete(&keyspace::keeper(type_id))?,
        }
        tx.commit(Durability::Synced)?;
        let mut keepers = keepers.write();
        match name {
            Some(name) => keepers.insert(type_id, name.into()),
            None => keepers.remove(&type_id),
        };
        Ok(())
    }
}

impl Constraints<'_> {
    /// Whether new relationships of a type keep their ends.
    pub fn keeps_ends(self, type_id: TypeId) -> bool {
        self.tx
            .store()
            .shared()
            .keepers
            .read()
            .contains_key(&type_id)
    }
}
