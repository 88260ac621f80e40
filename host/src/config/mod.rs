//! The settings of a host: a file, with the defaults embedded in the binary beside this module.
//!
//! The file and the options in a component's descriptor are read by the same code, and everything wrong is reported at once, by name and
//! line. Nothing here opens a store, reads a component or looks at the environment.

mod document;
mod handler;
mod key;
mod problem;
mod sections;
mod written;

use std::collections::BTreeMap;
use std::path::Path;

pub use handler::{HandlerSettings, Overrides};
pub use problem::{Origin, Problem};
pub use sections::{DispatcherSettings, EngineSettings, LogFormat, LogSettings, PublishSettings, StoreSettings};

use crate::delivery::{MAX_NAME_BYTES, is_valid_name};
use crate::store::Retention;
use document::{Document, Entry, Table};
use key::{Key, Keys};

/// The configuration file with every key at its default: the reference, held to [`Config::default`] by a test.
pub const DEFAULT_TOML: &str = include_str!("relaybus.default.toml");

/// Where the configuration is looked for if none is named: in the current folder, and it may be missing.
pub const DEFAULT_PATH: &str = "relaybus.toml";

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub store: StoreSettings,
    pub dispatcher: DispatcherSettings,
    pub engine: EngineSettings,
    pub publish: PublishSettings,
    pub retention: Retention,
    pub log: LogSettings,
    /// For every handler that says nothing else.
    pub handler_defaults: HandlerSettings,
    /// By handler name; these have the last word.
    pub handlers: BTreeMap<String, Overrides>,
}

/// The keys of the sections other than `handlers`, as `section.key`.
pub fn keys() -> Vec<String> {
    fn of<T>(section: &str, keys: Keys<T>) -> impl Iterator<Item = String> {
        keys.iter().map(move |key| format!("{section}.{}", key.name))
    }
    of("store", sections::STORE)
        .chain(of("dispatcher", sections::DISPATCHER))
        .chain(of("engine", sections::ENGINE))
        .chain(of("publish", sections::PUBLISH))
        .chain(of("retention", sections::RETENTION))
        .chain(of("log", sections::LOG))
        .chain(of("handler_defaults", handler::KEYS))
        .collect()
}

const SECTIONS: &[&str] = &["store", "dispatcher", "engine", "publish", "retention", "log", "handler_defaults", "handlers"];

impl Config {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Every problem of the file, or the one that it cannot be read.
    pub fn load(path: &Path) -> Result<Self, Vec<Problem>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let origin = Origin::File { path: path.to_owned(), line: None };
            vec![Problem { origin, key: String::new(), message: format!("cannot be read: {error}") }]
        })?;
        Self::parse(&text, path)
    }

    /// Reads `text`, which came from the file at `path`. What it does not name has its default.
    ///
    /// # Errors
    /// Every problem of the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Vec<Problem>> {
        let mut config = Self::default();
        let (document, mut problems) = Document::parse(text, path);
        for table in &document.tables {
            let (name, entries) = (table.name.as_str(), &table.entries);
            match name {
                "store" => key::apply(sections::STORE, &mut config.store, name, entries, &mut problems),
                "dispatcher" => key::apply(sections::DISPATCHER, &mut config.dispatcher, name, entries, &mut problems),
                "engine" => key::apply(sections::ENGINE, &mut config.engine, name, entries, &mut problems),
                "publish" => key::apply(sections::PUBLISH, &mut config.publish, name, entries, &mut problems),
                "retention" => key::apply(sections::RETENTION, &mut config.retention, name, entries, &mut problems),
                "log" => key::apply(sections::LOG, &mut config.log, name, entries, &mut problems),
                "handler_defaults" => key::apply(handler::KEYS, &mut config.handler_defaults, name, entries, &mut problems),
                "handlers" => config.read_handlers(table, &mut problems),
                _ => problems.push(key::unknown("section", name, SECTIONS, table.origin.clone(), name)),
            }
            if name != "handlers" {
                problems.extend(table.tables.iter().map(|nested| nested.misplaced(name)));
            }
        }
        if problems.is_empty() {
            problems.extend(config.contradictions(&document));
        }
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    fn read_handlers(&mut self, handlers: &Table, problems: &mut Vec<Problem>) {
        problems.extend(handlers.entries.iter().map(|entry| Problem {
            origin: entry.origin.clone(),
            key: format!("handlers.{}", entry.key),
            message: format!("expected a table such as `[handlers.{}]`, got {}", entry.key, entry.value),
        }));
        for table in &handlers.tables {
            let name = format!("handlers.{}", table.name);
            if !is_valid_name(&table.name) {
                problems.push(Problem {
                    origin: table.origin.clone(),
                    key: name.clone(),
                    message: format!("expected a handler's name of 1 to {MAX_NAME_BYTES} characters of `A-Z a-z 0-9 _ -`"),
                });
            }
            problems.extend(table.tables.iter().map(|nested| nested.misplaced(&name)));
            let mut scratch = HandlerSettings::default();
            key::apply(handler::KEYS, &mut scratch, &name, &table.entries, problems);
            self.handlers.insert(table.name.clone(), Overrides::new(name, table.entries.clone()));
        }
    }

    /// Settings that are right by themselves and wrong together.
    fn contradictions(&self, document: &Document) -> Vec<Problem> {
        let mut problems = Vec::new();
        let (call_timeout, lease_duration) = (self.store.call_timeout, self.dispatcher.lease_duration);
        if call_timeout >= lease_duration / 3 {
            problems.push(document.problem(
                &["store.call_timeout", "dispatcher.lease_duration"],
                format!(
                    "expected less than a third of `dispatcher.lease_duration` ({}), so that one hanging call cannot cost a lease, got {}",
                    humantime::format_duration(lease_duration),
                    humantime::format_duration(call_timeout),
                ),
            ));
        }
        if let Some(message) = self.handler_defaults.contradictions() {
            problems.push(document.problem(&["handler_defaults.retry_max_delay", "handler_defaults.retry_initial_delay"], message));
        }
        problems
    }
}
