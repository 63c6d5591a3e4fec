//! The list of the procedures that belong to the language.
//!
//! The only file that knows all of them: each procedure needs the registry's type, and the type none of them.

use std::sync::{Arc, OnceLock};

use super::{Registry, apoc, indexes, neo4j, paths, standard, statistics};
#[cfg(feature = "algorithms")]
use super::{algorithms, gds};
use crate::{builtin, files};

impl Registry {
    /// The procedures that belong to the language.
    pub fn with_builtins() -> Self {
        let mut registry = Self::new();
        builtin::register(&mut registry);
        files::register(&mut registry);
        #[cfg(feature = "algorithms")]
        {
            algorithms::register(&mut registry);
            gds::register(&mut registry);
        }
        paths::register(&mut registry);
        statistics::register(&mut registry);
        indexes::register(&mut registry);
        neo4j::register(&mut registry);
        standard::register(&mut registry);
        apoc::register(&mut registry);
        registry
    }

    /// [`Registry::with_builtins`], created once and shared.
    pub(crate) fn builtins() -> Arc<Self> {
        static BUILTINS: OnceLock<Arc<Registry>> = OnceLock::new();
        BUILTINS
            .get_or_init(|| Arc::new(Self::with_builtins()))
            .clone()
    }
}
