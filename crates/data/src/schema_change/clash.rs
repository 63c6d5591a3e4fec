//! What exists already and prevents a new index or constraint.

use std::{mem::discriminant, sync::Arc};

use isomer_layout::{
    DataError, SchemaClash,
    catalog::{
        Catalog,
        keepers::EndpointKeeper,
        schema::{
            Constraint, ConstraintKind, ConstraintSpec, IndexDef, IndexState, RecordScope,
            SchemaOutcome,
        },
        stored,
    },
};

/// What prevents a new index or constraint.
pub(super) struct Clash {
    clash: SchemaClash,
    message: String,
    /// Whether `IF NOT EXISTS` accepts it.
    allowed: bool,
}

impl Clash {
    /// The same exists already under the name `holder`.
    pub(super) fn same(what: &'static str, name: &str, holder: &str) -> Self {
        let clash = match what {
            _ if name == holder => SchemaClash::Equivalent,
            "index" => SchemaClash::Index,
            _ => SchemaClash::Constraint,
        };
        Self {
            clash,
            message: format!(
                "the same {what} exists already as `{holder}`: use it or drop it first, or say IF NOT EXISTS"
            ),
            allowed: true,
        }
    }
}

/// The outcome where something prevents the change.
pub(super) fn resolve_clash(clash: Clash, if_not_exists: bool) -> Result<SchemaOutcome, DataError> {
    if clash.allowed && if_not_exists {
        return Ok(SchemaOutcome::default());
    }
    Err(DataError::SchemaExists {
        clash: clash.clash,
        message: clash.message,
    })
}

/// The indexes, constraints and keepers of endpoints that exist, with which a new definition is compared.
pub(crate) struct Existing {
    catalog: Arc<Catalog>,
    keepers: Vec<EndpointKeeper>,
}

impl Existing {
    pub(crate) fn new(catalog: Arc<Catalog>, keepers: Vec<EndpointKeeper>) -> Self {
        Self { catalog, keepers }
    }

    /// What prevents a new index.
    pub(super) fn index_clash(&self, index: &IndexDef) -> Option<Clash> {
        let is_twin = |own: &&IndexDef| own.scope == index.scope && own.fields == index.fields;
        let mut twins = self.catalog.indexes().iter().filter(is_twin);
        // A plain index does not enforce uniqueness.
        let Some(twin) = twins.find(|twin| twin.unique || !index.unique) else {
            return self.name_clash("index", &index.name);
        };
        let keeps = |one: &&Constraint| one.kind.index() == Some(twin.id);
        Some(match self.catalog.constraints().iter().find(keeps) {
            Some(constraint) => Clash {
                clash: SchemaClash::Constraint,
                allowed: true,
                message: format!(
                    "the constraint `{}` already has an index over the same properties: no other one is needed",
                    constraint.name
                ),
            },
            None => Clash::same("index", &index.name, &twin.name),
        })
    }

    /// What prevents a new constraint.
    pub(super) fn constraint_clash(
        &self,
        scope: RecordScope,
        spec: &ConstraintSpec,
        name: &str,
    ) -> Result<Option<Clash>, DataError> {
        let nameless = |kind: ConstraintKind| {
            stored::constraint_value(&Constraint {
                name: "".into(),
                scope,
                kind,
                state: IndexState::Ready,
            })
        };
        let wanted = nameless(spec.kind.clone())?;
        let mut other = None;
        let constraints = self.catalog.constraints().iter();
        for own in constraints.filter(|own| own.scope == scope) {
            let same = match (own.kind.index(), spec.kind.index()) {
                (Some(index), Some(_)) => {
                    let index = self.catalog.index(index);
                    let same = index.is_some_and(|index| index.fields == spec.unique_fields);
                    // A key and a unique constraint.
                    if same && discriminant(&own.kind) != discriminant(&spec.kind) {
                        other = Some(own);
                        continue;
                    }
                    same
                }
                _ => nameless(own.kind.clone())? == wanted,
            };
            if same {
                let given = spec.name.as_deref().unwrap_or(&own.name);
                return Ok(Some(Clash::same("constraint", given, &own.name)));
            }
        }
        if let Some(clash) = self.name_clash("constraint", name) {
            return Ok(Some(clash));
        }
        let overlap = other.map(|own| Clash {
            clash: SchemaClash::Overlap,
            allowed: false,
            message: format!(
                "the constraint `{}` covers the same properties: drop it first",
                own.name
            ),
        });
        Ok(overlap.or_else(|| self.plain_index_clash(scope, spec)))
    }

    /// The index over the properties of a new unique constraint or key, which would be there twice.
    fn plain_index_clash(&self, scope: RecordScope, spec: &ConstraintSpec) -> Option<Clash> {
        spec.kind.index()?;
        let is_twin = |own: &&IndexDef| own.scope == scope && own.fields == spec.unique_fields;
        let twin = self.catalog.indexes().iter().find(is_twin)?;
        Some(Clash {
            clash: SchemaClash::Index,
            allowed: false,
            message: format!(
                "the index `{}` covers the same properties, and a constraint has its own index: drop the index first",
                twin.name
            ),
        })
    }

    /// The holder of the name of a new index or constraint.
    pub(super) fn name_clash(&self, what: &'static str, name: &str) -> Option<Clash> {
        let holder = self.holder(name)?;
        // The index that enforces a constraint has its name.
        let has_index = self
            .catalog
            .indexes()
            .iter()
            .any(|index| index.name == holder);
        let keeps = self
            .catalog
            .constraints()
            .iter()
            .any(|one| one.name == holder);
        let (clash, of) = match has_index && !keeps {
            true => (SchemaClash::IndexName, "index"),
            false => (SchemaClash::ConstraintName, "constraint"),
        };
        Some(Clash {
            clash,
            allowed: match what {
                "index" => has_index,
                _ => of == "constraint",
            },
            message: format!("another {of} named `{holder}` exists already: choose another name"),
        })
    }

    /// `name`, or `name` with a number appended if it exists already.
    pub(super) fn free_name(&self, name: &str) -> String {
        let (mut free, mut number) = (name.to_owned(), 2);
        while self.holder(&free).is_some() {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }

    /// The index, constraint or keeper of endpoints that has this name; its name.
    pub(crate) fn holder(&self, name: &str) -> Option<Arc<str>> {
        let indexes = self.catalog.indexes().iter().map(|index| &index.name);
        let constraints = self.catalog.constraints().iter().map(|one| &one.name);
        let keepers = self.keepers.iter().map(|keeper| &keeper.name);
        let mut names = indexes.chain(constraints).chain(keepers);
        names.find(|own| ***own == *name).cloned()
    }
}
