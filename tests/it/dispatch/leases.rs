//! R3, R6, R9, R10, R11: what a lease means to a run.

use std::time::Duration;

use relaybus_host::delivery::Status;
use relaybus_host::dispatch::DispatcherOptions;
use relaybus_host::store::Change;
use relaybus_tests::rig::{PATIENCE, Rig, until_idle};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn r3_a_run_that_is_longer_than_the_lease_keeps_it_by_renewals() {
    let rig = Rig::new().await;
    let options = DispatcherOptions { lease_duration: Duration::from_millis(600), ..Rig::options() };
    let dispatcher = Rig::start_over(rig.opened.store.clone(), vec![Rig::handler("slow-ok", |_| {}).await], options.clone()).await;
    let rival = Rig::start_over(rig.opened.store.clone(), vec![Rig::handler("slow-ok", |_| {}).await], options).await;
    let event = rig.publish("slow-ok.a", json!({"ms": 2_000})).await;
    until_idle(&dispatcher).await;
    until_idle(&rival).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.crashes), (Status::Completed, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_r11_a_run_that_lost_its_lease_is_stopped_and_writes_nothing() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("spin", |_| {}).await]).await;
    let event = rig.publish("spin.a", json!({})).await;
    let running = rig.until(event, "runs", |delivery| delivery.status == Status::Processing).await;
    rig.opened.operators.change(&[running.id], Change::Bury).await.unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while dispatcher.n_held() > 0 {
        assert!(std::time::Instant::now() < deadline, "the run goes on without a lease");
        relaybus_tests::pause().await;
    }
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.reason.as_deref()), (Status::Buried, Some("operator")));
    assert_eq!(dispatcher.counts().lease_lost, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_delivery_is_not_claimed_again_before_its_old_run_has_ended() {
    let rig = Rig::new().await;
    let dispatcher = rig.start(vec![Rig::handler("spin", |_| {}).await]).await;
    let event = rig.publish("spin.a", json!({})).await;
    let first = rig.until(event, "runs", |delivery| delivery.status == Status::Processing).await;
    // Due again at once, and the only worker is woken; but its old run does not know yet that the lease is gone.
    rig.opened.operators.change(&[first.id], Change::Release).await.unwrap();
    rig.until(event, "runs again", |delivery| delivery.status == Status::Processing).await;
    assert_eq!(dispatcher.counts().lease_lost, 1, "the old run had ended when the new one was claimed");
    assert!(dispatcher.stop(Duration::from_secs(2)).await.left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_a_handler_runs_no_more_at_a_time_than_its_concurrency() {
    let rig = Rig::new().await;
    let slow = Rig::handler("slow-ok", |settings| settings.concurrency = Some(2));
    let dispatcher = rig.start(vec![slow.await]).await;
    let started_at = std::time::Instant::now();
    for _ in 0..6 {
        rig.publish("slow-ok.a", json!({"ms": 300})).await;
    }
    until_idle(&dispatcher).await;
    let took = started_at.elapsed();
    assert!(took >= Duration::from_millis(900), "six runs of 300 ms, two at a time, took {took:?}");
    assert!(rig.deliveries().await.iter().all(|delivery| delivery.status == Status::Completed && delivery.attempts == 1));
    dispatcher.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_a_malformed_delivery_is_buried_by_name_and_its_neighbours_complete() {
    let rig = Rig::new().await;
    let handler = Rig::handler("noop", |_| {}).await;
    let dispatcher = rig.start(vec![handler.clone()]).await;
    dispatcher.stop(Duration::from_secs(5)).await;
    let (bad, good) = (rig.publish("noop.a", json!(1)).await, rig.publish("noop.a", json!(2)).await);
    let pool = sqlx::SqlitePool::connect(&rig.url).await.unwrap();
    sqlx::query("update relaybus_events set headers = 'not json' where id = ?").bind(bad.0).execute(&pool).await.unwrap();
    let dispatcher = rig.start(vec![handler]).await;
    until_idle(&dispatcher).await;
    let buried = rig.delivery(bad).await;
    assert_eq!((buried.status, buried.reason.as_deref()), (Status::Buried, Some("malformed")));
    assert!(buried.message.unwrap().contains("headers"));
    assert_eq!(rig.delivery(good).await.status, Status::Completed);
}
