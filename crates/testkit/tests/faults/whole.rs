//! The files of a database must be of one state, or it does not open: files that are missing, truncated, changed,
//! swapped, or replaced by an older copy, one or several at once; and copies made while the database was being written.
//!
//! A model gives the result of each query after each transaction. A database that opens must give the results of one
//! transaction, all of them; and if no older copy is involved, those of the last one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use isomer_db::{
    Builder, Database, Error, ErrorKind, MasterKey,
    internals::{
        BuilderInternals as _, DatabaseInternals as _, LayerResult as _, views::ViewOptions,
    },
    params,
};
use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::Durability;
use isomer_testkit::{
    harness::{Harness, Outcome, Verdict, is_quick, seed},
    poll,
    random::Random,
};
use isomer_value::Value;

pub fn cases(harness: &mut Harness) {
    for (sharing, of) in [
        (LogSharing::Exclusive, ""),
        (LogSharing::Shared, "_of_a_shared_database"),
    ] {
        let sharing_of_copies = sharing.clone();
        harness.case(
            format!("files_of_several_states{of}_give_no_wrong_answer"),
            move || files_of_several_states_give_no_wrong_answer(&sharing),
        );
        harness.case(
            format!("a_copy{of}_made_while_it_is_written_is_whole_or_refused"),
            move || a_copy_made_while_it_is_written_is_whole_or_refused(&sharing_of_copies),
        );
    }
}

/// Transactions of the database.
const LAST: i64 = 1_500;

/// A file, named by its path in the database's folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Opens a database with small segments and memtables, so that it has many files.
fn open(path: &Path, form: &Form, create: bool) -> Result<Database, Error> {
    open_sized(path, form, create, 20 << 10)
}

/// How a database is stored.
#[derive(Clone, Default)]
struct Form {
    key: Option<MasterKey>,
    sharing: LogSharing,
}

impl Form {
    /// The folder of its log.
    fn log(&self) -> &'static str {
        match self.sharing {
            LogSharing::Exclusive => "log",
            _ => "shared",
        }
    }
}

fn open_sized(
    path: &Path,
    form: &Form,
    create: bool,
    memtable_bytes: usize,
) -> Result<Database, Error> {
    let options = LsmOptions {
        create,
        key: form.key.clone(),
        sharing: form.sharing.clone(),
        segment_bytes: memtable_bytes as u64 * 5 / 4,
        memtable_bytes,
        cache_bytes: 4 << 20,
        blob_threshold_bytes: 300,
        ..LsmOptions::default()
    };
    let engine = Arc::new(LsmEngine::open(path, options).lift()?);
    let mut views = ViewOptions::default();
    views.folder = Some(path.join("views"));
    let builder: Builder = Database::builder()
        .views(views)
        .durability(Durability::Buffered);
    Database::open_engine(engine, builder)
}

/// The content after the transaction `last`.
#[derive(Default)]
struct Model {
    last: i64,
    nodes: BTreeSet<i64>,
    relationships: BTreeSet<i64>,
}

impl Model {
    fn at(last: i64) -> Self {
        let mut model = Self::default();
        (1..=last).for_each(|number| model.step(number));
        model
    }

    /// Applies the transaction `number`: see [`write`].
    fn step(&mut self, number: i64) {
        self.last = number;
        self.nodes.insert(number);
        if self.nodes.contains(&(number - 1)) {
            self.relationships.insert(number);
        }
        if number % 5 == 0 {
            let gone = number - 3;
            self.nodes.remove(&gone);
            self.relationships.remove(&gone);
            self.relationships.remove(&(gone + 1));
        }
    }

    /// The result of each of [`QUESTIONS`].
    fn answers(&self) -> Vec<Vec<i64>> {
        let nodes = || self.nodes.iter().copied();
        let relationships = || self.relationships.iter().copied();
        let counted = |rest: i64| nodes().filter(|n| n % 4 == rest).count() as i64;
        let typed = |rest: i64| relationships().filter(|n| n % 3 == rest).count() as i64;
        let middle = self.last / 2;
        vec![
            vec![self.last],
            vec![nodes().count() as i64],
            vec![nodes().count() as i64, nodes().sum()],
            vec![counted(0), counted(1), counted(2), counted(3)],
            vec![relationships().count() as i64],
            vec![typed(0), typed(1), typed(2)],
            vec![relationships().count() as i64, relationships().sum()],
            vec![
                nodes().filter(|n| *n >= middle).count() as i64,
                nodes().filter(|n| *n >= middle).sum(),
            ],
            vec![i64::from(self.nodes.contains(&middle)) * text_bytes(middle)],
            vec![nodes().map(text_bytes).sum()],
        ]
    }
}

fn text_bytes(number: i64) -> i64 {
    20 + number * 37 % 500
}

/// One number each, or several; the first identifies the transaction that the database holds.
const QUESTIONS: [&str; 10] = [
    "RETURN coalesce(kv.get('last', 'one'), 0)",
    "MATCH (n) RETURN count(n)",
    "MATCH (n) RETURN count(n.i), coalesce(sum(n.i), 0)",
    "MATCH (a:L0) WITH count(a) AS a MATCH (b:L1) WITH a, count(b) AS b MATCH (c:L2) WITH a, b, count(c) AS c \
     MATCH (d:L3) RETURN a, b, c, count(d)",
    "MATCH ()-[r]->() RETURN count(r)",
    "MATCH ()-[a:R0]->() WITH count(a) AS a MATCH ()-[b:R1]->() WITH a, count(b) AS b MATCH ()-[c:R2]->() \
     RETURN a, b, count(c)",
    "MATCH (a:P)-[r]->(b:P) WHERE a.i = b.i - 1 RETURN count(r.w), coalesce(sum(r.w), 0)",
    "MATCH (n:P) WHERE n.i >= $middle RETURN count(*), coalesce(sum(n.i), 0)",
    "OPTIONAL MATCH (n:P {_key: $middle}) RETURN coalesce(size(n.text), 0)",
    "MATCH (n:P) RETURN coalesce(sum(size(n.text)), 0)",
];

fn write(db: &Database, number: i64) -> Result<()> {
    db.transact(|tx| {
        let text = "x".repeat(text_bytes(number) as usize);
        let create = format!(
            "CREATE (n:P:L{} {{_key: $n, i: $n, text: $text}})",
            number % 4
        );
        tx.query((&create, params! { "n" => number, "text" => text }))?;
        let link = format!(
            "MATCH (a:P {{_key: $n - 1}}), (b:P {{_key: $n}}) CREATE (a)-[:R{} {{w: $n}}]->(b)",
            number % 3
        );
        tx.query((&link, params! { "n" => number }))?;
        if number % 5 == 0 {
            tx.query((
                "MATCH (n:P {_key: $n - 3}) DETACH DELETE n",
                params! { "n" => number },
            ))?;
        }
        tx.query(("CALL kv.put('last', 'one', $n)", params! { "n" => number }))?;
        Ok::<(), Error>(())
    })?;
    Ok(())
}

/// The database's results: the numbers of each query, or the first error.
fn ask(path: &Path, form: &Form, last: i64) -> Result<Vec<Vec<i64>>, Error> {
    let db = open(path, form, false)?;
    let mut answers = Vec::new();
    let mut middle = last / 2;
    for text in QUESTIONS {
        let result = db.query((text, params! { "middle" => middle }))?;
        let row = result.single()?.clone();
        let numbers: Vec<i64> = row
            .into_values()
            .into_iter()
            .map(|value| match value {
                Value::Int(number) => number,
                _ => i64::MIN,
            })
            .collect();
        if answers.is_empty() {
            middle = numbers[0] / 2;
        }
        answers.push(numbers);
    }
    Ok(answers)
}

/// The files of a database at several times.
struct History {
    form: Form,
    /// From the oldest to the newest; the last but one as left by a killed process, the last one closed.
    states: Vec<Files>,
    /// Of another database that was created in the same way.
    foreign: Files,
}

impl History {
    fn make(folder: &Path, form: Form) -> Result<Self> {
        let path = folder.join("made");
        let mut states = Vec::new();
        let mut number = 0;
        let ends = [300, 301, 700, 1_150, LAST];
        for (session, &end) in ends.iter().enumerate() {
            let db = open(&path, &form, true)?;
            if session == 0 {
                db.query("CREATE INDEX p_i FOR (p:P) ON (p.i)")?;
            }
            while number < end {
                number += 1;
                write(&db, number)?;
                if number % 250 == 0 {
                    states.push(in_use(&db, &path)?);
                }
            }
            if session == 2 {
                db.store()?.engine().compact()?;
            }
            states.push(in_use(&db, &path)?);
            db.close()?;
            drop(db);
            states.push(read_files(&path)?);
        }
        let other = folder.join("other");
        let db = open(&other, &form, true)?;
        db.query("CREATE INDEX p_i FOR (p:P) ON (p.i)")?;
        (1..=400).try_for_each(|number| write(&db, number))?;
        db.close()?;
        drop(db);
        let foreign = read_files(&other)?;
        fs::remove_dir_all(&path)?;
        fs::remove_dir_all(&other)?;
        Ok(Self {
            form,
            states,
            foreign,
        })
    }
}

/// The files of an open database once its threads are idle: as left by `kill -9`.
fn in_use(db: &Database, path: &Path) -> Result<Files> {
    db.sync()?;
    // A file that is removed between its listing and its reading is an error of that look.
    let mut before = None;
    let settled = poll::every(Duration::from_millis(20), poll::LIMIT, || {
        let now = read_files(path).ok();
        let is_settled = now.is_some() && now == before;
        let earlier = std::mem::replace(&mut before, now);
        earlier.filter(|_| is_settled)
    });
    settled.context("the database does not come to rest")
}

fn read_files(path: &Path) -> Result<Files> {
    let mut files = Files::new();
    gather(path, Path::new(""), &mut files)?;
    files.remove(Path::new("LOCK"));
    Ok(files)
}

fn gather(folder: &Path, within: &Path, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = within.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), &name, files)?;
        } else {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn write_files(path: &Path, files: &Files) -> Result<()> {
    for (name, bytes) in files {
        let path = path.join(name);
        fs::create_dir_all(path.parent().context("it is in a folder")?)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// What was done to the files, and whether files of an older state were used.
struct Damage {
    what: String,
    older: bool,
    /// Whether a range of the log was overwritten, perhaps the last commit together with its receipt. If the process
    /// was killed, that looks like an incomplete write: see docs/guarantees.md, "Damage".
    zeroed: bool,
}

fn damage(files: &mut Files, history: &History, random: &mut Random) -> Damage {
    let mut damage = Damage {
        what: String::new(),
        older: false,
        zeroed: false,
    };
    let times = [1, 1, 1, 2, 3][random.below(5) as usize];
    for _ in 0..times {
        one_damage(files, history, random, &mut damage);
    }
    damage
}

fn one_damage(files: &mut Files, history: &History, random: &mut Random, damage: &mut Damage) {
    let log = history.form.log();
    let folders = [log, log, "tables", "tables", "views", ""];
    let folder = Path::new(*random.pick(&folders));
    let is_within = |name: &&PathBuf| name.parent() == Some(folder);
    let names: Vec<PathBuf> = files.keys().filter(is_within).cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = random.pick(&names).clone();
    let state = random.below(history.states.len() as u64) as usize;
    let (source, from) = match random.below(8) {
        0 => (&history.foreign, "another database".to_owned()),
        _ => (&history.states[state], format!("state {state}")),
    };
    let what = match random.below(10) {
        0 => {
            files.remove(&name);
            format!("{} removed", name.display())
        }
        1 => {
            let last = names.last().expect("there is one");
            files.remove(last);
            format!("{} removed", last.display())
        }
        2 => {
            names.iter().for_each(|name| drop(files.remove(name)));
            format!("`{}` emptied", folder.display())
        }
        3 => {
            let other = random.pick(&names).clone();
            let (mine, others) = (files[&name].clone(), files[&other].clone());
            files.insert(name.clone(), others);
            files.insert(other.clone(), mine);
            format!("{} and {} swapped", name.display(), other.display())
        }
        4 => {
            let other = random.pick(&names).clone();
            files.insert(other.clone(), files[&name].clone());
            format!("{} copied over {}", name.display(), other.display())
        }
        5 | 6 => {
            let older: Vec<_> = source.keys().filter(is_within).cloned().collect();
            if older.is_empty() {
                return;
            }
            let name = random.pick(&older).clone();
            files.insert(name.clone(), source[&name].clone());
            damage.older = true;
            format!("{} from {from}", name.display())
        }
        7 => {
            if !random.once_in(3) {
                names.iter().for_each(|name| drop(files.remove(name)));
            }
            let others = source.iter().filter(|(name, _)| is_within(name));
            files.extend(others.map(|(name, bytes)| (name.clone(), bytes.clone())));
            damage.older = true;
            format!("`{}` from {from}", folder.display())
        }
        8 => {
            let bytes = files.get_mut(&name).expect("it is there");
            let len = random.below(bytes.len() as u64 + 1) as usize;
            bytes.truncate(len);
            format!("{} cut to {len}", name.display())
        }
        _ => {
            let bytes = files.get_mut(&name).expect("it is there");
            if bytes.is_empty() {
                return;
            }
            let at = random.below(bytes.len() as u64) as usize;
            if random.once_in(2) {
                bytes[at] ^= 1 << random.below(8);
                format!("{} flipped at {at}", name.display())
            } else {
                let end = (at / 512 * 512 + 512).min(bytes.len());
                bytes[at / 512 * 512..end].fill(0);
                damage.zeroed |= folder == Path::new(log);
                format!("{} zeroed around {at}", name.display())
            }
        }
    };
    damage.what.push_str(&what);
    damage.what.push_str("; ");
}

fn files_of_several_states_give_no_wrong_answer(sharing: &LogSharing) -> Outcome {
    let trials = if is_quick() { 60 } else { 1_000 };
    let folder = tempfile::tempdir()?;
    let key = MasterKey::generate().map_err(|error| anyhow::anyhow!("{error}"))?;
    let form = |key| Form {
        key,
        sharing: sharing.clone(),
    };
    let histories = [
        History::make(&folder.path().join("plain"), form(None))?,
        History::make(&folder.path().join("sealed"), form(Some(key)))?,
    ];
    let mut random = Random::new(seed());
    let (mut refused, mut stopped, mut right, mut older) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for trial in 0..trials {
        let history = &histories[trial % 2];
        // The newest state, closed or open.
        let is_in_use = trial / 2 % 2 == 1;
        let newest = history.states.len() - 1 - usize::from(is_in_use);
        let mut files = history.states[newest].clone();
        let damage = damage(&mut files, history, &mut random);
        let path = folder.path().join(format!("trial{trial}"));
        write_files(&path, &files)?;
        let what = format!("trial {trial} of state {newest}: {}", damage.what);
        match ask(&path, &history.form, LAST) {
            Err(error) if is_expected(&error) => {
                if error.to_string().is_empty() {
                    bail!("{what}: an error that says nothing");
                }
                match LsmEngine::open(&path, options(history)).is_err() {
                    true => refused += 1,
                    false => stopped += 1,
                }
            }
            Err(error) => bail!("{what}: {:?}: {error}", error.kind()),
            Ok(answers) => {
                let last = answers[0][0];
                let expected = Model::at(last).answers();
                if answers != expected {
                    wrong.push(format!(
                        "{what}: answers {answers:?} instead of {expected:?}"
                    ));
                } else if last == LAST {
                    right += 1;
                } else if damage.older || is_last_write(&damage, last, is_in_use) {
                    older += 1;
                } else {
                    wrong.push(format!("{what}: commits after {last} are lost"));
                }
            }
        }
        fs::remove_dir_all(&path)?;
    }
    println!(
        "{trials} mixtures of files: {refused} refused at opening, {stopped} stopped with an error, {right} answered right, \
         {older} whole at an older state, {} wrong",
        wrong.len()
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(refused > trials / 4, "the damage was hardly noticed");
    ensure!(
        right > 0,
        "no damage was harmless: it cannot have been tried alone"
    );
    Ok(Verdict::Passed)
}

/// Whether the loss is limited to one range of 512 bytes at the end of a log that was not closed.
fn is_last_write(damage: &Damage, last: i64, is_in_use: bool) -> bool {
    is_in_use && damage.zeroed && last >= LAST - 3
}

fn options(history: &History) -> LsmOptions {
    LsmOptions {
        create: false,
        key: history.form.key.clone(),
        sharing: history.form.sharing.clone(),
        ..LsmOptions::default()
    }
}

fn is_expected(error: &Error) -> bool {
    // Without its key file an encrypted database looks like a plain one, and refuses the key: an invalid option of the
    // engine, given by a program that opens the engine directly.
    let is_keyless = error.to_string().contains("is not encrypted");
    let is_known = matches!(
        error.kind(),
        ErrorKind::Corrupt
            | ErrorKind::Unavailable
            | ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Denied
    );
    is_known || is_keyless
}

/// The order in which files are copied.
#[derive(Clone, Copy, Debug)]
enum Order {
    LogFirst,
    TablesFirst,
    ManifestFirst,
    ManifestLast,
    Backwards,
    Random,
}

const ORDERS: [Order; 6] = [
    Order::LogFirst,
    Order::TablesFirst,
    Order::ManifestFirst,
    Order::ManifestLast,
    Order::Backwards,
    Order::Random,
];

/// A flush runs now and then while a copy is made.
const HOT_MEMTABLE_BYTES: usize = 800 << 10;

/// Copies the files of a database as `cp -r` does: each folder is listed when its turn comes, each file is read from
/// start to end, and files that are gone by then are skipped.
fn copy_hot(from: &Path, to: &Path, order: Order, random: &mut Random) -> Result<()> {
    let mut names: Vec<PathBuf> = Vec::new();
    let list = |within: &str, names: &mut Vec<PathBuf>| -> Result<()> {
        for entry in fs::read_dir(from.join(within))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(Path::new(within).join(entry.file_name()));
            }
        }
        Ok(())
    };
    let copy = |names: &[PathBuf], random: &mut Random| -> Result<()> {
        // Copying large files takes time.
        std::thread::sleep(Duration::from_millis(random.below(60)));
        for name in names {
            if random.once_in(8) {
                // So does a file in between.
                std::thread::sleep(Duration::from_millis(random.below(15)));
            }
            let target = to.join(name);
            fs::create_dir_all(target.parent().context("it is in a folder")?)?;
            match fs::copy(from.join(name), target) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => bail!(error),
                _ => {}
            }
        }
        Ok(())
    };
    let log = match from.join("shared").exists() {
        true => "shared",
        false => "log",
    };
    let folders: &[&str] = match order {
        Order::TablesFirst => &["tables", "", log],
        _ => &[log, "", "tables"],
    };
    match order {
        Order::LogFirst | Order::TablesFirst => {
            for within in folders {
                names.clear();
                list(within, &mut names)?;
                names.sort();
                copy(&names, random)?;
            }
        }
        _ => {
            for within in folders {
                list(within, &mut names)?;
            }
            names.sort();
            let is_manifest = |name: &PathBuf| name.ends_with("MANIFEST");
            match order {
                Order::ManifestFirst => names.sort_by_key(|name| !is_manifest(name)),
                Order::ManifestLast => names.sort_by_key(is_manifest),
                Order::Backwards => names.reverse(),
                _ => {
                    for at in (1..names.len()).rev() {
                        names.swap(at, random.below(at as u64 + 1) as usize);
                    }
                }
            }
            copy(&names, random)?;
        }
    }
    Ok(())
}

fn a_copy_made_while_it_is_written_is_whole_or_refused(sharing: &LogSharing) -> Outcome {
    let copies = if is_quick() { 20 } else { 200 };
    let mut random = Random::new(seed());
    let mut whole = 0;
    for _ in 0..copies / COPIES_PER_DATABASE {
        whole += copy_while_written(COPIES_PER_DATABASE, sharing, &mut random)?;
    }
    ensure!(whole > 0, "no copy opened: nothing was shown");
    Ok(Verdict::Passed)
}

/// The writers never pause: more copies of one database would each take longer.
const COPIES_PER_DATABASE: usize = 20;

/// Returns how many of the copies opened, each of them complete.
fn copy_while_written(copies: usize, sharing: &LogSharing, random: &mut Random) -> Result<usize> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    let form = Form {
        key: None,
        sharing: sharing.clone(),
    };
    let db = open_sized(&path, &form, true, HOT_MEMTABLE_BYTES)?;
    db.query("CREATE INDEX p_i FOR (p:P) ON (p.i)")?;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4_i64)
        .map(|writer| {
            let (db, stop) = (db.clone(), stop.clone());
            std::thread::spawn(move || -> Result<i64> {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    // Two nodes and their relationship, all or nothing.
                    let text = format!(
                        "CREATE (:P:W{writer} {{i: $n, text: $text}})-[:T{writer}]->(:P:W{writer} {{i: $n, text: $text}})"
                    );
                    let filling = "y".repeat((number % 400) as usize);
                    let rows = db.retrying(|| {
                        db.query((&text, params! { "n" => number, "text" => filling.clone() }))
                    });
                    rows?;
                    number += 1;
                    if number % 64 == 0 {
                        db.sync()?;
                    }
                }
                Ok(number)
            })
        })
        .collect();
    let (mut refused, mut whole) = (0, 0);
    let mut wrong = Vec::new();
    for copy in 0..copies {
        let order = ORDERS[copy % ORDERS.len()];
        let target = folder.path().join(format!("copy{copy}"));
        copy_hot(&path, &target, order, random)?;
        match look(&target, &form) {
            Ok(None) => whole += 1,
            Ok(Some(what)) => wrong.push(format!("copy {copy}, {order:?}: {what}")),
            Err(error) if is_expected(&error) => refused += 1,
            Err(error) => bail!("copy {copy}, {order:?}: {:?}: {error}", error.kind()),
        }
        fs::remove_dir_all(&target)?;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    for writer in writers {
        written += writer
            .join()
            .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
    }
    println!(
        "{copies} copies made while 4 writers made {written} commits: {refused} refused, {whole} whole, {} wrong",
        wrong.len()
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(whole)
}

/// Whether a copy contains complete transactions, counted in several ways; otherwise the inconsistency.
fn look(path: &Path, form: &Form) -> Result<Option<String>, Error> {
    let db = open_sized(path, form, false, HOT_MEMTABLE_BYTES)?;
    let number = |text: &str| -> Result<i64, Error> {
        let value = db.query(text)?.single()?.clone().into_values().remove(0);
        Ok(if let Value::Int(number) = value {
            number
        } else {
            i64::MIN
        })
    };
    let counted = number("MATCH (n) RETURN count(n)")?;
    let scanned = number("MATCH (n) RETURN count(n.i)")?;
    let sought = number("MATCH (n:P) WHERE n.i >= 0 RETURN count(*)")?;
    let labelled = number("MATCH (n:P) RETURN count(n)")?;
    let (mut by_writer, mut joined) = (0, 0);
    for writer in 0..4 {
        let nodes = number(&format!("MATCH (n:W{writer}) RETURN count(n)"))?;
        let last = number(&format!(
            "MATCH (n:W{writer}) RETURN coalesce(max(n.i) + 1, 0)"
        ))?;
        if nodes != 2 * last {
            return Ok(Some(format!(
                "writer {writer} has {nodes} nodes after {last} commits"
            )));
        }
        by_writer += nodes;
        joined += number(&format!("MATCH ()-[r:T{writer}]->() RETURN count(r)"))?;
    }
    let walked = number("MATCH (a:P)-[r]->(b:P) WHERE a.i = b.i RETURN count(r)")?;
    let all = [scanned, sought, labelled, by_writer, 2 * joined, 2 * walked];
    if all.iter().any(|count| *count != counted) {
        return Ok(Some(format!(
            "{counted} nodes are counted, other ways give {all:?}"
        )));
    }
    let findings = db.check().run()?;
    Ok((!findings.is_empty()).then(|| findings.join("; ")))
}
