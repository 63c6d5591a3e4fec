//! Formatting of numbers and times for display.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun: `1 node`, `2 nodes`.
pub fn counted(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o']) => {
            format!("{} {stem}ies", count(number))
        }
        _ => format!("{} {noun}s", count(number)),
    }
}

/// The rate per second, rounded to three digits.
pub fn rate(number: u64, time: Duration) -> String {
    let rate = number as f64 / time.as_secs_f64().max(1e-9);
    let unit = 10f64.powf((rate.max(1.0).log10().floor() - 2.0).max(0.0));
    count(((rate / unit).round() * unit) as u64)
}

/// `12 µs`, `3.4 ms`, `1.20 s`, `2 min 5 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 0.01 => format!("{:.2} ms", s * 1e3),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

/// `1536` as `1.5 KiB`.
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{number} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Whether standard output is a terminal that takes colours.
pub fn colours() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Text styles, empty where standard output takes no colours.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    on: bool,
}

impl Style {
    /// The styles that standard output takes.
    pub fn stdout() -> Self {
        Self { on: colours() }
    }

    /// Bold text.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Dimmed text.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.wrap("1;36", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Writes a line to standard output. The caller handles a closed pipe (`| head`) separately from other errors.
pub fn line(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "node"), "1 node");
        assert_eq!(counted(2, "property"), "2 properties");
        assert_eq!(counted(2, "key"), "2 keys");
        assert_eq!(rate(123_456, Duration::from_secs(1)), "123,000");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(12), "12 B");
        assert_eq!(duration(Duration::from_micros(12)), "12 µs");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
    }
}
