//! Prints the metrics of the generated network: `cargo run --release -p isomer-bench --example shape -- 0.1`.

use std::time::Instant;

use isomer_bench::{Network, network, shape::Shape};

fn main() {
    let scale: f64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.01);
    let start = Instant::now();
    let network = Network::at_scale(scale, network::DEFAULT_SEED);
    println!(
        "{} people, {} relationships in {:.1?}",
        network.people(),
        network.edges().len(),
        start.elapsed()
    );
    println!("{:#?}", Shape::measure(&network, 300));
}
