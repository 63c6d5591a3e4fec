//! Sequences: numbers from 1 on, named within a bucket.
//!
//! *Gapless*: the next number is part of the transaction. If that is rolled back the number is used again, and two
//! transactions that take numbers of one sequence concurrently conflict. *Gapped*: numbers are taken from a block that
//! was reserved beforehand in a separate commit, so that transactions do not wait for each other; a number is never
//! used twice, and those of transactions that did not commit are missing. Both draw from the same counter.

use isomer_layout::{DataError, ErrorKind, keyspace, stream::change::Change};

use crate::{
    Access, DataStore, Kv, KvMut,
    footprint::Space,
    kv::sequences::{ATTEMPTS, Block, FIRST_BLOCK, LARGEST_BLOCK, Named},
};

impl KvMut<'_> {
    /// The next number of a gapless sequence: one more than the last one committed, 1 at first.
    pub fn sequence_next(&mut self, bucket: &str, sequence: &str) -> Result<u64, DataError> {
        self.sequence_advance(bucket, sequence, 1)
    }

    /// Advances a sequence to `last`; numbers are never used twice, so a sequence that is further stays.
    pub fn sequence_skip_to(
        &mut self,
        bucket: &str,
        sequence: &str,
        last: u64,
    ) -> Result<(), DataError> {
        let now = self.tx.kv().sequence_last(bucket, sequence)?;
        if last > now {
            self.sequence_advance(bucket, sequence, last - now)?;
        }
        Ok(())
    }

    /// Takes `count` numbers within this transaction; returns the first.
    fn sequence_advance(
        &mut self,
        bucket: &str,
        sequence: &str,
        count: u64,
    ) -> Result<u64, DataError> {
        crate::store::check_name("sequence", sequence)?;
        let bucket = self.bucket_to_write(bucket)?;
        self.tx
            .footprint_mut()
            .change_key(Space::Sequences(bucket.id), sequence.as_bytes(), true);
        let last = self.tx.kv().stored_number(bucket.id, sequence)?;
        // Every number fits a signed integer of the query language.
        let new = last
            .checked_add(count)
            .filter(|new| i64::try_from(*new).is_ok())
            .ok_or_else(|| DataError::Limit {
                what: format!("sequence `{sequence}`"),
                size: last.to_string(),
                max: i64::MAX.to_string(),
                advice: "begin a new sequence",
            })?;
        self.tx.put(
            &keyspace::bucket_sequence(bucket.id, sequence),
            &new.to_be_bytes(),
        )?;
        self.tx.log(&Change::SequenceAdvanced {
            bucket: bucket.id,
            name: sequence.as_bytes(),
            last: new,
        });
        Ok(last + 1)
    }
}

impl Kv<'_> {
    /// The last number of a sequence that was given out or reserved; 0 before the first.
    pub fn sequence_last(self, bucket: &str, sequence: &str) -> Result<u64, DataError> {
        let Some(bucket) = self.bucket(bucket)? else {
            return Ok(0);
        };
        self.tx
            .footprint()
            .read_key(Space::Sequences(bucket.id), sequence.as_bytes());
        self.stored_number(bucket.id, sequence)
    }

    /// The sequences of a bucket and the last number of each, by name.
    pub fn sequences(self, bucket: &str) -> Result<Vec<(String, u64)>, DataError> {
        let Some(bucket) = self.bucket(bucket)? else {
            return Ok(Vec::new());
        };
        let prefix = keyspace::bucket_sequence(bucket.id, "");
        let mut found = Vec::new();
        isomer_layout::pairs::each_pair(self.tx.read(), &prefix, |key, stored| {
            let name = std::str::from_utf8(&key[prefix.len()..])
                .map_err(|_| DataError::corrupt("the name of a sequence is not UTF-8"))?;
            let last = stored
                .try_into()
                .map(u64::from_be_bytes)
                .map_err(|_| DataError::corrupt(format!("sequence `{name}` is malformed")))?;
            found.push((name.to_owned(), last));
            Ok(())
        })?;
        for (name, _) in &found {
            self.tx
                .footprint()
                .read_key(Space::Sequences(bucket.id), name.as_bytes());
        }
        Ok(found)
    }

    fn stored_number(self, bucket: u32, sequence: &str) -> Result<u64, DataError> {
        match self
            .tx
            .read()
            .get(&keyspace::bucket_sequence(bucket, sequence))?
        {
            None => Ok(0),
            Some(stored) => match stored.as_slice().try_into() {
                Ok(number) => Ok(u64::from_be_bytes(number)),
                Err(_) => Err(DataError::corrupt(format!(
                    "sequence `{sequence}` is malformed"
                ))),
            },
        }
    }
}

impl DataStore {
    /// A number of a gapped sequence: larger than every one taken before, and never given again. Needs no transaction,
    /// and may be called concurrently with one.
    pub fn sequence_take(&self, bucket: &str, sequence: &str) -> Result<u64, DataError> {
        let mut blocks = self.shared().sequences.blocks.lock();
        if self.is_shared() {
            // The commits of other processes that have returned are heard.
            self.engine().version();
            self.shared().sequences.forget_noted(&mut blocks);
        }
        let key: Named = (bucket.into(), sequence.into());
        let size = match blocks.get_mut(&key) {
            Some(block) if block.next < block.end => {
                block.next += 1;
                return Ok(block.next - 1);
            }
            Some(block) => (block.size * 2).min(LARGEST_BLOCK),
            None => FIRST_BLOCK,
        };
        let first = self.reserve_numbers(bucket, sequence, size)?;
        blocks.insert(
            key,
            Block {
                next: first + 1,
                end: first + size,
                size,
            },
        );
        Ok(first)
    }

    /// Reserves durably, so that no number is reused after a crash.
    fn reserve_numbers(&self, bucket: &str, sequence: &str, count: u64) -> Result<u64, DataError> {
        let mut attempt = 0;
        loop {
            let mut tx = self.begin(Access::Write)?;
            let first = tx.kv_mut().sequence_advance(bucket, sequence, count)?;
            match tx.commit() {
                Ok(_) => return Ok(first),
                // An unknown outcome costs only a gap.
                Err(error) if matches!(error.kind(), ErrorKind::Retry) && attempt < ATTEMPTS => {
                    attempt += 1
                }
                Err(error) => return Err(error),
            }
        }
    }
}
