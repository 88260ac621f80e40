//! Two workers on one real server, with a network between that goes wrong by seed; and each call on a connection whose other end is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use relaybus_host::delivery::{HandlerId, NewEvent, WorkerId};
use relaybus_host::dispatch::DispatcherOptions;
use relaybus_host::lease::{Lease, LeaseToken};
use relaybus_host::store::{
    self, Backend, Claim, ClaimFor, ErrorKind, ExtendLeases, Isolation, Settle, Settlement, Store, StoreOptions, Subscribe,
};
use relaybus_tests::history::History;
use relaybus_tests::proxy::{Network, Proxy};
use relaybus_tests::rig::{PATIENCE, Rig};
use relaybus_tests::size;
use relaybus_tests::stores::is_skipped;

use crate::flow::{RUNS, SEED_VARIABLE, all_ended, seeds, wait};

const CALL_TIMEOUT: Duration = Duration::from_millis(600);
/// How much longer than its timeout a call may take here, connecting included: the machine is not ours alone.
const MARGIN: Duration = Duration::from_secs(8);
const N_EVENTS: usize = 150;

#[tokio::test(flavor = "multi_thread")]
async fn r22_everything_ends_once_behind_a_network_that_goes_wrong_on_postgresql() {
    every_seed(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_everything_ends_once_behind_a_network_that_goes_wrong_on_mongodb() {
    every_seed(Backend::MongoDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_a_half_open_connection_to_postgresql() {
    half_open(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_hangs_on_a_half_open_connection_to_mongodb() {
    half_open(Backend::MongoDb).await;
}

async fn every_seed(backend: Backend) {
    if is_skipped(backend) {
        return;
    }
    for seed in seeds(size::pick(1, 10)) {
        println!("the network to {backend:?} with {SEED_VARIABLE}={seed}");
        one_seed(backend, seed).await;
    }
}

async fn one_seed(backend: Backend, seed: u64) {
    std::sync::LazyLock::force(&RUNS);
    let rig = Rig::on(backend).await;
    let proxy = Proxy::before(&rig.url).await.unwrap();
    let history = Arc::new(History::default());
    let options = DispatcherOptions { concurrency: 4, lease_duration: Duration::from_secs(2), ..DispatcherOptions::default() };
    let mut workers = Vec::new();
    for _ in 0..2 {
        let opened = open(&proxy).await;
        let store = history.record(Arc::clone(&opened));
        let handlers = vec![Rig::handler("slow-ok", |settings| settings.max_crashes = 50).await, Rig::handler("fail-bury", |_| {}).await];
        workers.push((opened, Rig::start_over(store, handlers, options.clone()).await));
    }
    let publisher = history.record(Arc::clone(&rig.opened.store));
    let slow = (0..N_EVENTS).map(|_| NewEvent::new("slow-ok.a".parse().unwrap(), r#"{"ms": 100}"#));
    let buried = (0..N_EVENTS / 10).map(|_| NewEvent::new("fail-bury.a".parse().unwrap(), "1"));
    publisher.publish(slow.chain(buried).collect()).await.unwrap();

    misbehave(&proxy, seed, size::pick(Duration::from_secs(5), Duration::from_secs(20))).await;
    let has_ended = wait(PATIENCE * 3, || async { all_ended(&rig.deliveries().await) }).await;
    for (opened, dispatcher) in workers {
        let report = dispatcher.stop(Duration::from_secs(10)).await;
        assert!(report.left.is_empty(), "left at the stop: {:?}", report.left);
        opened.close().await;
    }
    let mut violations = history.violations(&rig.deliveries().await);
    violations.extend(RUNS.overlaps());
    assert!(has_ended && violations.is_empty(), "{backend:?} with {SEED_VARIABLE}={seed}:\n{}", violations.join("\n"));
    rig.remove().await;
}

/// Now this, now that; in the end all is well again.
async fn misbehave(proxy: &Proxy, seed: u64, time: Duration) {
    let mut dice = StdRng::seed_from_u64(seed);
    let ends_at = Instant::now() + time;
    let mut up_to = |longest| Duration::from_millis(dice.random_range(50..longest));
    while Instant::now() < ends_at {
        let time = up_to(900);
        match time.as_millis() % 6 {
            0 => proxy.set_for(Network::Stalls, time).await,
            1 => proxy.set_for(Network::StallsReplies, time).await,
            2 => proxy.set_for(Network::Swallows, time).await,
            _ => proxy.cut(),
        }
        proxy.set_for(Network::Flows, up_to(300)).await;
    }
}

async fn open(proxy: &Proxy) -> Arc<dyn Store> {
    store::open(&proxy.url, StoreOptions { call_timeout: CALL_TIMEOUT, ..StoreOptions::default() }).await.unwrap().store
}

async fn half_open(backend: Backend) {
    if is_skipped(backend) {
        return;
    }
    let rig = Rig::on(backend).await;
    let proxy = Proxy::before(&rig.url).await.unwrap();
    let store = open(&proxy).await;
    let handler = store.subscribe(subscription()).await.unwrap().handler;
    let lease = Lease { delivery: relaybus_host::delivery::DeliveryId(uuid::Uuid::new_v4()), token: LeaseToken::random() };

    proxy.set(Network::Swallows);
    let event = NewEvent::new("mail.a".parse().unwrap(), "1");
    assert_given_up("publish", store.publish(vec![event.clone()])).await;
    assert_given_up("claim", store.claim(claim(handler))).await;
    assert_given_up("recover_claim", store.recover_claim(lease.token)).await;
    assert_given_up("extend_leases", store.extend_leases(ExtendLeases { leases: vec![lease], lease_duration: PATIENCE })).await;
    assert_given_up("settle", store.settle(vec![Settlement { lease, settle: Settle::Bury, report: None }])).await;
    assert_given_up("backlog", store.backlog(&[handler])).await;
    assert_given_up("subscribe", store.subscribe(subscription())).await;

    proxy.set(Network::Flows);
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = store.publish(vec![event.clone()]).await {
        assert!(Instant::now() < deadline, "no way back to the server: {error}");
    }
    assert_eq!(rig.deliveries().await.len(), 1);
    store.close().await;
    rig.remove().await;
}

async fn assert_given_up<T>(verb: &str, call: impl Future<Output = store::Result<T>>) {
    match tokio::time::timeout(CALL_TIMEOUT + MARGIN, call).await {
        Err(_) => panic!("`{verb}` hangs"),
        Ok(Ok(_)) => panic!("`{verb}` was answered, though nothing gets through"),
        Ok(Err(error)) => {
            assert!(matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unavailable), "`{verb}` failed by {:?}: {error}", error.kind);
        }
    }
}

fn subscription() -> Subscribe {
    Subscribe {
        tenant: "default".to_owned(),
        name: "mailer".to_owned(),
        digest: "0".repeat(64),
        topics: vec!["mail.>".parse().unwrap()],
        max_attempts: 3,
        max_crashes: 3,
    }
}

fn claim(handler: HandlerId) -> Claim {
    Claim {
        worker: WorkerId::random(),
        token: LeaseToken::random(),
        handlers: vec![ClaimFor { handler, limit: 10, lease_duration: PATIENCE }],
        limit: 10,
        max_payload_bytes: 1 << 20,
        isolation: Isolation::Shared,
        exclude: Vec::new(),
    }
}
