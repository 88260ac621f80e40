//! `check`, `invoke` and `handlers add`: components without a running host.

use relaybus_tests::guests::component;
use relaybus_tests::host::{Ended, run};
use serde_json::json;

use super::{field, list, ok, publish};

/// Runs the command with the guest's component as its first argument, in a folder of its own.
fn with_guest(command: &str, guest: &str, arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let path = component(guest);
    run(folder.path(), &[&[command, path.to_str().expect("a path in UTF-8")], arguments].concat())
}

fn invoke(guest: &str, topic: &str, data: &str) -> Ended {
    with_guest("invoke", guest, &["--topic", topic, "--data", data, "--json"])
}

#[test]
fn check_says_what_a_component_is_and_needs() {
    let checked = ok(with_guest("check", "publish-two", &["--json"])).object();
    assert_eq!(
        (&checked["name"], &checked["topics"], &checked["problems"]),
        (&json!("publish-two"), &json!(["publish-two.>"]), &json!([]))
    );
    assert_eq!(field(&checked, "digest").len(), 64);
    assert!(checked["size"].as_u64().unwrap() > 1_000, "{checked}");
    let names = |field: &str| checked[field].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(names("imports").contains(&"relaybus:handler/publisher@0.1.0".to_owned()), "{checked}");
    assert!(names("exports").contains(&"relaybus:handler/handler@0.1.0".to_owned()), "{checked}");
    let text = ok(with_guest("check", "publish-two", &[])).stdout;
    assert!(text.contains("  handler  publish-two\n") && text.ends_with("  can be run\n"), "{text}");
}

#[test]
fn check_lists_everything_that_is_wrong_and_opens_no_store() {
    let checked = with_guest("check", "bad-many", &["--json", "--store", "carrier-pigeon:coop"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    assert_eq!(
        checked.object()["problems"],
        json!([
            "handler `bad-many`: topic `order..created`: token 2: expected 1 to 64 characters of `A-Z a-z 0-9 _ -`, got ``",
            "handler `bad-many`: option `timeout`: expected a duration of at least 10ms such as \"5m\", got \"fast\"",
            "handler `bad-many`: option `colour`: unknown key; the nearest is `concurrency`",
        ])
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text.wasm"), "no component").unwrap();
    for file in ["text.wasm", "missing.wasm"] {
        let checked = run(folder.path(), &["check", file, "--json"]);
        assert_eq!(checked.code, Some(2), "{checked:?}");
        assert_eq!(checked.object()["problems"].as_array().unwrap().len(), 1, "{checked:?}");
    }
}

#[test]
fn invoke_runs_a_handler_once_and_prints_what_it_published() {
    let ran = ok(invoke("publish-two", "publish-two.a", "\"ok\"")).object();
    assert_eq!((&ran["verdict"], &ran["reason"]), (&json!("ok"), &json!(null)));
    assert_eq!(ran["events"].as_array().unwrap().len(), 2, "{ran}");
    let first = &ran["events"][0];
    assert_eq!((&first["topic"], &first["data"], &first["key"]), (&json!("two.first"), &json!(1), &json!("pair")));
    assert!(ran["elapsed_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn invoke_shows_the_handler_the_whole_event() {
    let arguments = [
        "--topic",
        "echo-fields.x",
        "--data",
        "hi",
        "--content-type",
        "text/plain",
        "--key",
        "k",
        "--header",
        "X-Test=1",
        "--attempt",
        "3",
    ];
    let ran = ok(with_guest("invoke", "echo-fields", &[&arguments[..], &["--json"]].concat())).object();
    let seen = &ran["events"][0]["data"];
    assert_eq!((&seen["topic"], &seen["key"], &seen["attempt"]), (&json!("echo-fields.x"), &json!("k"), &json!(3)));
    assert_eq!((&seen["content_type"], &seen["header_x_test"], &seen["payload"]), (&json!("text/plain"), &json!("1"), &json!([104, 105])));
}

#[test]
fn invoke_names_why_a_run_failed() {
    for (guest, verdict, reason, message) in [
        ("fail-bury", "failed", "failed", "card-declined: the card was declined"),
        ("panic", "trapped", "panic", "this handler always panics"),
        ("memory-hog", "trapped", "memory-limit", "memory"),
    ] {
        let ended = invoke(guest, &format!("{guest}.a"), "{}");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let ran = ended.object();
        assert_eq!((&ran["verdict"], &ran["reason"]), (&json!(verdict), &json!(reason)), "{ran}");
        assert!(field(&ran, "message").contains(message), "{ran}");
    }
    assert_eq!(invoke("fail-bury", "fail-bury.a", "{}").object()["next"], "bury");
}

#[test]
fn invoke_stops_a_run_at_the_timeout_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[handlers.spin]\ntimeout = \"200ms\"\n").unwrap();
    let path = component("spin");
    let ended = run(folder.path(), &["invoke", path.to_str().unwrap(), "--topic", "spin.a", "--data", "{}", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.object()["reason"], "timeout");
}

#[test]
fn invoke_prints_the_output_of_the_handler_for_people() {
    let ran = ok(with_guest("invoke", "log-lines", &["--topic", "log-lines.a", "--data", "\"ok\""])).stdout;
    assert!(ran.starts_with("verdict  ok\n"), "{ran}");
    for line in ["a line on stdout", "a line on stderr", "a line of the level error"] {
        assert!(ran.contains(line), "`{line}` in {ran}");
    }
}

#[test]
fn invoke_warns_about_a_topic_that_the_handler_does_not_subscribe_to() {
    let ended = ok(invoke("noop", "other.topic", "{}"));
    assert!(ended.stderr.contains("warning: handler `noop` does not subscribe to `other.topic`"), "{ended:?}");
}

#[test]
fn added_handlers_receive_events_before_any_host_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = component("noop");
    let add = || ok(run(folder.path(), &["handlers", "add", path.to_str().unwrap(), "--json"])).object();
    let first = add();
    assert_eq!((&first["name"], &first["topics"], &first["previous_digest"]), (&json!("noop"), &json!(["noop.>"]), &json!(null)));
    assert_eq!(add()["previous_digest"], first["digest"]);
    assert_eq!(publish(folder.path(), &["noop.a", "--data", "{}"])["deliveries"], 1);
    assert_eq!(list(folder.path(), &["--status", "pending"]).len(), 1);
    let refused = run(folder.path(), &["handlers", "add", component("bad-name").to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("handler `bad name`: expected a name"), "{refused:?}");
}
