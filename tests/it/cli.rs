//! The command line as scripts see it: exit codes, JSON fields, and what goes to stderr.

#[path = "cli/start.rs"]
mod start;
#[path = "cli/publish.rs"]
mod publish;
#[path = "cli/operate.rs"]
mod operate;
#[path = "cli/components.rs"]
mod components;
#[path = "cli/serve.rs"]
mod serve;

use std::path::Path;

use relaybus_host::store::{self, StoreOptions, Subscribe};
use relaybus_tests::host::{Ended, run};
use serde_json::Value;
use tempfile::TempDir;

/// A folder whose store has the handler `invoice`, subscribed to `order.*`.
fn folder_with_handler() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    subscribe(folder.path(), "invoice", "order.*");
    folder
}

fn subscribe(folder: &Path, name: &str, topic: &str) {
    let url = format!("sqlite:{}", folder.join("relaybus.db").display());
    let request = Subscribe {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        digest: "00".repeat(32),
        topics: vec![topic.parse().expect("a pattern")],
        max_attempts: 10,
        max_crashes: 5,
    };
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let store = store::open(&url, StoreOptions::default()).await.expect("an open store").store;
        store.subscribe(request).await.expect("a stored subscription");
        store.close().await;
    });
}

fn ok(ended: Ended) -> Ended {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn publish(folder: &Path, arguments: &[&str]) -> Value {
    ok(run(folder, &[&["publish", "--json"], arguments].concat())).object()
}

fn list(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    ok(run(folder, &[&["deliveries", "list", "--json"], arguments].concat())).objects()
}

fn field<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_else(|| panic!("expected a text in `{name}` of {object}"))
}
