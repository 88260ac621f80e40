//! Each limit is reported by its name when a run hits it.

use relaybus_host::verdict::{NextStep, Reason, Verdict};
use relaybus_tests::sandbox::{run, run_with};

fn assert_trapped(verdict: &Verdict, expected: Reason, word: &str) {
    let Verdict::Trapped { reason, message } = verdict else { panic!("expected {expected}, got {verdict:?}") };
    assert_eq!(*reason, expected, "{message}");
    assert!(message.contains(word), "expected a message with {word}, got {message}");
}

#[tokio::test]
async fn a_guest_that_hoards_memory_hits_the_memory_limit() {
    assert_trapped(&run("memory-hog", "null").await.verdict, Reason::MemoryLimit, "`memory`");
}

#[tokio::test]
async fn a_lower_memory_limit_holds_for_its_run_alone() {
    let small = run_with("memory-hog", "null", |run| run.limits.memory_bytes = 8 << 20).await;
    let Verdict::Trapped { reason: Reason::MemoryLimit, message } = small.verdict else { panic!("{small:?}") };
    let asked: u64 = message.split_whitespace().find_map(|word| word.parse().ok()).expect("how much it asked for");
    assert!((8 << 20..32 << 20).contains(&asked), "{message}");
    assert_trapped(
        &run_with("memory-fill", "null", |run| run.limits.memory_bytes = 8 << 20).await.verdict,
        Reason::MemoryLimit,
        "`memory`",
    );
}

#[tokio::test]
async fn a_memory_that_is_too_large_from_the_start_hits_the_memory_limit() {
    let report = run_with("noop", "null", |run| run.limits.memory_bytes = 64 << 10).await;
    assert_trapped(&report.verdict, Reason::MemoryLimit, "`memory`");
}

#[tokio::test]
async fn a_table_that_is_too_large_hits_the_table_limit() {
    let report = run_with("noop", "null", |run| run.limits.table_elements = 1).await;
    assert_trapped(&report.verdict, Reason::TableLimit, "`table_elements`");
}

#[tokio::test]
async fn a_guest_that_lets_go_of_no_handle_hits_the_handle_limit() {
    assert_trapped(&run("handle-hog", "null").await.verdict, Reason::HandleLimit, "`handles`");
}

#[tokio::test]
async fn a_host_call_with_too_much_data_hits_the_host_call_limit() {
    assert_trapped(&run("host-call-hog", "null").await.verdict, Reason::HostCallLimit, "`host_call_data`");
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_refused_to_the_guest() {
    let report = run_with("host-call-hog", "null", |run| run.limits.host_call_bytes = 64 << 20).await;
    let Verdict::Failed(failure) = report.verdict else { panic!("{report:?}") };
    assert_eq!(failure.code.as_deref(), Some("payload-too-large"));
}

#[tokio::test]
async fn a_flood_of_output_keeps_the_last_bytes() {
    let report = run("output-flood", "null").await;
    assert!(matches!(&report.verdict, Verdict::Failed(failure) if failure.next == NextStep::Bury), "{:?}", report.verdict);
    assert!(report.output.len() <= 64 << 10 && report.output.len() > 63 << 10, "{} bytes", report.output.len());
    assert!(report.output.ends_with("the last line\n"));
    let none = run_with("output-flood", "null", |run| run.limits.output_bytes = 0).await;
    assert_eq!(none.output, "");
}

#[tokio::test]
async fn a_panic_keeps_its_text_without_any_output() {
    let report = run_with("panic", "null", |run| run.limits.output_bytes = 0).await;
    assert_trapped(&report.verdict, Reason::Panic, "this handler always panics");
}

#[tokio::test]
async fn what_the_host_holds_for_a_run_counts_as_its_memory() {
    let report = run_with("event-hog", "null", |run| run.limits.memory_bytes = 16 << 20).await;
    assert_trapped(&report.verdict, Reason::MemoryLimit, "events");
}

#[tokio::test]
async fn a_long_panic_keeps_the_beginning_of_its_text() {
    let report = run("panic-long", "null").await;
    assert_trapped(&report.verdict, Reason::Panic, "panicked at ");
    let Verdict::Trapped { message, .. } = &report.verdict else { unreachable!() };
    assert!(message.contains("the beginning of it, and so on") && message.len() < 9 << 10, "{} bytes: {message}", message.len());
}

#[tokio::test]
async fn the_texts_of_a_failure_are_cut() {
    let report = run("fail-verbose", "null").await;
    let Verdict::Failed(failure) = report.verdict else { panic!("{report:?}") };
    assert_eq!(failure.next, NextStep::Bury);
    let code = failure.code.unwrap();
    assert!(code.starts_with("öö") && code.ends_with('…') && code.len() < 200, "{code}");
    assert!(failure.message.starts_with("öö") && failure.message.len() < 9 << 10, "{} bytes", failure.message.len());
    assert_eq!(failure.extras.len(), 32);
    assert!(failure.extras.iter().all(|(name, value)| name.len() < 1_100 && value.len() < 1_100));
}
