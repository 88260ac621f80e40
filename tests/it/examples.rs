//! The examples do what their READMEs say, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

use std::path::{Path, PathBuf};
use std::process::Command;

use relaybus_tests::{guests, host};

fn examples() -> PathBuf {
    relaybus_tests::root().join("examples")
}

/// Adds the handlers, publishes `lines`, and runs until idle; the summary of the run.
fn handle(folder: &Path, handlers: &[&str], lines: &str) -> serde_json::Value {
    let components: Vec<String> = handlers.iter().map(|name| guests::component(name).to_str().unwrap().to_owned()).collect();
    for component in &components {
        let added = host::run(folder, &["handlers", "add", component]);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
    let published = host::run_with_input(folder, &["publish", "--ndjson", "-", "--json"], lines);
    assert_eq!(published.code, Some(0), "{published:?}");
    let arguments: Vec<&str> = ["run"].into_iter().chain(components.iter().map(String::as_str)).chain(["--until-idle", "--json"]).collect();
    let ran = host::run(folder, &arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.object()
}

fn deliveries(folder: &Path, handler: &str, status: &str) -> Vec<serde_json::Value> {
    let arguments = ["deliveries", "list", "--json", "--limit", "1000", "--handler", handler, "--status", status];
    host::run(folder, &arguments).objects()
}

#[test]
fn every_webhook_example_of_github_is_triaged_or_deliberately_buried() {
    let events = Command::new(examples().join("github-triage/events.sh")).output().expect("the script runs");
    assert!(events.status.success(), "{}", String::from_utf8_lossy(&events.stderr));
    let lines = String::from_utf8(events.stdout).unwrap();
    let n_webhooks = lines.lines().count();
    assert!(n_webhooks >= 50, "expected the webhooks of issues and pull requests, got {n_webhooks}");

    let folder = tempfile::tempdir().unwrap();
    let summary = handle(folder.path(), &["triage", "triage-counter"], &lines);
    let completed = deliveries(folder.path(), "triage", "completed").len();
    let buried = deliveries(folder.path(), "triage", "buried");
    assert_eq!(completed + buried.len(), n_webhooks, "{summary}");
    for delivery in &buried {
        assert!(delivery["message"].as_str().is_some_and(|message| message.contains("expected")), "{delivery}");
        assert_eq!(delivery["attempts"], 1, "buried deliberately, not after retries: {delivery}");
    }
    assert_eq!(deliveries(folder.path(), "triage-counter", "completed").len(), completed, "each triaged webhook is counted once");
    assert_eq!(summary["completed"], 2 * completed);
    assert_eq!(summary["buried"], buried.len());
}

#[test]
fn orders_are_mailed_after_retries_and_the_poison_orders_end_buried() {
    let lines = std::fs::read_to_string(examples().join("order-mailer/events.ndjson")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let summary = handle(folder.path(), &["order-mailer"], &lines);
    let completed = deliveries(folder.path(), "order-mailer", "completed");
    let buried = deliveries(folder.path(), "order-mailer", "buried");
    assert_eq!(completed.len() + buried.len(), lines.lines().count(), "{summary}");
    assert!(completed.iter().any(|delivery| delivery["attempts"].as_u64() > Some(1)), "some mails need a retry: {completed:?}");
    assert!(!buried.is_empty() && buried.iter().all(|delivery| delivery["message"].is_string()), "{buried:?}");
}
