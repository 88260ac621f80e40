//! A value as somebody wrote it, and its reading as a duration, a size, a number or a word.
//!
//! The errors are the second half of a problem's message: what was expected, and what is there.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;

/// A value before it is read. Descriptors hold texts only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Text(String),
    /// A number, a truth value or a date, in its own notation.
    Bare(String),
    /// An array or a table.
    Compound(&'static str),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bare(text) => f.write_str(text),
            Self::Compound(kind) => write!(f, "an {kind}"),
        }
    }
}

type Reading<T> = Result<T, String>;

impl Written {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text.trim()),
            Self::Compound(_) => None,
        }
    }

    fn expected<T>(&self, what: impl fmt::Display) -> Reading<T> {
        Err(format!("expected {what}, got {self}"))
    }

    /// A duration such as `"250ms"` or `"1h 30m"`.
    pub(super) fn duration(&self, range: RangeInclusive<Duration>, example: &str) -> Reading<Duration> {
        let (least, most) = (*range.start(), *range.end());
        match self.text().and_then(|text| humantime::parse_duration(text).ok()) {
            Some(duration) if range.contains(&duration) => Ok(duration),
            Some(duration) if duration > most => {
                self.expected(format_args!("a duration of at most {} such as {example:?}", humantime::format_duration(most)))
            }
            _ if least.is_zero() => self.expected(format_args!("a duration such as {example:?}")),
            _ => self.expected(format_args!("a duration of at least {} such as {example:?}", humantime::format_duration(least))),
        }
    }

    /// A size such as `"128MiB"`, in bytes.
    pub(super) fn size(&self, range: RangeInclusive<u64>, example: &str) -> Reading<u64> {
        let (least, most) = (ByteSize(*range.start()), ByteSize(*range.end()));
        match self.text().and_then(|text| ByteSize::from_str(text).ok()) {
            Some(size) if range.contains(&size.as_u64()) => Ok(size.as_u64()),
            Some(size) if size > most => self.expected(format_args!("a size of at most {most} such as {example:?}")),
            _ if least.as_u64() == 0 => self.expected(format_args!("a size such as {example:?}")),
            _ => self.expected(format_args!("a size of at least {least} such as {example:?}")),
        }
    }

    /// A whole number.
    pub(super) fn count(&self, range: RangeInclusive<u32>) -> Reading<u32> {
        match self.text().and_then(|text| text.parse().ok()) {
            Some(count) if range.contains(&count) => Ok(count),
            _ => self.expected(format_args!("a whole number from {} to {}", range.start(), range.end())),
        }
    }

    /// A number with a fraction.
    pub(super) fn ratio(&self, range: RangeInclusive<f64>) -> Reading<f64> {
        match self.text().and_then(|text| text.parse().ok()) {
            Some(ratio) if range.contains(&ratio) => Ok(ratio),
            _ => self.expected(format_args!("a number from {:?} to {:?}", range.start(), range.end())),
        }
    }

    /// A text that `read` accepts; `what` says which those are.
    pub(super) fn word<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
        let Self::Text(text) = self else { return self.expected(what) };
        match read(text) {
            Some(value) => Ok(value),
            None => self.expected(what),
        }
    }
}
