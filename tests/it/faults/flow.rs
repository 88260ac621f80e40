//! Two workers on one database, each over a store that goes wrong by a seed of its own.
//!
//! By an even seed every verb goes wrong now and then; by an odd one renewals mostly come too late, so that leases are lost
//! under running handlers and are renewed when another worker holds them.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::dispatch::{Dispatcher, DispatcherOptions, Served};
use relaybus_host::store::{self, Backend, DeliverySummary, Store, StoreOptions};
use relaybus_tests::faulty::{Faulty, Rates, Verb};
use relaybus_tests::history::History;
use relaybus_tests::invariants;
use relaybus_tests::rig::{PATIENCE, Rig};
use relaybus_tests::runs::Runs;
use relaybus_tests::stores::is_skipped;

/// Names the seed of a run to repeat.
pub(crate) const SEED_VARIABLE: &str = "RELAYBUS_TEST_SEED";
/// How long everything goes on going wrong, and how many events of each kind there are.
const BAD_TIME: Duration = Duration::from_secs(3);
const N_EACH: usize = 12;

/// Handles what runs have published.
const FOLLOWER: &str = "follower";
/// Shorter than a run of `slow-ok`.
const LEASE: Duration = Duration::from_secs(1);

/// One listener for all tests of this process: its workers have names of their own.
pub(crate) static RUNS: LazyLock<Runs> = LazyLock::new(Runs::listen);

#[tokio::test(flavor = "multi_thread")]
async fn r1_to_r16_hold_while_the_store_goes_wrong_on_sqlite() {
    all_seeds(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_to_r16_hold_while_the_store_goes_wrong_on_postgresql() {
    all_seeds(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_to_r16_hold_while_the_store_goes_wrong_on_mongodb() {
    all_seeds(Backend::MongoDb).await;
}

async fn all_seeds(backend: Backend) {
    if is_skipped(backend) {
        return;
    }
    for seed in seeds(relaybus_tests::size::pick(2, 20)) {
        println!("{backend:?} with {SEED_VARIABLE}={seed}");
        one_seed(backend, seed).await;
    }
}

/// As many seeds, even and odd ones in turn; or the one that is asked for.
pub(crate) fn seeds(n: u64) -> Vec<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(seed) => vec![seed.parse().expect("a seed is a number")],
        Err(_) => (0..n).map(|n| rand::random_range(0..500_000) * 2 + n % 2).collect(),
    }
}

async fn one_seed(backend: Backend, seed: u64) {
    LazyLock::force(&RUNS);
    let rig = Rig::on(backend).await;
    let history = Arc::new(History::default());
    let mut workers = Vec::new();
    for n in 0..2 {
        let opened = store::open(&rig.url, StoreOptions { call_timeout: Duration::from_secs(5), ..StoreOptions::default() }).await.unwrap();
        let faulty = Faulty::over(history.record(opened.store), |verb| rates_of(verb, seed), seed * 2 + n);
        workers.push((Arc::clone(&faulty), start(faulty).await));
    }
    publish(workers[0].0.as_ref()).await;

    wait(BAD_TIME / 3, || async { all_ended(&rig.deliveries().await) }).await;
    // One of them stops in the middle, sooner than its runs end, and another begins.
    let (faulty, dispatcher) = workers.pop().unwrap();
    dispatcher.stop(LEASE).await;
    workers.push((Arc::clone(&faulty), start(faulty).await));
    wait(BAD_TIME, || async { all_ended(&rig.deliveries().await) }).await;
    for (faulty, _) in &workers {
        assert!(faulty.n_faults() > 0, "nothing has gone wrong");
        faulty.heal().await;
    }
    let has_ended = wait(PATIENCE * 3, || async { all_ended(&rig.deliveries().await) }).await;
    for (faulty, dispatcher) in workers {
        let report = dispatcher.stop(Duration::from_secs(10)).await;
        assert!(report.left.is_empty(), "left at the stop: {:?}", report.left);
        faulty.close().await;
    }

    let deliveries = rig.deliveries().await;
    let mut violations = history.violations(&deliveries);
    violations.extend(invariants::violations_of_run_events(&history.entries(), &deliveries, FOLLOWER));
    violations.extend(RUNS.overlaps());
    assert!(has_ended && violations.is_empty(), "{backend:?} with {SEED_VARIABLE}={seed}:\n{}", violations.join("\n"));
    assert!(RUNS.n_started() > 0, "no run was seen");
    rig.remove().await;
}

fn rates_of(verb: Verb, seed: u64) -> Rates {
    if verb == Verb::ExtendLeases && seed % 2 == 1 { Rates::BELATED } else { Rates::BAD_DAY }
}

/// Handlers that end in every way.
async fn start(store: Arc<dyn Store>) -> Dispatcher {
    let mut follower = Rig::handler("noop", |settings| settings.max_attempts = 20).await;
    follower.name = FOLLOWER.to_owned();
    follower.topics = vec!["two.>".parse().unwrap()];
    let mut handlers: Vec<Served> = vec![follower];
    for guest in ["noop", "flaky", "fail-bury", "fail-retry", "panic", "publish-two", "slow-ok"] {
        handlers.push(Rig::handler(guest, |settings| settings.max_attempts = 20).await);
    }
    handlers.push(
        Rig::handler("spin", |settings| {
            settings.timeout = Duration::from_millis(50);
            settings.max_attempts = 2;
        })
        .await,
    );
    for handler in handlers.iter_mut().filter(|handler| ["fail-retry", "panic"].contains(&handler.name.as_str())) {
        handler.settings.max_attempts = 2;
    }
    // What a crash puts back waits for up to a lease, and then runs alone: short ones keep that bearable.
    let options = DispatcherOptions { concurrency: 8, lease_duration: LEASE, ..DispatcherOptions::default() };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Dispatcher::start(Arc::clone(&store), handlers.clone(), options.clone()).await {
            Ok(dispatcher) => return dispatcher,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Publishes as somebody does who repeats a call until it is answered (P5).
async fn publish(store: &dyn Store) {
    let payload_of = |topic: &str| match topic {
        "flaky.a" => r#"{"n": 3}"#,
        "publish-two.a" => r#""ok""#,
        "slow-ok.a" => r#"{"ms": 2500}"#,
        _ => "1",
    };
    let topics = ["noop.a", "flaky.a", "fail-bury.a", "fail-retry.a", "panic.a", "publish-two.a", "slow-ok.a", "spin.a"];
    for topic in topics {
        let n = match topic {
            "spin.a" => N_EACH / 6,
            "slow-ok.a" => N_EACH / 3,
            _ => N_EACH,
        };
        let events: Vec<NewEvent> = (0..n).map(|_| NewEvent::new(topic.parse().unwrap(), payload_of(topic))).collect();
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = store.publish(events.clone()).await {
            assert!(Instant::now() < deadline, "{error}");
        }
    }
}

pub(crate) fn all_ended(deliveries: &[DeliverySummary]) -> bool {
    deliveries.iter().all(|delivery| matches!(delivery.status, Status::Completed | Status::Buried))
}

/// Whether it came to be within `time`.
pub(crate) async fn wait<F: Future<Output = bool>>(time: Duration, is_so: impl Fn() -> F) -> bool {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if is_so().await {
            return true;
        }
        relaybus_tests::pause().await;
    }
    false
}
