//! Clocks and gauges: wall time, processor time, memory, disk.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use isomer_vfs::{Disk, RealDisk};

/// Latencies of single operations, and totals.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// The latency of each operation, in order.
    pub times: Vec<Duration>,
    /// From the start of the first operation to the end of the last.
    pub wall: Duration,
    /// Processor time of the whole process in that period.
    pub cpu: Duration,
}

impl Timed {
    /// A single operation with this latency.
    pub fn one(wall: Duration, cpu: Duration) -> Self {
        Self {
            times: vec![wall],
            wall,
            cpu,
        }
    }

    /// The latency at this quantile: 0.5 is the median. Zero if nothing was timed.
    pub fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted
            .get((last as f64 * share).round() as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.times.len() as u64
    }
}

/// A stopwatch.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self {
            cpu: cpu_time(),
            wall: Instant::now(),
        }
    }

    /// Wall and processor time since then.
    pub fn read(&self) -> (Duration, Duration) {
        let wall = self.wall.elapsed();
        (wall, cpu_time().saturating_sub(self.cpu))
    }

    /// The time since then as one operation.
    pub fn timed(&self) -> Timed {
        let (wall, cpu) = self.read();
        Timed::one(wall, cpu)
    }
}

/// Times `run` for each item.
pub fn time_each<T>(
    items: impl IntoIterator<Item = T>,
    mut run: impl FnMut(T) -> Result<()>,
) -> Result<Timed> {
    let items = items.into_iter();
    let mut times = Vec::with_capacity(items.size_hint().0);
    let watch = Stopwatch::start();
    for item in items {
        let start = Instant::now();
        run(item)?;
        times.push(start.elapsed());
    }
    let (wall, cpu) = watch.read();
    Ok(Timed { times, wall, cpu })
}

/// Processor time of all threads of this process, in the kernel and outside; zero where it is unknown.
pub fn cpu_time() -> Duration {
    isomer_vfs::process::cpu_time().unwrap_or_default()
}

/// Resets the kernel's peak-memory counter of this process, if possible.
pub fn reset_peak_memory() {
    // Refused in some containers: then the peak counts from the start of the process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The peak of this process's resident memory in bytes.
pub fn peak_memory() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// This process's resident memory in bytes.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

/// Allocated disk space of a folder's files, including subfolders.
pub fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            isomer_vfs::stored_bytes(&about)
        };
    }
    Ok(bytes)
}

/// Free bytes on the file system of a folder; no limit where they are unknown.
pub fn free_bytes(folder: &Path) -> Result<u64> {
    Ok(RealDisk.free_bytes(folder)?.unwrap_or(u64::MAX))
}

/// `bytes` in MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// `time` in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// `time` in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_sorted_times() {
        let timed = Timed {
            times: [5, 1, 4, 2, 3].map(Duration::from_micros).to_vec(),
            ..Timed::default()
        };
        assert_eq!(timed.percentile(0.5), Duration::from_micros(3));
        assert_eq!(timed.percentile(0.0), Duration::from_micros(1));
        assert_eq!(timed.percentile(1.0), Duration::from_micros(5));
        assert_eq!(Timed::default().percentile(0.99), Duration::ZERO);
    }

    #[test]
    fn processor_time_grows_with_work_of_any_thread() {
        let before = cpu_time();
        let work = || (0..3_000_000u64).fold(1u64, |sum, n| std::hint::black_box(sum ^ n));
        let sum = std::thread::spawn(work).join().expect("the thread ends");
        assert!(cpu_time() > before, "{sum}");
    }

    #[test]
    fn a_folder_takes_what_its_files_take() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("inner")).expect("a folder");
        for name in ["one", "inner/two"] {
            fs::write(folder.path().join(name), vec![1; 50_000]).expect("a file");
        }
        let bytes = disk_bytes(folder.path()).expect("the folder is read");
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}
