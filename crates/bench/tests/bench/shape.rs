//! The generated network has the metrics of the network it imitates.

use isomer_bench::{Network, network, shape::Shape};

#[test]
fn a_small_network_has_the_figures_of_the_real_one() {
    let network = Network::of_people(20_000, network::DEFAULT_SEED);
    assert_eq!(network.edges().len(), 375_091);
    // The whole network clusters by about 0.10, a small one more: it has smaller regions.
    let shape = Shape::measure(&network, 400);
    assert!((18.7..18.8).contains(&shape.mean_out_degree), "{shape:?}");
    assert!((150..1_500).contains(&shape.max_out_degree), "{shape:?}");
    assert!((0.52..0.56).contains(&shape.reciprocity), "{shape:?}");
    assert!(shape.weak_share > 0.999_99, "{shape:?}");
    assert!((0.78..0.83).contains(&shape.strong_share), "{shape:?}");
    assert!((0.085..0.155).contains(&shape.clustering), "{shape:?}");
    assert!((8..=14).contains(&shape.depth), "{shape:?}");
    assert!((3.2..4.8).contains(&shape.mean_distance), "{shape:?}");
}

#[test]
fn the_same_seed_gives_the_same_network_and_another_seed_another() {
    let network = Network::of_people(2_000, 1);
    assert_eq!(network.edges(), Network::of_people(2_000, 1).edges());
    assert_ne!(network.edges(), Network::of_people(2_000, 2).edges());
    assert_eq!(
        network.profile(17),
        Network::of_people(2_000, 1).profile(17)
    );
}

#[test]
fn relationships_are_distinct_ascending_and_never_to_oneself() {
    for people in [50, 51, 137, 1_000] {
        let network = Network::of_people(people, 3);
        assert!(network.edges().is_sorted_by(|a, b| a < b));
        assert!(
            network
                .edges()
                .iter()
                .all(|&(source, target)| source != target && source < people && target < people)
        );
        assert!(!network.edges().is_empty());
    }
}
