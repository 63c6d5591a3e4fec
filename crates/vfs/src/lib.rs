//! Virtual file system below the storage engines: two small traits, so that tests can simulate every fault of
//! a disk.
//!
//! [`Disk`] is a file system, [`DiskFile`] an open file: positional reads and writes, lengths, syncs of files
//! *and* of folders, renames, links, locks. A [`FileMapping`] is a part of a file in memory, which is written to
//! without a system call. [`RealDisk`] is the operating system's. [`SimDisk`] is an in-memory disk that loses power at
//! any call and then drops, tears or keeps unsynced writes, deterministically by seed. [`FaultyDisk`] injects errors
//! into calls on either of them. [`Seal`] encrypts what is written to any of them, with keys that the database keeps
//! wrapped in a file ([`keys`]). [`Time`] is the clock used for pacing and timeouts. [`SharedPage`] and [`LockFile`]
//! are what several processes on one machine agree by. [`process`] has the limits and times of the process, [`net`] how
//! several servers listen on one address; together with [`RealDisk`] they hold all code that differs between operating
//! systems.
//!
//! Guarantees of every disk:
//! - bytes written before a successful sync survive a loss of power;
//! - a file's name survives a loss of power once its folder was synced; until then the old name may come
//!   back;
//! - a failed call may have taken effect: the caller must not rely on either outcome;
//! - everything else may survive or not, also in part.

#[cfg_attr(not(feature = "encryption"), path = "plain.rs")]
mod cipher;
mod disk;
mod faulty;
pub mod keys;
mod lock;
pub mod net;
mod platform;
pub mod process;
mod real;
mod seal;
mod shared_page;
mod sim;
mod time;

pub use disk::{Call, Disk, DiskFile, FileMapping, FileType, OpenMode, sync_above};
pub use faulty::{FaultHook, FaultyDisk};
pub use lock::{Lock, LockError, LockFile, LockMode, Upgrade};
pub use platform::{private_file, private_folder, remote_file_system, stored_bytes, sync_folder};
pub use real::RealDisk;
pub use seal::{Seal, SealedPosition, Unsealed};
pub use shared_page::{BELLS, Bell, Heard, SharedPage};
pub use sim::{Loss, Recorder, Recording, Replay, SimDisk};
pub use time::{BootTime, RealTime, SimTime, Time};
