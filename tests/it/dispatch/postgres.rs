//! The same dispatcher over PostgreSQL.

use std::time::Duration;

use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::dispatch::DispatcherOptions;
use relaybus_host::store::{self, Backend, StoreOptions};
use relaybus_tests::rig::{Rig, until_idle};
use relaybus_tests::stores::is_skipped;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_on_postgresql_hears_of_what_others_publish_and_settles_it() {
    if is_skipped(Backend::Postgres) {
        println!("skipped by name: postgres");
        return;
    }
    let rig = Rig::on(Backend::Postgres).await;
    // A poll a minute away: only a notification can be the reason that the handlers start in time.
    let options = DispatcherOptions { poll_interval: Duration::from_secs(60), ..Rig::options() };
    let handlers = vec![Rig::handler("noop", |_| {}).await, Rig::handler("flaky", |_| {}).await];
    let dispatcher = Rig::start_over(rig.opened.store.clone(), handlers, options).await;
    let settled = rig.publish("noop.first", json!(0)).await;
    rig.until(settled, "is completed", |delivery| delivery.status == Status::Completed).await;

    let other = store::open(&rig.url, StoreOptions::default()).await.unwrap();
    let events: Vec<_> = (0..500).map(|n: u32| NewEvent::new("noop.many".parse().unwrap(), n.to_string())).collect();
    let last = events.last().map(|event| event.id).unwrap();
    assert!(other.store.publish(events).await.unwrap().iter().all(Result::is_ok));
    rig.until(last, "is completed", |delivery| delivery.status == Status::Completed).await;
    let retried = rig.publish("flaky.a", json!({"n": 2})).await;
    until_idle(&dispatcher).await;

    let deliveries = rig.deliveries().await;
    assert_eq!(deliveries.len(), 502);
    assert!(deliveries.iter().all(|delivery| delivery.status == Status::Completed && delivery.crashes == 0));
    assert_eq!(rig.delivery(retried).await.attempts, 2);
    assert!(dispatcher.stop(Duration::from_secs(10)).await.left.is_empty());
    other.store.close().await;
    rig.remove().await;
}
