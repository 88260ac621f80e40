//! Outages of the store: told once when they begin and once when they are over, whichever calls notice it.
//!
//! Nothing here decides when a call is tried again; whoever made it does.

use std::time::Duration;

use tokio::time::Instant as Timer;

use super::Worker;
use crate::store::{ErrorKind, StoreError};

/// How often a long outage is mentioned again.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// The store has not answered for a while.
pub(super) struct Outage {
    since: Timer,
    n_failures: u32,
    told_at: Timer,
}

impl Worker {
    /// A call of this worker has failed, and will be tried again.
    pub(super) fn on_store_failure(&mut self, error: &StoreError) {
        let error_value = error as &dyn std::error::Error;
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::Timeout => {}
            ErrorKind::LeaseLost | ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Misconfigured => {
                tracing::warn!(error = error_value, "store call failed, it will be tried again");
                return;
            }
        }
        let now = Timer::now();
        match &mut self.outage {
            None => {
                tracing::warn!(error = error_value, "store does not answer, waiting for it");
                self.outage = Some(Outage { since: now, n_failures: 1, told_at: now });
            }
            Some(outage) => {
                outage.n_failures += 1;
                let n_failures = outage.n_failures;
                if now.duration_since(outage.told_at) >= REMIND_EVERY {
                    outage.told_at = now;
                    tracing::warn!(error = error_value, n_failures, away_for = ?outage.since.elapsed(), "store still does not answer");
                } else {
                    tracing::debug!(error = error_value, n_failures, "store call failed, it will be tried again");
                }
            }
        }
    }

    /// The store has answered a call of this worker.
    pub(super) fn on_store_answer(&mut self) {
        if let Some(Outage { since, n_failures, .. }) = self.outage.take() {
            tracing::info!(away_for = ?since.elapsed(), n_failures, "store answers again");
        }
    }
}
