//! The regular expressions of the operator `=~`. Without the feature `regex`, no pattern compiles.

#[cfg(feature = "regex")]
pub(crate) use regex::{Regex, RegexBuilder};

#[cfg(not(feature = "regex"))]
pub(crate) use absent::{Regex, RegexBuilder};

#[cfg(not(feature = "regex"))]
mod absent {
    use std::fmt;

    pub(crate) enum Regex {}

    impl Regex {
        pub(crate) fn is_match(&self, _: &str) -> bool {
            match *self {}
        }
    }

    pub(crate) struct RegexBuilder;

    impl RegexBuilder {
        pub(crate) fn new(_: &str) -> Self {
            Self
        }

        pub(crate) fn size_limit(&mut self, _: usize) -> &mut Self {
            self
        }

        pub(crate) fn build(&self) -> Result<Regex, Absent> {
            Err(Absent)
        }
    }

    pub(crate) struct Absent;

    impl fmt::Display for Absent {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("this build has no regular expressions: build it with the feature `regex`")
        }
    }
}
