//! The normal forms of Unicode, for `normalize()` and `IS NORMALIZED`. Without the feature `unicode` there is none.

/// A text grows by this factor at most when it is normalised (NFKD of U+FDFA: 3 bytes become 33).
pub(super) const LONGEST_NORMALISED: usize = 11;

#[cfg(feature = "unicode")]
pub(super) use present::NormalForm;

#[cfg(not(feature = "unicode"))]
pub(super) use absent::NormalForm;

#[cfg(feature = "unicode")]
mod present {
    use unicode_normalization::{UnicodeNormalization as _, is_nfc, is_nfd, is_nfkc, is_nfkd};

    use crate::error::Result;

    #[derive(Clone, Copy)]
    pub(in crate::function) enum NormalForm {
        Nfc,
        Nfd,
        Nfkc,
        Nfkd,
    }

    impl NormalForm {
        /// The form of this name, in any case; `None` if there is none.
        pub(in crate::function) fn named(name: &str) -> Result<Option<Self>> {
            Ok(match name.to_ascii_uppercase().as_str() {
                "NFC" => Some(Self::Nfc),
                "NFD" => Some(Self::Nfd),
                "NFKC" => Some(Self::Nfkc),
                "NFKD" => Some(Self::Nfkd),
                _ => None,
            })
        }

        /// Whether a text is in this form.
        pub(in crate::function) fn holds(self, text: &str) -> bool {
            match self {
                Self::Nfc => is_nfc(text),
                Self::Nfd => is_nfd(text),
                Self::Nfkc => is_nfkc(text),
                Self::Nfkd => is_nfkd(text),
            }
        }

        /// The text in this form.
        pub(in crate::function) fn normalised(self, text: &str) -> String {
            match self {
                Self::Nfc => text.nfc().collect(),
                Self::Nfd => text.nfd().collect(),
                Self::Nfkc => text.nfkc().collect(),
                Self::Nfkd => text.nfkd().collect(),
            }
        }
    }
}

#[cfg(not(feature = "unicode"))]
mod absent {
    use crate::error::{ExecError, Result};

    #[derive(Clone, Copy)]
    pub(in crate::function) enum NormalForm {}

    impl NormalForm {
        pub(in crate::function) fn named(_: &str) -> Result<Option<Self>> {
            Err(ExecError::Unsupported(
                "this build has no normal forms of Unicode: build it with the feature `unicode`"
                    .into(),
            ))
        }

        pub(in crate::function) fn holds(self, _: &str) -> bool {
            match self {}
        }

        pub(in crate::function) fn normalised(self, _: &str) -> String {
            match self {}
        }
    }
}
