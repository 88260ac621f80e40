//! `run`: what it refuses to start with, and how it ends.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use relaybus_tests::guests::component;
use relaybus_tests::host::{Ended, command, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{field, list, ok, publish};

fn paths(guests: &[&str]) -> Vec<String> {
    guests.iter().map(|guest| component(guest).to_str().expect("a path in UTF-8").to_owned()).collect()
}

/// `run` with the components of these guests.
fn serve(folder: &Path, guests: &[&str], arguments: &[&str]) -> Ended {
    let paths = paths(guests);
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    run(folder, &[&["run"], &paths[..], arguments].concat())
}

/// A folder in which the handler of `guest` is subscribed, and an event for it published.
fn folder_with_event(guest: &str, data: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    ok(run(folder.path(), &["handlers", "add", &paths(&[guest])[0]]));
    publish(folder.path(), &[&format!("{guest}.a"), "--data", data]);
    folder
}

#[test]
fn r23_run_lists_every_problem_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    std::fs::write(folder.path().join("text.wasm"), "no component").unwrap();
    let guests = ["noop", "bad-many", "bad-duration", "bad-name", "bad-option", "bad-topic", "no-topics", "unknown-option"];
    let guests = [&guests[..], &["duplicate-one", "duplicate-two"]].concat();
    let ended = serve(folder.path(), &guests, &["empty", "text.wasm", "missing.wasm", "--until-idle"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    for problem in [
        "nothing was started: 13 problems",
        "empty: expected `.wasm` files, got none",
        "text.wasm: ",
        "missing.wasm: ",
        "handler `bad-many`: topic `order..created`: token 2",
        "handler `bad-many`: option `timeout`: expected a duration",
        "handler `bad-many`: option `colour`: unknown key",
        "handler `bad-duration`: option `timeout`: expected a duration of at least 10ms such as \"5m\", got \"fast\"",
        "handler `bad name`: expected a name of 1 to 64 characters",
        "handler `bad-option`: option `max_attempts`: expected a whole number from 1 to 10000, got \"many\"",
        "handler `bad-topic`: topic `order.>.created`: token 2: `>` stands for the rest of a topic",
        "handler `no-topics`: expected at least one topic pattern",
        "handler `unknown-option`: option `max_atempts`: unknown key; the nearest is `max_attempts`",
        "expected a handler's name of its own, got `duplicate` as in ",
        "\n hint: `--keep-going` runs the good ones",
    ] {
        assert!(ended.stderr.contains(problem), "`{problem}` in {}", ended.stderr);
    }
    assert!(!folder.path().join("relaybus.db").exists(), "a refused start touched the store");
}

#[test]
fn r23_keep_going_runs_the_good_handlers() {
    let folder = folder_with_event("noop", "{}");
    let ended = ok(serve(folder.path(), &["noop", "bad-topic"], &["--until-idle", "--json", "--keep-going"]));
    assert!(ended.stderr.contains("warning: ") && ended.stderr.contains("handler `bad-topic`"), "{ended:?}");
    assert_eq!(ended.object()["completed"], 1);
    assert_eq!(serve(folder.path(), &["bad-topic"], &["--until-idle", "--keep-going"]).code, Some(2), "no good one is left");
}

#[test]
fn until_idle_waits_for_retries_and_ends_with_one_summary_line() {
    let folder = folder_with_event("fail-retry", "{}");
    let settings = "[handlers.fail-retry]\nmax_attempts = 3\nretry_initial_delay = \"50ms\"\n";
    std::fs::write(folder.path().join("relaybus.toml"), settings).unwrap();
    let ended = ok(serve(folder.path(), &["fail-retry"], &["--until-idle", "--json"]));
    let summary = ended.object();
    let count = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("`{name}` in {summary}"));
    assert_eq!((count("completed"), count("buried"), count("rescheduled"), count("released")), (0, 1, 2, 0));
    assert!(count("elapsed_ms") > 0);
    let delivery = &list(folder.path(), &[])[0];
    assert_eq!((field(delivery, "status"), &delivery["attempts"]), ("buried", &json!(3)));
    assert_eq!(field(delivery, "reason"), "failed");
    let shown = ok(run(folder.path(), &["deliveries", "show", field(delivery, "id")])).stdout;
    let attempts: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("attempt ")).collect();
    assert_eq!(attempts, ["1: failed", "2: failed", "3: failed"], "{shown}");
}

#[test]
fn a_folder_serves_all_its_components() {
    let folder = folder_with_event("publish-two", "\"ok\"");
    let handlers = folder.path().join("handlers");
    std::fs::create_dir(&handlers).unwrap();
    for guest in ["publish-two", "noop"] {
        std::fs::copy(component(guest), handlers.join(format!("{guest}.wasm"))).unwrap();
    }
    std::fs::write(handlers.join("README.md"), "no component").unwrap();
    let ended = ok(run(folder.path(), &["run", "handlers", "--until-idle"]));
    assert!(ended.stdout.starts_with("1 completed, 0 buried, 0 rescheduled, 0 released, in "), "{ended:?}");
    assert_eq!(ended.stderr.matches("loaded handlers/").count(), 2, "{ended:?}");
}

#[test]
fn settings_for_a_handler_that_is_not_served_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[handlers.nop]\ntimeout = \"1s\"\n").unwrap();
    let ended = ok(serve(folder.path(), &["noop"], &["--until-idle"]));
    assert!(ended.stderr.contains("warning: the configuration has `handlers.nop`"), "{ended:?}");
}

/// A host that runs `slow-ok` for a minute, with its stderr from after the run began.
fn host_in_mid_run(folder: &Path) -> (Child, impl BufRead) {
    let mut child = command(folder, &["run", &paths(&["slow-ok"])[0], "--json"]).spawn().expect("the host starts");
    let stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while list(folder, &["--status", "processing"]).is_empty() {
        assert!(Instant::now() < deadline, "the host claimed nothing");
        assert!(child.try_wait().expect("the host is our child").is_none(), "the host ended by itself");
    }
    (child, stderr)
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id()).expect("a process id");
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).expect("a process id"), rustix::process::Signal::TERM)
        .expect("a signal");
}

#[test]
fn r21_a_signal_stops_the_host_in_time_and_releases_what_it_ran() {
    let folder = folder_with_event("slow-ok", "{\"ms\": 60000}");
    std::fs::write(folder.path().join("relaybus.toml"), "[dispatcher]\nshutdown_timeout = \"2s\"\n").unwrap();
    let (mut child, _stderr) = host_in_mid_run(folder.path());
    let asked_at = Instant::now();
    terminate(&child);
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(asked_at.elapsed() < Duration::from_secs(3), "{:?}", asked_at.elapsed());
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&summary["completed"], &summary["released"]), (&json!(0), &json!(1)));
    let delivery = &list(folder.path(), &[])[0];
    assert_eq!((field(delivery, "status"), &delivery["attempts"], &delivery["crashes"]), ("pending", &json!(0), &json!(0)));
}

#[test]
fn r21_a_second_signal_ends_the_host_at_once() {
    let folder = folder_with_event("slow-ok", "{\"ms\": 60000}");
    let (mut child, stderr) = host_in_mid_run(folder.path());
    terminate(&child);
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("a second one ends it at once")), "the host says that it stops");
    let asked_at = Instant::now();
    terminate(&child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(asked_at.elapsed() < Duration::from_secs(5), "{:?}", asked_at.elapsed());
}
