//! R7, R8, R22: hosts that die in mid-run, killed with SIGKILL as real processes.
#![allow(clippy::unwrap_used, reason = "a test fails where it expects too much")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::store::{self, DeliverySummary, List, OpenStore, StoreOptions};
use relaybus_tests::{guests, host};

/// Long enough for a slow disk, short enough for a test that waits for it to run out.
const CONFIG: &str = "[store]\ncall_timeout = \"900ms\"\n[dispatcher]\nlease_duration = \"3s\"\n";

struct Place {
    folder: tempfile::TempDir,
    opened: OpenStore,
}

impl Place {
    /// A folder with a store that knows the handler of `guest`.
    async fn new(guest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("relaybus.toml"), CONFIG).unwrap();
        let component = guests::component(guest);
        let added = host::run(folder.path(), &["handlers", "add", component.to_str().unwrap()]);
        assert_eq!(added.code, Some(0), "{added:?}");
        let url = format!("sqlite:{}", folder.path().join("relaybus.db").display());
        let opened = store::open(&url, StoreOptions::default()).await.unwrap();
        Self { folder, opened }
    }

    async fn publish(&self, topic: &str, payloads: impl Iterator<Item = String>) {
        let events = payloads.map(|payload| NewEvent::new(topic.parse().unwrap(), payload)).collect();
        for answer in self.opened.store.publish(events).await.unwrap() {
            assert_eq!(answer.unwrap().n_deliveries, 1);
        }
    }

    async fn until_completed(&self, n: usize) {
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        loop {
            let handlers = self.opened.operators.list_handlers().await.unwrap();
            let n_completed = handlers.iter().map(|handler| handler.completed).sum::<u64>();
            if n_completed == n as u64 {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "expected {n} completed deliveries, got {n_completed}");
            relaybus_tests::pause().await;
        }
    }

    async fn deliveries(&self, status: Option<Status>) -> Vec<DeliverySummary> {
        self.opened.operators.list(List { status, limit: 10_000, ..List::default() }).await.unwrap()
    }
}

fn start_host(folder: &Path, guest: &str) -> Child {
    let component = guests::component(guest);
    let mut command: Command = host::command(folder, &["run", component.to_str().unwrap(), "--until-idle", "--json"]);
    command.stdout(Stdio::null()).spawn().expect("the host starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_r22_a_second_host_completes_everything_after_a_kill_in_mid_run() {
    let place = Place::new("slow-ok").await;
    place.publish("slow-ok.a", (0..20).map(|_| r#"{"ms": 1500}"#.to_owned())).await;
    let mut first = start_host(place.folder.path(), "slow-ok");
    while place.deliveries(Some(Status::Processing)).await.is_empty() {
        assert!(first.try_wait().unwrap().is_none(), "the first host ended by itself");
        relaybus_tests::pause().await;
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let taken: Vec<_> = place.deliveries(Some(Status::Processing)).await.into_iter().map(|delivery| delivery.id).collect();
    assert!(!taken.is_empty(), "something was in flight");

    let second = start_host(place.folder.path(), "slow-ok").wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(0), "{}", String::from_utf8_lossy(&second.stderr));
    let deliveries = place.deliveries(None).await;
    assert_eq!(deliveries.len(), 20, "nothing is lost");
    for delivery in deliveries {
        let expected = if taken.contains(&delivery.id) { (Status::Completed, 2, 1) } else { (Status::Completed, 1, 0) };
        assert_eq!((delivery.status, delivery.attempts, delivery.crashes), expected, "{delivery:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r8_one_poison_in_a_batch_of_500_ends_buried_and_the_other_499_complete() {
    const MAX_CRASHES: usize = 5;
    let place = Place::new("poison").await;
    place.publish("poison.a", (0..500).map(|n| format!(r#"{{"poison": {}}}"#, n == 250))).await;
    let mut n_kills = 0;
    while host_dies_of_poison(place.folder.path()) {
        n_kills += 1;
        assert!(n_kills <= MAX_CRASHES, "what kills its host cannot loop for ever");
    }
    assert_eq!(n_kills, MAX_CRASHES);
    let buried = place.deliveries(Some(Status::Buried)).await;
    assert_eq!(buried.len(), 1, "{buried:?}");
    assert_eq!((buried[0].reason.as_deref(), buried[0].crashes), (Some("max-crashes"), 5));
    assert_eq!(place.deliveries(Some(Status::Completed)).await.len(), 499);
}

/// Runs a host until it is idle, or kills it as soon as it runs the poison; whether it was killed.
fn host_dies_of_poison(folder: &Path) -> bool {
    let mut child = start_host(folder, "poison");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stderr.take().expect("stderr is a pipe")).lines().map_while(Result::ok) {
        if line.contains("poison is running") {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        lines.push(line);
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", lines.join("\n"));
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_ten_thousand_deliveries_are_drained_by_two_hosts_on_one_file() {
    const N: usize = 10_000;
    let place = Place::new("noop").await;
    place.publish("noop.a", (0..N).map(|n| n.to_string())).await;
    let started = std::time::Instant::now();
    let hosts = [start_host(place.folder.path(), "noop"), start_host(place.folder.path(), "noop")];
    for host in hosts {
        let ended = host.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let took = started.elapsed();
    println!(
        "drained {N} deliveries in {took:?} with two hosts: {:.0} a second, start and compile included",
        N as f64 / took.as_secs_f64()
    );
    let deliveries = place.deliveries(None).await;
    assert_eq!(deliveries.len(), N);
    assert!(deliveries.iter().all(|delivery| delivery.status == Status::Completed && delivery.attempts == 1));
    assert!(took < Duration::from_secs(120));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_drains_ten_thousand_deliveries_does_not_grow_and_ends_on_sigterm() {
    const WARM_UP: usize = 2_000;
    const N: usize = 10_000;
    let place = Place::new("noop").await;
    let component = guests::component("noop");
    let mut host = host::command(place.folder.path(), &["run", component.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    place.publish("noop.a", (0..WARM_UP).map(|n| n.to_string())).await;
    place.until_completed(WARM_UP).await;
    let before = resident_kib(host.id());

    let started = std::time::Instant::now();
    place.publish("noop.a", (0..N).map(|n| n.to_string())).await;
    place.until_completed(WARM_UP + N).await;
    let rate = N as f64 / started.elapsed().as_secs_f64();
    let after = resident_kib(host.id());
    println!("published and drained {N} deliveries: {rate:.0} a second; resident {before} KiB before, {after} KiB after");
    assert!(after < before + 48 * 1024, "resident memory grew from {before} to {after} KiB");

    rustix::process::kill_process(rustix::process::Pid::from_child(&host), rustix::process::Signal::TERM).unwrap();
    assert_eq!(host.wait().unwrap().code(), Some(0), "a stop in order");
}

/// Memory that the process holds right now.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
