//! The named graphs in memory.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::graph::ProjectedGraph;

/// The named graphs in memory of one database, each visible to the user that made it. They are gone when the database
/// is closed.
#[derive(Default)]
pub struct GraphCatalog(Mutex<BTreeMap<GraphKey, Arc<ProjectedGraph>>>);

/// User and name.
type GraphKey = (Arc<str>, Arc<str>);

impl GraphCatalog {
    /// Without graphs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all graphs. A running algorithm keeps its graph until it ends.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn get(&self, user: &Arc<str>, name: &Arc<str>) -> Option<Arc<ProjectedGraph>> {
        let key = (user.clone(), name.clone());
        self.0.lock().get(&key).cloned()
    }

    /// Adds a graph; false if the user has one of this name.
    pub(super) fn add(&self, user: &Arc<str>, graph: Arc<ProjectedGraph>) -> bool {
        let key = (user.clone(), graph.name.clone());
        let mut graphs = self.0.lock();
        if graphs.contains_key(&key) {
            return false;
        }
        graphs.insert(key, graph);
        true
    }

    pub(super) fn remove(&self, user: &Arc<str>, name: &Arc<str>) -> Option<Arc<ProjectedGraph>> {
        let key = (user.clone(), name.clone());
        self.0.lock().remove(&key)
    }

    /// The graphs of a user, by name.
    pub(super) fn of_user(&self, user: &Arc<str>) -> Vec<Arc<ProjectedGraph>> {
        let graphs = self.0.lock();
        let own = graphs.iter().filter(|((owner, _), _)| owner == user);
        own.map(|(_, graph)| graph.clone()).collect()
    }
}

impl std::fmt::Debug for GraphCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.0.lock().len();
        f.debug_struct("GraphCatalog")
            .field("graphs", &count)
            .finish()
    }
}
