//! A reader for stored bytes that may be damaged, and the variable-length integers that records use.

use crate::ValueError;

/// A cursor over stored bytes. Every read checks its bounds and reports damage as an error.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The format's name in errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, at: 0, what }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether all bytes were read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The error for bytes at this position that the format does not allow.
    #[cold]
    pub fn corrupt(&self, reason: &'static str) -> ValueError {
        ValueError::Corrupt {
            what: self.what,
            at: self.at,
            reason,
        }
    }

    /// Puts back the byte that was read last.
    pub fn back(&mut self) {
        self.at -= 1;
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, ValueError> {
        let byte = self
            .peek()
            .ok_or_else(|| self.corrupt("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ValueError> {
        let taken = self.bytes[self.at..]
            .get(..len)
            .ok_or_else(|| self.corrupt("it ends too early"))?;
        self.at += len;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let taken = self.bytes[self.at..]
            .first_chunk::<N>()
            .ok_or_else(|| self.corrupt("it ends too early"))?;
        self.at += N;
        Ok(*taken)
    }

    /// The bytes up to the next byte below 2, and that byte; key strings are encoded this way.
    pub fn until_low(&mut self) -> Result<(&'a [u8], u8), ValueError> {
        let rest = &self.bytes[self.at..];
        let len = rest
            .iter()
            .position(|byte| *byte < 2)
            .ok_or_else(|| self.corrupt("a string does not end"))?;
        self.at += len + 1;
        Ok((&rest[..len], rest[len]))
    }

    /// An unsigned LEB128 integer: 7 bits per byte, lowest first, the top bit set on all but the last byte.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, ValueError> {
        let first = self.u8()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.corrupt("an integer is longer than 64 bits"))
    }

    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32, ValueError> {
        u32::try_from(self.varint()?).map_err(|_| self.corrupt("an integer is longer than 32 bits"))
    }

    /// A length of data that follows: never more than the bytes left.
    #[inline]
    pub fn length(&mut self) -> Result<usize, ValueError> {
        usize::try_from(self.varint()?)
            .ok()
            .filter(|len| *len <= self.remaining())
            .ok_or_else(|| self.corrupt("a length points past the end"))
    }

    pub fn zigzag(&mut self) -> Result<i64, ValueError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        for value in [0, 1, -1, 63, 64, -65, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            put_varint(&mut out, value as u64);
            let mut reader = Reader::new(&out, "test");
            assert_eq!(reader.zigzag(), Ok(value));
            assert_eq!(reader.varint(), Ok(value as u64));
            assert!(reader.is_at_end());
        }
    }

    #[test]
    fn an_integer_without_end_is_an_error() {
        assert!(Reader::new(&[0xff; 20], "test").varint().is_err());
        assert!(Reader::new(&[0xff; 3], "test").varint().is_err());
    }
}
