//! Encryption keys of a database: random *data keys*, which encrypt what is stored, wrapped by one *master
//! key*, which the user supplies on opening and which is never stored.
//!
//! Layout of the file `KEYS` in the database's folder; numbers are little-endian:
//!
//! ```text
//! 0    8 bytes   "ISOMKEYS"
//! 8    u32       format: 1
//! 12   u32       n: number of data keys
//! 16   16 bytes  identity of this set of keys, random
//! 32   n times, their numbers ascending from 1
//!        u32       number of the data key
//!        76 bytes  the data key, sealed by the master key (see [`crate::Seal`]) for the place
//!                  (file: identity, at: number)
//! …    u64       XXH3 of everything before it
//! ```
//!
//! The file is replaced as a whole: written under a temporary name, synced, renamed, then the folder is
//! synced. A copy of the database (a backup) includes it. New files are encrypted with the newest data key;
//! [`Keys::add`] creates one, and [`rotate`] wraps all of them with another master key, at a cost that
//! does not depend on the size of the database.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
};

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    Disk, OpenMode, Seal, SealedPosition,
    cipher::{Zeroize as _, Zeroizing, random},
    seal::{KEY_BYTES, Key},
};

/// Name of the key file in a database's folder.
pub const KEYS_FILE: &str = "KEYS";
/// Its temporary name while it is written.
pub const NEW_KEYS_FILE: &str = "KEYS.new";

const MAGIC: &[u8; 8] = b"ISOMKEYS";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 32;
/// Size of a wrapped data key: its bytes and the overhead of sealing.
const WRAPPED_BYTES: usize = KEY_BYTES + 44;
const ENTRY_BYTES: usize = 4 + WRAPPED_BYTES;
/// A larger key count than any rotation schedule reaches means that the file is damaged.
const MAX_KEYS: u32 = 10_000;
/// Maximum bytes read of a file with a master key: the digits, and surrounding white space.
const MAX_KEY_FILE_BYTES: usize = 1024;

/// Why a key or a key file was rejected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The database is encrypted, and no key was given.
    #[error(
        "the database `{0}` is encrypted: give its key in a file or in an environment variable"
    )]
    Missing(PathBuf),
    /// The database is not encrypted, and a key was given.
    #[error(
        "the database `{0}` is not encrypted: open it without a key; to encrypt it, export it into a new encrypted database"
    )]
    NotEncrypted(PathBuf),
    /// The key belongs to another database or is out of date.
    #[error(
        "the key is not that of the database `{0}`: give the key that it was created with or last rotated to"
    )]
    Wrong(PathBuf),
    /// The key file is damaged.
    #[error(
        "the key file `{0}` is damaged: {1}: restore it from a backup; without it nothing can be decrypted"
    )]
    Damaged(PathBuf, &'static str),
    /// The key file has a newer format than this program reads.
    #[error(
        "the key file `{0}` has format {1}, this program reads format {FORMAT}: use a newer program"
    )]
    Format(PathBuf, u32),
    /// The input is not a valid key.
    #[error(
        "{0} is not a valid key: a key is 32 bytes, or 64 hexadecimal digits as `openssl rand -hex 32` prints"
    )]
    Malformed(String),
    /// The database is encrypted or is to be, and this program was built without encryption.
    #[error(
        "the database `{0}` needs encryption, which this build does not have: build it with the feature `encryption`"
    )]
    Unsupported(PathBuf),
    /// The operating system reported an error.
    #[error("{0} `{1}`: {2}")]
    Io(&'static str, PathBuf, io::Error),
}

/// The master key, which the owner of the database keeps. Wiped when dropped; never printed.
#[derive(Clone)]
pub struct MasterKey(Key);

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MasterKey(..)")
    }
}

impl MasterKey {
    /// From 32 bytes, or from 64 hexadecimal digits, optionally surrounded by white space.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        Self::parse(bytes, "the input")
    }

    /// From a file with the content that [`MasterKey::from_bytes`] accepts.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let io = |error| KeyError::Io("reading the key", path.to_owned(), error);
        // Longer input is not a key, and a device may be endless. The buffer is allocated in full at once, so
        // that growing it leaves no copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES));
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(MAX_KEY_FILE_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        Self::parse(&bytes, &format!("the content of `{}`", path.display()))
    }

    /// From an environment variable that holds 64 hexadecimal digits.
    pub fn from_env(name: &str) -> Result<Self, KeyError> {
        let value = std::env::var_os(name)
            .ok_or_else(|| KeyError::Malformed(format!("the missing variable `{name}`")))?;
        let value = Zeroizing::new(value.into_encoded_bytes());
        Self::parse(&value, &format!("the value of `{name}`"))
    }

    /// A new random key.
    pub fn generate() -> io::Result<Self> {
        Ok(Self(Zeroizing::new(random()?)))
    }

    /// The key as 64 hexadecimal digits, for the owner to store.
    pub fn to_hex(&self) -> Zeroizing<String> {
        use fmt::Write;
        let mut text = String::with_capacity(2 * KEY_BYTES);
        for byte in self.0.iter() {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Zeroizing::new(text)
    }

    fn parse(bytes: &[u8], what: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::Malformed(what.to_owned());
        if bytes.len() == KEY_BYTES {
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            key.copy_from_slice(bytes);
            return Ok(Self(key));
        }
        let digits = bytes.trim_ascii();
        if digits.len() != 2 * KEY_BYTES {
            return Err(malformed());
        }
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(malformed);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        for (out, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *out = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(key))
    }

    fn seal(&self) -> io::Result<Seal> {
        Seal::of(&[(0, self.0.clone())])
    }
}

/// The unwrapped data keys of one database.
pub struct Keys {
    identity: [u8; 16],
    data: Vec<(u32, Key)>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keys({})", self.data.len())
    }
}

/// Whether the database in `folder` is encrypted.
pub fn is_encrypted(disk: &dyn Disk, folder: &Path) -> Result<bool, KeyError> {
    let path = folder.join(KEYS_FILE);
    disk.exists(&path)
        .map_err(|error| KeyError::Io("looking for", path, error))
}

/// The [`Seal`] of the database in `folder`, created before any other file is touched: plain if there is no
/// key file and no key is given. With `new` there is no database yet, and the folder, which must exist, gets
/// a key file.
pub fn open(
    disk: &dyn Disk,
    folder: &Path,
    master: Option<&MasterKey>,
    new: bool,
) -> Result<Seal, KeyError> {
    let keys = match (is_encrypted(disk, folder)?, master) {
        (false, None) => return Ok(Seal::plain()),
        _ if cfg!(not(feature = "encryption")) => {
            return Err(KeyError::Unsupported(folder.to_owned()));
        }
        (true, None) => return Err(KeyError::Missing(folder.to_owned())),
        (true, Some(master)) => Keys::load(disk, folder, master)?,
        (false, Some(_)) if !new => return Err(KeyError::NotEncrypted(folder.to_owned())),
        (false, Some(master)) => {
            let keys = Keys::generate()?;
            keys.store(disk, folder, master)?;
            keys
        }
    };
    keys.seal()
}

/// Wraps the data keys of the database in `folder`, which must not be open, with the master key `new`, and
/// adds a data key for subsequent writes.
pub fn rotate(
    disk: &dyn Disk,
    folder: &Path,
    old: &MasterKey,
    new: &MasterKey,
) -> Result<(), KeyError> {
    if !is_encrypted(disk, folder)? {
        return Err(KeyError::NotEncrypted(folder.to_owned()));
    }
    if cfg!(not(feature = "encryption")) {
        return Err(KeyError::Unsupported(folder.to_owned()));
    }
    let mut keys = Keys::load(disk, folder, old)?;
    keys.add()?;
    keys.store(disk, folder, new)
}

fn no_random(error: io::Error) -> KeyError {
    KeyError::Io("reading random bytes from", "the system".into(), error)
}

impl Keys {
    /// A new data key that is not stored yet.
    pub fn generate() -> Result<Self, KeyError> {
        let mut keys = Self {
            identity: random().map_err(no_random)?,
            data: Vec::new(),
        };
        keys.add()?;
        Ok(keys)
    }

    /// Adds a data key, which encrypts from now on.
    pub fn add(&mut self) -> Result<(), KeyError> {
        let number = self.data.last().map_or(1, |(last, _)| last + 1);
        let key = Zeroizing::new(random().map_err(no_random)?);
        self.data.push((number, key));
        Ok(())
    }

    /// Number of data keys.
    pub fn count(&self) -> usize {
        self.data.len()
    }

    /// The seal that encrypts with the newest data key and decrypts with all of them.
    pub fn seal(&self) -> Result<Seal, KeyError> {
        Seal::of(&self.data).map_err(no_random)
    }

    /// Reads the keys of the database in `folder`.
    pub fn load(disk: &dyn Disk, folder: &Path, master: &MasterKey) -> Result<Self, KeyError> {
        let path = folder.join(KEYS_FILE);
        let bytes = read_all(disk, &path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => KeyError::NotEncrypted(folder.to_owned()),
            _ => KeyError::Io("reading", path.clone(), error),
        })?;
        Self::parse(&bytes, &path, folder, master)
    }

    fn parse(
        bytes: &[u8],
        path: &Path,
        folder: &Path,
        master: &MasterKey,
    ) -> Result<Self, KeyError> {
        let damaged = |what| KeyError::Damaged(path.to_owned(), what);
        let number = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        if bytes.get(..8) != Some(MAGIC) {
            return Err(damaged("wrong magic number"));
        }
        let (content, sum) = bytes
            .split_at_checked(bytes.len() - 8)
            .filter(|(content, _)| content.len() >= HEAD_BYTES)
            .ok_or_else(|| damaged("it is too short"))?;
        if xxh3_64(content).to_le_bytes() != sum {
            return Err(damaged("its checksum does not match"));
        }
        match number(8) {
            Some(FORMAT) => {}
            other => return Err(KeyError::Format(path.to_owned(), other.unwrap_or(0))),
        }
        let count = number(12)
            .filter(|count| (1..=MAX_KEYS).contains(count))
            .ok_or_else(|| damaged("invalid number of keys"))?;
        let entries = &content[HEAD_BYTES..];
        if entries.len() != count as usize * ENTRY_BYTES {
            return Err(damaged("its length does not match its number of keys"));
        }
        let mut identity = [0; 16];
        identity.copy_from_slice(&content[16..HEAD_BYTES]);
        let seal = master.seal().map_err(no_random)?;
        let mut keys = Self {
            identity,
            data: Vec::new(),
        };
        for (entry, expected) in entries.chunks_exact(ENTRY_BYTES).zip(1..) {
            let (stated, wrapped) = entry.split_at(4);
            if stated != u32::to_le_bytes(expected) {
                return Err(damaged("its keys are out of order"));
            }
            let mut wrapped = wrapped.to_vec();
            seal.open(keys.place(expected), &mut wrapped, 0)
                .map_err(|_| KeyError::Wrong(folder.to_owned()))?;
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            key.copy_from_slice(&wrapped);
            wrapped.zeroize();
            keys.data.push((expected, key));
        }
        Ok(keys)
    }

    /// Writes the keys, wrapped by `master`, and replaces any key file in `folder`.
    pub fn store(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        master: &MasterKey,
    ) -> Result<(), KeyError> {
        let bytes = self.wrapped(&master.seal().map_err(no_random)?);
        let (new, path) = (folder.join(NEW_KEYS_FILE), folder.join(KEYS_FILE));
        let written = (|| {
            let file = disk.open(&new, OpenMode::Create)?;
            file.write_all_at(&bytes, 0)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_folder(folder)
        })();
        written.map_err(|error| KeyError::Io("writing", path, error))
    }

    fn wrapped(&self, seal: &Seal) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.identity);
        for (number, key) in &self.data {
            bytes.extend_from_slice(&number.to_le_bytes());
            let from = bytes.len();
            bytes.reserve(WRAPPED_BYTES);
            bytes.extend_from_slice(&**key);
            seal.seal(self.place(*number), &mut bytes, from);
        }
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn place(&self, number: u32) -> SealedPosition {
        SealedPosition {
            file: u128::from_le_bytes(self.identity),
            at: number.into(),
        }
    }
}

fn read_all(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let most = (HEAD_BYTES + MAX_KEYS as usize * ENTRY_BYTES + 8) as u64;
    let mut bytes = vec![0; file.len()?.min(most) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(all(test, feature = "encryption"))]
mod tests {
    use super::*;
    use crate::{Loss, SimDisk};

    const FOLDER: &str = "/db";
    const HERE: SealedPosition = SealedPosition { file: 1, at: 2 };

    fn disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.make_folder(Path::new(FOLDER)).unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        disk
    }

    fn opened(disk: &SimDisk, master: Option<&MasterKey>, new: bool) -> Result<Seal, KeyError> {
        open(disk, Path::new(FOLDER), master, new)
    }

    #[test]
    fn a_key_is_bytes_or_digits() {
        let key = MasterKey::generate().unwrap();
        let text = format!(" {}\n", *key.to_hex());
        assert_eq!(*MasterKey::from_bytes(text.as_bytes()).unwrap().0, *key.0);
        assert_eq!(*MasterKey::from_bytes(&*key.0).unwrap().0, *key.0);
        for bad in [&b""[..], b"secret", &[b'g'; 64], &[b'0'; 63], &[b'0'; 65]] {
            let error = MasterKey::from_bytes(bad).unwrap_err();
            assert!(error.to_string().contains("32 bytes"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(matches!(
            MasterKey::from_env("ISOMER_NO_SUCH_VARIABLE"),
            Err(KeyError::Malformed(_))
        ));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(matches!(MasterKey::from_file(&path), Err(KeyError::Io(..))));
        std::fs::write(&path, &text).unwrap();
        assert_eq!(*MasterKey::from_file(&path).unwrap().0, *key.0);
        #[cfg(unix)]
        assert!(matches!(
            MasterKey::from_file("/dev/zero"),
            Err(KeyError::Malformed(_))
        ));
        assert_eq!(format!("{key:?}"), "MasterKey(..)");
        assert_eq!(format!("{:?}", Keys::generate().unwrap()), "Keys(1)");
    }

    #[test]
    fn the_right_key_opens_and_any_other_is_rejected() {
        let disk = disk();
        let (right, wrong) = (
            MasterKey::generate().unwrap(),
            MasterKey::generate().unwrap(),
        );
        assert!(!opened(&disk, None, true).unwrap().encrypts());
        assert!(matches!(
            opened(&disk, Some(&right), false),
            Err(KeyError::NotEncrypted(_))
        ));
        let seal = opened(&disk, Some(&right), true).unwrap();
        let mut bytes = b"text".to_vec();
        seal.seal(HERE, &mut bytes, 0);
        for new in [false, true] {
            assert!(matches!(
                opened(&disk, None, new),
                Err(KeyError::Missing(_))
            ));
            assert!(matches!(
                opened(&disk, Some(&wrong), new),
                Err(KeyError::Wrong(_))
            ));
            let again = opened(&disk, Some(&right), new).unwrap();
            again.open(HERE, &mut bytes.clone(), 0).unwrap();
        }
    }

    #[test]
    fn a_rotated_key_opens_what_was_sealed_before() {
        let disk = disk();
        let keys: Vec<MasterKey> = (0..3).map(|_| MasterKey::generate().unwrap()).collect();
        let mut sealed = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if at > 0 {
                rotate(&disk, Path::new(FOLDER), &keys[at - 1], key).unwrap();
                assert!(matches!(
                    opened(&disk, Some(&keys[at - 1]), false),
                    Err(KeyError::Wrong(_))
                ));
            }
            let seal = opened(&disk, Some(key), true).unwrap();
            let mut bytes = vec![at as u8; 10];
            seal.seal(HERE, &mut bytes, 0);
            sealed.push(bytes);
            for (text, bytes) in sealed.iter().enumerate() {
                let mut bytes = bytes.clone();
                seal.open(HERE, &mut bytes, 0).unwrap();
                assert_eq!(bytes, [text as u8; 10]);
            }
        }
        let numbers: Vec<u8> = sealed.iter().map(|bytes| bytes[bytes.len() - 4]).collect();
        assert_eq!(numbers, [1, 2, 3], "a new data key each time");
    }

    /// Every kind of damage to the key file is reported before anything is encrypted or decrypted with it.
    #[test]
    fn a_damaged_file_of_keys_is_refused() {
        let disk = disk();
        let key = MasterKey::generate().unwrap();
        opened(&disk, Some(&key), true).unwrap();
        let path = Path::new(FOLDER).join(KEYS_FILE);
        let file = disk.open(&path, OpenMode::Write).unwrap();
        let len = file.len().unwrap();
        for bit in 0..len * 8 {
            disk.flip(&path, bit / 8, (bit % 8) as u8).unwrap();
            assert!(
                matches!(opened(&disk, Some(&key), false), Err(KeyError::Damaged(..))),
                "bit {bit}"
            );
            disk.flip(&path, bit / 8, (bit % 8) as u8).unwrap();
        }
        for cut in (0..len).rev() {
            file.set_len(cut).unwrap();
            assert!(matches!(
                opened(&disk, Some(&key), false),
                Err(KeyError::Damaged(..))
            ));
        }
    }

    /// At whatever point power is lost while keys are created or rotated, the old state or the new one
    /// remains.
    #[test]
    fn a_power_cut_leaves_the_old_keys_or_the_new_ones() {
        let disk = disk();
        let (old, new) = (
            MasterKey::generate().unwrap(),
            MasterKey::generate().unwrap(),
        );
        let recorder = disk.record();
        let seal = opened(&disk, Some(&old), true).unwrap();
        let made = disk.changes();
        rotate(&disk, Path::new(FOLDER), &old, &new).unwrap();
        let rotated = disk.changes();
        let recording = recorder.finish();
        let mut bytes = b"text".to_vec();
        seal.seal(HERE, &mut bytes, 0);
        let mut replay = recording.replay();
        for change in recording.first()..=recording.end() {
            replay.forward_to(change);
            for (loss, seed) in Loss::ALL
                .into_iter()
                .flat_map(|loss| (0..8).map(move |s| (loss, s)))
            {
                let disk = replay.after_power_loss(loss, seed);
                let with_old = opened(&disk, Some(&old), change < made);
                let found = match (&with_old, change) {
                    (Ok(_), _) if change < rotated => with_old,
                    (Err(KeyError::Wrong(_)), _) if change > made => {
                        opened(&disk, Some(&new), false)
                    }
                    _ => panic!("change {change}, {loss:?}: {with_old:?}"),
                };
                let seal = found.unwrap_or_else(|error| panic!("change {change}: {error}"));
                assert!(change < made || seal.open(HERE, &mut bytes.clone(), 0).is_ok());
            }
        }
    }
}
