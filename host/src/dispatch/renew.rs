//! Renewals: every third of the lease duration, all leases of the worker in one call (R3).
//!
//! A round that fails, or that could not reach a row, is not a lost lease: each run's own deadline still stands (R9).

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant as Timer;

use super::held::Stage;
use super::{Event, Worker};
use crate::clock::Instant;
use crate::lease::{Lease, Renewal, renewal_interval};
use crate::store::{self, ExtendLeases};
use crate::verdict::AbortReason;

/// A round that failed is repeated sooner than the next one is due, but not at once.
const RETRY_FRACTION: u32 = 4;

/// A round of renewals has been answered.
pub(super) struct RenewalAnswer {
    sent_at: Instant,
    leases: Vec<Lease>,
    result: store::Result<Vec<Renewal>>,
}

impl Worker {
    pub(super) fn next_renewal_timer(&self) -> Option<Timer> {
        (!self.is_renewing).then_some(self.next_renewal_at)
    }

    fn renewal_interval(&self) -> Duration {
        renewal_interval(self.options.lease_duration)
    }

    pub(super) fn renew_if_due(&mut self) {
        if self.is_renewing || Timer::now() < self.next_renewal_at {
            return;
        }
        self.next_renewal_at = Timer::now() + self.renewal_interval();
        // What is being settled is on its way out: its settlement answers for the lease.
        let is_alive = |stage: &Stage| matches!(stage, Stage::Prefetched(_) | Stage::Running(_));
        let leases: Vec<Lease> =
            self.held.iter().filter(|(_, holding)| is_alive(&holding.stage)).map(|(_, holding)| holding.lease).collect();
        if leases.is_empty() {
            return;
        }
        self.is_renewing = true;
        let store = self.store.clone();
        let request = ExtendLeases { leases: leases.clone(), lease_duration: self.options.lease_duration };
        let sent_at = Instant::now();
        self.tasks
            .push(async move { Event::Renewed(RenewalAnswer { sent_at, leases, result: store.extend_leases(request).await }) }.boxed());
    }

    pub(super) fn on_renewed(&mut self, answer: RenewalAnswer) {
        self.is_renewing = false;
        let RenewalAnswer { sent_at, leases, result } = answer;
        let renewals = match result {
            Ok(renewals) => renewals,
            Err(error) => {
                self.on_store_failure(&error);
                self.next_renewal_at = Timer::now() + self.renewal_interval() / RETRY_FRACTION;
                return;
            }
        };
        self.on_store_answer();
        for (lease, renewal) in leases.into_iter().zip(renewals) {
            self.apply_renewal(lease, renewal, sent_at + self.options.lease_duration);
        }
    }

    fn apply_renewal(&mut self, lease: Lease, renewal: Renewal, deadline: Instant) {
        // The delivery may have been settled, and even claimed again, while the round was under way.
        let Some(holding) = self.held.get_mut(lease.delivery).filter(|holding| holding.lease == lease) else { return };
        match (renewal, &holding.stage) {
            (Renewal::Renewed, Stage::Running(abort)) => {
                abort.extend_lease(deadline);
                holding.deadline = deadline;
            }
            (Renewal::Renewed, Stage::Prefetched(_)) => holding.deadline = deadline,
            (Renewal::Lost, Stage::Running(abort)) => {
                tracing::warn!(delivery = %lease.delivery, "lease lost: the run is aborted");
                abort.stop(AbortReason::LeaseLost);
            }
            (Renewal::Lost, Stage::Prefetched(_)) => {
                tracing::warn!(delivery = %lease.delivery, "lease lost before the run began");
                super::counts::count(&self.counts.lease_lost, 1);
                self.held.remove(lease.delivery);
            }
            (Renewal::Renewed | Renewal::Lost, Stage::Settling) | (Renewal::Unknown, _) => {}
        }
    }
}
