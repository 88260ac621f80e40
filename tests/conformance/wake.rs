//! What waiting for work promises.

use std::sync::Arc;
use std::time::Duration;

use relaybus_host::delivery::HandlerId;
use relaybus_host::store::{Change, Changed, WakeUps};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::harness::{LONG, PATIENCE, Process, Test, case, until};
use crate::words::{bury, claim, event, handler, release};

/// Starts to wait as an idle worker does: a claim that finds nothing, then the wait.
async fn idle_worker(process: &Process, of: HandlerId) -> JoinHandle<()> {
    assert!(process.claim(claim(of)).await.deliveries.is_empty(), "expected an idle worker");
    let store = Arc::clone(&process.store);
    tokio::spawn(async move { store.wait_for_work(LONG).await })
}

async fn assert_woken(worker: JoinHandle<()>) {
    tokio::time::timeout(PATIENCE, worker).await.expect("the worker is woken").expect("waiting does not panic");
}

/// How long a wait takes for which nothing happens. A store may wake its workers in vain while it makes itself ready to hear of others, so the
/// first waits may end early, as long as one of them does not.
async fn undisturbed_wait(t: &Test, mailer: HandlerId, timeout: Duration) -> Duration {
    until("nothing ends a wait before its timeout", || async {
        t.claim(claim(mailer)).await;
        let started = Instant::now();
        t.store.wait_for_work(timeout).await;
        // A timer may be a little early, as the clocks go.
        Some(started.elapsed()).filter(|waited| *waited >= timeout.mul_f64(0.9))
    })
    .await
}

case!(w1_a_publish_wakes_an_idle_worker, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let worker = idle_worker(&t, mailer).await;

    t.publish(event("order.created")).await;

    assert_woken(worker).await;
});

case!(w1_a_publish_between_the_last_claim_and_the_wait_is_not_missed, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.claim(claim(mailer)).await;
    t.publish(event("order.created")).await;

    assert_woken(tokio::spawn({
        let store = Arc::clone(&t.store);
        async move { store.wait_for_work(LONG).await }
    }))
    .await;
});

case!(w1_a_release_wakes_an_idle_worker, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let worker = idle_worker(&t, mailer).await;

    t.settle(release(held.lease)).await;

    assert_woken(worker).await;
});

case!(w1_a_redrive_wakes_an_idle_worker, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(bury(held.lease)).await;
    let worker = idle_worker(&t, mailer).await;

    assert_eq!(t.change(held.delivery.id, Change::Redrive).await, Changed::Applied);

    assert_woken(worker).await;
});

case!(w1_every_idle_worker_of_the_process_is_woken, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let workers = [idle_worker(&t, mailer).await, idle_worker(&t, mailer).await, idle_worker(&t, mailer).await];

    t.publish_many("order.created", 3).await;

    for worker in workers {
        assert_woken(worker).await;
    }
});

case!(w1_wake_ups_of_other_processes_are_as_declared, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let other = t.reopen().await;
    let worker = idle_worker(&t, mailer).await;

    other.publish(event("order.created")).await;

    match t.store.capabilities().wake_ups {
        WakeUps::Everywhere => assert_woken(worker).await,
        WakeUps::Process => {
            let waited = tokio::time::timeout(Duration::from_secs(2), worker).await;
            assert!(waited.is_err(), "expected no wake-up from another process, as declared");
        }
    }
});

case!(w2_nothing_ends_a_wait_before_its_timeout_and_it_then_ends, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;

    let waited = undisturbed_wait(&t, mailer, Duration::from_millis(500)).await;

    assert!(waited < PATIENCE, "waited {waited:?}");
});

case!(w2_a_timeout_of_zero_returns_at_once, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;

    assert!(undisturbed_wait(&t, mailer, Duration::ZERO).await < PATIENCE);
});
