//! The creations of `isomer bench guanciale` alone, for CPU profiling:
//! `cargo run --profile quick -p isomer-bench --example create -- 100 20` (relationships of each of the 1,000
//! people, operations).

use std::time::Duration;

use anyhow::Result;
use isomer_bench::{
    guanciale::graph::{Creator, Location},
    measure::Stopwatch,
};

/// As in the released binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let numbers: Vec<u32> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let [each, operations] = numbers[..] else {
        anyhow::bail!("RELATIONSHIPS_EACH OPERATIONS");
    };
    let mut creation = Creator::open(&Location::Memory, each, 1.0)?;
    let watch = Stopwatch::start();
    for _ in 0..operations {
        creation.create()?;
    }
    let (wall, cpu) = watch.read();
    let rate = |time: Duration| f64::from(operations) / time.as_secs_f64();
    println!(
        "{:.1} operations/s, {:.1} a second of processor time",
        rate(wall),
        rate(cpu)
    );
    creation.check()
}
