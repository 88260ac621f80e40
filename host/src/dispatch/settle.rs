//! Settlements: what has ended is written in batches, each as large as what ended while the last one was under way.
//!
//! "Could not record success" never becomes "the handler failed": a settlement is tried again as it is while its lease lives, and then left to
//! the lease (R13).

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant as Timer;

use super::backoff::backoff;
use super::counts::count;
use super::{Event, Worker};
use crate::clock::Instant;
use crate::store::{self, Settle, Settled, Settlement};

/// The most settlements of one call.
const MAX_BATCH: usize = 500;
/// Calls at a time: while one waits for the disk, the next is on its way.
const MAX_BATCHES_IN_FLIGHT: u32 = 2;
/// The longest pause after failed calls: well below the rest of a lease.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);

/// A settlement that the store has not confirmed.
pub(super) struct Unsettled {
    pub settlement: Settlement,
    /// When the worker stops trying.
    pub deadline: Instant,
}

/// The loop's memory about settlements.
#[derive(Default)]
pub(super) struct Settling {
    queue: VecDeque<Unsettled>,
    n_in_flight: u32,
    n_failures: u32,
    retry_at: Option<Timer>,
}

/// A batch of settlements has been answered.
pub(super) struct SettleAnswer {
    batch: Vec<Unsettled>,
    result: store::Result<Vec<store::Result<Settled>>>,
}

impl Settling {
    pub(super) fn add(&mut self, unsettled: Unsettled) {
        self.queue.push_back(unsettled);
    }

    pub(super) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.n_in_flight == 0
    }

    pub(super) fn retry_at(&self) -> Option<Timer> {
        self.retry_at
    }
}

impl Worker {
    pub(super) fn settle_what_ended(&mut self) {
        if self.settling.retry_at.is_some_and(|at| at > Timer::now()) {
            return;
        }
        self.settling.retry_at = None;
        while !self.settling.queue.is_empty() && self.settling.n_in_flight < MAX_BATCHES_IN_FLIGHT {
            let n = self.settling.queue.len().min(MAX_BATCH);
            let (batch, expired): (Vec<_>, Vec<_>) = self.settling.queue.drain(..n).partition(|unsettled| !unsettled.deadline.has_passed());
            for unsettled in expired {
                self.leave_to_the_lease(&unsettled);
            }
            if batch.is_empty() {
                continue;
            }
            self.settling.n_in_flight += 1;
            let store = self.store.clone();
            let settlements = batch.iter().map(|unsettled| unsettled.settlement.clone()).collect();
            self.tasks.push(async move { Event::Settled(SettleAnswer { batch, result: store.settle(settlements).await }) }.boxed());
        }
    }

    pub(super) fn on_settled(&mut self, answer: SettleAnswer) {
        self.settling.n_in_flight -= 1;
        let SettleAnswer { batch, result } = answer;
        let answers = match result {
            Ok(answers) => answers,
            Err(error) => {
                self.on_store_failure(&error);
                self.settling.queue.extend(batch);
                return self.pause_settling();
            }
        };
        self.on_store_answer();
        let mut has_failed = false;
        for (unsettled, answer) in batch.into_iter().zip(answers) {
            match answer {
                Ok(Settled::Applied) => self.on_applied(&unsettled.settlement),
                Ok(Settled::LeaseLost) => {
                    let delivery = unsettled.settlement.lease.delivery;
                    tracing::warn!(%delivery, verb = unsettled.settlement.settle.verb(), "lease lost: the settlement changed nothing");
                    count(&self.counts.lease_lost, 1);
                    self.held.remove(delivery);
                }
                Err(error) => {
                    has_failed = true;
                    let delivery = unsettled.settlement.lease.delivery;
                    tracing::warn!(%delivery, error = &error as &dyn std::error::Error, "settlement failed, it will be tried again");
                    self.settling.queue.push_back(unsettled);
                }
            }
        }
        if has_failed {
            self.pause_settling();
        } else {
            self.settling.n_failures = 0;
        }
    }

    fn on_applied(&mut self, settlement: &Settlement) {
        let (counter, due_in) = match &settlement.settle {
            Settle::Complete { .. } => (&self.counts.completed, None),
            Settle::Bury => (&self.counts.buried, None),
            Settle::Reschedule { delay, .. } => (&self.counts.rescheduled, Some(*delay)),
            Settle::Release { delay } => (&self.counts.released, *delay),
        };
        count(counter, 1);
        if let Some(delay) = due_in {
            self.claiming.look_again_in(delay);
        }
        self.held.remove(settlement.lease.delivery);
    }

    fn pause_settling(&mut self) {
        self.settling.n_failures += 1;
        self.settling.retry_at = Some(Timer::now() + backoff(self.settling.n_failures, LONGEST_BACKOFF));
    }

    fn leave_to_the_lease(&mut self, unsettled: &Unsettled) {
        let delivery = unsettled.settlement.lease.delivery;
        let verb = unsettled.settlement.settle.verb();
        tracing::error!(%delivery, verb, "settlement could not be stored within the lease: the delivery will run again");
        count(&self.counts.lease_lost, 1);
        self.held.remove(delivery);
    }
}
