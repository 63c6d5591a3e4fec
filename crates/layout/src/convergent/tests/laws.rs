//! The join of states is one of a semilattice.

use super::world::World;
use crate::convergent::{
    clock::Vector,
    join::{State, StateRow, join},
};

type ReplicaState = (Vector, Vec<StateRow>);

fn joined(one: &ReplicaState, other: &ReplicaState) -> ReplicaState {
    let rows = join(
        State {
            seen: &one.0,
            rows: &one.1,
        },
        State {
            seen: &other.0,
            rows: &other.1,
        },
    )
    .unwrap();
    let rows = rows.into_iter().cloned().collect();
    let mut seen = one.0.clone();
    seen.join(&other.0);
    (seen, rows)
}

#[test]
fn joins_commute_associate_and_repeat() {
    for seed in 1..300 {
        let mut world = World::new(seed);
        (0..50).for_each(|_| world.step());
        let held: Vec<ReplicaState> = world
            .replicas
            .iter()
            .map(|replica| (replica.seen.clone(), replica.state()))
            .collect();
        let [a, b, c] = [&held[0], &held[1], &held[2]];
        assert_eq!(joined(a, b), joined(b, a), "seed {seed}");
        assert_eq!(&joined(a, a), a, "seed {seed}");
        let ab = joined(a, b);
        assert_eq!(joined(&ab, b), ab, "seed {seed}");
        assert_eq!(joined(&ab, c), joined(a, &joined(b, c)), "seed {seed}");
    }
}
