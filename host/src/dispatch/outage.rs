//! Outages of the store: told once when they begin and once when they are over, whichever calls notice it.
//!
//! Nothing here decides when a call is tried again; whoever made it does.

use std::time::Duration;

use tokio::time::Instant as Timer;

use super::Worker;
use crate::store::{ErrorKind, StoreError};

/// How often a long outage is mentioned again.
const REMIND_EVERY: Duration = Duration::from_secs(60);
/// A store on its way down answers some calls and not others: it goes away again without a word, unless it stays away.
const HOLD_BACK: Duration = Duration::from_secs(5);

/// What has been told of the store. Written by the answers of all calls.
#[derive(Default)]
pub(super) struct Outage {
    /// Since when it has not answered; `None` while it does.
    since: Option<Timer>,
    n_failures: u32,
    is_told: bool,
    /// Of this outage or one before.
    told_at: Option<Timer>,
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
        let (now, outage) = (Timer::now(), &mut self.outage);
        let since = *outage.since.get_or_insert(now);
        outage.n_failures += 1;
        let (n_failures, pause) = (outage.n_failures, if outage.is_told { REMIND_EVERY } else { HOLD_BACK });
        if outage.told_at.is_some_and(|told_at| now.duration_since(told_at) < pause) {
            tracing::debug!(error = error_value, n_failures, "store call failed, it will be tried again");
            return;
        }
        outage.told_at = Some(now);
        if std::mem::replace(&mut outage.is_told, true) {
            tracing::warn!(error = error_value, n_failures, away_for = ?since.elapsed(), "store still does not answer");
        } else {
            tracing::warn!(error = error_value, "store does not answer, waiting for it");
        }
    }

    /// The store has answered a call of this worker.
    pub(super) fn on_store_answer(&mut self) {
        let Outage { since, n_failures, is_told, told_at } = std::mem::take(&mut self.outage);
        self.outage.told_at = told_at;
        if let Some(since) = since.filter(|_| is_told) {
            tracing::info!(away_for = ?since.elapsed(), n_failures, "store answers again");
        }
    }
}
