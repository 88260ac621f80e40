//! The house rules that a machine can check.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use relaybus_tests::root;

/// Every file below `folder` with one of these endings, with its text.
fn files(folder: &str, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending)) {
                found.push((path.strip_prefix(root()).unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no files of {endings:?} in {folder}");
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    ["host", "sdk", "examples", "tests", "wit"].iter().flat_map(|folder| files(folder, &["rs", "sql", "wit"])).collect::<Vec<_>>()
}

/// Lines of code that name `word`; comments do not count.
fn names(text: &str, word: &str) -> bool {
    text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word))
}

#[test]
fn no_file_is_longer_than_800_lines_and_the_median_is_small() {
    let mut lengths: Vec<usize> = Vec::new();
    for (path, text) in sources() {
        let n_lines = text.lines().count();
        assert!(n_lines <= 800, "{} has {n_lines} lines", path.display());
        if path.starts_with("host") {
            lengths.push(n_lines);
        }
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= 150, "the median file of the host has {median} lines");
}

#[test]
fn wasm_and_databases_have_one_door_each() {
    for (path, text) in files("host/src", &["rs"]) {
        let is_in = |folder: &str| path.starts_with(Path::new("host/src").join(folder));
        assert!(is_in("engine") || !names(&text, "wasmtime"), "{} names wasmtime", path.display());
        assert!(is_in("store") || !names(&text, "sqlx"), "{} names sqlx", path.display());
        if is_in("store") {
            assert!(!names(&text, "crate::engine") && !names(&text, "crate::dispatch"), "{} knows the engine", path.display());
        }
        if is_in("engine") {
            assert!(!names(&text, "crate::store") && !names(&text, "crate::dispatch"), "{} knows the store", path.display());
        }
    }
}

#[test]
fn unsafe_code_is_allowed_in_named_files_only() {
    const NAMED: &[&str] = &["host/src/engine/precompiled.rs", "sdk/rust/src/bindings.rs"];
    for (path, text) in sources() {
        let is_named = NAMED.iter().any(|named| path == Path::new(named));
        let is_this = path.ends_with("it/tidy.rs");
        assert!(is_named || is_this || !text.contains("allow(unsafe_code)"), "{} allows unsafe code", path.display());
    }
}

#[test]
fn tests_wait_for_a_reason_and_do_not_sleep() {
    const NAMED: &[&str] = &["tests/support/lib.rs", "tests/it/tidy.rs"];
    for (path, text) in files("tests", &["rs"]) {
        let is_named =
            NAMED.iter().any(|named| path == Path::new(named)) || path.starts_with("tests/guests") || path.starts_with("tests/bench");
        assert!(is_named || !names(&text, "sleep("), "{} sleeps", path.display());
    }
}

#[test]
fn every_clause_of_the_store_contract_has_a_case() {
    let contract = files("host/src/store", &["rs"]).into_iter().filter(|(path, _)| path.parent() == Some(Path::new("host/src/store")));
    let clauses: BTreeSet<String> = contract.flat_map(|(_, text)| text.lines().filter_map(clause).collect::<Vec<_>>()).collect();
    assert!(clauses.len() > 40, "{clauses:?}");
    let cases: String = files("tests/conformance", &["rs"]).into_iter().map(|(_, text)| text).collect();
    let missing: Vec<_> = clauses.iter().filter(|clause| !cases.contains(&format!("{}_", clause.to_lowercase()))).collect();
    assert!(missing.is_empty(), "clauses without a case: {missing:?}");
}

/// The clause that a line of a doc comment states, such as `C3`.
fn clause(line: &str) -> Option<String> {
    let (clause, _) = line.trim().strip_prefix("/// - **")?.split_once("**")?;
    Some(clause.to_owned())
}

#[test]
fn every_guest_is_used_by_a_test() {
    let tests: String = ["tests/it", "tests/bench"].iter().flat_map(|folder| files(folder, &["rs"])).map(|(_, text)| text).collect();
    for (path, _) in files("tests/guests/examples", &["rs"]) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(tests.contains(&format!("\"{name}\"")), "no test runs the guest `{name}`");
    }
}

#[test]
fn every_test_that_the_architecture_names_exists() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let tests: String = ["tests/it", "tests/conformance"].iter().flat_map(|folder| files(folder, &["rs"])).map(|(_, text)| text).collect();
    let named: Vec<&str> = architecture
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.rsplit("::").next())
        .filter(|name| {
            name.len() > 20 && name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .collect();
    assert!(named.len() > 15, "ARCHITECTURE.md names a test for each invariant, found {named:?}");
    for name in named {
        assert!(tests.contains(name), "ARCHITECTURE.md names `{name}`, which is no test");
    }
}

#[test]
fn every_command_is_in_the_readme() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["run", "publish", "check", "invoke", "deliveries", "handlers", "prune", "migrate"] {
        assert!(readme.contains(&format!("relaybus-host {command}")), "README.md does not name `relaybus-host {command}`");
    }
}
