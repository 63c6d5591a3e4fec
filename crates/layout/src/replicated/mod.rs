//! What names records in all replicas, and building blocks of the encodings of replication.

pub mod codec;
pub mod identity;
