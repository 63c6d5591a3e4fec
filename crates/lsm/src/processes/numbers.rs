//! The number of the newest manifest, as processes see it without reading the file.

use isomer_shared_log::{DirectoryLog, LogProcess};

/// Where the processes of a database publish the sequence of the newest manifest: shared memory.
pub trait ManifestNumbers: Send + Sync {
    /// The highest published number; 0 if none is known. Cheap.
    fn newest(&self) -> u64;
    /// Publishes a number. The manifest is durable.
    fn raise(&self, number: u64);
    /// Says, for people, that this process has applied the records before a position of the shared log.
    fn note_applied(&self, position: u64);
    /// The processes that have the shared log open for writing.
    fn processes(&self) -> Vec<LogProcess>;
}

impl ManifestNumbers for DirectoryLog {
    fn newest(&self) -> u64 {
        self.manifest_number()
    }

    fn raise(&self, number: u64) {
        // A process that only reads has nothing to publish.
        let _ = self.raise_manifest_number(number);
    }

    fn note_applied(&self, position: u64) {
        DirectoryLog::note_applied(self, position);
    }

    fn processes(&self) -> Vec<LogProcess> {
        DirectoryLog::processes(self)
    }
}
