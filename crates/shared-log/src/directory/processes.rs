//! The processes that have a log open, as the shared page lists them. For people: nothing depends on the list, and the
//! log works for processes that found no free entry.
//!
//! An entry belongs to the process that has changed its first word from free to a claim, and then from its claim to its
//! number. The entry of a killed process is reused when all are in use. One that was killed between the two
//! changes leaves its claim until all processes have closed the log.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use isomer_vfs::process::ProcessId;

use super::{page::Page, random::random};
use crate::Position;

/// Words of an entry: a cache line, so that processes that note their positions do not slow each other down.
const ENTRY_WORDS: usize = 8;
/// Bytes of a kind.
const KIND_BYTES: usize = 16;
/// Marks a claim, whose other bits are random above the number of the process.
const CLAIM: u64 = 1 << 63;

/// A process that has a log in a directory open for appending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProcess {
    /// Its number, when it started, and its container.
    pub id: ProcessId,
    /// What it is: `kind` of its [`DirectoryOptions`](crate::DirectoryOptions), at most 16 bytes.
    pub kind: String,
    /// It has applied the records below this position; 0 if it has not said so.
    pub applied: Position,
}

/// The entry of this process.
#[derive(Debug)]
pub(super) struct ProcessSlot(usize);

impl ProcessSlot {
    /// Enters this process into the list; `None` if all entries are in use.
    pub(super) fn new(page: &Page, kind: &str) -> Option<Self> {
        let id = ProcessId::current();
        let claim = CLAIM | (random() << 32) | u64::from(id.pid);
        let kind = kind_words(kind);
        let claimed = |words: &[AtomicU64], takes_ended| {
            let before = words[0].load(SeqCst);
            let is_free = before == 0 || takes_ended && has_ended(words, before);
            let change = |before, after| {
                let changed = words[0].compare_exchange(before, after, SeqCst, SeqCst);
                changed.is_ok()
            };
            if !is_free || !change(before, claim) {
                return false;
            }
            let content = [id.started, id.namespace, 0, kind[0], kind[1]];
            for (word, value) in words[1..].iter().zip(content) {
                word.store(value, SeqCst);
            }
            change(claim, id.pid.into())
        };
        [false, true].into_iter().find_map(|takes_ended| {
            let at = entries(page).position(|words| claimed(words, takes_ended))?;
            Some(Self(at))
        })
    }

    /// Says that this process has applied the records below `position`.
    pub(super) fn set_applied(&self, page: &Page, position: Position) {
        if let Some(words) = entries(page).nth(self.0) {
            words[3].store(position, Relaxed);
        }
    }

    /// Frees the entry.
    pub(super) fn remove(self, page: &Page) {
        let pid = u64::from(std::process::id());
        if let Some(words) = entries(page).nth(self.0) {
            // Otherwise another process has taken it.
            let _ = words[0].compare_exchange(pid, 0, SeqCst, SeqCst);
        }
    }
}

/// The listed processes, without those that are known to have ended.
pub(super) fn list(page: &Page) -> Vec<LogProcess> {
    let all = entries(page).filter_map(|words| {
        let first = words[0].load(SeqCst);
        let process = LogProcess {
            id: id(words, first)?,
            applied: words[3].load(SeqCst),
            kind: kind([&words[4], &words[5]].map(|word| word.load(SeqCst))),
        };
        // Otherwise the entry has changed in between.
        (words[0].load(SeqCst) == first).then_some(process)
    });
    all.filter(|process| process.id.is_running() != Some(false))
        .collect()
}

fn entries(page: &Page) -> impl Iterator<Item = &[AtomicU64]> {
    page.process_words().chunks_exact(ENTRY_WORDS)
}

/// The process in an entry with the first word `first`; `None` if there is none.
fn id(words: &[AtomicU64], first: u64) -> Option<ProcessId> {
    let pid = u32::try_from(first).ok().filter(|pid| *pid != 0)?;
    Some(ProcessId {
        pid,
        started: words[1].load(SeqCst),
        namespace: words[2].load(SeqCst),
    })
}

/// Whether an entry with the first word `first` is known to be one of a process that has ended.
fn has_ended(words: &[AtomicU64], first: u64) -> bool {
    first & CLAIM == 0 && id(words, first).is_none_or(|id| id.is_running() == Some(false))
}

/// The words of a kind, cut after [`KIND_BYTES`] at most.
fn kind_words(kind: &str) -> [u64; 2] {
    let kind = &kind.as_bytes()[..kind.floor_char_boundary(KIND_BYTES)];
    let mut bytes = [0; KIND_BYTES];
    bytes[..kind.len()].copy_from_slice(kind);
    let number = u128::from_le_bytes(bytes);
    [number as u64, (number >> 64) as u64]
}

fn kind([low, high]: [u64; 2]) -> String {
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(KIND_BYTES)]).into_owned()
}

#[cfg(test)]
mod tests {
    use isomer_vfs::SharedPage;

    use super::{super::page::PAGE_BYTES, *};
    use crate::LogId;

    fn page(folder: &tempfile::TempDir) -> Page {
        let shared = SharedPage::open(&folder.path().join("page"), PAGE_BYTES);
        Page::new(shared.expect("a page"), LogId(1))
    }

    #[test]
    fn kinds_are_cut_between_characters() {
        let comes_back = |text: &str| kind(kind_words(text));
        for short in ["", "cli", "sixteen bytes ..", "ü"] {
            assert_eq!(comes_back(short), short);
        }
        assert_eq!(comes_back("fifteen bytes .ü"), "fifteen bytes .");
        assert_eq!(
            comes_back("a text of more than 16 bytes"),
            "a text of more t"
        );
    }

    #[test]
    fn a_full_list_takes_in_processes_when_others_leave_or_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = page(&folder);
        let mut all: Vec<ProcessSlot> =
            std::iter::from_fn(|| ProcessSlot::new(&page, "server")).collect();
        assert_eq!(all.len(), 1015);
        all[9].set_applied(&page, 77);
        let listed = list(&page);
        assert_eq!(listed.len(), 1015);
        let own = LogProcess {
            id: ProcessId::current(),
            kind: "server".into(),
            applied: 77,
        };
        assert_eq!(listed[9], own);
        all.remove(500).remove(&page);
        let entry = ProcessSlot::new(&page, "cli").expect("a free entry");
        assert_eq!(entry.0, 500);
        assert!(ProcessSlot::new(&page, "cli").is_none());
        // A process ended without leaving, and another one while it entered itself.
        let words = entries(&page).nth(7).expect("an entry");
        words[1].fetch_add(1, SeqCst);
        let claimed = entries(&page).nth(8).expect("an entry");
        claimed[0].fetch_or(CLAIM, SeqCst);
        assert_eq!(list(&page).len(), 1013);
        assert_eq!(ProcessSlot::new(&page, "cli").expect("a free entry").0, 7);
        assert!(ProcessSlot::new(&page, "cli").is_none());
        page.forget_processes();
        assert!(list(&page).is_empty());
        assert_eq!(ProcessSlot::new(&page, "cli").expect("a free entry").0, 0);
    }
}
