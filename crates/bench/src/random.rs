//! A small deterministic pseudo-random generator: the same seed yields the same network on every machine.

/// SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state, every output equally likely.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent generator for item `item` of stream `stream`, so that items can be generated in any
    /// order.
    pub fn for_item(seed: u64, stream: u64, item: u64) -> Self {
        let mut source = Self::new(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let mixed = source.next_u64();
        Self::new(mixed ^ item.wrapping_mul(0xA076_1D64_78BD_642F))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "the bound must be above 0");
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A normally distributed number with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// `x` rounded up or down at random so that the mean is `x`.
    pub fn round(&mut self, x: f64) -> usize {
        let floor = x.max(0.0).floor();
        floor as usize + usize::from(self.chance(x.max(0.0) - floor))
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_items_differ() {
        let numbers =
            |mut source: Random| [source.next_u64(), source.next_u64(), source.next_u64()];
        assert_eq!(numbers(Random::new(7)), numbers(Random::new(7)));
        assert_ne!(
            numbers(Random::for_item(7, 1, 1)),
            numbers(Random::for_item(7, 1, 2))
        );
        assert_ne!(
            numbers(Random::for_item(7, 1, 1)),
            numbers(Random::for_item(7, 2, 1))
        );
    }

    #[test]
    fn means_are_where_they_should_be() {
        let mut source = Random::new(1);
        let count = 20_000;
        let unit: f64 = (0..count).map(|_| source.unit()).sum::<f64>() / f64::from(count);
        assert!((unit - 0.5).abs() < 0.02, "{unit}");
        let normal: f64 = (0..count).map(|_| source.normal()).sum::<f64>() / f64::from(count);
        assert!(normal.abs() < 0.05, "{normal}");
        let rounded =
            (0..count).map(|_| source.round(2.25)).sum::<usize>() as f64 / f64::from(count);
        assert!((rounded - 2.25).abs() < 0.03, "{rounded}");
    }

    #[test]
    fn shuffling_keeps_the_items() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(3).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.iter().copied().eq(0..1000));
    }
}
