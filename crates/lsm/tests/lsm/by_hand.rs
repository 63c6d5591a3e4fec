//! `docs/formats/lsm.md` is correct byte by byte: a reader written from that document alone finds in the
//! database in `tests/formats` what was put into it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes that are read sequentially.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.take(16).try_into().unwrap())
    }

    fn varint(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let len = self.varint() as usize;
        self.take(len)
    }

    fn option(&mut self) -> Option<&'a [u8]> {
        match self.varint() {
            0 => None,
            len => Some(self.take(len as usize - 1)),
        }
    }
}

fn database() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats/store-1")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(database().join(name)).unwrap()
}

/// Puts, deletions and deleted ranges, from any source.
#[derive(Default)]
struct Contents {
    /// By key and version; `None`: deleted.
    entries: BTreeMap<(Vec<u8>, u64), Option<Vec<u8>>>,
    /// Start, end and version.
    range_tombstones: Vec<(Vec<u8>, Option<Vec<u8>>, u64)>,
}

impl Contents {
    /// The last value of each key.
    fn state(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut newest: BTreeMap<&[u8], (u64, &Option<Vec<u8>>)> = BTreeMap::new();
        for ((key, version), value) in &self.entries {
            newest.insert(key, (*version, value)); // versions ascend
        }
        let is_erased = |key: &[u8], version: u64| {
            self.range_tombstones.iter().any(|(start, end, at)| {
                key >= start.as_slice()
                    && end.as_deref().is_none_or(|end| key < end)
                    && version < *at
            })
        };
        newest
            .into_iter()
            .filter(|(key, (version, _))| !is_erased(key, *version))
            .filter_map(|(key, (_, value))| Some((key.to_vec(), value.clone()?)))
            .collect()
    }
}

#[test]
fn the_file_store_is_as_it_says() {
    let file = read("STORE");
    assert_eq!(file.len(), 40);
    let mut bytes = Bytes(&file);
    assert_eq!(bytes.take(8), b"isomerST");
    assert_eq!((bytes.u32(), bytes.u32()), (1, 0));
    assert_ne!(bytes.u128(), 0);
    assert_eq!(bytes.u64(), xxh3_64(&file[..32]));
}

struct Record<'a> {
    kind: u8,
    version: u64,
    stream: &'a [u8],
    rest: Bytes<'a>,
}

/// The records of a closed segment.
fn records(file: &[u8], number: u64) -> Vec<Record<'_>> {
    let mut head = Bytes(file);
    assert_eq!(head.take(8), b"isomerLG");
    assert_eq!((head.u32(), head.u32()), (1, 0));
    assert_eq!(head.u64(), number);
    let (salt, _bytes_of_the_file) = (head.u64(), head.u64());
    assert_eq!(head.u64(), xxh3_64(&file[..40]));
    let mut closing = Bytes(&file[512..]);
    assert_eq!(closing.take(8), b"isomerLE");
    let [
        end,
        first,
        last,
        _first_ms,
        _last_ms,
        entries,
        trimmed,
        durable,
    ] = [(); 8].map(|()| closing.u64());
    assert_eq!(closing.u64(), xxh3_64_with_seed(&file[512..584], salt));
    assert!(trimmed <= durable && last <= durable);
    let mut records = Vec::new();
    let mut at = 1024;
    while at < end as usize {
        assert_eq!(at % 8, 0);
        let seed = salt ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut record = Bytes(&file[at..]);
        let len = record.u32();
        let check_of_len = xxh3_64_with_seed(&len.to_le_bytes(), !seed) as u32;
        assert_eq!(record.u32(), check_of_len);
        let check = record.u64();
        let body = record.take(len as usize);
        assert_eq!(check, xxh3_64_with_seed(body, seed));
        let mut body = Bytes(body);
        let (kind, version, _time, durable) = (body.u8(), body.u64(), body.u64(), body.u64());
        assert!(durable <= version);
        let stream = body.bytes();
        records.push(Record {
            kind,
            version,
            stream,
            rest: body,
        });
        at = (at + 16 + len as usize).next_multiple_of(8);
    }
    assert_eq!(at, end as usize);
    let commits: Vec<_> = records.iter().filter(|record| record.kind != 2).collect();
    assert_eq!(commits.first().map_or(0, |record| record.version), first);
    assert_eq!(commits.last().map_or(0, |record| record.version), last);
    let streamed = commits.iter().filter(|record| !record.stream.is_empty());
    assert_eq!(streamed.count() as u64, entries);
    records
}

/// Reads all segments; returns the versions and entries of the change stream, and the trim watermark.
fn read_log(found: &mut Contents) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let (mut streamed, mut trimmed) = (BTreeMap::new(), 0);
    let mut names: Vec<_> = fs::read_dir(database().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let number = u64::from_str_radix(name.strip_suffix(".log").unwrap(), 16).unwrap();
        assert_eq!(name.len(), 20);
        let file = read(&format!("log/{name}"));
        for record in records(&file, number) {
            let mut rest = record.rest;
            match record.kind {
                1 => {
                    for _ in 0..rest.varint() {
                        let (start, end) = (rest.bytes(), rest.option());
                        found.range_tombstones.push((
                            start.to_vec(),
                            end.map(<[u8]>::to_vec),
                            record.version,
                        ));
                    }
                    for _ in 0..rest.varint() {
                        let (key, value) = (rest.bytes(), rest.option());
                        found
                            .entries
                            .insert((key.to_vec(), record.version), value.map(<[u8]>::to_vec));
                    }
                }
                2 => trimmed = trimmed.max(rest.varint()),
                3 => {}
                other => panic!("a record of kind {other}"),
            }
            assert!(rest.0.is_empty());
            if !record.stream.is_empty() {
                streamed.insert(record.version, record.stream.to_vec());
            }
        }
    }
    (streamed, trimmed)
}

/// A stored block of a file with an identity, unencrypted.
fn stored(file: &[u8], identity: u128, offset: u64, len: u64) -> Vec<u8> {
    let block = &file[offset as usize..(offset + len) as usize];
    let (sealed, check) = block.split_at(block.len() - 8);
    let seed = offset ^ identity as u64 ^ (identity >> 64) as u64;
    assert_eq!(
        u64::from_le_bytes(check.try_into().unwrap()),
        xxh3_64_with_seed(sealed, seed)
    );
    let (kind, payload) = sealed.split_last().unwrap();
    match kind {
        0 => payload.to_vec(),
        1 => {
            let mut payload = Bytes(payload);
            let len = payload.u32();
            lz4_flex::block::decompress(payload.0, len as usize).unwrap()
        }
        other => panic!("a block of kind {other}"),
    }
}

/// Key, version, kind and value of each entry of a block.
fn entries(block: &[u8]) -> Vec<(Vec<u8>, u64, u64, Vec<u8>)> {
    let (body, trailer) = block.split_at(block.len() - 12);
    let mut trailer = Bytes(trailer);
    let (base, count) = (trailer.u64(), usize::from(trailer.u16()));
    let (interval, width) = (trailer.u8(), usize::from(trailer.u8()));
    let restart_bytes = if interval & 0x80 == 0 { 2 } else { 4 };
    let interval = usize::from(interval & 0x7f);
    let restarts_at = body.len() - count.div_ceil(interval) * restart_bytes;
    let stamps_at = restarts_at - count * width;
    let mut restarts = Bytes(&body[restarts_at..]);
    let mut rest = Bytes(&body[..stamps_at]);
    let (mut all, mut key) = (Vec::new(), Vec::new());
    for number in 0..count {
        let at = stamps_at - rest.0.len();
        let (shared, own, value) = (rest.varint(), rest.varint(), rest.varint());
        if number % interval == 0 {
            let restart = match restart_bytes {
                2 => u32::from(restarts.u16()),
                _ => restarts.u32(),
            };
            assert_eq!((restart as usize, shared), (at, 0));
        }
        key.truncate(shared as usize);
        key.extend_from_slice(rest.take(own as usize));
        let value = rest.take(value as usize).to_vec();
        let stamp = &body[stamps_at + number * width..][..width];
        let stamp = stamp
            .iter()
            .rev()
            .fold(0, |stamp, byte| stamp << 8 | u64::from(*byte));
        all.push((key.clone(), base + stamp / 4, stamp % 4, value));
    }
    assert!(rest.0.is_empty());
    all
}

fn block_of(file: &[u8], identity: u128, value: &[u8]) -> Vec<u8> {
    let mut place = Bytes(value);
    let (offset, len) = (place.varint(), place.varint());
    stored(file, identity, offset, len)
}

/// Reads a table that the manifest names; `values` are the blob files.
fn read_table(
    file: &[u8],
    named: (u128, u64),
    values: &BTreeMap<u64, (u128, Vec<u8>)>,
    found: &mut Contents,
) {
    let footer_at = file.len() - 80;
    let mut footer = Bytes(&file[footer_at..]);
    let [properties, index, range_tombstones] =
        [(); 3].map(|()| (footer.u64(), u64::from(footer.u32())));
    let identity = footer.u128();
    assert_eq!(identity, named.0);
    assert_eq!((footer.u32(), footer.u64()), (1, 0));
    assert_eq!(footer.take(8), b"IsoTable");
    let check = footer.u64();
    assert_eq!(check, xxh3_64(&file[footer_at..file.len() - 8]));
    assert_eq!(check, named.1);
    let mut all = Vec::new();
    let mut blocks = 0;
    for (_, _, _, value) in entries(&stored(file, identity, index.0, index.1)) {
        let partition = block_of(file, identity, &value);
        let mut tail = Bytes(&partition[partition.len() - 4..]);
        let filter = tail.u32() as usize;
        assert_eq!(filter % 64, 0);
        let (block, filter) =
            partition[..partition.len() - 4].split_at(partition.len() - 4 - filter);
        for (_, _, _, value) in entries(block) {
            let data = entries(&block_of(file, identity, &value));
            blocks += 1;
            for (key, ..) in &data {
                assert!(filter.is_empty() || may_hold(filter, key), "{key:?}");
            }
            all.extend(data);
        }
    }
    let properties = stored(file, identity, properties.0, properties.1);
    let mut properties = Bytes(&properties);
    let (first, last) = (properties.bytes(), properties.bytes());
    assert_eq!(all.first().map(|(key, ..)| key.as_slice()), Some(first));
    assert_eq!(all.last().map(|(key, ..)| key.as_slice()), Some(last));
    assert_eq!(properties.varint(), all.len() as u64);
    let deletions = all.iter().filter(|(_, _, kind, _)| *kind == 1).count();
    assert_eq!(properties.varint(), deletions as u64);
    let (_superseded, _below) = (properties.varint(), properties.varint());
    let (_oldest, _newest) = (properties.varint(), properties.varint());
    assert_eq!(properties.varint(), blocks);
    for (key, version, kind, value) in all {
        let value = match kind {
            0 => Some(value),
            1 => None,
            2 => {
                let mut place = Bytes(&value);
                let [number, offset, len, bytes] = [(); 4].map(|()| place.varint());
                let (identity, file) = &values[&number];
                let value = stored(file, *identity, offset, len);
                assert_eq!(value.len() as u64, bytes);
                Some(value)
            }
            other => panic!("an entry of kind {other}"),
        };
        found.entries.insert((key, version), value);
    }
    if range_tombstones.1 > 0 {
        let block = stored(file, identity, range_tombstones.0, range_tombstones.1);
        let mut rest = Bytes(&block);
        while !rest.0.is_empty() {
            let (start, end) = (rest.bytes().to_vec(), rest.option().map(<[u8]>::to_vec));
            for _ in 0..rest.varint() {
                let version = rest.varint();
                found
                    .range_tombstones
                    .push((start.clone(), end.clone(), version));
            }
        }
    }
}

/// Whether a filter may hold a key.
fn may_hold(filter: &[u8], key: &[u8]) -> bool {
    let hash = xxh3_64(key);
    let lines = filter.len() as u64 / 64;
    let line = ((hash >> 32) * lines) >> 32;
    let line = &filter[line as usize * 64..][..64];
    let mut bits = hash as u32;
    (0..6).all(|_| {
        let bit = bits >> 23;
        bits = bits.wrapping_mul(0x9e37_79b9);
        line[bit as usize / 8] >> (bit % 8) & 1 == 1
    })
}

/// Reads the manifest and everything that it names.
fn read_tables(found: &mut Contents) -> u64 {
    let manifest = read("tables/MANIFEST");
    let mut head = Bytes(&manifest);
    assert_eq!(head.take(16), b"IsomerDB tables\n");
    assert_eq!((head.u32(), head.u32()), (1, 0));
    let (_written, _identity, len) = (head.u64(), head.u128(), head.u64());
    assert_eq!(manifest.len() as u64, 56 + len + 8);
    let end = manifest.len() - 8;
    let check = u64::from_le_bytes(manifest[end..].try_into().unwrap());
    assert_eq!(check, xxh3_64(&manifest[..end]));
    let mut body = Bytes(&manifest[56..end]);
    let [
        _next_file,
        _next_run,
        flushed,
        _needed,
        ingested,
        _collected,
    ] = [(); 6].map(|()| body.varint());
    assert_eq!(ingested, 7 + 1);
    let mut values = BTreeMap::new();
    for _ in 0..body.varint() {
        let (number, identity, bytes) = (body.varint(), body.u128(), body.varint());
        let file = read(&format!("tables/{number:012}.val"));
        assert_eq!(file.len() as u64, bytes);
        values.insert(number, (identity, file));
    }
    let mut tables = 0;
    for _level in 0..body.varint() {
        for _run in 0..body.varint() {
            let _number = body.varint();
            for _part in 0..body.varint() {
                let (number, identity, bytes) = (body.varint(), body.u128(), body.varint());
                let footer = body.u64();
                let (first, behind) = (body.bytes(), body.option());
                assert!(behind.is_none_or(|behind| first < behind));
                let file = read(&format!("tables/{number:012}.tab"));
                assert_eq!(file.len() as u64, bytes);
                read_table(&file, (identity, footer), &values, found);
                tables += 1;
            }
        }
    }
    assert_eq!(body.varint(), 0, "no compaction is in progress");
    assert!(body.0.is_empty() && tables > 0);
    flushed
}

#[test]
fn log_and_tables_hold_what_was_put() {
    let mut in_log = Contents::default();
    let (streamed, trimmed) = read_log(&mut in_log);
    let mut expected: BTreeMap<u64, Vec<u8>> = (2..6_u32)
        .map(|step| (u64::from(step) + 1, step.to_be_bytes().to_vec()))
        .collect();
    expected.insert(7, b"load".to_vec());
    expected.insert(8, 6_u32.to_be_bytes().to_vec());
    assert_eq!(trimmed, 2);
    assert_eq!(
        streamed
            .range(3..)
            .map(|(version, entry)| (*version, entry.clone()))
            .collect::<BTreeMap<_, _>>(),
        expected
    );

    let mut in_tables = Contents::default();
    let flushed = read_tables(&mut in_tables);
    // Commits that are not in tables are in the log; those in both are equal.
    for ((key, version), value) in &in_log.entries {
        if let Some(stored) = in_tables.entries.get(&(key.clone(), *version)) {
            assert_eq!(stored, value);
        }
        if *version > flushed {
            in_tables
                .entries
                .insert((key.clone(), *version), value.clone());
        }
    }
    let later = in_log
        .range_tombstones
        .iter()
        .filter(|(.., version)| *version > flushed);
    in_tables.range_tombstones.extend(later.cloned());
    let state = in_tables.state();
    assert_eq!(state.get(&b"large"[..]), Some(&vec![7; 3000]));
    assert_eq!(state.get(&b"load 19"[..]), Some(&vec![b'l'; 5]));
    assert_eq!(state, engine_contents());
}

/// The same, through the engine.
fn engine_contents() -> BTreeMap<Vec<u8>, Vec<u8>> {
    use isomer_lsm::{LsmEngine, LsmOptions};
    use isomer_storage::{
        Engine, Order,
        conformance::{ALL, scan},
    };
    let folder = tempfile::tempdir().unwrap();
    copy(&database(), folder.path());
    let engine = LsmEngine::open(
        folder.path(),
        LsmOptions {
            create: false,
            ..LsmOptions::default()
        },
    )
    .unwrap();
    scan(&*engine.snapshot().unwrap(), ALL, Order::Ascending, 100)
        .into_iter()
        .collect()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
