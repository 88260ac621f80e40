//! What passes between host and guest: the delivery's fields on the way in, events on the way out.

use std::time::Duration;

use relaybus_host::delivery::{Header, NewEvent};
use relaybus_host::verdict::{Failure, NextStep, Reason, RunReport, Verdict};
use relaybus_tests::sandbox::{delivery, guest, run, run_of, run_with};

fn events(report: RunReport) -> Vec<NewEvent> {
    let Verdict::Ok { events } = report.verdict else { panic!("expected an ok, got {report:?}") };
    events
}

fn failure(report: RunReport) -> Failure {
    let Verdict::Failed(failure) = report.verdict else { panic!("expected a failure, got {report:?}") };
    failure
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.to_owned(), value: value.to_owned() }
}

#[tokio::test]
async fn every_field_of_a_delivery_arrives_byte_for_byte() {
    let payload: Vec<u8> = (0..=255).collect();
    let mut delivery = delivery("");
    delivery.payload = payload.clone().into();
    delivery.topic = "echo-fields.some_Thing.9".parse().unwrap();
    delivery.key = Some("schlüssel\n\"1\"".to_owned());
    delivery.attempt = 4;
    delivery.max_attempts = 9;
    delivery.content_type = "application/octet-stream".to_owned();
    delivery.headers = vec![header("X-Other", ""), header("X-TEST", "first ✓"), header("x-test", "second")];
    delivery.published_at = "2026-02-03T04:05:06.789012Z".parse().unwrap();
    let (id, event_id) = (delivery.id.to_string(), delivery.event_id.to_string());

    let events = events(guest("echo-fields").await.run(run_of(delivery)).await);

    let fields: serde_json::Value = serde_json::from_slice(&events[0].payload).unwrap();
    let expected = serde_json::json!({
        "id": id,
        "event_id": event_id,
        "topic": "echo-fields.some_Thing.9",
        "key": "schlüssel\n\"1\"",
        "attempt": 4,
        "max_attempts": 9,
        "published_at": "2026-02-03T04:05:06.789012Z",
        "content_type": "application/octet-stream",
        "payload": payload,
        "header_x_test": "first ✓",
        "headers": [["X-Other", ""], ["X-TEST", "first ✓"], ["x-test", "second"]],
    });
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn absent_fields_are_absent_and_an_empty_payload_is_empty() {
    let events = events(run("echo-fields", "").await);
    let fields: serde_json::Value = serde_json::from_slice(&events[0].payload).unwrap();
    assert_eq!(fields["key"], serde_json::Value::Null);
    assert_eq!(fields["header_x_test"], serde_json::Value::Null);
    assert_eq!(fields["payload"], serde_json::json!([]));
}

#[tokio::test]
async fn r16_events_come_with_an_ok_in_order_and_whole() {
    let events = events(run_with("publish-two", r#""ok""#, |run| run.tenant = "acme".to_owned()).await);
    assert_eq!(events.len(), 2);
    for (event, (topic, payload, part)) in events.iter().zip([("two.first", "1", "first"), ("two.second", "2", "second")]) {
        let expected = NewEvent {
            id: event.id,
            tenant: "acme".to_owned(),
            topic: topic.parse().unwrap(),
            key: Some("pair".to_owned()),
            content_type: NewEvent::DEFAULT_CONTENT_TYPE.to_owned(),
            headers: vec![header("x-part", part)],
            payload: payload.into(),
            delay: Duration::ZERO,
            dedup_id: None,
        };
        assert_eq!(event, &expected);
        assert_eq!(event.id.0.get_version_num(), 7);
    }
    assert_ne!(events[0].id, events[1].id);
}

#[tokio::test]
async fn r16_a_run_that_fails_or_panics_has_published_nothing() {
    // Neither verdict has room for an event.
    assert_eq!(failure(run("publish-two", r#""fail""#).await).message, "after two events");
    let report = run("publish-two", r#""panic""#).await;
    assert!(matches!(report.verdict, Verdict::Trapped { reason: Reason::Panic, .. }), "{report:?}");
}

#[tokio::test]
async fn events_beyond_the_limit_are_refused_and_the_run_goes_on() {
    let failure = failure(run_with("publish-too-many", "null", |run| run.limits.published_events = 7).await);
    assert_eq!(failure.code.as_deref(), Some("too-many-events"));
    assert_eq!(failure.next, NextStep::Bury);
    assert_eq!(failure.extras, [("n_taken".to_owned(), "7".to_owned())]);
}

#[tokio::test]
async fn an_event_without_a_topic_is_refused_with_the_text() {
    let failure = failure(run("publish-bad-topic", "null").await);
    assert_eq!(failure.code.as_deref(), Some("invalid-topic"));
    assert!(failure.message.contains("not a topic!"), "{}", failure.message);
}

#[tokio::test]
async fn describe_is_granted_nothing() {
    let component = guest("grabs-in-describe").await;
    let answers = &component.descriptor().options;
    let expected = [("publish", "not-granted"), ("slept", "false")];
    assert_eq!(answers, &expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // And what it did then is not in its runs.
    assert_eq!(events(component.run(run_of(delivery("null"))).await), []);
}

#[tokio::test]
async fn texts_that_no_store_takes_are_refused_to_the_guest() {
    let long = "x".repeat(1_025);
    for (texts, told) in [
        (serde_json::json!({ "key": "a\0b" }), "key: expected a text without NUL"),
        (serde_json::json!({ "key": long }), "key: expected at most 1024 bytes, got 1025"),
        (serde_json::json!({ "dedup_id": long }), "dedup_id: expected at most 1024 bytes, got 1025"),
        (serde_json::json!({ "content_type": long }), "content_type: expected at most 256 bytes, got 1025"),
        (serde_json::json!({ "header": "\0" }), "headers: expected a text without NUL"),
        (serde_json::json!({ "header": "x".repeat(64 << 10) }), "headers: expected at most 65536 bytes together"),
    ] {
        let failure = failure(run("publish-texts", texts.to_string()).await);
        assert_eq!(failure.code.as_deref(), Some("invalid-event"));
        assert!(failure.message.contains(told), "expected {told}, got {}", failure.message);
    }
    let longest = serde_json::json!({ "key": &long[1..], "dedup_id": &long[1..], "header": "" });
    assert_eq!(events(run("publish-texts", longest.to_string()).await).len(), 1);
}
