//! `deliveries`, `handlers` and `prune`.

use relaybus_tests::host::{run, run_with_input};
use serde_json::json;

use super::{field, folder_with_handler, list, ok, publish, subscribe};

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
