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
