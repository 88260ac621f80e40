//! R2, R13: the store does what it was asked, and the reply is lost.

use std::time::Duration;

use relaybus_host::delivery::Status;
use relaybus_tests::lossy::{Lossy, Verb};
use relaybus_tests::rig::{Rig, until_idle};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn r2_a_claim_whose_reply_was_lost_is_read_back_and_costs_no_attempt() {
    let rig = Rig::new().await;
    let event = rig.publish_for("noop", "noop.a", json!(1)).await;
    let store = Lossy::over(rig.opened.store.clone(), Verb::Claim, 1);
    let dispatcher = Rig::start_over(store, vec![Rig::handler("noop", |_| {}).await], Rig::options()).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.crashes), (Status::Completed, 1, 0));
    dispatcher.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_reading_a_claim_back_is_repeated_until_the_store_answers() {
    let rig = Rig::new().await;
    let event = rig.publish_for("noop", "noop.a", json!(1)).await;
    let store = Lossy::over(rig.opened.store.clone(), Verb::ClaimAndReadBack, 3);
    let dispatcher = Rig::start_over(store, vec![Rig::handler("noop", |_| {}).await], Rig::options()).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.crashes), (Status::Completed, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn r13_a_settle_whose_reply_was_lost_is_repeated_and_the_run_is_not() {
    let rig = Rig::new().await;
    let event = rig.publish_for("noop", "noop.a", json!(1)).await;
    let store = Lossy::over(rig.opened.store.clone(), Verb::Settle, 3);
    let dispatcher = Rig::start_over(store, vec![Rig::handler("noop", |_| {}).await], Rig::options()).await;
    until_idle(&dispatcher).await;
    let delivery = rig.delivery(event).await;
    assert_eq!((delivery.status, delivery.attempts, delivery.reason), (Status::Completed, 1, None));
    assert_eq!((dispatcher.counts().completed, dispatcher.counts().lease_lost), (1, 0));
}
