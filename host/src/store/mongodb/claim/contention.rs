//! What a store has learnt of those it shares deliveries with: how many claim at the same time, and what somebody holds.
//!
//! It only makes claims quicker. Which delivery is whose is decided by the updates alone (R1).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// How far claimers spread at most, in multiples of what each wants: enough for some tens of them.
const WIDEST: u32 = 32;
/// The most deliveries that one look reads of a range, whatever the spread.
const MOST: u32 = 10_000;
/// How long claims pass over a delivery that could not be written: twice the time that this has cost, or more.
const PASSED_OVER_FOR: Duration = Duration::from_secs(2);

/// Written by each claim when it knows what it won; read by the next.
pub(super) struct Contention {
    /// How many times as many as it wants a claim reads, to take its own from a random place among them.
    spread: AtomicU32,
    /// What could not be written, and until when it is passed over.
    stuck: Mutex<HashMap<Uuid, Instant>>,
}

impl Contention {
    pub(super) fn new() -> Self {
        Self { spread: AtomicU32::new(1), stuck: Mutex::default() }
    }

    /// How many deliveries to read for `limit`.
    pub(super) fn window(&self, limit: u32) -> u32 {
        limit.saturating_mul(self.spread.load(Ordering::Relaxed)).min(MOST.max(limit))
    }

    /// Of `n_tried` deliveries `n_won` were won. Claimers that read the same ones spread until each wins most of what it tries.
    pub(super) fn learn(&self, n_tried: usize, n_won: usize) {
        let spread = self.spread.load(Ordering::Relaxed);
        let next = if n_won * 2 < n_tried {
            (spread * 2).min(WIDEST)
        } else if n_won == n_tried {
            (spread - 1).max(1)
        } else {
            spread
        };
        self.spread.store(next, Ordering::Relaxed);
    }

    /// `id` could not be written: most likely an open transaction holds it.
    pub(super) fn pass_over(&self, id: Uuid) {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now() + PASSED_OVER_FOR);
    }

    /// What to leave out, and the time until the first of it should be tried again.
    pub(super) fn passed_over(&self) -> (Vec<Uuid>, Option<Duration>) {
        let now = Instant::now();
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.retain(|_, until| *until > now);
        (stuck.keys().copied().collect(), stuck.values().min().map(|until| until.duration_since(now)))
    }
}
