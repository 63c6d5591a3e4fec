//! The queries about paths.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use super::{facts::Facts, order::top};
use crate::ldbc::cell::{Answer, Cell, Parameters};

pub(super) fn shortest_path(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("person1Id"));
    let end = facts.person(given.int("person2Id"));
    let length = facts.distances(start)[end];
    let rows: Vec<Vec<Cell>> = length
        .into_iter()
        .map(|length| vec![length.into()])
        .collect();
    rows.into()
}

/// The interactions between two people: replies to posts, and replies to comments, in both directions.
fn interactions(facts: &Facts<'_>, a: usize, b: usize) -> (usize, usize) {
    let (mut posts, mut comments) = (0, 0);
    for (author, other) in [(a, b), (b, a)] {
        for message in &facts.messages_of[author] {
            let Some(parent) = facts.at(*message).reply_of().map(|at| facts.at(at)) else {
                continue;
            };
            if parent.creator == other {
                posts += usize::from(parent.is_post());
                comments += usize::from(!parent.is_post());
            }
        }
    }
    (posts, comments)
}

pub(super) fn trusted_paths(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("person1Id"));
    let end = facts.person(given.int("person2Id"));
    let distances = facts.distances(end);
    let Some(length) = distances[start] else {
        return Answer::default();
    };
    let mut paths = vec![vec![start]];
    for left in (0..length).rev() {
        let mut longer = Vec::new();
        for path in &paths {
            let last = path[path.len() - 1];
            for (friend, _) in &facts.friends[last] {
                if distances[*friend] == Some(left) {
                    longer.push(path.iter().copied().chain([*friend]).collect());
                }
            }
        }
        paths = longer;
    }
    let rows = paths.into_iter().map(|path| {
        let halves: usize = path
            .windows(2)
            .map(|pair| interactions(facts, pair[0], pair[1]))
            .map(|(posts, comments)| 2 * posts + comments)
            .sum();
        let ids = path.iter().map(|at| facts.network.persons[*at].id.into());
        let row = vec![Cell::List(ids.collect()), Cell::Float(halves as f64 / 2.0)];
        (Reverse(halves), row)
    });
    Answer {
        tied_by: Some(1),
        ..top(rows.collect(), usize::MAX)
    }
}

/// Weights of friendships, in both directions.
type Weights = BTreeMap<usize, Vec<(usize, f64)>>;

/// The friendships that `weight` gives a weight.
fn weights(facts: &Facts<'_>, weight: impl Fn(usize, usize) -> Option<f64>) -> Weights {
    let mut all = Weights::new();
    for knows in &facts.network.knows {
        if let Some(weight) = weight(knows.a, knows.b) {
            all.entry(knows.a).or_default().push((knows.b, weight));
            all.entry(knows.b).or_default().push((knows.a, weight));
        }
    }
    all
}

/// The least sum of weights from a person to each other.
fn lightest(weights: &Weights, start: usize) -> BTreeMap<usize, f64> {
    let mut done: BTreeMap<usize, f64> = BTreeMap::new();
    // Weights are not negative, so that their bits are in their order.
    let mut queue = BinaryHeap::from([(Reverse(0.0_f64.to_bits()), start)]);
    while let Some((Reverse(bits), person)) = queue.pop() {
        if done.contains_key(&person) {
            continue;
        }
        let sum = f64::from_bits(bits);
        done.insert(person, sum);
        for (friend, weight) in weights.get(&person).into_iter().flatten() {
            queue.push((Reverse((sum + weight).to_bits()), *friend));
        }
    }
    done
}

pub(super) fn weighted_interaction(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let (from, to) = (given.time("startDate"), given.time("endDate"));
    let in_time = |message: usize| {
        let forum = &facts.network.forums[facts.network.forum_of(message)];
        (from..=to).contains(&forum.created)
    };
    let weights = weights(facts, |a, b| {
        let mut sum = 0.0;
        for (author, other) in [(a, b), (b, a)] {
            for message in &facts.messages_of[author] {
                let Some(parent) = facts.at(*message).reply_of() else {
                    continue;
                };
                if facts.at(parent).creator == other && in_time(*message) {
                    sum += if facts.at(parent).is_post() { 1.0 } else { 0.5 };
                }
            }
        }
        Some(1.0 / (sum + 1.0))
    });
    let reached = lightest(&weights, facts.person(given.int("person1Id")));
    let cost = reached.get(&facts.person(given.int("person2Id")));
    vec![vec![Cell::Float(cost.copied().unwrap_or(-1.0))]].into()
}

pub(super) fn interaction_between_cities(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let weights = weights(facts, |a, b| {
        let (posts, comments) = interactions(facts, a, b);
        let count = posts + comments;
        (count > 0).then(|| (40.0 - (count as f64).sqrt()).round().max(1.0))
    });
    let living = |name: &str| {
        let id = given.int(name);
        let all = facts.network.persons.iter().enumerate();
        let there = all.filter(move |(_, one)| facts.network.places[one.city].id == id);
        there.map(|(at, _)| at).collect::<Vec<usize>>()
    };
    let mut found = Vec::new();
    for one in living("city1Id") {
        let reached = lightest(&weights, one);
        for other in living("city2Id") {
            found.extend(reached.get(&other).map(|weight| (one, other, *weight)));
        }
    }
    let least = found
        .iter()
        .map(|(.., weight)| *weight)
        .fold(f64::INFINITY, f64::min);
    found.retain(|(.., weight)| *weight == least);
    let id = |person: usize| facts.network.persons[person].id;
    let rows = found.into_iter().map(|(one, other, weight)| {
        let key = (id(one), id(other));
        (key, vec![key.0.into(), key.1.into(), weight.into()])
    });
    top(rows.collect(), usize::MAX)
}

pub(super) fn recruitment(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let weights = weights(facts, |a, b| {
        let (one, other) = (
            facts.network.persons[a].study?,
            facts.network.persons[b].study?,
        );
        (one.0 == other.0).then(|| (one.1 - other.1).abs() as f64 + 1.0)
    });
    let target = facts.person(given.int("person2Id"));
    let reached = lightest(&weights, target);
    let mut found = Vec::new();
    for (at, person) in facts.network.persons.iter().enumerate() {
        for (company, _) in &person.work {
            let is_named = facts.network.organisations[*company].name == given.text("company");
            let weight = reached.get(&at).filter(|_| is_named && at != target);
            found.extend(weight.map(|weight| (person.id, *weight)));
        }
    }
    let least = found
        .iter()
        .map(|(_, weight)| *weight)
        .fold(f64::INFINITY, f64::min);
    found.retain(|(_, weight)| *weight == least);
    let rows = found
        .into_iter()
        .map(|(id, weight)| (id, vec![id.into(), weight.into()]));
    top(rows.collect(), 20)
}
