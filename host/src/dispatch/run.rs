//! Runs: a free slot, the next prefetched delivery, one attempt in the engine, and the decision what follows.

use futures::FutureExt;

use super::backoff::backoff;
use super::settle::Unsettled;
use super::{Event, Worker};
use crate::delivery::DeliveryId;
use crate::policy::{Decision, decide};
use crate::store::{Attempt, AttemptReport, Settle, Settlement};
use crate::verdict::{Reason, RunReport, Verdict};

/// The longest delay of a delivery that the host could not run.
const LONGEST_FAULT_DELAY: std::time::Duration = std::time::Duration::from_secs(60);

impl Worker {
    /// Fills the free slots, one delivery of each handler in turn, so that one handler's backlog delays no other.
    pub(super) fn start_runs(&mut self) {
        if self.drain.is_some() {
            return;
        }
        let mut has_started = true;
        while has_started {
            has_started = false;
            for handler in 0..self.handlers.len() {
                let is_free =
                    self.held.n_running() < self.options.concurrency && self.held.n_running_of(handler) < self.n_slots_of(handler);
                if is_free {
                    has_started |= self.start_run_of(handler);
                }
            }
        }
    }

    fn start_run_of(&mut self, handler: usize) -> bool {
        let lease_lost = &self.counts.lease_lost;
        let on_expired = |id| {
            tracing::warn!(delivery = %id, "lease lost before the run began");
            super::counts::count(lease_lost, 1);
        };
        let Some((lease, delivery, abort)) = self.held.start_next(handler, on_expired) else { return false };
        let served = &self.handlers[handler];
        let component = served.component.clone();
        let run = served.run(*delivery, self.options.max_payload_bytes, abort);
        let id = lease.delivery;
        tracing::debug!(worker = %self.id, delivery = %id, handler = served.name, "run started");
        self.tasks.push(async move { Event::Ended(id, component.run(run).await) }.boxed());
        true
    }

    pub(super) fn on_ended(&mut self, id: DeliveryId, report: RunReport) {
        let Some(holding) = self.held.get(id) else { return };
        let (handler, deadline, tries) = (holding.handler, holding.deadline, holding.tries);
        self.claiming.learn_run_time(handler, report.ran_for);
        let served = &self.handlers[handler];
        let decision = decide(&report, tries, &served.settings.retry, rand::random());
        tracing::debug!(
            worker = %self.id, delivery = %id, handler = served.name, attempt = tries.attempt, ?decision, ran_for = ?report.ran_for,
            "run ended"
        );
        self.n_faults = if decision == Decision::ReleaseAfterFault { self.n_faults + 1 } else { 0 };
        let settle = match decision {
            Decision::Complete => Settle::Complete { events: Vec::new() },
            Decision::Retry { delay } => Settle::Reschedule { delay, attempt: Attempt::Counts },
            Decision::Snooze { delay } => Settle::Reschedule { delay, attempt: Attempt::Snoozed },
            Decision::Bury => Settle::Bury,
            Decision::Release => Settle::Release { delay: None },
            Decision::ReleaseAfterFault => Settle::Release { delay: Some(backoff(self.n_faults, LONGEST_FAULT_DELAY)) },
            Decision::Abandon => {
                tracing::warn!(delivery = %id, handler = served.name, "lease lost: the run was aborted and nothing is written");
                super::counts::count(&self.counts.lease_lost, 1);
                self.held.remove(id);
                return;
            }
        };
        let Some(lease) = self.held.begin_settling(id) else { return };
        let (settle, report) = self.with_report(settle, decision, report);
        self.settling.add(Unsettled { settlement: Settlement { lease, settle, report }, deadline });
    }

    /// What the run leaves behind: its events if it completes, else what went wrong.
    fn with_report(&self, settle: Settle, decision: Decision, run: RunReport) -> (Settle, Option<AttemptReport>) {
        let (reason, message) = match run.verdict {
            Verdict::Ok { events } => return (Settle::Complete { events }, None),
            Verdict::Failed(failure) => {
                let reason = if matches!(decision, Decision::Snooze { .. }) { Reason::Snoozed } else { Reason::Failed };
                (reason, failure.describe())
            }
            Verdict::Trapped { reason, message } => (reason, message),
            Verdict::Aborted(abort) => (abort.reason(), format!("stopped by the host: {}", abort.reason())),
            Verdict::HostFault { message } => (Reason::HostFault, message),
        };
        // A run that the stop of its worker ended has not failed.
        let report = AttemptReport { worker: self.id, ran_for: run.ran_for, reason, message, output: run.output };
        (settle, (decision != Decision::Release).then_some(report))
    }
}
