//! From files and folders to handlers that could be served, with every problem on the way.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::stream::{self, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};

use super::output::count;
use crate::config::{Config, HandlerSettings};
use crate::delivery::{MAX_NAME_BYTES, is_valid_name};
use crate::dispatch::Served;
use crate::engine::{Component, Engine};
use crate::topic::TopicPattern;

/// What was found: the good ones, and everything wrong with the others.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) handlers: Vec<Served>,
    /// Each with the file that it is about.
    pub(super) problems: Vec<String>,
}

/// Loads all components that `paths` name, files or folders, as many at a time as there are cores.
pub(super) async fn load(engine: &Engine, paths: &[PathBuf], tenant: &str, config: &Config) -> Loaded {
    let (files, problems) = find(paths);
    let mut loaded = Loaded { handlers: Vec::new(), problems };
    let n_threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let progress = progress(files.len());
    let mut loading = stream::iter(files).map(|path| load_one(engine.clone(), path, progress.clone())).buffered(n_threads);
    let mut files_by_name = BTreeMap::new();
    while let Some((path, result)) = loading.next().await {
        let in_file = |problem: String| format!("{}: {problem}", path.display());
        match result.and_then(|component| serve(component, tenant, config)) {
            Ok(served) => match files_by_name.insert(served.name.clone(), path.clone()) {
                None => loaded.handlers.push(served),
                Some(other) => {
                    loaded.problems.push(in_file(format!(
                        "expected a handler's name of its own, got `{}` as in {}",
                        served.name,
                        other.display()
                    )));
                }
            },
            Err(problems) => loaded.problems.extend(problems.into_iter().map(in_file)),
        }
    }
    progress.finish_and_clear();
    loaded
}

/// The handler that `component` says it is.
///
/// # Errors
/// Everything that is wrong with its descriptor.
pub(super) fn serve(component: Component, tenant: &str, config: &Config) -> Result<Served, Vec<String>> {
    let descriptor = component.descriptor();
    let (name, mut topics, mut problems) = (descriptor.name.clone(), Vec::new(), Vec::new());
    if !is_valid_name(&name) {
        problems.push(format!("expected a name of 1 to {MAX_NAME_BYTES} characters of `A-Z a-z 0-9 _ -`"));
    }
    if descriptor.topics.is_empty() {
        problems.push("expected at least one topic pattern such as `order.created`, got none".to_owned());
    }
    for topic in &descriptor.topics {
        match topic.parse::<TopicPattern>() {
            Ok(pattern) => topics.push(pattern),
            Err(error) => problems.push(format!("topic `{topic}`: {error}")),
        }
    }
    match HandlerSettings::resolve(&config.handler_defaults, &descriptor.options, config.handlers.get(&name)) {
        Ok(settings) if problems.is_empty() => return Ok(Served::new(tenant.to_owned(), name, component, topics, settings)),
        Ok(_) => {}
        Err(wrong) => problems.extend(wrong.iter().map(ToString::to_string)),
    }
    Err(problems.iter().map(|problem| format!("handler `{name}`: {problem}")).collect())
}

async fn load_one(engine: Engine, path: PathBuf, progress: ProgressBar) -> (PathBuf, Result<Component, Vec<String>>) {
    let started_at = Instant::now();
    let result = engine.load(&path).await.map_err(|error| error.problems.iter().map(ToString::to_string).collect::<Vec<_>>());
    let outcome = match &result {
        Ok(component) => format!("handler `{}`", component.descriptor().name),
        Err(problems) => count(problems.len() as u64, "problem", "problems"),
    };
    progress.inc(1);
    if std::io::stderr().is_terminal() {
        progress.set_message(path.display().to_string());
    } else if progress.length() > Some(1) {
        eprintln!("loaded {}: {outcome} ({} ms)", path.display(), started_at.elapsed().as_millis());
    }
    (path, result)
}

/// The files that `paths` name, folders by their `.wasm` files, each file once; and what cannot be found.
pub(super) fn find(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        match components_in(path) {
            Ok(found) if found.is_empty() => problems.push(format!("{}: expected `.wasm` files, got none", path.display())),
            Ok(found) => files.extend(found),
            Err(error) => problems.push(format!("{}: cannot be read: {error}", path.display())),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    (files, problems)
}

fn components_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn progress(n_files: usize) -> ProgressBar {
    let bar = ProgressBar::new(n_files as u64);
    match ProgressStyle::with_template("loading {wide_bar} {pos}/{len} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
