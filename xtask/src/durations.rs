//! Durations of the tasks of earlier runs: the longest task starts first.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};

/// Durations in seconds by task, kept in the build folder. Losing them costs time only: estimates take their place.
pub struct Durations {
    path: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Durations {
    /// Reads `path`, if it exists.
    pub fn load(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
        let pairs = parsed.as_object().into_iter().flatten();
        let seconds = pairs.filter_map(|(name, seconds)| Some((name.clone(), seconds.as_f64()?)));
        Self {
            path,
            seconds: seconds.collect(),
        }
    }

    /// The last duration of a task, in seconds.
    pub fn get(&self, task: &str) -> Option<f64> {
        self.seconds.get(task).copied()
    }

    /// The last duration of a test program, in seconds: of one task or, if it was split, the sum over the tasks of its
    /// portions.
    pub fn of_program(&self, program: &str) -> Option<f64> {
        let prefix = format!("{program} ");
        let portions = self.seconds.range(prefix.clone()..);
        let portions = portions.take_while(|(name, _)| name.starts_with(&prefix));
        let split: f64 = portions.map(|(_, seconds)| seconds).sum();
        match self.get(program) {
            Some(whole) => Some(whole.max(split)),
            None => (split > 0.0).then_some(split),
        }
    }

    /// Records the duration of a task.
    pub fn set(&mut self, task: &str, time: Duration) {
        self.seconds.insert(task.to_owned(), time.as_secs_f64());
    }

    /// Writes the file, best effort.
    pub fn save(&self) {
        fs::write(&self.path, format!("{:#}\n", json!(self.seconds))).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_as_long_as_its_portions() {
        let mut durations = Durations::load(PathBuf::new());
        for (name, seconds) in [("unit lsm log", 3), ("unit lsm chain", 4), ("unit lsm2", 9)] {
            durations.set(name, Duration::from_secs(seconds));
        }
        assert_eq!(durations.of_program("unit lsm"), Some(7.0));
        assert_eq!(durations.of_program("unit lsm2"), Some(9.0));
        assert_eq!(durations.of_program("unit data"), None);
    }
}
