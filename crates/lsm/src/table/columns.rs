//! Columnar compression of blocks with many small entries.
//!
//! Entries whose keys are sequences of numbers (the adjacency of nodes, members of a label, small records)
//! differ from the previous entry in the same few bytes, but seldom repeat four bytes in a row, which is what
//! LZ4 looks for. Stored by columns, each byte as its difference from the same byte of the previous entry, most
//! columns are nearly constant.
//!
//! ```text
//! packed     count of entries: u16; the block's stamps and trailer uncompressed (their length: u32);
//!            column of key lengths: u8 each; column of value lengths: u8 each;
//!            for each j below the longest key: byte j of all keys that are longer than j;
//!            for each j below the longest value: byte j of all values that are longer than j
//! ```
//! In every column each byte but the first is written as its difference (wrapping) from the previous one.
//! Restarts, and what an entry shares with the previous one, follow from the keys (see [`super::block`]) and
//! are not written: only blocks made by [`BlockBuilder`](super::block::BlockBuilder) are packed this way, and
//! unpacking gives identical bytes.

use super::block::{Damaged, SmallEntries, common_prefix};

/// Blocks with fewer entries are compressed by LZ4 alone.
const MIN_ENTRIES: usize = 16;
/// So are blocks with larger entries on average: they hold texts rather than numbers.
const MAX_ENTRY_BYTES: usize = 40;
/// So are blocks with longer keys or values.
const MAX_LEN: usize = 96;

/// Appends the block by columns; returns false, and appends nothing, if it does not have such entries.
pub(crate) fn pack(payload: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(small) = SmallEntries::of(payload) else {
        return false;
    };
    let count = small.count;
    if count < MIN_ENTRIES || payload.len() > count * MAX_ENTRY_BYTES {
        return false;
    }
    // Keys and values of all entries, concatenated, and their lengths.
    let (mut keys, mut key_lens) = (
        Vec::with_capacity(payload.len() * 2),
        Vec::with_capacity(count),
    );
    let (mut values, mut value_lens) =
        (Vec::with_capacity(payload.len()), Vec::with_capacity(count));
    let mut last = 0..0;
    let mut at = 0;
    for index in 0..count {
        let Some(&[shared, suffix, value]) = small.entries.get(at..at + 3) else {
            return false;
        };
        if (shared | suffix | value) >= 0x80 {
            return false;
        }
        let (shared, suffix, value) =
            (usize::from(shared), usize::from(suffix), usize::from(value));
        let body = at + 3;
        let Some(bytes) = small.entries.get(body..body + suffix + value) else {
            return false;
        };
        if shared > last.len() || shared + suffix > MAX_LEN || value > MAX_LEN {
            return false;
        }
        let start = keys.len();
        keys.extend_from_within(last.start..last.start + shared);
        keys.extend_from_slice(&bytes[..suffix]);
        // Only if unpacking restores the same.
        let expected = if index.is_multiple_of(small.interval) {
            if small.restart(index / small.interval) != Some(at) {
                return false;
            }
            0
        } else {
            common_prefix(&keys[last.clone()], &keys[start..])
        };
        if shared != expected {
            return false;
        }
        last = start..keys.len();
        key_lens.push((shared + suffix) as u8);
        values.extend_from_slice(&bytes[suffix..]);
        value_lens.push(value as u8);
        at = body + suffix + value;
    }
    if at != small.entries.len() {
        return false;
    }
    out.reserve(keys.len() + values.len() + 2 * count + 64);
    out.extend_from_slice(&(count as u16).to_le_bytes());
    let tail = small.stamps.len() + small.trailer.len();
    out.extend_from_slice(&(tail as u32).to_le_bytes());
    out.extend_from_slice(small.stamps);
    out.extend_from_slice(small.trailer);
    put_column(&key_lens, out);
    put_column(&value_lens, out);
    put_columns(&keys, &key_lens, out);
    put_columns(&values, &value_lens, out);
    true
}

fn put_column(bytes: &[u8], out: &mut Vec<u8>) {
    let mut last = 0_u8;
    out.extend(bytes.iter().map(|&byte| {
        let difference = byte.wrapping_sub(last);
        last = byte;
        difference
    }));
}

/// Columns of concatenated rows of these lengths.
fn put_columns(rows: &[u8], lens: &[u8], out: &mut Vec<u8>) {
    let (least, most) = extent(lens);
    for column in 0..most {
        let mut last = 0_u8;
        if least == most {
            let bytes = rows.iter().skip(column).step_by(most);
            out.extend(bytes.map(|&byte| {
                let difference = byte.wrapping_sub(last);
                last = byte;
                difference
            }));
            continue;
        }
        let mut start = 0;
        for &len in lens {
            if column < usize::from(len) {
                let byte = rows[start + column];
                out.push(byte.wrapping_sub(last));
                last = byte;
            }
            start += usize::from(len);
        }
    }
}

/// The smallest and the largest of the lengths.
fn extent(lens: &[u8]) -> (usize, usize) {
    let least = lens.iter().min().copied().unwrap_or_default();
    let most = lens.iter().max().copied().unwrap_or_default();
    (least.into(), most.into())
}

/// Restores the block from the bytes that [`pack`] wrote; it has `len` bytes.
pub(crate) fn unpack(packed: &[u8], len: usize) -> Result<Vec<u8>, Damaged> {
    let (count, rest) = packed.split_first_chunk::<2>().ok_or(Damaged)?;
    let count = usize::from(u16::from_le_bytes(*count));
    let (tail, rest) = rest.split_first_chunk::<4>().ok_or(Damaged)?;
    let tail = u32::from_le_bytes(*tail) as usize;
    let (tail, rest) = rest.split_at_checked(tail).ok_or(Damaged)?;
    let (key_lens, rest) = rest.split_at_checked(count).ok_or(Damaged)?;
    let (value_lens, mut rest) = rest.split_at_checked(count).ok_or(Damaged)?;
    let (key_lens, value_lens) = (column(key_lens), column(value_lens));
    let keys = rows(&key_lens, &mut rest)?;
    let values = rows(&value_lens, &mut rest)?;
    if !rest.is_empty() {
        return Err(Damaged);
    }
    let small = SmallEntries::tail(tail, count).ok_or(Damaged)?;
    let mut block = Vec::with_capacity(len);
    let mut restarts = Vec::with_capacity(count.div_ceil(small.interval));
    let (mut last, mut key_at, mut value_at) = (&[][..], 0, 0);
    for index in 0..count {
        let key = &keys[key_at..key_at + usize::from(key_lens[index])];
        let value = &values[value_at..value_at + usize::from(value_lens[index])];
        let shared = if index.is_multiple_of(small.interval) {
            restarts.push(u16::try_from(block.len()).map_err(|_| Damaged)?);
            0
        } else {
            common_prefix(last, key)
        };
        block.extend_from_slice(&[shared as u8, (key.len() - shared) as u8, value.len() as u8]);
        block.extend_from_slice(&key[shared..]);
        block.extend_from_slice(value);
        last = key;
        key_at += key.len();
        value_at += value.len();
    }
    block.extend_from_slice(small.stamps);
    for restart in restarts {
        block.extend_from_slice(&restart.to_le_bytes());
    }
    block.extend_from_slice(small.trailer);
    if block.len() == len {
        Ok(block)
    } else {
        Err(Damaged)
    }
}

fn column(differences: &[u8]) -> Vec<u8> {
    let mut last = 0_u8;
    let bytes = differences.iter().map(|&difference| {
        last = last.wrapping_add(difference);
        last
    });
    bytes.collect()
}

/// Concatenated rows of these lengths from their columns.
fn rows(lens: &[u8], columns: &mut &[u8]) -> Result<Vec<u8>, Damaged> {
    let (least, most) = extent(lens);
    if most > MAX_LEN {
        return Err(Damaged);
    }
    let total = lens.iter().map(|&len| usize::from(len)).sum();
    let (own, rest) = columns.split_at_checked(total).ok_or(Damaged)?;
    *columns = rest;
    let mut rows = vec![0; total];
    if least == most && most > 0 {
        for (column, differences) in own.chunks_exact(lens.len()).enumerate() {
            let mut last = 0_u8;
            for (row, difference) in rows.chunks_exact_mut(most).zip(differences) {
                last = last.wrapping_add(*difference);
                row[column] = last;
            }
        }
        return Ok(rows);
    }
    let mut differences = own.iter();
    for column in 0..most {
        let (mut last, mut start) = (0_u8, 0);
        for &len in lens {
            if column < usize::from(len) {
                last = last.wrapping_add(*differences.next().ok_or(Damaged)?);
                rows[start + column] = last;
            }
            start += usize::from(len);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::block::{BlockBuilder, ValueKind};

    fn block(entries: &[(Vec<u8>, Vec<u8>)], versions: bool) -> Vec<u8> {
        let mut builder = BlockBuilder::new(16);
        for (at, (key, value)) in entries.iter().enumerate() {
            let version = if versions { 100 - at as u64 % 7 } else { 9 };
            builder.add(key, version, ValueKind::Value, value);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        payload
    }

    /// Adjacency as in a loaded network takes a third of the space, and every byte is restored.
    #[test]
    fn adjacency_blocks_take_a_third() {
        let mut entries = Vec::new();
        let mut random = 7_u64;
        for node in 0..20_u32 {
            let mut others: Vec<u32> = (0..19)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (random >> 40) as u32 % 1_600_000
                })
                .collect();
            others.sort_unstable();
            for (at, other) in others.into_iter().enumerate() {
                let mut key = vec![0x12];
                key.extend_from_slice(&(0xc0_0000 + 70_000 + node).to_be_bytes()[1..]);
                key.push(0);
                key.extend_from_slice(&(0xc0_0000 + other).to_be_bytes()[1..]);
                key.extend_from_slice(&(0xe000_0000 + node * 19 + at as u32).to_be_bytes());
                entries.push((key, Vec::new()));
            }
        }
        entries.sort();
        let payload = block(&entries, false);
        let mut packed = Vec::new();
        assert!(pack(&payload, &mut packed));
        let small = lz4_flex::block::compress(&packed).len();
        let plain = lz4_flex::block::compress(&payload).len();
        assert!(
            small * 2 < plain,
            "{small} and {plain} of {}",
            payload.len()
        );
        assert_eq!(unpack(&packed, payload.len()), Ok(payload));
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as usize % end
        }

        fn bytes(&mut self, most: usize, end: usize) -> Vec<u8> {
            let len = self.below(most);
            (0..len).map(|_| self.below(end) as u8).collect()
        }
    }

    /// Packed blocks are restored byte for byte; damage is an error or another block, never a panic.
    #[test]
    fn unpacking_gives_the_bytes() {
        let mut random = Random(1);
        let mut packed_blocks = 0;
        for round in 0..3_000 {
            let count = random.below(80);
            let entries: std::collections::BTreeMap<Vec<u8>, Vec<u8>> = (0..count)
                .map(|_| (random.bytes(12, 4), random.bytes(9, 256)))
                .collect();
            let entries: Vec<_> = entries.into_iter().collect();
            let payload = block(&entries, round % 2 == 0);
            let mut packed = Vec::new();
            if !pack(&payload, &mut packed) {
                assert!(packed.is_empty());
                assert!(
                    entries.len() < MIN_ENTRIES || payload.len() > entries.len() * MAX_ENTRY_BYTES
                );
                continue;
            }
            packed_blocks += 1;
            assert_eq!(unpack(&packed, payload.len()), Ok(payload.clone()));
            let cut = random.below(packed.len());
            assert!(unpack(&packed[..cut], payload.len()).is_err());
            for _ in 0..20 {
                let mut damaged = packed.clone();
                damaged[random.below(packed.len())] ^= 1 << random.below(8);
                let _ = unpack(&damaged, payload.len());
            }
        }
        assert!(packed_blocks > 1_000, "{packed_blocks}");
    }

    /// Bytes that are not a block are not packed, unless they are restored; bytes that were not packed are
    /// refused.
    #[test]
    fn invalid_bytes_are_refused() {
        let mut random = Random(2);
        for _ in 0..20_000 {
            let bytes = random.bytes(300, 256);
            let mut packed = Vec::new();
            if pack(&bytes, &mut packed) {
                assert_eq!(unpack(&packed, bytes.len()), Ok(bytes.clone()));
            }
            assert_eq!(unpack(&bytes, 4096), Err(Damaged));
        }
    }
}
