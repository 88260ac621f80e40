//! What a sandbox of its own costs each run, and how exactly runaway guests are stopped: `cargo bench -p relaybus-tests --bench engine`.
//!
//! Design, section 10. Ratios and tails matter here; absolute figures are the machine's.

use std::time::{Duration, Instant};

use relaybus_host::engine::{Component, EngineOptions};
use relaybus_host::verdict::{AbortReason, Verdict};
use relaybus_tests::sandbox::{delivery, engine, load, options, run_of};

const N_WARM_UP: usize = 200;
const N_RUNS: usize = 20_000;
const N_ABORTS: usize = 200;
const N_SPINNERS: usize = 4;
/// Counted from the start of the run; what comes after it is the overshoot.
const SPIN_TIMEOUT: Duration = Duration::from_millis(100);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("{:<52} {:>10} {:>10} {:>10}", "", "p50", "p99", "max");
    runtime.block_on(async {
        fresh_runs().await;
        for n_threads in [1, 2] {
            throughput(n_threads).await;
        }
        aborts().await;
    });
}

/// Fresh instance, call and drop as the caller sees it: the hand-over to the guests' threads and back is part of it.
async fn fresh_runs() {
    let noop = load(&engine(options()), "noop").await;
    no_ops(noop.clone(), N_WARM_UP).await;
    print("no-op: fresh instance, call, drop", no_ops(noop, N_RUNS).await);
}

/// No-ops a second with as many at a time as keep the guests' threads busy.
async fn throughput(n_threads: usize) {
    let noop = load(&engine(EngineOptions { worker_threads: n_threads, ..options() }), "noop").await;
    let started_at = Instant::now();
    let callers: Vec<_> = (0..n_threads * 8).map(|_| tokio::spawn(no_ops(noop.clone(), N_RUNS / (n_threads * 8)))).collect();
    let mut n_runs = 0_u32;
    for caller in callers {
        n_runs += u32::try_from(caller.await.expect("a caller").len()).expect("a small number");
    }
    let per_second = f64::from(n_runs) / started_at.elapsed().as_secs_f64();
    println!("{:<52} {per_second:>10.0} a second", format!("no-ops on {n_threads} threads"));
}

async fn no_ops(noop: Component, n_runs: usize) -> Vec<Duration> {
    let mut took = Vec::with_capacity(n_runs);
    for _ in 0..n_runs {
        let run = run_of(delivery("null"));
        let started_at = Instant::now();
        let report = noop.run(run).await;
        took.push(started_at.elapsed());
        assert!(matches!(report.verdict, Verdict::Ok { .. }), "{report:?}");
    }
    took
}

/// Spinners on every thread of the guests, each stopped at its timeout and started again, and a neighbour that runs no-ops meanwhile.
async fn aborts() {
    let engine = engine(EngineOptions { worker_threads: 2, ..options() });
    let (spin, noop) = (load(&engine, "spin").await, load(&engine, "noop").await);
    let spinners: Vec<_> = (0..N_SPINNERS).map(|_| tokio::spawn(overshoots(spin.clone(), N_ABORTS / N_SPINNERS))).collect();
    let mut neighbour = Vec::new();
    while !spinners.iter().all(tokio::task::JoinHandle::is_finished) {
        neighbour.extend(no_ops(noop.clone(), 1).await);
    }
    let mut overshot = Vec::new();
    for spinner in spinners {
        overshot.extend(spinner.await.expect("a spinner"));
    }
    print(&format!("stopped after the deadline, {N_SPINNERS} spinners on 2 threads"), overshot);
    print("a neighbour's no-op meanwhile", neighbour);
}

async fn overshoots(spin: Component, n_runs: usize) -> Vec<Duration> {
    let mut overshot = Vec::with_capacity(n_runs);
    for _ in 0..n_runs {
        let mut run = run_of(delivery("null"));
        run.timeout = SPIN_TIMEOUT;
        let report = spin.run(run).await;
        assert_eq!(report.verdict, Verdict::Aborted(AbortReason::Timeout));
        overshot.push(report.ran_for.saturating_sub(SPIN_TIMEOUT));
    }
    overshot
}

fn print(what: &str, mut durations: Vec<Duration>) {
    durations.sort_unstable();
    let at = |percent: usize| durations[(durations.len() - 1) * percent / 100];
    println!("{what:<52} {:>10} {:>10} {:>10}", show(at(50)), show(at(99)), show(at(100)));
}

fn show(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1_000.0 { format!("{micros:.1} us") } else { format!("{:.2} ms", micros / 1e3) }
}
