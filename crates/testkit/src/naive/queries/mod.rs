//! Random graphs, schemas and whole queries, well-typed and ill-typed, from a seed.

mod clause;
mod expression;
mod focus;
pub mod graph;
mod maker;
mod pattern;
mod temporal;

use maker::Maker;

use crate::random::Random;

/// A random query.
#[derive(Clone, Debug)]
pub struct RandomQuery {
    /// The text.
    pub text: String,
    /// Whether it may raise an error: it contains a value of a wrong type, or arithmetic that may overflow.
    /// Every other query must succeed.
    pub risky: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// A query; one in `1 / writing` writes.
pub fn query(random: &mut Random) -> RandomQuery {
    let ill = random.once_in(6);
    let mut maker = Maker {
        random,
        scope: Vec::new(),
        next: 0,
        risky: false,
        ill,
        nested: false,
        wrote: false,
    };
    let text = match maker.once_in(3) {
        true => focus::focused(&mut maker),
        false => clause::query(&mut maker),
    };
    RandomQuery {
        text,
        risky: maker.risky,
        writes: maker.wrote,
    }
}
