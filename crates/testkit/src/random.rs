//! A small pseudo-random generator that is reproducible from its seed on every machine.

/// xorshift64* (Vigna, 2016), started through one step of splitmix64 so that neighbouring seeds differ.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// True once in `times` on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_and_stay_in_range() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..1_000).map(|_| random.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        for number in 0..7 {
            let count = draw(3).iter().filter(|drawn| **drawn == number).count();
            assert!(
                (80..220).contains(&count),
                "{number} was drawn {count} times of 1,000"
            );
        }
    }
}
