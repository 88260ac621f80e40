//! A configuration file as tables of written values, each with its line. Knows TOML, and no key of ours.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::written::Written;
use super::{Origin, Problem};

/// One `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Written,
    pub(super) origin: Origin,
}

/// One `[name]` with what is below it.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) entries: Vec<Entry>,
    pub(super) tables: Vec<Table>,
}

/// A whole file.
pub(super) struct Document {
    pub(super) tables: Vec<Table>,
    file: Origin,
}

impl Document {
    /// Reads as much of `text` as can be read, and notes everything else.
    pub(super) fn parse(text: &str, path: &Path) -> (Self, Vec<Problem>) {
        let at = |offset: usize| {
            let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
            Origin::File { path: path.to_owned(), line: Some(line) }
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut problems: Vec<_> = errors
            .iter()
            .map(|error| Problem {
                origin: at(error.span().map_or(0, |span| span.start)),
                key: String::new(),
                message: error.message().replace('\n', "; "),
            })
            .collect();
        let Table { entries, tables, .. } = read_table(String::new(), at(0), root.get_ref(), &at);
        problems.extend(entries.into_iter().map(|entry| Problem {
            message: format!("expected a section such as `[dispatcher]` before any value, got {}", entry.value),
            origin: entry.origin,
            key: entry.key,
        }));
        (Self { tables, file: Origin::File { path: path.to_owned(), line: None } }, problems)
    }

    /// A problem of the first of `keys`, at the line of the first one that the file sets.
    pub(super) fn problem(&self, keys: &[&str], message: String) -> Problem {
        let entry = |path: &&str| {
            let (section, key) = path.split_once('.')?;
            self.tables.iter().find(|table| table.name == section)?.entries.iter().find(|entry| entry.key == key)
        };
        let origin = keys.iter().find_map(entry).map_or(&self.file, |entry| &entry.origin);
        Problem { origin: origin.clone(), key: keys.first().map(ToString::to_string).unwrap_or_default(), message }
    }
}

impl Table {
    /// The problem that this table lies in a section that has none.
    pub(super) fn misplaced(&self, section: &str) -> Problem {
        Problem {
            origin: self.origin.clone(),
            key: format!("{section}.{}", self.name),
            message: format!("expected no table inside `{section}`"),
        }
    }
}

fn read_table(name: String, origin: Origin, source: &DeTable<'_>, at: &impl Fn(usize) -> Origin) -> Table {
    let mut table = Table { name, origin, entries: Vec::new(), tables: Vec::new() };
    let mut pairs: Vec<_> = source.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in pairs {
        let (name, origin) = (key.get_ref().to_string(), at(key.span().start));
        match value.get_ref().as_table() {
            Some(nested) => table.tables.push(read_table(name, origin, nested, at)),
            None => table.entries.push(Entry { key: name, value: read_value(value), origin }),
        }
    }
    table
}

fn read_value(value: &Spanned<DeValue<'_>>) -> Written {
    match value.get_ref() {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(number) => {
            let decimal = i128::from_str_radix(number.as_str(), number.radix());
            Written::Bare(decimal.map_or_else(|_| number.as_str().to_owned(), |decimal| decimal.to_string()))
        }
        DeValue::Float(number) => Written::Bare(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Written::Bare(truth.to_string()),
        DeValue::Datetime(datetime) => Written::Bare(datetime.to_string()),
        DeValue::Array(_) => Written::Compound("array"),
        DeValue::Table(_) => Written::Compound("inline table"),
    }
}
