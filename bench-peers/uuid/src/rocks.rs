//! RocksDB, with plain batches and with optimistic transactions.

use std::path::Path;

use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType,
    FlushOptions, OptimisticTransactionDB, OptimisticTransactionOptions, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};

use crate::{
    BUDGET_BYTES,
    uuid::{
        pairs::Pair,
        work::{Reader, Subject, Visit},
    },
};

/// Small memtables were the fastest here: see docs/benchmarks.md.
const MEMTABLE_BYTES: usize = 16 << 20;
const MEMTABLES: usize = 2;

fn options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(4096);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_block_cache(&Cache::new_lru_cache(BUDGET_BYTES - MEMTABLES * MEMTABLE_BYTES));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_max_write_buffer_number(MEMTABLES as i32);
    options.set_max_bytes_for_level_base(64 << 20);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_max_background_jobs(2);
    options
}

fn durability(synced: bool) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(synced);
    options
}

fn flushing() -> FlushOptions {
    let mut options = FlushOptions::default();
    options.set_wait(true);
    options
}

fn thorough() -> CompactOptions {
    let mut options = CompactOptions::default();
    options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    options
}

pub fn plain(folder: &Path) -> Result<Box<dyn Subject>> {
    Ok(Box::new(Plain(DB::open(&options(), folder.join("db"))?)))
}

struct Plain(DB);

impl Subject for Plain {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let mut batch = WriteBatch::default();
        for pair in pairs {
            batch.put(pair.key.as_bytes(), pair.value.as_bytes());
        }
        Ok(self.0.write_opt(batch, &durability(synced))?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(PlainReader(&self.0)))
    }

    fn finish_background_work(&self) -> Result<()> {
        self.0.flush_opt(&flushing())?;
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn compact(&self) -> Result<()> {
        self.0.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &thorough());
        Ok(self.0.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}

struct PlainReader<'a>(&'a DB);

impl Reader for PlainReader<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.0.get_pinned(key)? else {
            return Ok(false);
        };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(2 << 20);
        let mut at = self.0.raw_iterator_opt(options);
        at.seek_to_first();
        while let Some((key, value)) = at.item() {
            visit(key, value)?;
            at.next();
        }
        Ok(at.status()?)
    }
}

pub fn transactional(folder: &Path) -> Result<Box<dyn Subject>> {
    let db = OptimisticTransactionDB::open(&options(), folder.join("db"))?;
    Ok(Box::new(Transactional(db)))
}

struct Transactional(OptimisticTransactionDB);

impl Subject for Transactional {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let transaction = self
            .0
            .transaction_opt(&durability(synced), &OptimisticTransactionOptions::default());
        for pair in pairs {
            transaction.put(pair.key.as_bytes(), pair.value.as_bytes())?;
        }
        Ok(transaction.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(TransactionalReader(&self.0)))
    }

    fn finish_background_work(&self) -> Result<()> {
        Ok(self.0.flush_opt(&flushing())?)
    }

    fn compact(&self) -> Result<()> {
        self.0.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &thorough());
        Ok(())
    }
}

struct TransactionalReader<'a>(&'a OptimisticTransactionDB);

impl Reader for TransactionalReader<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.0.get_pinned(key)? else {
            return Ok(false);
        };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut at = self.0.raw_iterator();
        at.seek_to_first();
        while let Some((key, value)) = at.item() {
            visit(key, value)?;
            at.next();
        }
        Ok(at.status()?)
    }
}
