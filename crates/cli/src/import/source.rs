//! Sources of rows: a file or standard input, plain or compressed, as a stream of text bytes.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result, bail};

const BUFFER_BYTES: usize = 1 << 18;

/// An opened source.
pub struct Source {
    /// Its name for messages: its path, or `standard input`.
    pub name: String,
    /// Its name without `.gz` or `.zst`, for guessing the format; empty for standard input.
    pub plain_name: String,
    /// The text, decompressed, without a byte order mark.
    pub text: Box<dyn BufRead>,
    /// Bytes read so far, as stored (compressed).
    pub bytes_read: Arc<AtomicU64>,
    /// Size as stored, if known.
    pub bytes_total: Option<u64>,
}

impl Source {
    /// Opens a file, or standard input for `-`. Compression is detected by the first bytes, not by the name.
    pub fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::of(
                "standard input".into(),
                String::new(),
                Box::new(io::stdin()),
                None,
            );
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let meta = file
            .metadata()
            .with_context(|| format!("cannot read {name}"))?;
        if meta.is_dir() {
            bail!("{name} is a folder: name a file in it");
        }
        let plain = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz" | "zst") => path.with_extension(""),
            _ => PathBuf::from(path),
        };
        let total = meta.is_file().then_some(meta.len());
        Self::of(name, plain.display().to_string(), Box::new(file), total)
    }

    fn of(
        name: String,
        plain_name: String,
        raw: Box<dyn Read>,
        bytes_total: Option<u64>,
    ) -> Result<Self> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = CountingReader {
            inner: raw,
            count: bytes_read.clone(),
        };
        let mut stored = BufReader::with_capacity(BUFFER_BYTES, counted);
        let start = stored
            .fill_buf()
            .with_context(|| format!("cannot read {name}"))?;
        let mut text: Box<dyn BufRead> = if start.starts_with(&[0x1f, 0x8b]) {
            let plain = flate2::bufread::MultiGzDecoder::new(stored);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, plain))
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let plain = zstd::stream::read::Decoder::with_buffer(stored)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, plain))
        } else {
            Box::new(stored)
        };
        let start = text
            .fill_buf()
            .with_context(|| format!("cannot decompress {name}"))?;
        if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
            bail!(
                "{name} is UTF-16: convert it to UTF-8 first, for example with `iconv -f UTF-16 -t UTF-8`"
            );
        }
        if start.starts_with(&[0xef, 0xbb, 0xbf]) {
            text.consume(3);
        }
        Ok(Self {
            name,
            plain_name,
            text,
            bytes_read,
            bytes_total,
        })
    }
}

/// Counts the bytes read, for the progress bar.
struct CountingReader {
    inner: Box<dyn Read>,
    count: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
