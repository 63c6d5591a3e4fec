//! Numbers in the blocks of files.

/// Decodes numbers from the front of stored bytes; every method returns `None` at a premature end.
#[derive(Clone, Copy)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl<'a> Taker<'a> {
    /// Takes `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A 32-bit number in 1 to 5 bytes, the low seven bits first (LEB128).
    #[inline]
    pub(crate) fn packed(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for (at, byte) in self.0.iter().take(5).enumerate() {
            let bits = u32::from(byte & 0x7f);
            if at == 4 && bits > 0xf {
                return None;
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }

    /// Takes `count` 32-bit numbers of four bytes each. Allocates no more than the input holds.
    pub(crate) fn u32s(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.bytes(count.checked_mul(4)?)?;
        let number = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        Some(bytes.chunks_exact(4).map(number).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The inverse of [`Taker::packed`].
#[inline]
pub(crate) fn push_packed(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_come_back_and_nothing_else_does() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, 1 << 28, u32::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|one| push_packed(&mut bytes, *one));
        let mut taker = Taker(&bytes);
        for number in numbers {
            assert_eq!(taker.packed(), Some(number));
        }
        assert!(taker.is_empty());
        assert_eq!(taker.packed(), None);
        assert_eq!(Taker(&[0x80]).packed(), None);
        assert_eq!(Taker(&[0xff, 0xff, 0xff, 0xff, 0x10]).packed(), None);
        assert_eq!(Taker(&[0xff; 9]).packed(), None);
        assert_eq!(Taker(&[1, 2, 3]).u32s(usize::MAX), None);
    }
}
