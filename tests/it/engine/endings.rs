//! R14: every way in which a run ends by itself has its verdict.

use std::time::Duration;

use relaybus_host::verdict::{Failure, NextStep, Reason, RunReport, Verdict};
use relaybus_tests::sandbox::{run, run_with};

fn failure(report: &RunReport) -> &Failure {
    let Verdict::Failed(failure) = &report.verdict else { panic!("expected a failure, got {report:?}") };
    failure
}

fn trapped(report: &RunReport) -> (Reason, &str) {
    let Verdict::Trapped { reason, message } = &report.verdict else { panic!("expected a trap, got {report:?}") };
    (*reason, message)
}

#[tokio::test]
async fn r14_an_ok_is_an_ok_without_events() {
    let report = run("noop", "null").await;
    assert_eq!(report.verdict, Verdict::Ok { events: Vec::new() });
    assert_eq!(report.signalled, None);
    assert_eq!(report.output, "");
}

#[tokio::test]
async fn r14_an_error_with_a_source_is_a_retry_that_tells_the_whole_chain() {
    let report = run("fail-retry", "null").await;
    let failure = failure(&report);
    assert_eq!(failure.next, NextStep::Retry);
    assert!(failure.message.starts_with("the setting cannot be read"), "{}", failure.message);
    assert!(failure.message.contains("`true` or `false`"), "{}", failure.message);
}

#[tokio::test]
async fn r14_retry_after_and_snooze_carry_their_delay() {
    let delay = Duration::from_millis(250);
    assert_eq!(failure(&run("fail-retry-after", r#"{"ms": 250}"#).await).next, NextStep::RetryAfter(delay));
    assert_eq!(failure(&run("fail-snooze", r#"{"ms": 250}"#).await).next, NextStep::Snooze(delay));
}

#[tokio::test]
async fn r14_bury_carries_its_code_and_extras() {
    let report = run("fail-bury", "null").await;
    let extras = [("card", "4242"), ("amount", "12.5")];
    let expected = Failure {
        message: "the card was declined".to_owned(),
        code: Some("card-declined".to_owned()),
        next: NextStep::Bury,
        extras: extras.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    };
    assert_eq!(failure(&report), &expected);
}

#[tokio::test]
async fn r14_a_guest_sees_which_attempt_it_is() {
    let report = run_with("flaky", r#"{"n": 3}"#, |run| run.delivery.attempt = 2).await;
    assert_eq!(failure(&report).message, "attempt 2 of 3");
    let report = run_with("flaky", r#"{"n": 3}"#, |run| run.delivery.attempt = 3).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
}

#[tokio::test]
async fn r14_a_panic_is_named_and_tells_its_text_and_the_last_output() {
    let report = run("panic", "null").await;
    let (reason, message) = trapped(&report);
    assert_eq!(reason, Reason::Panic);
    assert!(message.contains("this handler always panics"), "{message}");
    assert!(report.output.contains("about to panic\n"), "{}", report.output);
    assert!(report.output.contains("INFO last words"), "{}", report.output);
}

#[tokio::test]
async fn r14_a_trap_is_named_as_what_it_was() {
    let report = run("trap", "null").await;
    let (reason, message) = trapped(&report);
    assert_eq!(reason, Reason::Trap);
    assert!(message.contains("unreachable"), "{message}");
}

#[tokio::test]
async fn r14_an_exit_is_a_trap_whatever_its_code() {
    for code in [0, 1, 3] {
        let report = run("exit", format!(r#"{{"code": {code}}}"#)).await;
        let (reason, message) = trapped(&report);
        assert_eq!(reason, Reason::Trap);
        assert!(message.starts_with("called exit("), "{message}");
        assert_eq!(report.output, format!("about to exit with {code}\n"));
    }
}

#[tokio::test]
async fn r14_recursion_without_end_hits_the_stack_limit() {
    let report = run("recursion", "null").await;
    let (reason, message) = trapped(&report);
    assert_eq!(reason, Reason::StackLimit, "{message}");
}

#[tokio::test]
async fn log_lines_and_both_streams_are_kept_in_order() {
    let report = run("log-lines", r#""ok""#).await;
    assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    let lines: Vec<&str> = report.output.lines().collect();
    let starts = ["TRACE a line", "DEBUG a line", "INFO a line", "WARN a line", "ERROR a line", "a line on stdout", "a line on stderr"];
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "expected {start}, got {line}");
    }
    assert!(lines[2].contains("n=2") && lines[2].contains("topic=guest.test"), "{}", lines[2]);
}
