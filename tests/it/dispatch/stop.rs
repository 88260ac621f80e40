//! R21, R15: an orderly and bounded stop.

use std::time::{Duration, Instant};

use relaybus_host::delivery::Status;
use relaybus_tests::lossy::{Lossy, Verb};
use relaybus_tests::rig::Rig;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_run_that_ends_in_time_completes_and_the_stop_does_not_wait_longer() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("slow-ok", |_| {}).await]).await;
    let event = rig.publish("slow-ok.a", json!({"ms": 500})).await;
    rig.until(event, "runs", |delivery| delivery.status == Status::Processing).await;
    let asked_at = Instant::now();
    let report = dispatcher.stop(Duration::from_secs(20)).await;
    assert!(report.left.is_empty() && asked_at.elapsed() < Duration::from_secs(10), "took {:?}", asked_at.elapsed());
    assert_eq!(rig.delivery(event).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_runs_that_do_not_end_are_stopped_within_the_timeout_and_released_without_an_attempt() {
    let rig = Rig::new().await;
    let handlers =
        vec![Rig::handler("spin", |_| {}).await, Rig::handler("sleep-wasi", |_| {}).await, Rig::handler("slow-ok", |_| {}).await];
    let dispatcher = rig.start(handlers).await;
    let minute = json!({"ms": 60_000});
    let events =
        [rig.publish("spin.a", json!({})).await, rig.publish("sleep-wasi.a", minute.clone()).await, rig.publish("slow-ok.a", minute).await];
    for event in events {
        rig.until(event, "runs", |delivery| delivery.status == Status::Processing).await;
    }
    let asked_at = Instant::now();
    let report = dispatcher.stop(Duration::from_secs(2)).await;
    let took = asked_at.elapsed();
    assert!(took < Duration::from_millis(2_500), "the stop took {took:?}");
    assert!(report.left.is_empty(), "left {:?}", report.left);
    for event in events {
        let delivery = rig.delivery(event).await;
        assert_eq!((delivery.status, delivery.attempts, delivery.crashes), (Status::Pending, 0, 0), "{delivery:?}");
        assert!(rig.records(delivery.id).await.is_empty(), "a stop is no failure of the handler");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_r15_what_has_not_started_is_released_at_the_beginning_of_a_stop_at_its_old_place() {
    let rig = Rig::new().await;
    let slow = Rig::handler("slow-ok", |settings| settings.concurrency = Some(1)).await;
    let dispatcher = rig.start(vec![slow]).await;
    // Quick runs first, so that the worker learns to prefetch; then one that blocks the only slot.
    for _ in 0..20 {
        rig.publish("slow-ok.a", json!({"ms": 0})).await;
    }
    relaybus_tests::rig::until_idle(&dispatcher).await;
    let blocking = rig.publish("slow-ok.a", json!({"ms": 60_000})).await;
    rig.until(blocking, "runs", |delivery| delivery.status == Status::Processing).await;
    let waiting = rig.publish("slow-ok.a", json!({"ms": 0})).await;
    let due_at = rig.delivery(waiting).await.published_at;
    rig.until(waiting, "is prefetched", |delivery| delivery.status == Status::Processing).await;
    let stop = tokio::spawn(dispatcher.stop(Duration::from_secs(5)));
    let released = rig.until(waiting, "is released", |delivery| delivery.status == Status::Pending).await;
    assert!(!stop.is_finished(), "released before the running one has ended");
    assert_eq!((released.attempts, released.due_at), (0, Some(due_at)));
    assert!(stop.await.unwrap().left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_r21_what_a_claim_without_a_reply_has_leased_is_released_by_a_stop() {
    let rig = Rig::new().await;
    let event = rig.publish_for("noop", "noop.a", json!({})).await;
    let store = Lossy::over(rig.opened.store.clone(), Verb::ClaimAndReadBack, 4);
    let dispatcher = Rig::start_over(store, vec![Rig::handler("noop", |_| {}).await], Rig::options()).await;
    rig.until(event, "was claimed", |delivery| delivery.status == Status::Processing).await;
    let report = dispatcher.stop(Duration::from_secs(20)).await;
    let delivery = rig.delivery(event).await;
    assert!(report.left.is_empty());
    assert_eq!((delivery.status, delivery.attempts, delivery.crashes), (Status::Pending, 0, 0));
}
