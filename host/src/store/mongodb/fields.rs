//! From fields of a document to values, each problem naming its field (R23).
//!
//! Nothing here knows which documents there are.

use bson::{Bson, Document};
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What is wrong with a field of a document; it is named.
pub(super) type Problem = String;

pub(super) fn uuid(document: &Document, name: &str) -> Result<Uuid, Problem> {
    optional_uuid(document, name)?.ok_or_else(|| format!("{name}: expected a UUID, got nothing"))
}

pub(super) fn optional_uuid(document: &Document, name: &str) -> Result<Option<Uuid>, Problem> {
    let read = |value: &Bson| if let Bson::Binary(binary) = value { binary.to_uuid().ok().map(Uuid::from) } else { None };
    optional(document, name, "a UUID", read)
}

pub(super) fn text(document: &Document, name: &str) -> Result<String, Problem> {
    optional_text(document, name)?.ok_or_else(|| format!("{name}: expected a text, got nothing"))
}

pub(super) fn optional_text(document: &Document, name: &str) -> Result<Option<String>, Problem> {
    optional(document, name, "a text", |value| value.as_str().map(str::to_owned))
}

/// Whole numbers of any type: shells and some drivers write doubles.
pub(super) fn integer(document: &Document, name: &str) -> Result<i64, Problem> {
    optional_integer(document, name)?.ok_or_else(|| format!("{name}: expected a whole number, got nothing"))
}

pub(super) fn optional_integer(document: &Document, name: &str) -> Result<Option<i64>, Problem> {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within an i64's exact range")]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    let read = |value: &Bson| value.as_i64().or_else(|| value.as_i32().map(i64::from)).or_else(|| value.as_f64().and_then(whole));
    optional(document, name, "a whole number", read)
}

pub(super) fn count(document: &Document, name: &str) -> Result<u32, Problem> {
    let number = integer(document, name)?;
    u32::try_from(number).map_err(|_| format!("{name}: expected a count, got `{number}`"))
}

pub(super) fn instant(document: &Document, name: &str) -> Result<DateTime<Utc>, Problem> {
    optional_instant(document, name)?.ok_or_else(|| format!("{name}: expected a date, got nothing"))
}

pub(super) fn optional_instant(document: &Document, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
    optional(document, name, "a date", |value| value.as_datetime().map(|date| date.to_chrono()))
}

/// Absent and null are the same.
fn optional<T>(document: &Document, name: &str, expected: &str, read: impl Fn(&Bson) -> Option<T>) -> Result<Option<T>, Problem> {
    match document.get(name) {
        None | Some(Bson::Null) => Ok(None),
        Some(value) => {
            let cut: String = value.to_string().chars().take(80).collect();
            read(value).map(Some).ok_or_else(|| format!("{name}: expected {expected}, got `{cut}`"))
        }
    }
}
