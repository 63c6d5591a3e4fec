//! A process that appends to a log in a directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{self, AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_vfs::{Disk, LockFile, LockMode, OpenMode, SharedPage, sync_above};

use super::{
    append_lock::{AppendGuard, AppendLock},
    file_system::{io_error, local_folder},
    frame::{HEAD_BYTES, HEADER_BYTES, Head, Header, MAX_RECORD_BYTES, frame_bytes, record_check},
    manifest::Manifest,
    options::DirectoryOptions,
    page::{self, LastSync, MAX_MANIFEST_NUMBER, Owner, PAGE_BYTES, Page, State},
    process_lock::ProcessLock,
    processes::{self, LogProcess, ProcessSlot},
    random::random,
    recovery,
    reservation::Reservation,
    segment::{Cursor, Segment, lost},
    segments::{self, Segments},
    tail::TailWriter,
};
use crate::{Append, LogError, LogId, Position, log::is_stopped};

/// Upper bound of a time-out, so that it can be added to any instant.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// A thread that is about to sync gathers others if the last sync took at least, and at most, that long.
const MIN_GATHERING: Duration = Duration::from_micros(100);
const MAX_GATHERING: Duration = Duration::from_millis(20);
/// A segment whose records are trimmed is ended early if it is larger.
const MIN_REMOVED_BYTES: u64 = 1 << 20;
/// A segment grows by that many bytes, or by its largest size if that is less.
const MAX_STEP_BYTES: u64 = 256 << 10;
const MIN_STEP_BYTES: u64 = 4 << 10;

/// The log as a process sees it that appends.
#[derive(Debug)]
pub(super) struct Appending {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    segments: Segments,
    page: Page,
    append_lock: AppendLock,
    reservation: Reservation,
    sync_lock: ProcessLock,
    /// Has a shared lock while the log is open.
    _presence: LockFile,
    /// The entry of this process in the list; `None` if the list is full.
    entry: Option<ProcessSlot>,
    segment_bytes: u64,
    /// What a segment grows by.
    step_bytes: u64,
    patience: Duration,
    /// Syncs of segments by this handle.
    syncs: AtomicU64,
}

impl Appending {
    pub(super) fn open(
        folder: &Path,
        options: &DirectoryOptions,
    ) -> Result<(Manifest, Self), LogError> {
        let failed = |error: io::Error| io_error(folder, &error);
        let local = local_folder(&*options.disk, folder)?;
        let presence = LockFile::open_folder(&local).map_err(failed)?;
        let patience = options.patience.min(MAX_TIMEOUT);
        let is_alone = lock_presence(&presence, folder, patience)?;
        let disk = &options.disk;
        let manifest = match Manifest::read(&**disk, folder)? {
            Some(manifest) => manifest,
            None if is_alone => create(&**disk, folder, options)?,
            None => {
                let what = "its manifest was removed while other processes use it".into();
                return Err(LogError::Damaged(what));
            }
        };
        let page = open_page(&local, is_alone)?;
        let lock_file = |name| {
            let path = local.join(name);
            LockFile::open(&path).map_err(|error| io_error(&path, &error))
        };
        let mut appending = Self {
            segments: Segments::new(disk.clone(), folder, manifest.id, OpenMode::Write),
            folder: folder.to_owned(),
            disk: disk.clone(),
            page: Page::new(page, manifest.id),
            append_lock: AppendLock::new(
                lock_file(page::NAME)?,
                lock_file(FAVOURED)?,
                TailWriter::new(step_bytes(options)),
            ),
            reservation: Reservation::new(&local),
            sync_lock: ProcessLock::new(lock_file(SYNC)?),
            entry: None,
            segment_bytes: options.segment_bytes,
            step_bytes: step_bytes(options),
            patience,
            syncs: AtomicU64::new(0),
            _presence: presence,
        };
        if is_alone {
            appending.recover(true)?;
            sync_names(&**disk, folder)?;
            share_presence(&appending._presence, folder, patience)?;
        } else {
            if let Owner::OtherFormat(format) = appending.page.owner() {
                return Err(LogError::Refused(format!(
                    "other processes use it with the format {format} of shared memory: use the same version of the program"
                )));
            }
            let lock = appending.lock()?;
            let tail = appending.state(&lock)?.tail;
            appending.segments.remember(tail);
            // Users of the log look at its last records when they open it.
            let start = appending.page.scan_start();
            let start = start
                .filter(|start| start.segment == tail.segment && start.position < tail.position);
            if let Some(start) = start {
                appending.segments.remember(start);
            }
        }
        appending.entry = ProcessSlot::new(&appending.page, &options.kind);
        Ok((manifest, appending))
    }

    pub(super) fn processes(&self) -> Vec<LogProcess> {
        processes::list(&self.page)
    }

    pub(super) fn note_applied(&self, position: Position) {
        if let Some(entry) = &self.entry {
            entry.set_applied(&self.page, position);
        }
    }

    pub(super) fn manifest_number(&self) -> u64 {
        self.page.manifest_number()
    }

    pub(super) fn raise_manifest_number(&self, number: u64) -> Result<(), LogError> {
        if number > MAX_MANIFEST_NUMBER {
            return Err(LogError::Refused(format!(
                "the manifest number {number} exceeds {MAX_MANIFEST_NUMBER}"
            )));
        }
        self.page.raise_manifest_number(number);
        Ok(())
    }

    pub(super) fn wait_manifest_number(&self, seen: u64, time: Duration) -> u64 {
        let is_raised = || self.manifest_number() > seen;
        self.page.manifest_raised().wait_until(time, is_raised);
        self.manifest_number()
    }

    /// Takes the append lock.
    fn lock(&self) -> Result<AppendGuard<'_>, LogError> {
        let locked = self.append_lock.lock(&self.page, self.patience);
        let locked = locked.map_err(|error| io_error(&self.folder, &error))?;
        locked.ok_or_else(|| {
            let holder = match self.page.appender() {
                Some(pid) => format!("process {pid}"),
                None => "another process".into(),
            };
            let waited = self.patience.as_secs_f64();
            LogError::Unavailable(format!(
                "{holder} has been appending for {waited} s, and may be stopped"
            ))
        })
    }

    /// The state of the log; made from the files if the page does not have it.
    fn state(&self, _: &AppendGuard<'_>) -> Result<State, LogError> {
        match self.page.state() {
            Some(state) => Ok(state),
            None => self.recover(false),
        }
    }

    fn recover(&self, is_alone: bool) -> Result<State, LogError> {
        recovery::recover(&self.segments, &self.page, is_alone)
    }

    /// The state without a lock: at least that of every call that has returned.
    pub(super) fn load_consistent(&self) -> Result<State, LogError> {
        match self.page.load_consistent() {
            Some(state) => Ok(state),
            None => {
                let lock = self.lock()?;
                self.state(&lock)
            }
        }
    }

    /// The position after the last record.
    pub(super) fn end(&self) -> Result<Position, LogError> {
        match self.page.end() {
            Some(end) => Ok(end),
            None => Ok(self.load_consistent()?.tail.position),
        }
    }

    fn check_usable(&self) -> Result<(), LogError> {
        match self.page.has_failed() {
            false => Ok(()),
            true => Err(LogError::Refused(format!(
                "a sync of the log in {} has failed, and it is unknown what is on the disk: close the database in all \
                     processes, and open it again",
                self.folder.display()
            ))),
        }
    }

    pub(super) fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        let length = u32::try_from(record.len()).map_err(|_| LogError::TooLarge {
            bytes: record.len(),
            max: MAX_RECORD_BYTES,
        })?;
        // Another process is often faster: that needs no lock.
        if at < self.end()? && at >= self.load_consistent()?.first {
            return Ok(Append::Taken);
        }
        let waited = self.reservation.wait(&self.page);
        waited.map_err(|error| io_error(&self.folder, &error))?;
        let check = record_check(record, at);
        let mut lock = self.lock()?;
        self.check_usable()?;
        let State { mut tail, first } = self.state(&lock)?;
        if at < first {
            return Err(LogError::Trimmed { first });
        }
        let end = tail.position;
        match at {
            _ if at < end => return Ok(Append::Taken),
            _ if at > end => return Err(LogError::Gap { at, end }),
            _ => {}
        }
        self.page.mark_changing();
        let bytes = frame_bytes(record.len());
        let is_full = tail.offset + bytes > self.segment_bytes || is_trimmed(&tail, first);
        if is_full && tail.offset > HEADER_BYTES as u64 {
            tail = self.roll(&tail)?;
        }
        let active = lock.tail().active(&self.segments, tail.segment)?;
        let durable = self.page.synced().unwrap_or(0);
        let head = Head {
            length,
            position: at,
            durable,
            previous: tail.previous,
            check,
        };
        let (head, hash) = head.encode(active.segment.header.salt);
        let unsynced = at.saturating_sub(durable);
        if let Err(error) = active.write(tail.offset, &head, record, unsynced) {
            let segment = &active.segment;
            let error = io_error(&segment.path, &error);
            // The page stays marked, so that the next appender clears what is left of the frame.
            return match segment.file.write_all_at(&[0; HEAD_BYTES], tail.offset) {
                Ok(()) => Err(error),
                Err(_) => Ok(Append::Unknown(error.to_string())),
            };
        }
        let tail = Cursor {
            position: at + 1,
            offset: tail.offset + bytes,
            previous: hash,
            ..tail
        };
        self.page.publish(&State { tail, first });
        lock.note_appended(at, tail.position);
        drop(lock);
        self.page.appended().ring();
        self.segments.remember(tail);
        Ok(Append::Appended)
    }

    /// See [`crate::SharedLog::reserve`].
    pub(super) fn reserve(&self, time: Duration) -> Result<(), LogError> {
        let reserved = self.reservation.reserve(&self.page, time);
        // Without one, another process has kept its own for long: it is stopped, or commits much.
        reserved
            .map(drop)
            .map_err(|error| io_error(&self.folder, &error))
    }

    /// See [`crate::SharedLog::release`].
    pub(super) fn release(&self) {
        self.reservation.release(&self.page);
    }

    /// Begins the next segment. Everything before it is durable then.
    fn roll(&self, tail: &Cursor) -> Result<Cursor, LogError> {
        let full = self.segments.existing(tail.segment)?;
        self.sync_segment(&full)?;
        self.page.set_synced(tail.position);
        let header = Header {
            log: self.segments.id,
            first: tail.position,
            previous: tail.previous,
            salt: random(),
        };
        Segments::create(&*self.disk, &self.folder, &header, self.step_bytes)?;
        let manifest = Manifest {
            newest: header.first,
            ..self.manifest()?
        };
        manifest.write(&*self.disk, &self.folder)?;
        Ok(self.segments.existing(header.first)?.start())
    }

    fn manifest(&self) -> Result<Manifest, LogError> {
        recovery::manifest(&self.segments)
    }

    /// See [`crate::SharedLog::syncs`].
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn sync_segment(&self, segment: &Segment) -> Result<(), LogError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        segment.file.sync().map_err(|error| {
            self.page.set_failed(true);
            self.page.sync_ended().ring();
            let what = format!("a sync of `{}` failed: {error}", segment.path.display());
            LogError::Refused(what)
        })
    }

    /// Waits until another process has synced the records below `upto`, or does it for all that wait.
    pub(super) fn sync(&self, upto: Position) -> Result<(), LogError> {
        let ended = self.page.sync_ended();
        let is_synced = || self.page.synced().is_some_and(|synced| synced >= upto);
        self.check_usable()?;
        if is_synced() {
            return Ok(());
        }
        let number = self.page.request_sync();
        let mut gathering = Gathering::default();
        // A thread that syncs at once does not listen: the release of the lock would make a system call and wake no
        // thread.
        if gathering.time(&self.page, number).is_zero() && self.try_lead(upto)? {
            return Ok(());
        }
        loop {
            self.check_usable()?;
            if is_synced() {
                return Ok(());
            }
            let heard = ended.listen();
            let waits = gathering.time(&self.page, number);
            if is_synced() || (waits.is_zero() && self.try_lead(upto)?) {
                return Ok(());
            }
            match waits.is_zero() {
                true => ended.wait(heard, ProcessLock::check_interval()),
                false => ended.wait(heard, waits),
            }
        }
    }

    /// Syncs the records below `upto`, for all that wait, unless they are synced; `false` if another thread has the
    /// sync lock.
    fn try_lead(&self, upto: Position) -> Result<bool, LogError> {
        let locked = self.sync_lock.try_lock(self.page.sync_ended());
        let locked = locked.map_err(|error| io_error(&self.folder, &error))?;
        let Some(_lead) = locked else {
            return Ok(false);
        };
        if self.page.synced().is_none_or(|synced| synced < upto) {
            self.check_usable()?;
            self.lead(upto)?;
        }
        Ok(true)
    }

    /// Syncs for all that wait; the caller has the sync lock.
    fn lead(&self, upto: Position) -> Result<(), LogError> {
        let last = self.page.last_sync();
        let asked = self.page.sync_requests();
        // While another process appends, the position may be from before and the rest from after that: enough to sync,
        // but no place in the log.
        let whole = self.page.state();
        let tail = match whole {
            Some(state) => state.tail,
            None => self.load_consistent()?.tail,
        };
        if tail.position < upto {
            let (at, end) = (upto, tail.position);
            return Err(LogError::Gap { at, end });
        }
        let began = Instant::now();
        // The segments before this one are durable.
        self.sync_segment(&*self.segments.existing(tail.segment)?)?;
        self.page.set_synced(tail.position);
        if whole.is_some() {
            self.raise_scan_start(&tail);
        }
        self.page.set_last_sync(&LastSync {
            began: asked,
            askers: self.page.sync_requests().wrapping_sub(last.began),
            took: began.elapsed(),
        });
        Ok(())
    }

    /// Says in the page that the log can be opened from the last record on, all of which is durable up to `tail`.
    fn raise_scan_start(&self, tail: &Cursor) {
        let last = self.segments.last_before(tail);
        let is_later = |last: &Cursor| {
            let start = self.page.scan_start();
            start.is_none_or(|start| start.position < last.position)
        };
        if let Some(last) = last.filter(is_later) {
            self.page.set_scan_start(&last);
        }
        self.segments.remember(*tail);
    }

    pub(super) fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        let State { tail, first } = self.load_consistent()?;
        if from < first {
            return Err(LogError::Trimmed { first });
        }
        if from >= tail.position {
            return Ok(Vec::new());
        }
        self.segments.forget_below(first);
        let outcome = self.segments.read(from, tail.position, max_bytes);
        if matches!(&outcome, Ok(found) if !found.ended) {
            return Ok(outcome?.records);
        }
        // The records were trimmed during this call, or the page says more than there is, or they are damaged.
        let lock = self.lock()?;
        let State { tail, first } = self.state(&lock)?;
        if from < first {
            return Err(LogError::Trimmed { first });
        }
        let found = outcome?;
        match found.next.position < tail.position {
            true => Err(lost(&found.next)),
            false => Ok(found.records),
        }
    }

    pub(super) fn trim(&self, below: Position) -> Result<(), LogError> {
        let lock = self.lock()?;
        let State { tail, first } = self.state(&lock)?;
        if below > tail.position {
            let (at, end) = (below, tail.position);
            return Err(LogError::Gap { at, end });
        }
        if below <= first {
            return Ok(());
        }
        let manifest = Manifest {
            first: below,
            ..self.manifest()?
        };
        self.page.mark_changing();
        manifest.write(&*self.disk, &self.folder)?;
        self.page.publish(&State { tail, first: below });
        self.segments.forget_below(below);
        recovery::remove_trimmed(&self.segments, &manifest)
    }

    pub(super) fn wait(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        let mut outcome = self.load_consistent();
        let mut is_over = || {
            outcome = self.load_consistent();
            let state = outcome.as_ref();
            state.map_or(true, |state| state.tail.position > seen) || is_stopped(stop)
        };
        self.page.appended().wait_until(time, &mut is_over);
        Ok(outcome?.tail.position)
    }

    /// Lets the waiters of all processes look at their flags again.
    pub(super) fn wake(&self) {
        // The flags were stored in any order.
        atomic::fence(Ordering::SeqCst);
        self.page.appended().ring();
    }

    /// The position below which all records are known to be durable.
    pub(super) fn durable(&self) -> Result<Position, LogError> {
        let first = self.load_consistent()?.first;
        Ok(self.page.synced().map_or(first, |synced| synced.max(first)))
    }
}

/// How long a thread waits for others that need a sync, too.
///
/// A sync is worth waiting for until as many threads have asked for it as for the last one and while that ran, for as
/// long as it took: those that it has just served would need a separate sync otherwise. The thread that completes the
/// group syncs, so that none has to be woken for that.
#[derive(Debug, Default)]
struct Gathering {
    /// The last sync, by the number of those that were asked for, and when this thread began to wait after it.
    since: Option<(u64, Instant)>,
}

impl Gathering {
    /// How long a thread waits, which was the `number`th that has asked for a sync; nothing if it syncs now.
    fn time(&mut self, page: &Page, number: u64) -> Duration {
        let last = page.last_sync();
        let is_worth_it = (MIN_GATHERING..=MAX_GATHERING).contains(&last.took);
        if !is_worth_it || page.is_group_complete(&last) {
            return Duration::ZERO;
        }
        let since = match self.since {
            Some((began, since)) if began == last.began => since,
            _ => Instant::now(),
        };
        self.since = Some((last.began, since));
        let left = last.took.saturating_sub(since.elapsed());
        // The first one syncs if the group is not complete in time, and another one if the first one has ended.
        let is_first = number.wrapping_sub(last.began).cast_signed() <= 1;
        match left.is_zero() || is_first {
            true => left,
            false => left.max(ProcessLock::check_interval()),
        }
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        self.release();
        if let Some(entry) = self.entry.take() {
            entry.remove(&self.page);
        }
    }
}

/// The file whose lock the favoured process has.
const FAVOURED: &str = "favoured";
/// The file whose lock is the sync lock.
const SYNC: &str = "sync";

/// Takes a lock on the folder: an exclusive one if no other process has the log open, and a shared one otherwise.
/// Returns whether it is the former.
fn lock_presence(presence: &LockFile, folder: &Path, patience: Duration) -> Result<bool, LogError> {
    let until = Instant::now() + patience;
    loop {
        for (mode, is_alone) in [(LockMode::Exclusive, true), (LockMode::Shared, false)] {
            let locked = presence.try_lock(mode);
            if locked.map_err(|error| io_error(folder, &error))? {
                return Ok(is_alone);
            }
        }
        if Instant::now() >= until {
            return Err(LogError::Unavailable(opened_elsewhere(folder, patience)));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn opened_elsewhere(folder: &Path, waited: Duration) -> String {
    format!(
        "another process has been opening the log in {} for more than {} s: wait, or end it if it is stopped",
        folder.display(),
        waited.as_secs_f64()
    )
}

/// Makes the names in the folder above durable, that of the log among them: the process that made them may have ended
/// before. Processes that come later need not.
fn sync_names(disk: &dyn Disk, folder: &Path) -> Result<(), LogError> {
    let above = folder.parent().unwrap_or(folder);
    let above = match above.as_os_str().is_empty() {
        true => Path::new("."),
        false => above,
    };
    let synced = disk.sync_folder(above);
    synced.map_err(|error| io_error(above, &error))
}

/// Changes the exclusive lock into a shared one. In between, another process may open the log, find itself alone, and
/// do the same as this one.
fn share_presence(presence: &LockFile, folder: &Path, patience: Duration) -> Result<(), LogError> {
    let until = Instant::now() + patience;
    loop {
        let locked = presence.try_lock(LockMode::Shared);
        if locked.map_err(|error| io_error(folder, &error))? {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(LogError::Unavailable(opened_elsewhere(folder, patience)));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Creates an empty log in a folder that no other process uses.
fn create(
    disk: &dyn Disk,
    folder: &Path,
    options: &DirectoryOptions,
) -> Result<Manifest, LogError> {
    let id = LogId(u128::from(random()) << 64 | u128::from(random()));
    for first in Segments::list(disk, folder)? {
        // A process may have ended before it wrote the manifest; then there is one segment without records.
        let path = segments::path(folder, first);
        let len = disk.open(&path, OpenMode::Read).and_then(|file| file.len());
        if first != 1 || !len.is_ok_and(|len| len <= MAX_STEP_BYTES) {
            let what = format!("`{}` has segments and no manifest", folder.display());
            return Err(LogError::Damaged(what));
        }
    }
    let header = Header {
        log: id,
        first: 1,
        previous: 0,
        salt: random(),
    };
    Segments::create(disk, folder, &header, step_bytes(options))?;
    let manifest = Manifest {
        id,
        grace: options.grace.max(Duration::from_millis(1)),
        first: 1,
        newest: 1,
    };
    manifest.write(disk, folder)?;
    sync_above(disk, folder).map_err(|error| io_error(folder, &error))?;
    Ok(manifest)
}

/// Opens the page. A process that is alone replaces one of another size.
fn open_page(folder: &Path, is_alone: bool) -> Result<SharedPage, LogError> {
    let path = folder.join(page::NAME);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => LogError::Refused(format!(
            "`{}`: {error}: other processes use it with another version of the program, or it was changed",
            path.display()
        )),
        _ => io_error(&path, &error),
    };
    if !is_alone && !path.try_exists().map_err(failed)? {
        return Err(LogError::Refused(format!(
            "`{}` was removed while other processes use it: close them all first",
            path.display()
        )));
    }
    match SharedPage::open(&path, PAGE_BYTES) {
        Err(error) if is_alone && error.kind() == io::ErrorKind::InvalidData => {
            fs::remove_file(&path).map_err(failed)?;
            SharedPage::open(&path, PAGE_BYTES).map_err(failed)
        }
        page => page.map_err(failed),
    }
}

/// Whether the segment with the tail is better followed by another one: all records but the last one are trimmed, and
/// its file is removed when that one is, too.
fn is_trimmed(tail: &Cursor, first: Position) -> bool {
    tail.offset > MIN_REMOVED_BYTES && first + 1 >= tail.position
}

fn step_bytes(options: &DirectoryOptions) -> u64 {
    let largest = options.segment_bytes;
    largest.clamp(MIN_STEP_BYTES, MAX_STEP_BYTES)
}
