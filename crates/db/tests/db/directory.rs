//! A database as the directory of another library, which needs from its directory what full-text indexes do (handles
//! that threads share, streams that end with their file, atomic small files, deletion while a file is read, locks, a
//! sync).

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use isomer_db::{
    Database, Directory, DirectoryLock, EngineKind, ReadAt, WriteFile,
    internals::DatabaseInternals as _,
};

use crate::place::{self, Opening as _};

/// The interface that the library needs.
trait IndexDirectory: Send + Sync {
    fn file_handle(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>>;
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;
    fn atomic_read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    fn delete(&self, path: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    fn acquire_lock(&self, path: &Path, blocking: bool) -> io::Result<DirectoryLock>;
    fn sync_directory(&self) -> io::Result<()>;
}

trait FileHandle: Send + Sync {
    fn len(&self) -> usize;
    fn read_bytes(&self, range: Range<usize>) -> io::Result<Vec<u8>>;
}

/// The adapter: paths below a folder of the database.
#[derive(Clone)]
struct InDatabase {
    db: Database,
    folder: String,
}

impl InDatabase {
    fn new(db: &Database, folder: &str) -> io::Result<Self> {
        Directory::create_folders(db, folder)?;
        Ok(Self {
            db: db.clone(),
            folder: folder.to_owned(),
        })
    }

    fn path(&self, path: &Path) -> io::Result<String> {
        let name = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(format!("{}/{name}", self.folder))
    }
}

struct Handle(Arc<dyn ReadAt>);

impl FileHandle for Handle {
    fn len(&self) -> usize {
        self.0.size() as usize
    }

    fn read_bytes(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        self.0.read_exact_at(&mut bytes, range.start as u64)?;
        Ok(bytes)
    }
}

impl IndexDirectory for InDatabase {
    fn file_handle(&self, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
        Ok(Arc::new(Handle(self.db.open_shared(&self.path(path)?)?)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        match Directory::exists(&self.db, &self.path(path)?)? {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.db.create(&self.path(path)?),
        }
    }

    fn atomic_read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.db.read_whole(&self.path(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.db.replace(&self.path(path)?, bytes)
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        self.db.remove(&self.path(path)?)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Directory::exists(&self.db, &self.path(path)?)
    }

    fn acquire_lock(&self, path: &Path, blocking: bool) -> io::Result<DirectoryLock> {
        self.db.lock(&self.path(path)?, blocking)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Directory::sync(&self.db)
    }
}

/// The library: an inverted index of words in immutable segments, named by a list that is replaced atomically.
struct Index {
    directory: Box<dyn IndexDirectory>,
}

type Postings = BTreeMap<String, BTreeSet<u32>>;

const LIST: &str = "meta.list";
const WRITER: &str = ".writer-lock";

/// Arguments: a word, a segment, and the range of the word's postings in it.
type Visit<'v> = dyn FnMut(&str, &dyn FileHandle, Range<usize>) + 'v;

/// A consistent set of segments for a search.
struct Searcher(Vec<Arc<dyn FileHandle>>);

impl Index {
    fn list(&self) -> io::Result<Vec<PathBuf>> {
        let bytes = self
            .directory
            .atomic_read(Path::new(LIST))?
            .unwrap_or_default();
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(text.lines().map(PathBuf::from).collect())
    }

    fn write_segment(&self, name: &Path, postings: &Postings) -> io::Result<()> {
        let mut file = self.directory.open_write(name)?;
        // Postings first, then a dictionary of their offsets, then the offset of the dictionary.
        let mut at = 0_u64;
        let mut dictionary = Vec::new();
        for (word, documents) in postings {
            let bytes: Vec<u8> = documents.iter().flat_map(|one| one.to_le_bytes()).collect();
            dictionary.extend_from_slice(&(word.len() as u32).to_le_bytes());
            dictionary.extend_from_slice(word.as_bytes());
            dictionary.extend_from_slice(&at.to_le_bytes());
            dictionary.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            file.write_all(&bytes)?;
            at += bytes.len() as u64;
        }
        file.write_all(&dictionary)?;
        file.write_all(&at.to_le_bytes())?;
        file.finish()
    }

    fn commit(&self, segments: &[PathBuf]) -> io::Result<()> {
        let lines: String = segments
            .iter()
            .map(|one| format!("{}\n", one.display()))
            .collect();
        self.directory.sync_directory()?;
        self.directory
            .atomic_write(Path::new(LIST), lines.as_bytes())
    }

    fn add(&self, number: u32, documents: &[(u32, &str)]) -> io::Result<()> {
        let _lock = self.directory.acquire_lock(Path::new(WRITER), true)?;
        let mut postings = Postings::new();
        for (document, text) in documents {
            for word in text.split(' ') {
                postings
                    .entry(word.to_owned())
                    .or_default()
                    .insert(*document);
            }
        }
        let name = PathBuf::from(format!("{number:08}.seg"));
        self.write_segment(&name, &postings)?;
        let mut list = self.list()?;
        list.push(name);
        self.commit(&list)
    }

    /// Merges all segments into one, and deletes the others.
    fn merge(&self, number: u32) -> io::Result<()> {
        let _lock = self.directory.acquire_lock(Path::new(WRITER), true)?;
        let old = self.list()?;
        let name = PathBuf::from(format!("{number:08}.merged.seg"));
        self.write_segment(&name, &self.searcher()?.all()?)?;
        self.commit(&[name])?;
        old.iter().try_for_each(|one| self.directory.delete(one))
    }

    fn searcher(&self) -> io::Result<Searcher> {
        // A segment was merged away between listing and opening: retry.
        for _ in 0..100 {
            let opened: io::Result<Vec<_>> = self
                .list()?
                .iter()
                .map(|one| self.directory.file_handle(one))
                .collect();
            match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened.map(Searcher),
            }
        }
        Err(io::Error::other(
            "the list names segments that are never there",
        ))
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk().expect("a whole dictionary");
    *bytes = rest;
    *head
}

impl Searcher {
    fn each(&self, visit: &mut Visit<'_>) -> io::Result<()> {
        for segment in &self.0 {
            let end = segment.len() - 8;
            let begin = segment.read_bytes(end..end + 8)?;
            let begin = u64::from_le_bytes(begin.try_into().expect("8 bytes")) as usize;
            let dictionary = segment.read_bytes(begin..end)?;
            let mut rest = dictionary.as_slice();
            while !rest.is_empty() {
                let len = u32::from_le_bytes(take(&mut rest)) as usize;
                let (word, behind) = rest.split_at(len);
                rest = behind;
                let at = u64::from_le_bytes(take(&mut rest)) as usize;
                let bytes = u64::from_le_bytes(take(&mut rest)) as usize;
                visit(
                    std::str::from_utf8(word).expect("a word"),
                    &**segment,
                    at..at + bytes,
                );
            }
        }
        Ok(())
    }

    fn search(&self, wanted: &str) -> io::Result<BTreeSet<u32>> {
        Ok(self.all()?.remove(wanted).unwrap_or_default())
    }

    fn all(&self) -> io::Result<Postings> {
        let mut all = Postings::new();
        let mut failed = None;
        self.each(
            &mut |word, segment, range| match segment.read_bytes(range) {
                Ok(bytes) => {
                    let found = all.entry(word.to_owned()).or_default();
                    found.extend(
                        bytes
                            .chunks(4)
                            .map(|four| u32::from_le_bytes(four.try_into().expect("four"))),
                    );
                }
                Err(error) => failed = Some(error),
            },
        )?;
        failed.map_or(Ok(all), Err)
    }
}

const ENGINES: [EngineKind; 2] = [EngineKind::Lsm, EngineKind::Redb];

fn open(engine: EngineKind, folder: &Path) -> Database {
    Database::builder()
        .engine(engine)
        .memory(64 << 20)
        .open_at(folder)
        .unwrap()
}

fn text(number: u32) -> String {
    format!(
        "all every{} word{number} {}",
        number % 7,
        "x".repeat(number as usize % 300)
    )
}

#[test]
fn a_library_keeps_its_index_in_a_database() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let db = open(engine, folder.path());
        let index = Index {
            directory: Box::new(InDatabase::new(&db, "/indexes/words").unwrap()),
        };
        assert!(!index.directory.exists(Path::new(LIST)).unwrap());
        for number in 0..20 {
            let (first, second) = (text(2 * number), text(2 * number + 1));
            index
                .add(number, &[(2 * number, &first), (2 * number + 1, &second)])
                .unwrap();
        }
        let before = index.searcher().unwrap();
        index.merge(20).unwrap();
        index.add(21, &[(40, "all late")]).unwrap();
        assert_eq!(index.list().unwrap().len(), 2);
        // Names are unique.
        let again = index.directory.open_write(Path::new("00000021.seg"));
        assert_eq!(
            again.err().map(|error| error.kind()),
            Some(io::ErrorKind::AlreadyExists)
        );
        for (searcher, documents) in [(&before, 40), (&index.searcher().unwrap(), 41)] {
            assert_eq!(
                searcher.search("all").unwrap(),
                (0..documents).collect(),
                "{engine:?}"
            );
            assert_eq!(searcher.search("word17").unwrap(), [17].into());
            let every: BTreeSet<u32> = (0..40).filter(|number| number % 7 == 3).collect();
            assert_eq!(searcher.search("every3").unwrap(), every);
        }
        drop(before);
        // Unfinished files leave nothing, and committed ones exist after reopening.
        let mut torn = index.directory.open_write(Path::new("torn.seg")).unwrap();
        torn.write_all(&vec![1; 5 << 20]).unwrap();
        torn.flush().unwrap();
        assert!(!index.directory.exists(Path::new("torn.seg")).unwrap());
        drop(torn);
        drop(index);
        db.close().unwrap();
        drop(db);
        let db = open(engine, folder.path());
        let index = Index {
            directory: Box::new(InDatabase::new(&db, "/indexes/words").unwrap()),
        };
        assert_eq!(
            index.searcher().unwrap().search("all").unwrap(),
            (0..=40).collect()
        );
        assert!(!index.directory.exists(Path::new("torn.seg")).unwrap());
        assert_eq!(db.list("/indexes/words").unwrap().len(), 3);
        let found = isomer_check::check(&db.store().unwrap(), &mut |_, _| {
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn searches_run_while_segments_are_written_and_merged() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let db = open(engine, folder.path());
        let index = Index {
            directory: Box::new(InDatabase::new(&db, "/i").unwrap()),
        };
        index.add(0, &[(0, "all")]).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let searching = scope.spawn(|| {
                let (mut last, mut searches) = (0, 0);
                while !done.load(Ordering::SeqCst) || searches == 0 {
                    let found = index.searcher().unwrap().search("all").unwrap();
                    assert_eq!(found, (0..found.len() as u32).collect());
                    assert!(
                        found.len() >= last,
                        "a search that began later sees no less"
                    );
                    last = found.len();
                    searches += 1;
                }
                last
            });
            let merging =
                scope.spawn(|| (0..5).for_each(|number| index.merge(1000 + number).unwrap()));
            for number in 1..40 {
                index.add(number, &[(number, "all")]).unwrap();
            }
            merging.join().unwrap();
            done.store(true, Ordering::SeqCst);
            searching.join().unwrap();
        });
        assert_eq!(
            index.searcher().unwrap().search("all").unwrap(),
            (0..40).collect()
        );
    }
}

#[test]
fn locks_are_held_by_one_and_let_go_of() {
    let db = place::open_empty().unwrap();
    let directory = InDatabase::new(&db, "/i").unwrap();
    let name = Path::new(WRITER);
    let held = directory.acquire_lock(name, false).unwrap();
    let refused = directory.acquire_lock(name, false).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert!(directory.acquire_lock(Path::new("other"), false).is_ok());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(directory.acquire_lock(name, true).unwrap()));
        drop(held);
        waiting.join().unwrap();
    });
    assert!(directory.acquire_lock(name, false).is_ok());
}
