//! How many runs were settled how.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Settlements that the store has applied, and leases that were lost, since the dispatcher started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub completed: u64,
    pub buried: u64,
    pub rescheduled: u64,
    pub released: u64,
    pub lease_lost: u64,
}

/// Written by the loop, read by anybody.
#[derive(Default)]
pub(super) struct SharedCounts {
    pub completed: AtomicU64,
    pub buried: AtomicU64,
    pub rescheduled: AtomicU64,
    pub released: AtomicU64,
    pub lease_lost: AtomicU64,
}

impl SharedCounts {
    pub(super) fn read(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            completed: read(&self.completed),
            buried: read(&self.buried),
            rescheduled: read(&self.rescheduled),
            released: read(&self.released),
            lease_lost: read(&self.lease_lost),
        }
    }
}

pub(super) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
