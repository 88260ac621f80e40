//! The command line as scripts see it: exit codes, JSON fields, and what goes to stderr.

use std::path::Path;

use relaybus_host::store::{self, StoreOptions, Subscribe};
use relaybus_tests::host::{Ended, run, run_with_input};
use serde_json::{Value, json};
use tempfile::TempDir;

const DELIVERY_FIELDS: [&str; 18] = [
    "id",
    "event_id",
    "tenant",
    "handler",
    "topic",
    "key",
    "status",
    "attempts",
    "max_attempts",
    "crashes",
    "due_at",
    "lease_expires_at",
    "worker",
    "published_at",
    "settled_at",
    "reason",
    "message",
    "output",
];

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

#[test]
fn help_documents_every_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(run(folder.path(), &["--help"])).stdout;
    for code in ["0  done", "1  ", "2  ", "3  ", "4  ", "130, 143  "] {
        assert!(help.contains(&format!("\n  {code}")), "{code} in {help}");
    }
}

#[test]
fn a_wrong_command_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["publish"][..],
        &["publish", "order.created"],
        &["publish", "order..created", "--data", "{}"],
        &["publish", "order.created", "--data", "{}", "--file", "x"],
        &["publish", "order.created", "--data", "{}", "--delay", "soon"],
        &["publish", "order.created", "--data", "{}", "--header", "novalue"],
        &["publish", "order.created", "--data", "{}", "--tenant", "a b"],
        &["publish", "--ndjson", "-", "--key", "k"],
        &["deliveries", "show", "not-an-id"],
        &["deliveries", "redrive"],
        &["deliveries", "redrive", "--all", "--status", "completed"],
        &["deliveries", "bury", "0197f0a0-0000-8000-8000-000000000000", "--handler", "invoice"],
        &["deliveries", "list", "--limit", "0"],
        &["no-such-command"],
    ] {
        let ended = run(folder.path(), arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {ended:?}");
    }
    assert!(!folder.path().join("relaybus.db").exists(), "a refused command touched the store");
}

#[test]
fn a_wrong_configuration_is_refused_with_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[dispatcher]\npoll_intervall = \"1s\"\nlease_duration = \"soon\"\n").unwrap();
    let ended = run(folder.path(), &["migrate"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ended.stderr,
        "error: the configuration is refused: 2 problems\n  \
         relaybus.toml:2: `dispatcher.poll_intervall`: unknown key; the nearest is `poll_interval`\n  \
         relaybus.toml:3: `dispatcher.lease_duration`: expected a duration of at least 500ms such as \"30s\", got \"soon\"\n \
         hint: relaybus.default.toml documents every key\n"
    );
    let named = run(folder.path(), &["migrate", "--config", "other.toml"]);
    assert_eq!(named.code, Some(2));
    assert!(named.stderr.contains("other.toml: cannot be read: "), "{named:?}");
}

#[test]
fn the_store_comes_from_the_command_line_then_the_environment_then_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[store]\nurl = \"sqlite:file.db\"\n").unwrap();
    ok(run(folder.path(), &["migrate"]));
    assert!(folder.path().join("file.db").exists());
    let migrate = |arguments: &[&str]| {
        relaybus_tests::host::command(folder.path(), arguments).env("RELAYBUS_STORE", "sqlite:environment.db").output().unwrap().into()
    };
    ok(migrate(&["migrate"]));
    assert!(folder.path().join("environment.db").exists());
    ok(migrate(&["migrate", "--store", "sqlite:option.db"]));
    assert!(folder.path().join("option.db").exists());
}

#[test]
fn a_store_that_is_no_store_is_refused_and_one_that_cannot_be_reached_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.db"), "this is no database, and it is long enough to have a header\n".repeat(100)).unwrap();
    for (url, code) in [("carrier-pigeon:coop", 2), ("sqlite:text.db", 2), ("sqlite:no/such/folder/relaybus.db", 4)] {
        let ended = run(folder.path(), &["deliveries", "list", "--store", url]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{url}: {ended:?}");
        assert_eq!(ended.stderr.matches("error: ").count(), 1, "{url}: {ended:?}");
        assert!(ended.stderr.contains("\n hint: "), "{url}: {ended:?}");
    }
}

#[test]
fn publish_prints_the_event_its_deliveries_and_whether_it_is_a_duplicate() {
    let folder = folder_with_handler();
    subscribe(folder.path(), "audit", ">");
    let first = publish(folder.path(), &["order.created", "--data", "{\"n\":1}", "--dedup-id", "order-1"]);
    assert_eq!(first, json!({ "event_id": first["event_id"], "deliveries": 2, "duplicate": false }));
    let again = publish(folder.path(), &["order.created", "--data", "{\"n\":1}", "--dedup-id", "order-1"]);
    assert_eq!((&again["event_id"], &again["duplicate"]), (&first["event_id"], &json!(true)));
    assert_eq!(list(folder.path(), &[]).len(), 2);
}

#[test]
fn an_event_that_nobody_subscribes_to_is_stored_with_a_warning() {
    let folder = folder_with_handler();
    let ended = ok(run(folder.path(), &["publish", "weather.changed", "--data", "{}", "--json"]));
    assert_eq!(ended.object()["deliveries"], 0);
    assert!(ended.stderr.starts_with("warning: nobody subscribes to `weather.changed`"), "{ended:?}");
}

#[test]
fn a_payload_over_the_limit_is_refused_and_the_limit_named() {
    let folder = folder_with_handler();
    std::fs::write(folder.path().join("relaybus.toml"), "[publish]\nmax_payload = \"1KiB\"\n").unwrap();
    std::fs::write(folder.path().join("large.bin"), vec![b'1'; 1025]).unwrap();
    std::fs::write(folder.path().join("fits.bin"), vec![b'1'; 1024]).unwrap();
    let large = run(folder.path(), &["publish", "order.created", "--file", "large.bin"]);
    assert_eq!(large.code, Some(2));
    assert_eq!(large.stderr, "error: expected a payload of at most 1.0 KiB (`publish.max_payload`), got 1025 bytes\n");
    publish(folder.path(), &["order.created", "--file", "fits.bin"]);
    let stdin = run_with_input(folder.path(), &["publish", "order.created", "--file", "-"], &"1".repeat(1025));
    assert_eq!(stdin.code, Some(2));
    assert_eq!(list(folder.path(), &[]).len(), 1);
}

#[test]
fn a_bad_line_is_reported_by_number_and_the_others_are_published() {
    let folder = folder_with_handler();
    let lines = [
        r#"{"data":{"n":1}}"#,
        r#"{"data":{"n":2}"#,
        "",
        r#"{"topic":"order.paid","data":"text","content_type":"text/plain","headers":{"b":"1","a":"2","b":"3"},"key":"k","dedup_id":"d"}"#,
        r#"{"data":1,"colour":"red"}"#,
        r#"{"topic":"order..paid","data":1}"#,
        r#"{"data":1,"data_base64":"AA=="}"#,
        r#"{"data_base64":"!"}"#,
        r#"{"data":1,"delay":"soon"}"#,
        r#"{"data_base64":"AAH/","content_type":"application/octet-stream"}"#,
        r#"{"data":5,"content_type":"text/plain"}"#,
    ];
    let ended = run_with_input(folder.path(), &["publish", "order.created", "--ndjson", "-", "--json"], &lines.join("\n"));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let published: Vec<_> = ended.objects().iter().map(|object| object["line"].as_u64().unwrap()).collect();
    assert_eq!(published, [1, 4, 10]);
    let reported: Vec<_> = ended.stderr.lines().filter_map(|line| line.strip_prefix("line ")?.split(':').next()).collect();
    assert_eq!(reported, ["2", "5", "6", "7", "8", "9", "11"], "{ended:?}");
    assert!(ended.stderr.contains("line 5: column 18: unknown field `colour`"), "{ended:?}");
    let deliveries = list(folder.path(), &["--topic", "order.paid"]);
    let shown = ok(run(folder.path(), &["deliveries", "show", "--json", field(&deliveries[0], "id")])).object();
    let header = |name: &str, value: &str| json!({ "name": name, "value": value });
    assert_eq!(shown["headers"], json!([header("b", "1"), header("a", "2"), header("b", "3")]));
    assert_eq!((&shown["data_base64"], &shown["key"]), (&json!("dGV4dA=="), &json!("k")));
}

#[test]
fn a_file_of_many_lines_is_published_in_batches_whole() {
    let folder = folder_with_handler();
    let lines: String = (0..1_203).map(|n| format!("{{\"topic\":\"order.created\",\"data\":{n}}}\n")).collect();
    std::fs::write(folder.path().join("events.ndjson"), lines).unwrap();
    let ended = ok(run(folder.path(), &["publish", "--ndjson", "events.ndjson"]));
    assert_eq!(ended.stdout, "published 1203 events, 1203 deliveries; 0 were stored before\n");
    assert_eq!(ended.stderr, "");
    assert_eq!(list(folder.path(), &["--limit", "5000"]).len(), 1_203);
}

#[test]
fn a_payload_is_stored_as_it_was_written() {
    let folder = folder_with_handler();
    let written = "{ \"z\":1.50,  \"a\":123456789012345678901234567890 }";
    let ended =
        run_with_input(folder.path(), &["publish", "--ndjson", "-"], &format!("{{\"topic\":\"order.created\",\"data\":{written}}}"));
    ok(ended);
    let id = list(folder.path(), &[])[0]["id"].as_str().unwrap().to_owned();
    let shown = ok(run(folder.path(), &["deliveries", "show", &id, "--json"]));
    assert!(shown.stdout.contains(written), "{shown:?}");
}

#[test]
fn a_listed_delivery_has_the_fields_of_the_contract() {
    let folder = folder_with_handler();
    let event = publish(folder.path(), &["order.created", "--data", "{}", "--key", "k-1"]);
    let deliveries = list(folder.path(), &[]);
    let delivery = deliveries[0].as_object().unwrap();
    for name in DELIVERY_FIELDS {
        assert!(delivery.contains_key(name), "`{name}` in {delivery:?}");
    }
    assert_eq!(delivery["event_id"], event["event_id"]);
    assert_eq!((&delivery["handler"], &delivery["topic"], &delivery["key"]), (&json!("invoice"), &json!("order.created"), &json!("k-1")));
    assert_eq!((&delivery["status"], &delivery["attempts"], &delivery["max_attempts"]), (&json!("pending"), &json!(0), &json!(10)));
}

#[test]
fn lists_are_filtered_limited_and_continued() {
    let folder = folder_with_handler();
    subscribe(folder.path(), "audit", "order.paid");
    for topic in ["order.created", "order.paid", "order.created"] {
        publish(folder.path(), &[topic, "--data", "{}"]);
    }
    assert_eq!(list(folder.path(), &["--handler", "audit"]).len(), 1);
    assert_eq!(list(folder.path(), &["--topic", "order.created"]).len(), 2);
    assert_eq!(list(folder.path(), &["--status", "completed"]).len(), 0);
    assert_eq!(list(folder.path(), &["--tenant", "other"]).len(), 0);
    let first = list(folder.path(), &["--limit", "3"]);
    let rest = list(folder.path(), &["--before", field(&first[2], "id")]);
    assert_eq!((first.len(), rest.len()), (3, 1));
    let ids: std::collections::BTreeSet<_> = first.iter().chain(&rest).map(|delivery| field(delivery, "id")).collect();
    assert_eq!(ids.len(), 4);
}

#[test]
fn show_is_readable_and_says_when_there_is_nothing_to_show() {
    let folder = folder_with_handler();
    publish(folder.path(), &["order.created", "--data", "{\"b\":1,\"a\":[2]}", "--header", "trace=7"]);
    let id = field(&list(folder.path(), &[])[0], "id").to_owned();
    let shown = ok(run(folder.path(), &["deliveries", "show", &id])).stdout;
    for line in [&format!("delivery   {id}"), "handler    invoice", "status     pending", "attempts   0 of 10", "headers    trace=7"] {
        assert!(shown.lines().any(|shown| shown == line), "`{line}` in {shown}");
    }
    assert!(shown.ends_with("payload (15 bytes)\n  {\n    \"b\": 1,\n    \"a\": [\n      2\n    ]\n  }\n"), "{shown}");
    let missing = run(folder.path(), &["deliveries", "show", "0197f0a0-0000-8000-8000-000000000000"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""), "{missing:?}");
}

#[test]
fn a_delivery_is_buried_and_redriven_and_what_cannot_be_changed_is_said() {
    let folder = folder_with_handler();
    publish(folder.path(), &["order.created", "--data", "{}"]);
    let id = field(&list(folder.path(), &[])[0], "id").to_owned();
    let missing = "0197f0a0-0000-8000-8000-000000000000";

    let redriven = run(folder.path(), &["deliveries", "redrive", "--json", &id, missing]);
    assert_eq!(redriven.code, Some(3), "{redriven:?}");
    assert_eq!(
        redriven.objects(),
        [json!({ "id": id, "result": "not-allowed", "status": "pending" }), json!({ "id": missing, "result": "not-found" })]
    );

    let buried = ok(run(folder.path(), &["deliveries", "bury", "--json", &id])).object();
    assert_eq!(buried, json!({ "id": id, "result": "applied" }));
    let delivery = &list(folder.path(), &["--status", "buried"])[0];
    assert_eq!(delivery["reason"], "operator");

    ok(run(folder.path(), &["deliveries", "redrive", &id]));
    assert_eq!(list(folder.path(), &["--status", "pending"]).len(), 1);
    ok(run(folder.path(), &["deliveries", "release", &id]));
}

#[test]
fn all_deliveries_that_meet_the_conditions_are_changed_however_many() {
    let folder = folder_with_handler();
    subscribe(folder.path(), "audit", "order.paid");
    let lines: String = (0..1_100).map(|n| format!("{{\"topic\":\"order.paid\",\"data\":{n}}}\n")).collect();
    ok(run_with_input(folder.path(), &["publish", "--ndjson", "-"], &lines));
    let buried = ok(run(folder.path(), &["deliveries", "bury", "--all", "--handler", "audit"]));
    assert_eq!(buried.stdout, "buried: 1100 deliveries\n");
    let redriven = ok(run(folder.path(), &["deliveries", "redrive", "--all", "--json"]));
    assert_eq!(redriven.objects().len(), 1_100);
    assert_eq!(list(folder.path(), &["--status", "pending", "--limit", "5000"]).len(), 2_200);
}

#[test]
fn settled_deliveries_are_pruned_under_both_names() {
    let folder = folder_with_handler();
    for arguments in [&["prune"][..], &["deliveries", "prune"]] {
        publish(folder.path(), &["order.created", "--data", "{}"]);
        ok(run(folder.path(), &["deliveries", "bury", "--all"]));
        let kept = ok(run(folder.path(), &[arguments, &["--json"]].concat())).object();
        assert_eq!(kept, json!({ "deliveries": 0, "events": 0 }));
        let pruned = ok(run(folder.path(), &[arguments, &["--json", "--buried", "0s"]].concat())).object();
        assert_eq!(pruned, json!({ "deliveries": 1, "events": 1 }));
    }
}

#[test]
fn handlers_are_listed_with_their_counts_and_removed() {
    let folder = folder_with_handler();
    publish(folder.path(), &["order.created", "--data", "{}"]);
    let handlers = ok(run(folder.path(), &["handlers", "list", "--json"])).object();
    assert_eq!((&handlers["name"], &handlers["topics"], &handlers["pending"]), (&json!("invoice"), &json!(["order.*"]), &json!(1)));
    let table = ok(run(folder.path(), &["handlers", "list"])).stdout;
    assert!(table.starts_with("TENANT   NAME     TOPICS   PENDING"), "{table}");

    let refused = run(folder.path(), &["handlers", "remove", "invoice"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("hint: `--bury` buries"), "{refused:?}");
    ok(run(folder.path(), &["handlers", "remove", "invoice", "--bury"]));
    assert_eq!(ok(run(folder.path(), &["handlers", "list", "--json"])).stdout, "");
    assert_eq!(run(folder.path(), &["handlers", "remove", "invoice"]).code, Some(1));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder_with_handler();
    let lines: String = (0..3_000).map(|n| format!("{{\"topic\":\"order.created\",\"data\":{n}}}\n")).collect();
    ok(run_with_input(folder.path(), &["publish", "--ndjson", "-"], &lines));
    let mut child = relaybus_tests::host::command(folder.path(), &["deliveries", "list", "--json", "--limit", "3000"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}
