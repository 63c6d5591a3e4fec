//! Flipped bits and truncated files: never a wrong result, a panic or a hang.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use isomer_db::{Database, Error, ErrorKind, Sharing, params};
use isomer_testkit::{
    generate,
    harness::{Harness, Outcome, Verdict, is_quick, seed},
    random::Random,
};
use isomer_value::Value;

pub fn cases(harness: &mut Harness) {
    harness.case("damaged_files_never_give_a_wrong_answer", || {
        damaged_files_never_give_a_wrong_answer(Sharing::Exclusive)
    });
    harness.case(
        "damaged_files_of_a_shared_database_never_give_a_wrong_answer",
        || damaged_files_never_give_a_wrong_answer(Sharing::Shared),
    );
}

/// Files with the number of a process, for messages.
const HOLDERS: [&str; 2] = ["LOCK", "MAINTENANCE"];
const PATIENCE: Duration = Duration::from_secs(30);
const QUESTIONS: [&str; 7] = [
    "MATCH (n:P) RETURN count(*), sum(n.n), min(n.text), max(n.text)",
    "MATCH (n:P) RETURN n._key, n.n, n.text, n.v ORDER BY n._key",
    "MATCH (n:P) WHERE n.n >= 100 AND n.n < 120 RETURN n._key ORDER BY n._key",
    "MATCH (n:P {_key: 77}) RETURN n.n, n.text",
    "MATCH (a:P)-[r:T]->(b:P) RETURN count(r), sum(r.w), sum(a.n), sum(b.n)",
    "MATCH (n:P {_key: 5})-[:T*1..3]->(m) RETURN m._key ORDER BY m._key",
    "MATCH (n:P)<-[r:T]-() RETURN n._key, count(r) AS degree ORDER BY degree DESC, n._key LIMIT 10",
];

type Answers = Vec<Vec<Vec<Value>>>;

/// The results of the queries: one each, or the error that stopped the run.
type Outcomes = Result<Vec<Result<Vec<Vec<Value>>, (ErrorKind, String)>>, (ErrorKind, String)>;

fn make(path: &Path, sharing: Sharing) -> Result<()> {
    let db = Database::builder().sharing(sharing).open(path)?;
    let mut random = Random::new(11);
    db.query("CREATE INDEX p_n FOR (p:P) ON (p.n)")?;
    db.transact(|tx| {
        for key in 0..300_i64 {
            let text = format!("text {} {}", key, "x".repeat(random.below(200) as usize));
            let v = generate::property(&mut random, 1);
            let params = params! { "k" => key, "n" => (key * 7) % 300, "text" => text, "v" => v };
            tx.query(("CREATE (:P {_key: $k, n: $n, text: $text, v: $v})", params))?;
        }
        tx.query("MATCH (a:P), (b:P) WHERE b._key = (a._key * 3 + 1) % 300 OR b._key = (a._key + 50) % 300 CREATE (a)-[:T {w: a._key}]->(b)")?;
        Ok::<(), isomer_db::Error>(())
    })?;
    // Earlier data is in tables if the engine has them, later data in its log.
    match db.compact() {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        other => other?,
    }
    db.query("MATCH (p:P) WHERE p._key % 10 = 9 SET p.text = 'changed'")?;
    db.close()?;
    Ok(())
}

fn ask(path: &Path) -> Outcomes {
    let described = |error: Error| (error.kind(), error.to_string());
    let db = Database::builder()
        .create(false)
        .sharing(Sharing::AsStored)
        .open(path)
        .map_err(described)?;
    let answer = |text: &&str| -> Result<Vec<Vec<Value>>, Error> {
        Ok(db
            .query(text)?
            .into_rows()
            .into_iter()
            .map(|row| row.into_values())
            .collect())
    };
    Ok(QUESTIONS
        .iter()
        .map(|text| answer(text).map_err(described))
        .collect())
}

fn damaged_files_never_give_a_wrong_answer(sharing: Sharing) -> Outcome {
    let trials = if is_quick() { 100 } else { 1_000 };
    let folder = tempfile::tempdir()?;
    let good = folder.path().join("good");
    make(&good, sharing)?;
    let answers: Answers = ask(&good)
        .ok()
        .context("the undamaged database opens")?
        .into_iter()
        .collect::<Result<_, _>>()
        .ok()
        .context("it answers")?;
    let files: Vec<(PathBuf, Vec<u8>)> = files(&good)?;
    let mut random = Random::new(seed());
    let (mut refused, mut stopped, mut right) = (0, 0, 0);
    for trial in 0..trials {
        let bad = folder.path().join(format!("bad{trial}"));
        fs::create_dir(&bad)?;
        let damage = damage(&files, &bad, &mut random)?;
        let what = || format!("trial {trial}: {damage}");
        match patiently(&bad).with_context(what)? {
            Err((kind, message)) => {
                ensure!(expected(kind), "{}: opening: {kind:?}: {message}", what());
                refused += 1;
            }
            Ok(outcomes) => {
                let mut any_error = false;
                for ((answer, right), text) in outcomes.iter().zip(&answers).zip(QUESTIONS) {
                    match answer {
                        Ok(answer) => {
                            ensure!(answer == right, "{}: WRONG ANSWER to {text}", what())
                        }
                        Err((kind, message)) => {
                            ensure!(expected(*kind), "{}: {text}: {kind:?}: {message}", what());
                            any_error = true;
                        }
                    }
                }
                if any_error { stopped += 1 } else { right += 1 }
            }
        }
        fs::remove_dir_all(&bad)?;
    }
    println!(
        "{trials} damaged copies: {refused} refused at opening, {stopped} stopped with an error, {right} answered right, 0 wrong"
    );
    ensure!(
        refused + stopped > trials / 4,
        "the damage was hardly noticed: it cannot have hit what matters"
    );
    Ok(Verdict::Passed)
}

fn expected(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Corrupt | ErrorKind::Unavailable | ErrorKind::Invalid | ErrorKind::NotFound
    )
}

/// Runs the queries on a separate thread: a panic or a hang is a failure that names the trial.
fn patiently(path: &Path) -> Result<Outcomes> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let outcomes = catch_unwind(AssertUnwindSafe(|| ask(&path)));
        sender.send(outcomes).ok();
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(outcomes)) => Ok(outcomes),
        Ok(Err(_)) => bail!("it panicked"),
        Err(_) => bail!("it hung for {PATIENCE:?}"),
    }
}

fn files(path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    gather(path, Path::new(""), &mut files)?;
    files.sort();
    ensure!(
        files.iter().any(|(_, bytes)| !bytes.is_empty()),
        "there is nothing to damage"
    );
    Ok(files)
}

/// The files in a folder and its subfolders, by their relative paths.
fn gather(folder: &Path, within: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = within.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), &name, files)?;
        } else {
            files.push((name, fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// Copies the files with one bit flipped, a range zeroed or one file truncated. Bits are flipped only where not all
/// bytes are zero: elsewhere nothing is stored.
fn damage(files: &[(PathBuf, Vec<u8>)], target: &Path, random: &mut Random) -> Result<String> {
    const LINE: usize = 64;
    let damageable: Vec<usize> = (0..files.len())
        .filter(|at| files[*at].1.iter().any(|byte| *byte != 0))
        .filter(|at| !HOLDERS.iter().any(|name| files[*at].0 == Path::new(name)))
        .collect();
    let chosen = *random.pick(&damageable);
    let mut damage = String::new();
    for (at, (name, bytes)) in files.iter().enumerate() {
        let mut bytes = bytes.clone();
        if at == chosen {
            let used: Vec<usize> = bytes
                .chunks(LINE)
                .enumerate()
                .filter(|(_, line)| line.iter().any(|byte| *byte != 0))
                .map(|(line, _)| line * LINE)
                .collect();
            let place = *random.pick(&used);
            let line = LINE.min(bytes.len() - place) as u64;
            let place = place + random.below(line) as usize;
            let name = name.display();
            match random.below(10) {
                0 => {
                    let length = random.below(bytes.len() as u64) as usize;
                    bytes.truncate(length);
                    damage = format!("{name} cut to {length} bytes");
                }
                1 => {
                    let length = (1 + random.below(5_000) as usize).min(bytes.len() - place);
                    bytes[place..place + length].fill(0);
                    damage = format!("{length} bytes of {name} zeroed at {place}");
                }
                _ => {
                    let bit = random.below(8);
                    bytes[place] ^= 1 << bit;
                    damage = format!("bit {bit} of byte {place} of {name} flipped");
                }
            }
        }
        let path = target.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(damage)
}
