//! R14: what follows how a run ended.

use std::time::{Duration, Instant};

use relaybus_host::delivery::Status;
use relaybus_tests::rig::{Rig, until_idle};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn r14_ok_completes_the_delivery() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("noop", |_| {}).await]).await;
    let event = rig.publish("noop.a", json!(1)).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.reason), (Status::Completed, 1, None));
    assert!(dispatcher.stop(Duration::from_secs(5)).await.left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_failure_is_retried_by_policy_until_it_succeeds() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("flaky", |_| {}).await]).await;
    let event = rig.publish("flaky.a", json!({"n": 3})).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Completed, 3));
    let records = rig.records(delivery.id).await;
    let messages: Vec<_> = records.iter().map(|record| (record.attempt, record.reason.as_str(), record.message.as_str())).collect();
    assert_eq!(messages, [(1, "failed", "attempt 1 of 3"), (2, "failed", "attempt 2 of 3")]);
    assert_eq!(dispatcher.counts().rescheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_the_last_attempt_buries() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("flaky", |settings| settings.max_attempts = 2).await]).await;
    let event = rig.publish("flaky.a", json!({"n": 9})).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.reason.as_deref()), (Status::Buried, 2, Some("failed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_bury_parks_at_the_first_attempt() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("fail-bury", |_| {}).await]).await;
    let event = rig.publish("fail-bury.a", json!({})).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Buried, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_panic_is_retried_and_its_text_and_last_output_are_kept() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("panic", |settings| settings.max_attempts = 2).await]).await;
    let event = rig.publish("panic.a", json!({})).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Buried, Some("panic")));
    let records = rig.records(delivery.id).await;
    assert_eq!(records.len(), 2);
    for record in records {
        assert!(record.message.contains("this handler always panics"), "{}", record.message);
        assert!(record.output.contains("about to panic") && record.output.contains("last words"), "{}", record.output);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_spinning_handler_is_stopped_and_buried_while_another_goes_on() {
    let rig = Rig::new().await;
    let spin = Rig::handler("spin", |settings| {
        settings.timeout = Duration::from_millis(500);
        settings.max_attempts = 2;
    });
    let dispatcher = rig.start(vec![spin.await, Rig::handler("noop", |_| {}).await]).await;
    let spinning = rig.publish("spin.a", json!({})).await;
    rig.until(spinning, "runs", |delivery| delivery.status == Status::Processing).await;
    let asked_at = Instant::now();
    let neighbour = rig.publish("noop.a", json!({})).await;
    rig.until(neighbour, "is completed", |delivery| delivery.status == Status::Completed).await;
    assert!(asked_at.elapsed() < Duration::from_secs(2), "the neighbour took {:?}", asked_at.elapsed());
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(spinning).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.reason.as_deref()), (Status::Buried, 2, Some("timeout")));
    for record in rig.records(delivery.id).await {
        let ran_for = (record.ended_at - record.started_at).to_std().expect("an end after the start");
        assert!(ran_for >= Duration::from_millis(500) && ran_for < Duration::from_secs(1), "ran for {ran_for:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_snooze_does_not_cost_an_attempt() {
    let rig = Rig::new().await;
    let dispatcher = rig
        .start(vec![
            Rig::handler("fail-snooze", |settings| {
                settings.max_attempts = 1;
                settings.retry.max_snoozes = 2;
            })
            .await,
        ])
        .await;
    let event = rig.publish("fail-snooze.a", json!({"ms": 10})).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Buried, 1), "two snoozes are free, the third counts as a retry");
    assert_eq!(dispatcher.counts().rescheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_events_of_a_run_are_stored_if_and_only_if_it_completes() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("publish-two", |settings| settings.max_attempts = 1).await]).await;
    let listener = rig.opened.store.subscribe(relaybus_host::store::Subscribe {
        tenant: "default".to_owned(),
        name: "listener".to_owned(),
        digest: String::new(),
        topics: vec!["two.*".parse().unwrap()],
        max_attempts: 1,
        max_crashes: 1,
    });
    listener.await.unwrap();
    for ending in ["fail", "panic", "ok"] {
        rig.publish("publish-two.a", json!(ending)).await;
        until_idle(&dispatcher).await;
        let heard: Vec<_> = rig.deliveries().await.into_iter().filter(|delivery| delivery.handler == "listener").collect();
        assert_eq!(heard.len(), if ending == "ok" { 2 } else { 0 }, "after a run that ended with `{ending}`");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publish_in_the_same_process_starts_its_handler_at_once() {
    let rig = Rig::new().await;
    let options = relaybus_host::dispatch::DispatcherOptions { poll_interval: Duration::from_secs(60), ..Rig::options() };
    let dispatcher = Rig::start_over(rig.opened.store.clone(), vec![Rig::handler("noop", |_| {}).await], options).await;
    let first = rig.publish("noop.a", json!(0)).await;
    rig.until(first, "is completed", |delivery| delivery.status == Status::Completed).await;
    let asked_at = Instant::now();
    let second = rig.publish("noop.a", json!(1)).await;
    rig.until(second, "is completed", |delivery| delivery.status == Status::Completed).await;
    assert!(asked_at.elapsed() < Duration::from_secs(2), "took {:?} though the poll is a minute away", asked_at.elapsed());
    dispatcher.stop(Duration::from_secs(5)).await;
}
