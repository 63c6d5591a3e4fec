//! Power cut of a file system of the machine: an ext4 in a file, cut off by its shutdown call in the middle
//! of commits.
//!
//! Unlike a killed process, this loses what the operating system had not written yet. A real file system and
//! its journal decide what is lost, not this test.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use isomer_testkit::{
    crash::{self, Journal},
    harness::{Outcome, Verdict, is_quick, seed},
    random::Random,
};

use crate::Processes;

/// Waits for a line, then `ioctl(EXT4_IOC_SHUTDOWN, NOLOGFLUSH)`: no further write reaches the disk,
/// including the journal's own buffer.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
    disk = os.open(sys.argv[1], os.O_RDONLY)\n\
    print('ready', flush=True)\n\
    sys.stdin.readline()\n\
    fcntl.ioctl(disk, 0x8004587d, struct.pack('I', 2))";

/// An ext4 in a file, mounted during its lifetime.
struct Ext4 {
    folder: tempfile::TempDir,
}

impl Ext4 {
    /// Creates one; returns the reason if that is not possible here.
    fn make() -> Result<Result<Self, String>> {
        let disk = Self {
            folder: tempfile::tempdir()?,
        };
        fs::create_dir(disk.path())?;
        fs::File::create(disk.image())?.set_len(192 << 20)?;
        let mut format = Command::new("mkfs.ext4");
        format.args(["-q", "-F"]).arg(disk.image());
        if let Err(reason) = succeeds(&mut format) {
            return Ok(Err(format!("needs mkfs.ext4: {reason}")));
        }
        if let Err(reason) = disk.mount() {
            return Ok(Err(format!("needs root and loop devices: {reason}")));
        }
        // Tried once, so that an environment without support skips instead of failing.
        if let Err(reason) = disk.switch().and_then(Switch::cut_off) {
            return Ok(Err(format!("needs python3 and ext4's shutdown: {reason}")));
        }
        disk.remount()?;
        Ok(Ok(disk))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mount(&self) -> Result<(), String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop"]);
        succeeds(mount.arg(self.image()).arg(self.path()))
    }

    fn switch(&self) -> Result<Switch, String> {
        let mut command = Command::new("python3");
        command.args(["-c", SHUTDOWN]).arg(self.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut ready = String::new();
        if let Some(out) = process.stdout.as_mut() {
            let message = BufReader::new(out).read_line(&mut ready);
            message.map_err(|error| error.to_string())?;
        }
        Ok(Switch { process })
    }

    /// What happens at the next boot: the file system is mounted, and its journal is replayed.
    fn remount(&self) -> Result<()> {
        succeeds(Command::new("umount").arg(self.path()))
            .and_then(|()| self.mount())
            .map_err(|reason| anyhow!("mounting again: {reason}"))
    }
}

/// A process that is ready to shut the file system down, so that the moment of the cut is known to the
/// microsecond.
struct Switch {
    process: Child,
}

impl Switch {
    fn cut_off(self) -> Result<(), String> {
        // Closing its input triggers the shutdown as well.
        finished(self.process.wait_with_output())
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = succeeds(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    finished(command.stdin(Stdio::null()).output())
}

fn finished(output: io::Result<Output>) -> Result<(), String> {
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(message.lines().last().unwrap_or("it failed").to_owned())
}

pub fn acknowledged_transactions_survive_power_cuts(processes: Processes) -> Outcome {
    let disk = match Ext4::make()? {
        Ok(disk) => disk,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let cuts = if is_quick() { 10 } else { 100 };
    let path = disk.path().join("db");
    processes.create(&path)?;
    let mut random = Random::new(seed());
    let mut journal = Journal::default();
    let mut lost = 0;
    let mut late = 0;
    for cut in 0..cuts {
        let lifetime = Duration::from_millis(*random.pick(&[20, 80, 150, 300]))
            + Duration::from_millis(random.below(80));
        late += write_until_cut(&disk, &path, lifetime, &mut journal)?;
        disk.remount()?;
        let begun = journal.begun();
        let db = crash::open(&path).with_context(|| format!("opening after cut {cut}"))?;
        crash::verify(&db, &mut journal).with_context(|| format!("after cut {cut}"))?;
        drop(db);
        lost += begun - journal.acknowledged();
        if cut % 20 == 0 || cut + 1 == cuts {
            crash::check(&path).with_context(|| format!("check after cut {cut}"))?;
        }
    }
    println!(
        "{cuts} cuts, {} transactions acknowledged, {lost} that were not are gone; {late} acknowledged when the power had gone",
        journal.acknowledged()
    );
    ensure!(
        journal.acknowledged() > cuts,
        "too few transactions between cuts to be significant"
    );
    Ok(Verdict::Passed)
}

/// Lets a child write, cuts its disk off, and then ends it; returns the number of transactions acknowledged
/// after the cut.
///
/// Those need not survive: without power no process could acknowledge anything. In this test one still runs
/// for a moment, and a sync that meets the shutdown can report success for lost data (seen with both
/// engines). The likely reason: the data is written, converting its preallocated extent fails, and the sync
/// has no newer transaction to wait for.
fn write_until_cut(
    disk: &Ext4,
    path: &Path,
    lifetime: Duration,
    journal: &mut Journal,
) -> Result<u64> {
    // It reports the failing disk there.
    let mut child = super::child_with_errors("write", path, Stdio::null())?;
    let out = child.stdout.take().context("its standard output is ours")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let whole = |line: &String| line.ends_with('\n');
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while matches!(out.read_line(&mut line), Ok(count) if count > 0) {
            if whole(&line) && sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    let switch = disk.switch();
    // The power fails at a random moment.
    std::thread::sleep(lifetime);
    let before: Vec<String> = lines.try_iter().collect();
    let cut = switch.and_then(Switch::cut_off);
    child.kill()?;
    child.wait()?;
    reader.join().map_err(|_| anyhow!("the reader panicked"))?;
    cut.map_err(|reason| anyhow!("cutting off: {reason}"))?;
    before.iter().try_for_each(|line| journal.read_line(line))?;
    let mut late = 0;
    for line in lines {
        if journal.read_begun(&line)? {
            late += 1;
        }
    }
    Ok(late)
}
