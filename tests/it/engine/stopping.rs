//! R9, R14, R21: whatever a guest does, it is stopped soon after its time, and its neighbours go on.

use std::time::Duration;

use relaybus_host::clock::Instant;
use relaybus_host::verdict::{AbortReason, RunReport, Verdict};
use relaybus_tests::sandbox::{GRACE, PATIENCE, delivery, guest, run_of, run_with};

const TIMEOUT: Duration = Duration::from_millis(400);
const LONG: &str = r#"{"ms": 60000}"#;

/// Runs the guest with a short timeout, and a no-op again and again beside it: how the run ended, and the longest no-op.
async fn beside_a_neighbour(name: &str, payload: &str) -> (RunReport, Duration) {
    let (guest, noop) = (guest(name).await, guest("noop").await);
    let mut run = run_of(delivery(payload));
    run.timeout = TIMEOUT;
    let running = tokio::spawn(async move { guest.run(run).await });
    let mut longest = Duration::ZERO;
    loop {
        let neighbour = noop.run(run_of(delivery("null"))).await;
        assert!(matches!(neighbour.verdict, Verdict::Ok { .. }), "{neighbour:?}");
        longest = longest.max(neighbour.ran_for);
        if running.is_finished() {
            return (running.await.expect("a run"), longest);
        }
    }
}

async fn assert_stopped_at_its_timeout(name: &str, payload: &str) {
    let (report, longest) = beside_a_neighbour(name, payload).await;
    assert_eq!(report.verdict, Verdict::Aborted(AbortReason::Timeout), "{name}");
    assert!(report.ran_for >= TIMEOUT && report.ran_for < TIMEOUT + GRACE, "{name} ran for {:?}", report.ran_for);
    assert!(longest < GRACE, "beside {name} a no-op took {longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_timeout_stops_a_guest_that_spins() {
    assert_stopped_at_its_timeout("spin", "null").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_timeout_stops_a_guest_that_spins_through_host_calls() {
    assert_stopped_at_its_timeout("spin-in-publish-loop", "null").await;
    assert_stopped_at_its_timeout("poll-zero", "null").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_timeout_stops_a_guest_that_waits_in_the_host() {
    assert_stopped_at_its_timeout("sleep-wasi", LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_timeout_stops_bulk_memory_operations() {
    assert_stopped_at_its_timeout("memory-fill", "null").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_sees_its_timeout_coming() {
    for (name, payload, word) in [("notes-abort", "null", "saw it coming"), ("sleep-host", LONG, "aborted"), ("slow-ok", LONG, "aborted")] {
        let (report, _) = beside_a_neighbour(name, payload).await;
        let Verdict::Failed(failure) = &report.verdict else { panic!("{name}: {report:?}") };
        assert!(failure.message.contains(word), "{name}: {failure:?}");
        assert_eq!(report.signalled, Some(AbortReason::Timeout));
        let notice = TIMEOUT / 10;
        assert!(report.ran_for >= TIMEOUT - notice && report.ran_for < TIMEOUT + GRACE, "{name} ran for {:?}", report.ran_for);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_remains_once_the_abort_is_seen() {
    let (report, _) = beside_a_neighbour("notes-abort", "null").await;
    let Verdict::Failed(failure) = &report.verdict else { panic!("{report:?}") };
    assert_eq!(failure.extras, [("remaining_ms".to_owned(), "0".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_an_ok_within_the_grace_is_an_ok_that_was_signalled() {
    let payload = r#"{"ms": 60000, "on_abort": "ok"}"#;
    let report = run_with("sleep-host", payload, |run| run.abort.signal(AbortReason::Shutdown, Instant::now() + PATIENCE)).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    assert_eq!(report.signalled, Some(AbortReason::Shutdown));
    assert!(report.ran_for < GRACE, "ran for {:?}", report.ran_for);
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_signal_wakes_a_guest_that_sleeps_already() {
    let guest = guest("sleep-host").await;
    let run = run_of(delivery(LONG));
    let abort = run.abort.clone();
    let running = tokio::spawn(async move { guest.run(run).await });
    relaybus_tests::pause().await;
    abort.signal(AbortReason::Shutdown, Instant::now() + PATIENCE);
    let report = running.await.unwrap();
    assert!(matches!(&report.verdict, Verdict::Failed(_)), "{report:?}");
    assert_eq!(report.signalled, Some(AbortReason::Shutdown));
    assert!(report.ran_for < GRACE * 2, "ran for {:?}", report.ran_for);
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_stop_ends_any_guest_at_once() {
    for (name, payload) in [("spin", "null"), ("sleep-wasi", LONG), ("poll-zero", "null"), ("notes-abort", "null")] {
        let guest = guest(name).await;
        let run = run_of(delivery(payload));
        let abort = run.abort.clone();
        let running = tokio::spawn(async move { guest.run(run).await });
        relaybus_tests::pause().await;
        abort.stop(AbortReason::Shutdown);
        let asked_at = Instant::now();
        let report = running.await.unwrap();
        assert!(asked_at.elapsed() < GRACE, "{name} took {:?} to stop", asked_at.elapsed());
        assert_eq!(report.verdict, Verdict::Aborted(AbortReason::Shutdown), "{name}");
        assert_eq!(report.signalled, Some(AbortReason::Shutdown));
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_before_it_starts_does_not_start() {
    let report = run_with("publish-two", r#""ok""#, |run| run.abort.stop(AbortReason::Shutdown)).await;
    assert_eq!(report.verdict, Verdict::Aborted(AbortReason::Shutdown));
}

#[tokio::test]
async fn of_several_signals_the_first_reason_and_the_earliest_stop_count() {
    let report = run_with("spin", "null", |run| {
        run.abort.signal(AbortReason::Shutdown, Instant::now() + PATIENCE);
        run.abort.signal(AbortReason::LeaseLost, Instant::now() + Duration::from_millis(50));
        run.abort.signal(AbortReason::Timeout, Instant::now() + PATIENCE);
    })
    .await;
    assert_eq!(report.verdict, Verdict::Aborted(AbortReason::Shutdown));
    assert!(report.ran_for < GRACE, "ran for {:?}", report.ran_for);
}
