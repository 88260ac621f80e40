//! What is offered to components, and what a component must bring: compared before anything is instantiated.

use std::collections::BTreeSet;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker};

use super::imports::{DescribeIndices, EventHandler, HandlerIndices};
use super::instance::RunState;
use super::options::{MAX_MEMORIES, MAX_TABLES};
use super::problem::Problem;

/// Our own interfaces that a component may import.
const OFFERED: &[&str] = &["context", "log", "publisher", "types"];
/// WASI 0.2 packages that are served: clocks and random numbers for real; files, environment and sockets are there and empty.
const OFFERED_WASI: &[&str] = &["cli", "clocks", "filesystem", "io", "random", "sockets"];
const PACKAGE: &str = "relaybus:handler";
const VERSION: &str = "0.1.0";

pub(super) fn linker(wasm: &wasmtime::Engine) -> wasmtime::Result<Linker<RunState>> {
    let mut linker = Linker::new(wasm);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    EventHandler::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Everything about the component's imports, exports and size that keeps it from running here.
pub(super) fn problems(wasm: &wasmtime::Engine, component: &Component) -> Vec<Problem> {
    let mut problems: Vec<Problem> = imports(wasm, component).iter().filter_map(|name| unknown_import(name)).collect();
    let exports = exports(wasm, component);
    for (interface, what) in [("describe", "says what the handler is called and subscribes to"), ("handler", "handles deliveries")] {
        if component.get_export_index(None, format!("{PACKAGE}/{interface}@{VERSION}")).is_none() {
            problems.push(missing_export(interface, what, &exports));
        }
    }
    if let Some(needs) = component.resources_required() {
        for (what, needed, limit) in [("memories", needs.num_memories, MAX_MEMORIES), ("tables", needs.num_tables, MAX_TABLES)] {
            if needed > limit {
                problems.push(Problem::new(format!("expected a component of at most {limit} {what}, got {needed}")));
            }
        }
    }
    problems
}

/// Every import and export that has a known name and another type than ours.
///
/// wasmtime names only the first. So each function that is imported of us is checked while all others are of any type.
pub(super) fn type_problems(wasm: &wasmtime::Engine, linker: &Linker<RunState>, component: &Component) -> Vec<Problem> {
    let functions = imported_functions(wasm, component);
    let mut found = BTreeSet::new();
    for checked in &functions {
        let fits = with_any_type(linker, functions.iter().filter(|function| *function != checked))
            .and_then(|linker| linker.instantiate_pre(component).map(drop));
        found.extend(fits.err().map(|error| format!("{error:#}")));
    }
    match with_any_type(linker, functions.iter()).and_then(|linker| linker.instantiate_pre(component)) {
        Ok(pre) => {
            let exports = [DescribeIndices::new(&pre).map(drop), HandlerIndices::new(&pre).map(drop)];
            found.extend(exports.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")));
        }
        Err(error) => found.extend([format!("{error:#}")]),
    }
    let problem = |text| {
        Problem::new(format!("does not fit the contract: {text}")).with_hint(format!("rebuild it with an SDK for {PACKAGE}@{VERSION}"))
    };
    found.into_iter().map(problem).collect()
}

/// The functions that the component imports of us, by interface (in our version: the linker finds it for any of the same track) and name.
fn imported_functions(wasm: &wasmtime::Engine, component: &Component) -> Vec<(String, String)> {
    let ty = component.component_type();
    let mut functions = Vec::new();
    for (name, item) in ty.imports(wasm) {
        let interface = name.strip_prefix(PACKAGE).and_then(|rest| rest.split('@').next());
        if let (Some(interface), ComponentItem::ComponentInstance(instance)) = (interface, item.ty) {
            let of_interface = instance.exports(wasm).filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
            functions.extend(of_interface.map(|(name, _)| (format!("{PACKAGE}{interface}@{VERSION}"), name.to_owned())));
        }
    }
    functions
}

/// A linker in which `functions` have whatever type is asked for. Nothing is ever run with it.
fn with_any_type<'a>(
    linker: &Linker<RunState>,
    functions: impl Iterator<Item = &'a (String, String)>,
) -> wasmtime::Result<Linker<RunState>> {
    let mut linker = linker.clone();
    linker.allow_shadowing(true);
    for (interface, name) in functions {
        linker.instance(interface)?.func_new(name, |_, _, _, _| Err(wasmtime::Error::msg("only its type is checked")))?;
    }
    Ok(linker)
}

/// Names of what the component imports.
pub(super) fn imports(wasm: &wasmtime::Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    ty.imports(wasm).map(|(name, _)| name.to_owned()).collect()
}

/// Names of what the component exports.
pub(super) fn exports(wasm: &wasmtime::Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    ty.exports(wasm).filter(|(_, item)| !matches!(item.ty, ComponentItem::Type(_))).map(|(name, _)| name.to_owned()).collect()
}

fn unknown_import(name: &str) -> Option<Problem> {
    let (path, version) = name.split_once('@').unwrap_or((name, ""));
    let (package, interface) = path.split_once('/').unwrap_or((path, ""));
    if package == PACKAGE {
        return match (OFFERED.contains(&interface), version.starts_with("0.1.")) {
            (true, true) => None,
            (true, false) => Some(
                Problem::new(format!("imports `{name}`, this host offers version {VERSION}"))
                    .with_hint(format!("rebuild it with an SDK for {PACKAGE}@{VERSION}")),
            ),
            (false, _) => Some(Problem::new(format!("imports `{name}`, which this host does not offer; it offers {}", OFFERED.join(", ")))),
        };
    }
    match package.strip_prefix("wasi:") {
        Some(wasi) if OFFERED_WASI.contains(&wasi) && version.starts_with("0.2.") => None,
        Some(wasi) if OFFERED_WASI.contains(&wasi) => {
            Some(Problem::new(format!("imports `{name}`, this host offers WASI 0.2")).with_hint("build it for the target `wasm32-wasip2`"))
        }
        Some(_) => Some(
            Problem::new(format!("imports `{name}`, which no handler is granted"))
                .with_hint(format!("of WASI a handler may use {}", OFFERED_WASI.join(", "))),
        ),
        None => Some(
            Problem::new(format!("imports `{name}`, which is not known here"))
                .with_hint("compose it with the component that exports this, or remove the import"),
        ),
    }
}

fn missing_export(interface: &str, what: &str, exports: &[String]) -> Problem {
    let wanted = format!("{PACKAGE}/{interface}");
    let other_version = exports.iter().find(|name| name.split('@').next() == Some(wanted.as_str()));
    match other_version {
        Some(found) => Problem::new(format!("exports `{found}`, this host calls `{wanted}@{VERSION}`"))
            .with_hint(format!("rebuild it with an SDK for {PACKAGE}@{VERSION}")),
        None => Problem::new(format!("does not export `{wanted}@{VERSION}`, which {what}"))
            .with_hint("a handler implements the world `event-handler`; an SDK exports it for you"),
    }
}
