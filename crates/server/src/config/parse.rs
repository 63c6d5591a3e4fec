//! Parses the texts of settings.

use std::{path::PathBuf, time::Duration};

use isomer_db::Sharing;

use super::{AuditLevel, ConfigError, ListenAddress, LogFormat, Network};

/// A type of setting.
pub(super) trait FromText: Sized {
    /// Expected form, for messages.
    const EXPECTED: &'static str;
    /// Parses a text; `None` if it is invalid.
    fn from_text(text: &str) -> Option<Self>;
}

pub(super) fn parse<T: FromText>(key: &str, text: &str) -> Result<T, ConfigError> {
    T::from_text(text.trim()).ok_or_else(|| {
        ConfigError(format!(
            "invalid `{key}` `{text}`: expected {}",
            T::EXPECTED
        ))
    })
}

impl FromText for bool {
    const EXPECTED: &'static str = "true or false";
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromText for u32 {
    const EXPECTED: &'static str = "a number";
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A number, at least 1.
impl FromText for Count {
    const EXPECTED: &'static str = "a number of 1 or more";
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|count| *count > 0).map(Self)
    }
}

pub(super) struct Count(pub usize);

/// A ratio from 0 to 1.
pub(super) struct Ratio(pub f64);

impl FromText for Ratio {
    const EXPECTED: &'static str = "a number from 0 to 1";
    fn from_text(text: &str) -> Option<Self> {
        let ratio = text.parse().ok()?;
        (0.0..=1.0).contains(&ratio).then_some(Self(ratio))
    }
}

/// A size in bytes.
pub(super) struct Size(pub u64);

impl FromText for Size {
    const EXPECTED: &'static str = "a size such as 512KiB, 16MiB or a number of bytes";
    fn from_text(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let unit: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            _ => return None,
        };
        number
            .checked_mul(unit)
            .filter(|bytes| (1..1 << 52).contains(bytes))
            .map(Self)
    }
}

impl FromText for Duration {
    const EXPECTED: &'static str = "a time such as 500ms, 30s, 5min or 12h";
    fn from_text(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let unit_ms: u64 = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "s" => 1_000,
            "min" | "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let ms = number.checked_mul(unit_ms)?;
        (1..1 << 48).contains(&ms).then(|| Self::from_millis(ms))
    }
}

/// A whole number and its unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim()))
}

impl FromText for ListenAddress {
    const EXPECTED: &'static str = "an address and a port, or several ports, such as 127.0.0.1:4766, [::1]:4766 or 127.0.0.1:4766-4769,";
    fn from_text(text: &str) -> Option<Self> {
        Self::of(text)
    }
}

/// `None` for an empty text.
impl FromText for Option<ListenAddress> {
    const EXPECTED: &'static str = ListenAddress::EXPECTED;
    fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        ListenAddress::of(text).map(Some)
    }
}

/// `None` for an empty text.
impl FromText for Option<String> {
    const EXPECTED: &'static str = "a name";
    fn from_text(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_owned()))
    }
}

/// `None` for an empty text.
impl FromText for Option<PathBuf> {
    const EXPECTED: &'static str = "a path";
    fn from_text(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| PathBuf::from(text)))
    }
}

impl FromText for Vec<String> {
    const EXPECTED: &'static str = "comma-separated names";
    fn from_text(text: &str) -> Option<Self> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Some(names.map(str::to_ascii_lowercase).collect())
    }
}

impl FromText for Vec<Network> {
    const EXPECTED: &'static str = "comma-separated addresses or networks such as 10.0.0.0/8";
    fn from_text(text: &str) -> Option<Self> {
        let all = text.split(',').map(str::trim);
        all.filter(|one| !one.is_empty()).map(Network::of).collect()
    }
}

/// As the database is stored for an empty text.
impl FromText for Sharing {
    const EXPECTED: &'static str = "shared or exclusive";
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::AsStored,
            "shared" => Self::Shared,
            "exclusive" => Self::Exclusive,
            _ => return None,
        })
    }
}

impl FromText for AuditLevel {
    const EXPECTED: &'static str = "off, changes or all";
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "changes" => Self::Changes,
            "all" => Self::All,
            _ => return None,
        })
    }
}

impl FromText for LogFormat {
    const EXPECTED: &'static str = "text or json";
    fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "text" => Self::Text,
            "json" => Self::Json,
            _ => return None,
        })
    }
}

impl FromText for tracing::Level {
    const EXPECTED: &'static str = "error, warn, info, debug or trace";
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}
