//! Memory of the whole process, as reported by the operating system and the allocator: for statistics.

use std::sync::OnceLock;

use crate::MemoryKind;

/// Returns the number of bytes allocated now.
static ALLOCATED: OnceLock<fn() -> usize> = OnceLock::new();
/// Bytes that were allocated before the first database was opened.
static AT_START: OnceLock<usize> = OnceLock::new();

/// Memory of the process. Resident bytes, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// All of it: the resident set.
    pub resident_bytes: usize,
    /// Code and data of the program and its libraries, and mapped files.
    pub file_bytes: usize,
    /// The rest: heap and stacks.
    pub anonymous_bytes: usize,
    /// Allocated bytes, in blocks of at least 1 KiB, as requested; `None` if the program does not count allocations.
    pub allocated_bytes: Option<usize>,
    /// The part of these that was allocated at the start of the program, before it opened a database.
    pub start_bytes: usize,
}

impl ProcessMemory {
    /// The present values; `None` if the operating system does not report them. Reads `/proc/self/status`.
    pub fn now() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let allocated_bytes = ALLOCATED.get().map(|allocated| allocated());
        Some(Self {
            allocated_bytes,
            start_bytes: AT_START.get().copied().unwrap_or_default(),
            ..Self::of_status(&status)?
        })
    }

    fn of_status(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(kib << 10)
        };
        Some(Self {
            resident_bytes: field("VmRSS:")?,
            file_bytes: field("RssFile:")? + field("RssShmem:").unwrap_or_default(),
            anonymous_bytes: field("RssAnon:")?,
            allocated_bytes: None,
            start_bytes: 0,
        })
    }

    /// Blocks below 1 KiB, free memory that the allocator keeps, its structures, and the stacks of threads: the
    /// resident heap and stacks without the large blocks.
    pub fn kept_bytes(&self) -> Option<usize> {
        let allocated = self.allocated_bytes?;
        Some(self.anonymous_bytes.saturating_sub(allocated))
    }
}

/// A part of the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPart {
    /// Its name, for display.
    pub name: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
}

impl ProcessMemory {
    /// The memory of the process by parts: measured for code, start and allocator, reserved for the holders of
    /// the budget (`reserved_bytes`), and last what is allocated beyond all of these, if allocations are counted.
    pub fn parts(&self, reserved_bytes: impl Fn(MemoryKind) -> usize) -> Vec<MemoryPart> {
        let part = |name, bytes| MemoryPart { name, bytes };
        let mut parts = vec![part("program and mapped files", self.file_bytes)];
        let held = MemoryKind::ALL.map(|kind| part(kind.name(), reserved_bytes(kind)));
        parts.extend(held);
        if let (Some(allocated), Some(kept)) = (self.allocated_bytes, self.kept_bytes()) {
            let reserved: usize = held.iter().map(|part| part.bytes).sum();
            let other = allocated.saturating_sub(reserved + self.start_bytes);
            parts.push(part("allocated at the start", self.start_bytes));
            parts.push(part(
                "small blocks, free memory of the allocator, stacks",
                kept,
            ));
            parts.push(part("other allocations", other));
        }
        parts
    }
}

/// Sets the function that counts allocations, and records the value at the start. For programs with a counting
/// allocator.
pub fn count_allocations(allocated: fn() -> usize) {
    let _ = ALLOCATED.set(allocated);
    let _ = AT_START.set(allocated());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_is_read() {
        let text = "Name:\tx\nVmHWM:\t 900 kB\nVmRSS:\t     700 kB\nRssAnon:\t 400 kB\nRssFile:\t 290 kB\nRssShmem:\t  10 kB\n";
        let memory = ProcessMemory {
            allocated_bytes: Some(300 << 10),
            ..ProcessMemory::of_status(text).unwrap()
        };
        assert_eq!(memory.resident_bytes, 700 << 10);
        assert_eq!(memory.file_bytes + memory.anonymous_bytes, 700 << 10);
        assert_eq!(memory.kept_bytes(), Some(100 << 10));
        assert_eq!(ProcessMemory::of_status("Name: x"), None);
    }
}
