//! The pool of instances: what it has no room for is nobody's fault, and what was aborted leaves its place.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use relaybus_host::clock::Instant;
use relaybus_host::engine::{Abort, EngineOptions, Pooling};
use relaybus_host::verdict::{AbortReason, Reason, Verdict};
use relaybus_tests::sandbox::{GRACE, PATIENCE, delivery, engine, load, options, run_of};

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_full_pool_is_a_fault_of_the_host() {
    let engine = engine(EngineOptions { max_instances: 1, ..options() });
    let (spin, noop) = (load(&engine, "spin").await, load(&engine, "noop").await);
    let spinning = || {
        let mut run = run_of(delivery("null"));
        run.timeout = Duration::from_secs(1);
        spin.run(run)
    };
    let (first, second) = tokio::join!(spinning(), spinning());
    // Either of them may come first.
    let (ran, refused) =
        if matches!(first.verdict, Verdict::Aborted(_)) { (first.verdict, second.verdict) } else { (second.verdict, first.verdict) };
    assert_eq!(ran, Verdict::Aborted(AbortReason::Timeout));
    let Verdict::HostFault { message } = refused else { panic!("expected a fault of the host, got {refused:?}") };
    assert!(message.starts_with("no free instance in the pool"), "{message}");
    let report = noop.run(run_of(delivery("null"))).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "the place is free again: {report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_thousand_runs_aborted_at_random_moments_leave_every_place_usable() {
    const PLACES: u32 = 8;
    let engine = engine(EngineOptions { max_instances: PLACES, ..options() });
    let mut guests = Vec::new();
    for (name, payload) in [
        ("spin", "null"),
        ("sleep-wasi", r#"{"ms": 60000}"#),
        ("sleep-host", r#"{"ms": 60000}"#),
        ("poll-zero", "null"),
        ("spin-in-publish-loop", "null"),
        ("memory-hog", "null"),
        ("output-flood", "null"),
        ("noop", "null"),
    ] {
        guests.push((load(&engine, name).await, payload));
    }
    let runs = (0..1_000).map(|n| {
        let (guest, payload) = guests[n % guests.len()].clone();
        async move {
            let mut run = run_of(delivery(payload));
            run.abort = Abort::new(Instant::now() + Duration::from_micros(rand::random_range(0..8_000)));
            guest.run(run).await.verdict
        }
    });
    let verdicts: Vec<Verdict> = futures::stream::iter(runs).buffer_unordered(PLACES as usize).collect().await;
    let n_aborted = verdicts.iter().filter(|verdict| **verdict == Verdict::Aborted(AbortReason::LeaseLost)).count();
    assert!(n_aborted >= 600, "only {n_aborted} were aborted");
    let fault = verdicts.iter().find(|verdict| matches!(verdict, Verdict::HostFault { .. }));
    assert_eq!(fault, None);

    let slow = load(&engine, "slow-ok").await;
    let runs = (0..PLACES).map(|_| slow.run(run_of(delivery(r#"{"ms": 500}"#))));
    for report in futures::future::join_all(runs).await {
        assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    }
}

#[tokio::test]
async fn without_a_pool_runs_end_the_same() {
    let engine = engine(EngineOptions { pooling: Pooling::Off, ..options() });
    let report = load(&engine, "noop").await.run(run_of(delivery("null"))).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    let report = load(&engine, "recursion").await.run(run_of(delivery("null"))).await;
    assert!(matches!(report.verdict, Verdict::Trapped { reason: Reason::StackLimit, .. }), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_waits_for_any_longer_leaves_its_place() {
    let engine = engine(EngineOptions { max_instances: 1, ..options() });
    let (noop, guests) =
        (load(&engine, "noop").await, [(load(&engine, "spin").await, "null"), (load(&engine, "sleep-wasi").await, r#"{"ms": 60000}"#)]);
    for (guest, payload) in guests {
        let running = tokio::time::timeout(Duration::from_millis(50), guest.run(run_of(delivery(payload))));
        running.await.expect_err("it does not end by itself");
        let asked_at = Instant::now();
        while matches!(noop.run(run_of(delivery("null"))).await.verdict, Verdict::HostFault { .. }) {
            assert!(asked_at.elapsed() < GRACE, "the place is still taken");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_a_thousand_places_fits_the_address_space() {
    const PLACES: u32 = 1_000;
    let engine = engine(EngineOptions { max_instances: PLACES, ..options() });
    let sleep = load(&engine, "sleep-wasi").await;
    let abort = Abort::new(Instant::now() + PATIENCE);
    let mut runs: FuturesUnordered<_> = (0..=PLACES)
        .map(|_| {
            let mut run = run_of(delivery(r#"{"ms": 60000}"#));
            run.abort = abort.clone();
            sleep.run(run)
        })
        .collect();
    let refused = runs.next().await.expect("a run");
    assert!(matches!(refused.verdict, Verdict::HostFault { .. }), "on demand there would be a place for it: {refused:?}");
    abort.stop(AbortReason::Shutdown);
    let verdicts: Vec<Verdict> = runs.map(|report| report.verdict).collect().await;
    assert_eq!(verdicts, vec![Verdict::Aborted(AbortReason::Shutdown); PLACES as usize]);
}
