//! R9: a run does not outlive its lease.

use std::time::Duration;

use relaybus_host::clock::Instant;
use relaybus_host::engine::Abort;
use relaybus_host::verdict::{AbortReason, Verdict};
use relaybus_tests::sandbox::{GRACE, PATIENCE, delivery, guest, run_of, run_with};

const LEASE: Duration = Duration::from_millis(200);
const LOST: Verdict = Verdict::Aborted(AbortReason::LeaseLost);

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_run_is_stopped_when_its_lease_ends_whatever_it_does() {
    for (name, payload) in
        [("spin", "null"), ("sleep-wasi", r#"{"ms": 60000}"#), ("spin-in-publish-loop", "null"), ("sleep-host", r#"{"ms": 60000}"#)]
    {
        let guest = guest(name).await;
        let mut run = run_of(delivery(payload));
        run.abort = Abort::new(Instant::now() + LEASE);
        let report = guest.run(run).await;
        assert_eq!(report.verdict, LOST, "{name}");
        assert_eq!(report.signalled, Some(AbortReason::LeaseLost));
        assert!(report.ran_for < LEASE + GRACE, "{name} ran for {:?}", report.ran_for);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_an_extended_lease_lets_the_run_go_on() {
    let guest = guest("slow-ok").await;
    let mut run = run_of(delivery(r#"{"ms": 600}"#));
    run.abort = Abort::new(Instant::now() + LEASE);
    let abort = run.abort.clone();
    let running = tokio::spawn(async move { guest.run(run).await });
    relaybus_tests::pause().await;
    abort.extend_lease(Instant::now() + PATIENCE);
    let report = running.await.unwrap();
    assert_eq!(report.verdict, Verdict::Ok { events: Vec::new() });
    assert_eq!(report.signalled, None);
    assert!(report.ran_for > LEASE);
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_lease_that_ended_before_the_run_began_lets_nothing_through() {
    let report = run_with("publish-two", r#""ok""#, |run| run.abort = Abort::new(Instant::now())).await;
    assert_eq!(report.verdict, LOST);
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_lost_lease_outweighs_a_shutdown_and_a_timeout() {
    let report = run_with("spin", "null", |run| {
        run.timeout = LEASE;
        run.abort = Abort::new(Instant::now());
        run.abort.stop(AbortReason::Shutdown);
    });
    assert_eq!(report.await.verdict, LOST);
}
