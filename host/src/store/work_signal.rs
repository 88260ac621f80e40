//! Tells waiting workers that there may be work (W1).
//!
//! It may wake in vain, and must never miss: a wake-up is a hint, but a lost one is a delivery that waits for the poll.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::delivery::WorkerId;

/// A worker that has not claimed for this long is no longer taken into account.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// The shortest delay of a wake-up that is most likely in vain.
const SHORTEST_DOUBT: Duration = Duration::from_millis(1);

/// The last time that something may have become due.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    n: u64,
    at: Instant,
}

/// How far a worker has looked.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// The last arrival before its last claim began.
    n: u64,
    at: Instant,
}

/// Written by the writer after its commits, and by claims; read by waiting workers.
pub(super) struct WorkSignal {
    arrival: watch::Sender<Arrival>,
    looks: Mutex<HashMap<WorkerId, Look>>,
    n_waiting: AtomicUsize,
    /// Tells the writer that somebody waits, so that it looks out for commits of other processes.
    someone_waits: Notify,
}

/// Taken before a claim begins, handed back when it has answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance(u64);

impl WorkSignal {
    pub(super) fn new() -> Self {
        Self {
            arrival: watch::Sender::new(Arrival { n: 0, at: Instant::now() }),
            looks: Mutex::default(),
            n_waiting: AtomicUsize::new(0),
            someone_waits: Notify::new(),
        }
    }

    /// Something may have become due, or will at a time that no waiting worker knows of.
    pub(super) fn arrived(&self) {
        self.arrival.send_modify(|arrival| *arrival = Arrival { n: arrival.n + 1, at: Instant::now() });
    }

    pub(super) fn glance(&self) -> Glance {
        Glance(self.arrival.borrow().n)
    }

    /// `worker` has claimed what was due at `glance` or later.
    pub(super) fn looked(&self, worker: WorkerId, Glance(n): Glance) {
        let now = Instant::now();
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, look| now.duration_since(look.at) < FORGET_AFTER);
        looks.insert(worker, Look { n, at: now });
    }

    /// Returns when something has arrived that the caller may not have looked at, after `timeout` at the latest.
    ///
    /// Who waits is not known, only who has claimed. If nobody has looked since the last arrival, the caller has not. If some have, the
    /// caller may be one of the others: it is woken once the arrival is twice as old as it is now. So a late worker waits no longer than it
    /// was late, and one that has looked is woken in vain only a logarithmic number of times.
    pub(super) async fn wait(&self, timeout: Duration) {
        let _waiting = Waiting::new(self);
        let mut arrivals = self.arrival.subscribe();
        let last = *arrivals.borrow_and_update();
        let doubt = match self.looks_before(last.n) {
            Looks::None => return,
            Looks::Some => last.at.elapsed().max(SHORTEST_DOUBT),
            Looks::All => timeout,
        };
        // Both ends are a reason to look again, and the sender lives as long as `self`.
        let _ = tokio::time::timeout(doubt.min(timeout), arrivals.changed()).await;
    }

    /// Returns when somebody has begun to wait.
    pub(super) async fn someone_waits(&self) {
        self.someone_waits.notified().await;
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.n_waiting.load(Ordering::Relaxed) > 0
    }

    fn looks_before(&self, n: u64) -> Looks {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let n_looked = looks.values().filter(|look| look.n >= n).count();
        match (n, n_looked) {
            (0, _) => Looks::All,
            (_, 0) => Looks::None,
            (_, n_looked) if n_looked == looks.len() => Looks::All,
            _ => Looks::Some,
        }
    }
}

/// How many of the workers have looked since an arrival.
enum Looks {
    None,
    Some,
    All,
}

/// Counts its holder among those that wait, also if its future is dropped.
struct Waiting<'a>(&'a WorkSignal);

impl<'a> Waiting<'a> {
    fn new(signal: &'a WorkSignal) -> Self {
        signal.n_waiting.fetch_add(1, Ordering::Relaxed);
        signal.someone_waits.notify_one();
        Self(signal)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.n_waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
