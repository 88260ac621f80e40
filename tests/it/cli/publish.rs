//! `publish`: one event, or a file of them.

use relaybus_tests::host::{run, run_with_input};
use serde_json::json;

use super::{field, folder_with_handler, list, ok, publish, subscribe};

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
