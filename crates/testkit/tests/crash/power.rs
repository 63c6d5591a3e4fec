//! The power goes for a file system of the machine: an ext4 in a file, cut off by its shutdown call in the middle of commits.
//!
//! Unlike a killed process, this loses what the operating system had not yet written. What it loses is decided by a real file
//! system and its journal, not by us.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use isomer_testkit::{
    crash::{self, Journal},
    harness::{Outcome, Verdict, is_quick, seed},
    random::Random,
};

/// `ioctl(EXT4_IOC_SHUTDOWN, NOLOGFLUSH)`: nothing more reaches the disk, the journal's own buffer included.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// An ext4 in a file, mounted while it lives.
struct Ext4 {
    folder: tempfile::TempDir,
}

impl Ext4 {
    /// Makes one; the reason where that is not possible here.
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
        // Tried once, so that whoever cannot do it skips instead of failing.
        if let Err(reason) = disk.cut_off() {
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

    fn cut_off(&self) -> Result<(), String> {
        succeeds(
            Command::new("python3")
                .args(["-c", SHUTDOWN])
                .arg(self.path()),
        )
    }

    /// What the machine does when it comes up again: it mounts, and the journal is replayed.
    fn remount(&self) -> Result<()> {
        succeeds(Command::new("umount").arg(self.path()))
            .and_then(|()| self.mount())
            .map_err(|reason| anyhow!("mounting again: {reason}"))
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = succeeds(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(told.lines().last().unwrap_or("it failed").to_owned())
}

pub fn acknowledged_transactions_survive_power_cuts() -> Outcome {
    let disk = match Ext4::make()? {
        Ok(disk) => disk,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let cuts = if is_quick() { 10 } else { 100 };
    let path = disk.path().join("db");
    let mut random = Random::new(seed());
    let mut journal = Journal::default();
    let mut lost = 0;
    for cut in 0..cuts {
        let lifetime = Duration::from_millis(*random.pick(&[20, 80, 150, 300]))
            + Duration::from_millis(random.below(80));
        write_until_cut(&disk, &path, lifetime, &mut journal)?;
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
        "{cuts} cuts, {} transactions acknowledged, {lost} that were not are gone",
        journal.acknowledged()
    );
    ensure!(
        journal.acknowledged() > cuts,
        "too few transactions between cuts to tell anything"
    );
    Ok(Verdict::Passed)
}

/// Lets a child write, cuts the disk off below it, and then ends it.
fn write_until_cut(
    disk: &Ext4,
    path: &Path,
    lifetime: Duration,
    journal: &mut Journal,
) -> Result<()> {
    // That its disk is gone is what it says there.
    let mut child = super::child_telling("write", path, Stdio::null())?;
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
    std::thread::sleep(lifetime);
    let cut = disk.cut_off();
    child.kill()?;
    child.wait()?;
    reader.join().map_err(|_| anyhow!("the reader panicked"))?;
    lines.iter().try_for_each(|line| journal.read_line(&line))?;
    cut.map_err(|reason| anyhow!("cutting off: {reason}"))
}
