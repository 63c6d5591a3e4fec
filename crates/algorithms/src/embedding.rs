//! Node embeddings by fast random projection (Chen et al., FastRP, 2019).

use crate::{
    graph::SparseRows,
    random::Random,
    work::{Resources, StopCheck},
};

/// Settings of [`fast_random_projection`].
#[derive(Clone, Debug)]
pub struct RandomProjection {
    /// Numbers per node, at least 1.
    pub dimension: usize,
    /// Share of each iteration in the result; the first is that of the direct neighbours.
    pub weights: Vec<f64>,
    /// Share of the node's own random vector.
    pub own_weight: f64,
    /// Exponent of the degree by which random vectors are scaled.
    pub degree_exponent: f64,
    /// Seed: random vectors depend on it and the number of the node alone.
    pub seed: u64,
}

/// Nodes per part of the work.
const PART: usize = 256;

/// A vector per node, `dimension` numbers after another. Nodes start with sparse random vectors; in each iteration a
/// node gets the weighted mean of its neighbours' vectors, which is added to the result with length 1. Nodes with the
/// same neighbours get the same vector, unless their own counts.
///
/// Time: iterations × edges × dimension; memory: 24 bytes × nodes × dimension.
pub fn fast_random_projection<S: StopCheck>(
    rows: &SparseRows,
    settings: &RandomProjection,
    work: &mut Resources<'_, S>,
) -> Result<Vec<f64>, S::Error> {
    assert!(settings.dimension > 0, "vectors have at least one number");
    let width = settings.dimension;
    let size = rows.len() * width;
    work.hold::<[f64; 3]>(size)?;
    let steps = (rows.len() + rows.edge_count()) * width;
    let mut now = vec![0.0; size];
    work.fill(&mut now, PART * width, steps, |first, part, pace| {
        for (at, vector) in part.chunks_mut(width).enumerate() {
            let node = (first / width + at) as u32;
            pace.count_steps(width)?;
            start(node, rows.degree(node), settings, vector);
        }
        Ok(())
    })?;
    let mut found: Vec<f64> = now.iter().map(|one| one * settings.own_weight).collect();
    let mut next = vec![0.0; size];
    for weight in &settings.weights {
        let before = &now;
        work.fill(&mut next, PART * width, steps, |first, part, pace| {
            for (at, vector) in part.chunks_mut(width).enumerate() {
                let node = (first / width + at) as u32;
                pace.count_steps((1 + rows.degree(node)) * width)?;
                vector.fill(0.0);
                for (other, share) in rows.weighted(node) {
                    let start = other as usize * width;
                    let from = &before[start..start + width];
                    vector
                        .iter_mut()
                        .zip(from)
                        .for_each(|(sum, one)| *sum += share * one);
                }
                let degree = rows.degree(node).max(1) as f64;
                vector.iter_mut().for_each(|one| *one /= degree);
            }
            Ok(())
        })?;
        let means = &next;
        work.fill(&mut found, PART * width, size, |first, part, pace| {
            pace.count_steps(part.len())?;
            let means = means[first..first + part.len()].chunks(width);
            for (vector, mean) in part.chunks_mut(width).zip(means) {
                let length = mean.iter().map(|one| one * one).sum::<f64>().sqrt();
                if length > 0.0 {
                    let scale = weight / length;
                    vector
                        .iter_mut()
                        .zip(mean)
                        .for_each(|(sum, one)| *sum += scale * one);
                }
            }
            Ok(())
        })?;
        std::mem::swap(&mut now, &mut next);
    }
    Ok(found)
}

/// The random vector of a node: a sixth of its numbers are positive, a sixth negative, the others 0.
fn start(node: u32, degree: usize, settings: &RandomProjection, vector: &mut [f64]) {
    let mixed = settings.seed ^ (u64::from(node) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Mixed twice: neighbouring states would give the same sequence, shifted by one.
    let mut random = Random::new(Random::new(mixed).next());
    let scale = match degree {
        0 => 1.0,
        degree => (degree as f64).powf(settings.degree_exponent),
    };
    let value = scale * (3.0 / vector.len() as f64).sqrt();
    for one in vector {
        *one = match random.below(6) {
            0 => value,
            1 => -value,
            _ => 0.0,
        };
    }
}
