//! A run finds nothing of other runs, and nothing of the machine.

use relaybus_host::verdict::Verdict;
use relaybus_tests::sandbox::{delivery, guest, run, run_of};

async fn assert_finds_nothing(name: &str, payload: &str) {
    let report = run(name, payload).await;
    assert_eq!(report.verdict, Verdict::Ok { events: Vec::new() }, "{name}: {}", report.output);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_has_fresh_statics() {
    let guest = guest("counter-static").await;
    for _ in 0..50 {
        let (first, second) = tokio::join!(guest.run(run_of(delivery("1"))), guest.run(run_of(delivery("2"))));
        for report in [first, second] {
            assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
        }
    }
}

#[tokio::test]
async fn a_guest_finds_no_environment() {
    assert_finds_nothing("reach-env", "null").await;
}

#[tokio::test]
async fn a_guest_finds_no_files() {
    assert_finds_nothing("reach-fs", "null").await;
}

#[tokio::test]
async fn a_guest_finds_no_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_finds_nothing("reach-net", &format!("\"{}\"", listener.local_addr().unwrap())).await;
    let error = listener.accept().expect_err("nobody has connected");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_guest_finds_an_empty_stdin() {
    assert_finds_nothing("reach-stdin", "null").await;
}
