//! The program's allocator: mimalloc, with a counter of allocated bytes, returning free memory to the operating system
//! when it is idle.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ffi::{c_int, c_long},
    sync::atomic::{AtomicIsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use mimalloc::MiMalloc;

unsafe extern "C" {
    /// Frees memory that the calling thread and ended threads have released, and returns free memory to the operating
    /// system.
    fn mi_collect(force: bool);
    /// Sets an option of mimalloc by its number.
    fn mi_option_set(option: c_int, value: c_long);
}

/// mimalloc with a counter.
pub struct Counting;

/// Allocated bytes of large blocks, except what each thread has not reported yet.
static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

/// Smaller blocks are not counted: for strings of 36 bytes the count would take as long as a third of the allocation.
const COUNTED_BYTES: usize = 1 << 10;

/// A thread reports its sum when it reaches this limit, so that threads do not share a cache line for each block.
const STEP_BYTES: isize = 32 << 10;

thread_local! {
    static UNREPORTED: Cell<isize> = const { Cell::new(0) };
}

#[inline]
fn note(bytes: isize) {
    if bytes.unsigned_abs() >= COUNTED_BYTES {
        note_large(bytes);
    }
}

fn note_large(bytes: isize) {
    // The cell has no destructor, so that it is valid as long as its thread runs.
    UNREPORTED.with(|unreported| {
        let sum = unreported.get() + bytes;
        if sum.abs() < STEP_BYTES {
            unreported.set(sum);
        } else {
            unreported.set(0);
            ALLOCATED.fetch_add(sum, Relaxed);
        }
    });
}

/// Bytes that are allocated now in blocks of at least 1 KiB, to within 32 KiB a thread.
pub fn allocated_bytes() -> usize {
    usize::try_from(ALLOCATED.load(Relaxed)).unwrap_or_default()
}

// SAFETY: each call is forwarded to mimalloc unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promises are those of `MiMalloc`.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: as above; the pointer was allocated there.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block may cross the limit of what is counted.
        note(size as isize);
        note(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}

/// Interval between two looks for memory to give back.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// A process that uses more CPU time in one interval is busy.
const BUSY_IN_INTERVAL: Duration = Duration::from_millis(25);
/// Freed bytes for which giving back is worth its time.
const MIN_RELEASED_BYTES: usize = 8 << 20;
/// How many intervals after the end of work it looks once more: idle threads end, and what the allocator kept for them
/// becomes free only then.
const IDLE_INTERVALS: u32 = 5;

/// Budget below which mimalloc returns free memory eagerly. It costs page faults during bulk writes, which a program
/// with a large budget should not pay.
const EAGER_BELOW_BYTES: usize = 1 << 30;
/// `mi_option_purge_delay`, in milliseconds: how long free memory waits for a thread that needs it. Mapping large
/// blocks from the operating system instead (`mi_option_arena_max_object_size`) uses ever new addresses, and mimalloc
/// keeps a table of 64 KiB for each 512 MiB of them.
const PURGE_DELAY_MS: (c_int, c_long) = (15, 0);

/// Transparent huge pages, which mimalloc asks for, count 2 MiB where a program uses 64 KiB, and the kernel makes them
/// again of what was given back. Linux alone has the switch; elsewhere there is nothing to do.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    // Where it is refused the program works as well, with more memory.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns free memory to the operating system while the program is idle, and eagerly where its memory budget is
/// small. Starts a thread for it: mimalloc itself returns memory only while the program keeps allocating.
pub fn give_back_when_idle(budget_bytes: usize) {
    let is_eager = budget_bytes < EAGER_BELOW_BYTES;
    if is_eager {
        disable_huge_pages();
        let (option, value) = PURGE_DELAY_MS;
        // SAFETY: both may be called at any time; an unknown option is ignored. What was freed before is purged at
        // once: its delay was still the longer default.
        unsafe {
            mi_option_set(option, value);
            mi_collect(true);
        }
    }
    // Without the thread the program works as well, with more memory.
    let _ = thread::Builder::new()
        .name("memory".to_owned())
        .stack_size(64 << 10)
        .spawn(move || {
            let (mut peak_bytes, mut idle_looks, mut cpu_before) = (0, u32::MAX, cpu_time());
            loop {
                thread::sleep(CHECK_INTERVAL);
                let now_bytes = allocated_bytes();
                peak_bytes = peak_bytes.max(now_bytes);
                let cpu_now = cpu_time();
                let is_busy = cpu_now.saturating_sub(cpu_before) > BUSY_IN_INTERVAL;
                cpu_before = cpu_now;
                idle_looks = if is_busy {
                    0
                } else {
                    idle_looks.saturating_add(1)
                };
                // The count does not see small blocks, so that the end of any work counts as well.
                let work_ended = idle_looks == 1 || idle_looks == IDLE_INTERVALS;
                // With a large budget, continuing work reuses freed memory without page faults.
                let is_worth =
                    peak_bytes - now_bytes >= MIN_RELEASED_BYTES && (is_eager || !is_busy);
                if is_worth || work_ended {
                    peak_bytes = now_bytes;
                    // SAFETY: it may be called at any time, from any thread.
                    unsafe { mi_collect(true) };
                }
            }
        });
}

/// CPU time that the process has used; zero where it is unknown.
fn cpu_time() -> Duration {
    isomer_vfs::process::cpu_time().unwrap_or_default()
}
