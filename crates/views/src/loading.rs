//! Writes view files during a bulk load, so that the first query after the load finds them.
//!
//! A load into an empty label or type passes its records in key order, which is the order of a view file, so
//! only one chunk or page of each view is in memory. The files get their final names once the load is
//! durable; before that, or if it fails, they are temporary files that the next opening removes. A view that
//! cannot be written is built from the rows.

use std::sync::Arc;

use isomer_data::{Catalog, DataStore, EraId, LoadSink, Loading, Version};
use isomer_storage::{MemoryKind, Reservation};
use isomer_value::{LabelId, NodeId, PropId, RelId, Value, record::RecordRef};
use roaring::RoaringBitmap;

use crate::{
    Owner, ViewError, ViewKind, Views,
    adjacency::AdjacencyWriter,
    column::{ColumnWriter, cell_of},
    id::small,
    members::stored::store_set,
    side::AdjacencySide,
    view_file::{Head, NewFile, ViewFileError, malformed},
    worker::Job,
};

/// Records sampled before the columns are chosen, and their maximum bytes.
const SAMPLED: usize = 1000;
const SAMPLED_BYTES: usize = 4 << 20;
/// Maximum number of numeric and boolean columns built without a request: the most frequent ones.
const MAX_COLUMNS_WITHOUT_REQUEST: usize = 8;
/// At least one in this many records must have a value for a column to be built without a request.
const MIN_VALUE_SHARE: usize = 16;
/// Relationships between two updates of the memory reservation.
const RELATIONSHIPS_PER_RESERVATION: u64 = 1 << 16;

/// The files written by one load.
pub(crate) struct LoadFiles {
    views: Arc<Views>,
    /// `None` after the first error, which is not reported to the load.
    files: Option<Files>,
    /// Views to build in the background if there are no files afterwards.
    again: Vec<ViewKind>,
}

struct Files {
    store: DataStore,
    era: EraId,
    making: Box<Making>,
}

#[allow(clippy::large_enum_variant)] // one per load, boxed
enum Making {
    Nodes {
        label: LabelId,
        ids: std::ops::Range<u32>,
        columns: Columns,
    },
    Relationships {
        columns: Columns,
        /// The other side is transposed from this one.
        out: OneSide,
        seen: u64,
        reservation: Reservation,
    },
}

/// The relationships from one end.
struct OneSide {
    kind: ViewKind,
    file: NewFile,
    rows: AdjacencyWriter,
}

/// The columns of the loaded records.
struct Columns {
    owner: Owner,
    era: EraId,
    catalog: Arc<Catalog>,
    /// The id of the last record.
    last: u32,
    state: ColumnState,
}

enum ColumnState {
    /// Records sampled until the columns are chosen.
    Sampling(Vec<(u32, Vec<u8>)>, usize),
    Writing(Vec<OneColumn>),
}

struct OneColumn {
    path: Arc<[PropId]>,
    file: NewFile,
    cells: ColumnWriter,
}

impl LoadFiles {
    /// Starts writing files for a load if it is large enough and persistence is on. Ready views of the label
    /// or type stop answering the newest versions, and are rebuilt.
    pub(crate) fn begin(views: Arc<Views>, load: &Loading) -> Option<Self> {
        let (Loading::Nodes { count, .. } | Loading::Relationships { count, .. }) = *load;
        let mut again = views.standing_for(load);
        let mut files = None;
        if let Some(keeping) = &views.keeping
            && views.files().keeps()
            && count >= views.options.keep_at_least
        {
            // Sealed blocks are bound to a version, which is not known yet: with encryption, files are
            // written when the views are built.
            if keeping.folder.encrypts() {
                again.extend(load_kinds(load));
            } else {
                files = Files::begin(&views, load);
            }
        }
        (files.is_some() || !again.is_empty()).then_some(Self {
            views,
            files,
            again,
        })
    }

    /// Runs one operation; the first error ends the writing of files.
    fn attempt(&mut self, operation: impl FnOnce(&Views, &mut Making) -> Result<(), ViewError>) {
        if let Some(files) = &mut self.files
            && operation(&self.views, &mut files.making).is_err()
        {
            self.files = None;
        }
    }
}

/// The views built first by a load into an empty label or type.
fn load_kinds(load: &Loading) -> Vec<ViewKind> {
    match *load {
        Loading::Nodes { label, .. } => vec![ViewKind::Members(Some(label))],
        Loading::Relationships { type_id, .. } => {
            vec![ViewKind::Adjacency(type_id, AdjacencySide::Out)]
        }
    }
}

impl Files {
    fn begin(views: &Views, load: &Loading) -> Option<Self> {
        let store = views.store.upgrade()?;
        // An error here will be reported when views are saved, too.
        let era = store.eras().begin().ok()?;
        let making = Making::begin(views, &store, era, load).ok()?;
        Some(Self {
            store,
            era,
            making: Box::new(making),
        })
    }

    fn finish(self, views: &Views, version: Version, first: bool) -> Result<(), ViewError> {
        let Self { store, era, making } = self;
        store
            .engine()
            .sync()
            .map_err(isomer_data::DataError::from)?;
        if !store.eras().lineage()?.holds(&era, version) {
            return Ok(());
        }
        let finish = |kind: ViewKind, mut file: NewFile| -> Result<(), ViewError> {
            let hold = store.change_stream().hold(version);
            let head = Head { kind, era, version };
            file.writer().set_version(version);
            let bytes = file.finish()?;
            views.files().keep(head, bytes, hold);
            Ok(())
        };
        let columns = match *making {
            Making::Nodes {
                label,
                ids,
                columns,
            } => {
                let mut set = RoaringBitmap::new();
                set.insert_range(ids);
                for label in [Some(label), None] {
                    if label.is_none() && !first {
                        continue; // more relationships follow
                    }
                    let kind = ViewKind::Members(label);
                    let mut file = views.new_file(&kind, era)?;
                    store_set(&set, file.writer())?;
                    finish(kind, file)?;
                }
                columns
            }
            Making::Relationships {
                columns, mut out, ..
            } => {
                out.rows.finish(out.file.writer())?;
                finish(out.kind, out.file)?;
                columns
            }
        };
        let owner = columns.owner;
        for column in columns.finish(views)? {
            finish(owner.column(column.path), column.file)?;
        }
        Ok(())
    }
}

impl LoadSink for LoadFiles {
    fn node(&mut self, id: NodeId, record: &[u8]) {
        self.attempt(|views, making| match making {
            Making::Nodes { columns, .. } => columns.push(views, id.0, record),
            Making::Relationships { .. } => Ok(()),
        });
    }

    fn relationship(&mut self, id: RelId, record: &[u8]) {
        self.attempt(|views, making| match making {
            Making::Relationships { columns, .. } => columns.push(views, id.0, record),
            Making::Nodes { .. } => Ok(()),
        });
    }

    fn link(&mut self, node: NodeId, outgoing: bool, other: NodeId, id: RelId) {
        if !outgoing {
            return;
        }
        self.attempt(|_, making| {
            let Making::Relationships {
                out,
                seen,
                reservation,
                ..
            } = making
            else {
                return Ok(());
            };
            // None is larger than those sampled at the start.
            out.rows.push(
                out.file.writer(),
                node.0 as u32,
                other.0 as u32,
                id.0 as u32,
            )?;
            *seen += 1;
            if *seen % RELATIONSHIPS_PER_RESERVATION == 0 {
                let held = out.rows.bytes();
                let more = held.saturating_sub(reservation.bytes());
                reservation.try_grow(more)?;
            }
            Ok(())
        });
    }

    fn not_alone(&mut self) {
        self.files = None;
    }

    fn loaded(self: Box<Self>, version: Version, first: bool) {
        let Self {
            views,
            files,
            again,
        } = *self;
        // Views that were not written are built from the rows: now in the background, or on request.
        let written = files.is_some_and(|files| files.finish(&views, version, first).is_ok());
        if !written {
            for kind in again {
                views.build_soon(kind);
            }
        }
    }
}

impl Making {
    fn begin(
        views: &Views,
        store: &DataStore,
        era: EraId,
        load: &Loading,
    ) -> Result<Self, ViewError> {
        let id = |id: u64| small(id).ok_or(ViewError::IdTooLarge);
        match *load {
            Loading::Nodes {
                label,
                first,
                count,
            } => {
                let last = id(first.0 + count - 1)?;
                Ok(Self::Nodes {
                    label,
                    ids: id(first.0)?..last + 1,
                    columns: Columns::new(store, era, Owner::Nodes(label), last),
                })
            }
            Loading::Relationships {
                type_id,
                first,
                count,
                last_source,
                last_target,
            } => {
                let last = id(first.0 + count - 1)?;
                let (source, target) = (id(last_source.0)?, id(last_target.0)?);
                let bound = source.max(target) + 1;
                let kind = ViewKind::Adjacency(type_id, AdjacencySide::Out);
                let mut file = views.new_file(&kind, era)?;
                let rows = AdjacencyWriter::new(file.writer(), count, source, bound)?;
                Ok(Self::Relationships {
                    columns: Columns::new(store, era, Owner::Relationships(type_id), last),
                    out: OneSide { kind, file, rows },
                    seen: 0,
                    reservation: views.memory.reservation(MemoryKind::Views),
                })
            }
        }
    }
}

impl Views {
    /// The ready views of the label or type that a load adds to.
    fn standing_for(&self, load: &Loading) -> Vec<ViewKind> {
        let mut standing = Vec::new();
        self.registry.read().each(|kind, slot| {
            let concerned = match (load, &kind) {
                (Loading::Nodes { .. }, ViewKind::Members(None)) => true,
                (Loading::Nodes { label, .. }, ViewKind::Members(Some(own)))
                | (Loading::Nodes { label, .. }, ViewKind::Column(own, _)) => own == label,
                (Loading::Relationships { type_id, .. }, ViewKind::Adjacency(own, _))
                | (Loading::Relationships { type_id, .. }, ViewKind::RelColumn(own, _)) => {
                    own == type_id
                }
                _ => false,
            };
            if concerned && slot.lengths().is_some_and(|lengths| lengths.newest) {
                standing.push(kind);
            }
        });
        standing
    }

    /// Schedules building a view in the background.
    fn build_soon(&self, kind: ViewKind) {
        let with_ids = true;
        self.worker.push(&self.this, Job::Build { kind, with_ids });
    }

    /// A file whose version becomes known when it is finished.
    fn new_file(&self, kind: &ViewKind, era: EraId) -> Result<NewFile, ViewFileError> {
        let Some(keeping) = &self.keeping else {
            return Err(malformed());
        };
        keeping.folder.begin(Head {
            kind: kind.clone(),
            era,
            version: 0,
        })
    }

    /// The paths whose columns were requested before, and those that an index or the key makes likely.
    fn columns_to_build(&self, owner: Owner, catalog: &Catalog) -> Vec<Arc<[PropId]>> {
        let registry = self.registry.read();
        let asked = registry.columns.get(&owner);
        let mut wanted: Vec<Arc<[PropId]>> = asked
            .into_iter()
            .flatten()
            .map(|(path, _)| path.clone())
            .collect();
        if let Owner::Nodes(label) = owner {
            wanted.extend(catalog.prop_id("_key").map(|key| [key].into()));
            for index in catalog
                .indexes()
                .iter()
                .filter(|one| one.scope == label.into())
            {
                for field in index.fields.iter().filter(|field| !field.each) {
                    let names = field.path.0.iter();
                    let path: Option<Arc<[PropId]>> =
                        names.map(|name| catalog.prop_id(name)).collect();
                    wanted.extend(path);
                }
            }
        }
        wanted
    }
}

impl Columns {
    fn new(store: &DataStore, era: EraId, owner: Owner, last: u32) -> Self {
        Self {
            owner,
            era,
            catalog: store.catalog(),
            last,
            state: ColumnState::Sampling(Vec::new(), 0),
        }
    }

    /// Adds the next record.
    fn push(&mut self, views: &Views, id: u64, record: &[u8]) -> Result<(), ViewError> {
        let id = small(id).ok_or(ViewError::IdTooLarge)?;
        match &mut self.state {
            ColumnState::Writing(columns) => put(columns, &self.catalog, id, record),
            ColumnState::Sampling(records, bytes) => {
                *bytes += record.len();
                records.push((id, record.to_vec()));
                if records.len() < SAMPLED && *bytes < SAMPLED_BYTES {
                    return Ok(());
                }
                self.decide(views)
            }
        }
    }

    /// Chooses the columns and replays the sampled records into them.
    fn decide(&mut self, views: &Views) -> Result<(), ViewError> {
        let ColumnState::Sampling(records, _) = &mut self.state else {
            return Ok(());
        };
        let records = std::mem::take(records);
        let mut paths = views.columns_to_build(self.owner, &self.catalog);
        paths.extend(self.numbers(&records)?);
        let mut columns: Vec<OneColumn> = Vec::new();
        for path in paths {
            if columns.iter().any(|column| column.path == path) {
                continue;
            }
            let mut file = views.new_file(&self.owner.column(path.clone()), self.era)?;
            let cells = ColumnWriter::new(file.writer(), self.last)?;
            columns.push(OneColumn { path, file, cells });
        }
        for (id, record) in &records {
            put(&mut columns, &self.catalog, *id, record)?;
        }
        self.state = ColumnState::Writing(columns);
        Ok(())
    }

    /// Properties that often have a value, mostly a number or a boolean: small columns, often counted and
    /// compared.
    fn numbers(&self, records: &[(u32, Vec<u8>)]) -> Result<Vec<Arc<[PropId]>>, ViewError> {
        let mut found: Vec<(PropId, usize, bool)> = Vec::new();
        for (_, record) in records {
            let record = RecordRef::new(record).map_err(isomer_data::DataError::from)?;
            for field in record.iter(&*self.catalog) {
                let (prop, value) = field.map_err(isomer_data::DataError::from)?;
                let plain = matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_));
                match found.iter_mut().find(|(known, ..)| *known == prop) {
                    Some((_, count, all)) => {
                        *count += 1;
                        *all &= plain;
                    }
                    None => found.push((prop, 1, plain)),
                }
            }
        }
        found.retain(|(_, count, plain)| *plain && count * MIN_VALUE_SHARE >= records.len());
        found.sort_unstable_by_key(|(prop, count, _)| (std::cmp::Reverse(*count), *prop));
        found.truncate(MAX_COLUMNS_WITHOUT_REQUEST);
        Ok(found.iter().map(|(prop, ..)| [*prop].into()).collect())
    }

    /// Writes the remaining data.
    fn finish(mut self, views: &Views) -> Result<Vec<OneColumn>, ViewError> {
        self.decide(views)?;
        let ColumnState::Writing(mut columns) = self.state else {
            return Ok(Vec::new());
        };
        for OneColumn { file, cells, .. } in &mut columns {
            cells.end_page(file.writer(), &self.catalog)?;
        }
        Ok(columns)
    }
}

fn put(
    columns: &mut [OneColumn],
    catalog: &Catalog,
    id: u32,
    record: &[u8],
) -> Result<(), ViewError> {
    if columns.is_empty() {
        return Ok(());
    }
    let record = RecordRef::new(record).map_err(isomer_data::DataError::from)?;
    for OneColumn { path, file, cells } in columns {
        let cell = cell_of(&record, path, catalog)?;
        cells.push(file.writer(), catalog, id, cell)?;
    }
    Ok(())
}
