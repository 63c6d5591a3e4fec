//! The number of the newest manifest, as processes see it without reading the file.

/// Where the processes of a database publish the sequence of the newest manifest: shared memory.
pub trait ManifestNumbers: Send + Sync {
    /// The highest published number; 0 if none is known. Cheap.
    fn newest(&self) -> u64;
    /// Publishes a number. The manifest is durable.
    fn raise(&self, number: u64);
}
