//! SurrealKV: its transactions, awaited on the caller's thread.

use std::path::Path;

use anyhow::Result;
use surrealkv::{Durability, LSMIterator, Mode, Transaction, Tree, TreeBuilder};
use tokio::runtime::Runtime;

use crate::{
    BUDGET_BYTES,
    uuid::{
        pairs::Pair,
        work::{Reader, Subject, Visit},
    },
};

const MEMTABLE_BYTES: usize = 16 << 20;

struct Surreal {
    runtime: Runtime,
    tree: Tree,
}

pub fn open(folder: &Path) -> Result<Box<dyn Subject>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let tree = {
        let _inside = runtime.enter();
        TreeBuilder::new()
            .with_path(folder.join("db"))
            .with_max_memtable_size(MEMTABLE_BYTES)
            .with_block_cache_capacity((BUDGET_BYTES - 2 * MEMTABLE_BYTES) as u64)
            .build()?
    };
    Ok(Box::new(Surreal { runtime, tree }))
}

impl Drop for Surreal {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.block_on(self.tree.close()) {
            eprintln!("surrealkv: closing: {error}");
        }
    }
}

impl Subject for Surreal {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let mut transaction = self.tree.begin()?;
        transaction.set_durability(if synced {
            Durability::Immediate
        } else {
            Durability::Eventual
        });
        for pair in pairs {
            transaction.set(pair.key.as_bytes(), pair.value.as_bytes())?;
        }
        Ok(self.runtime.block_on(transaction.commit())?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(SurrealReader(self.tree.begin_with_mode(Mode::ReadOnly)?)))
    }

    fn finish_background_work(&self) -> Result<()> {
        Ok(self.tree.flush_wal(true)?)
    }

    fn compact(&self) -> Result<()> {
        Ok(()) // no such operation
    }
}

struct SurrealReader(Transaction);

impl Reader for SurrealReader {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.0.get(key)? else {
            return Ok(false);
        };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut at = self.0.range(&b"0"[..], &b"g"[..])?;
        at.seek_first()?;
        while at.valid() {
            visit(at.key().user_key(), &at.value()?)?;
            at.next()?;
        }
        Ok(())
    }
}
