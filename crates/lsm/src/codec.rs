//! Numbers and byte strings of the file formats: LEB128 for numbers that are usually small, and readers with
//! bounds checks.

use std::path::Path;

use isomer_storage::StorageError;

/// Appends `value` in 1 to 10 bytes of 7 bits each, least significant first.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends bytes that may be missing: length + 1, or 0.
pub(crate) fn put_option(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            put_varint(out, bytes.len() as u64 + 1);
            out.extend_from_slice(bytes);
        }
    }
}

/// Reads a varint at `at`; returns it and its end.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let mut value = u64::from(first & 0x7f);
    for step in 1..10 {
        let byte = *bytes.get(at + step)?;
        if step == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * step);
        if byte < 0x80 {
            return Some((value, at + step + 1));
        }
    }
    None
}

/// Reads values in the order in which they were written; `None` if the bytes end early or are invalid.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, end) = varint(self.bytes, 0)?;
        self.bytes = &self.bytes[end..];
        Some(value)
    }

    pub(crate) fn fixed_u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn fixed_u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn fixed_u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    pub(crate) fn option(&mut self) -> Option<Option<&'a [u8]>> {
        match self.varint()? {
            0 => Some(None),
            len => Some(Some(self.take(usize::try_from(len - 1).ok()?)?)),
        }
    }
}

/// The error for damaged bytes in a file.
pub(crate) fn corrupt(path: &Path, offset: u64, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "{}, byte {offset}: {what}; restore the database from a backup",
        path.display()
    ))
}

/// The first 8 bytes of a key, big-endian, with zeros behind a short one.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written_and_no_more() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        for number in numbers {
            put_varint(&mut out, number);
        }
        put_bytes(&mut out, b"abc");
        put_option(&mut out, None);
        put_option(&mut out, Some(b""));
        let mut reader = Reader::new(&out);
        for number in numbers {
            assert_eq!(reader.varint(), Some(number));
        }
        assert_eq!(reader.bytes(), Some(&b"abc"[..]));
        assert_eq!(reader.option(), Some(None));
        assert_eq!(reader.option(), Some(Some(&b""[..])));
        assert!(reader.is_done());
        assert_eq!(reader.varint(), None);
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        assert_eq!(Reader::new(&[5, 1]).bytes(), None);
        assert_eq!(Reader::new(&[0xff; 9]).varint(), None);
    }
}
