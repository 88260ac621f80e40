//! A section's keys as a table: the name of each, and how its value is read. The only place that sets anything.

use super::written::Written;
use super::{Entry, Origin, Problem};

/// One key of a section `T`.
pub(super) struct Key<T> {
    pub(super) name: &'static str,
    /// Reads the value into its field, or says what was expected.
    pub(super) set: fn(&mut T, &Written) -> Result<(), String>,
}

/// All keys of a section.
pub(super) type Keys<T> = &'static [Key<T>];

/// Sets what `entries` name, and notes what is wrong with them.
pub(super) fn apply<T>(keys: Keys<T>, target: &mut T, section: &str, entries: &[Entry], problems: &mut Vec<Problem>) {
    for entry in entries {
        let key = if section.is_empty() { entry.key.clone() } else { format!("{section}.{}", entry.key) };
        match keys.iter().find(|key| key.name == entry.key) {
            Some(known) => {
                if let Err(message) = (known.set)(target, &entry.value) {
                    problems.push(Problem { origin: entry.origin.clone(), key, message });
                }
            }
            None => {
                let names: Vec<_> = keys.iter().map(|key| key.name).collect();
                problems.push(unknown("key", &entry.key, &names, entry.origin.clone(), &key));
            }
        }
    }
}

/// The problem that nothing has the name `name`, with the nearest name that something has.
pub(super) fn unknown(what: &str, name: &str, known: &[&str], origin: Origin, key: &str) -> Problem {
    let nearest = known.iter().max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    let hint = nearest.map(|nearest| format!("; the nearest is `{nearest}`")).unwrap_or_default();
    Problem { origin, key: key.to_owned(), message: format!("unknown {what}{hint}") }
}
