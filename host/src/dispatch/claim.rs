//! Claims: how many deliveries to ask for, when, and what to do with the answer.
//!
//! One claim is in flight at a time. It asks for no more than the free places (R6), and never while a delivery that must run alone is held or
//! waited for (R8).

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant as Timer;

use super::backoff::backoff;
use super::settle::Unsettled;
use super::{Event, Worker};
use crate::clock::Instant;
use crate::delivery::ClaimedDelivery;
use crate::lease::{Lease, LeaseToken};
use crate::store::{self, AttemptReport, Claim, ClaimFor, Claimed, Isolation, Outcome, Settle, Settlement};
use crate::verdict::Reason;

/// No delivery should wait leased for a free slot for longer than about this: another worker could run it.
const PREFETCH_HORIZON: Duration = Duration::from_millis(500);
/// The longest pause after failed claims: a store that comes back is noticed within it.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// How long a delivery stays away from this worker if its component does not subscribe to the topic: an older or newer host takes it.
const NOT_SUBSCRIBED_DELAY: Duration = Duration::from_secs(10);

/// The loop's memory about claims.
pub(super) struct Claiming {
    is_in_flight: bool,
    /// Whether a [`wait_for_work`](store::Store::wait_for_work) is among the tasks.
    is_waiting: bool,
    /// Whether a wake-up came since the last claim was sent.
    was_woken: bool,
    next_at: Timer,
    n_failures: u32,
    /// A delivery is due, or held, that must run alone: nothing is claimed until nothing is held.
    is_quiescing: bool,
    /// Smoothed run time of each handler, once known.
    run_times: Vec<Option<Duration>>,
}

/// A claim, or reading one back, has answered.
pub(super) struct ClaimAnswer {
    sent_at: Instant,
    token: LeaseToken,
    limit: u32,
    /// Whether this is what an earlier claim has leased, whose own reply was lost.
    is_read_back: bool,
    result: store::Result<Claimed>,
}

impl Claiming {
    pub(super) fn new(n_handlers: usize) -> Self {
        Self {
            is_in_flight: false,
            is_waiting: false,
            was_woken: false,
            next_at: Timer::now(),
            n_failures: 0,
            is_quiescing: false,
            run_times: vec![None; n_handlers],
        }
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        self.is_in_flight
    }

    /// Something becomes due after `delay`, as far as this worker knows.
    pub(super) fn look_again_in(&mut self, delay: Duration) {
        self.next_at = self.next_at.min(Timer::now() + delay);
    }

    /// Learns how long a run of `handler` took: an average that follows the last eight or so.
    pub(super) fn learn_run_time(&mut self, handler: usize, ran_for: Duration) {
        let known = &mut self.run_times[handler];
        *known = Some(known.map_or(ran_for, |average| (average * 7 + ran_for) / 8));
    }

    /// How many deliveries of `handler`, running `n_slots` at a time, are worth holding ready; none before the first run has ended.
    fn prefetch_target(&self, handler: usize, n_slots: u32, at_most: u32) -> u32 {
        let Some(run_time) = self.run_times[handler] else { return 0 };
        let runs_per_slot = PREFETCH_HORIZON.as_secs_f64() / run_time.as_secs_f64().max(1e-6);
        // Saturating and far from negative: the cast only cuts the fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let target = (f64::from(n_slots) * runs_per_slot) as u32;
        target.min(at_most)
    }
}

impl Worker {
    /// Runs at a time of one handler.
    pub(super) fn n_slots_of(&self, handler: usize) -> u32 {
        self.handlers[handler].settings.concurrency.unwrap_or(u32::MAX).min(self.options.concurrency)
    }

    fn may_claim(&self) -> bool {
        let is_kept_waiting = self.claiming.is_quiescing && !self.held.is_empty();
        self.drain.is_none() && !self.claiming.is_in_flight && !is_kept_waiting
    }

    pub(super) fn next_claim_timer(&self) -> Option<Timer> {
        (self.may_claim() && self.claiming.next_at > Timer::now()).then_some(self.claiming.next_at)
    }

    pub(super) fn claim_if_due(&mut self) {
        if !self.may_claim() {
            return;
        }
        self.wait_for_work();
        if Timer::now() < self.claiming.next_at {
            return;
        }
        let Some(claim) = self.next_claim() else { return };
        self.claiming.is_in_flight = true;
        self.claiming.is_quiescing = false;
        self.claiming.was_woken = false;
        let store = self.store.clone();
        let (sent_at, token, limit) = (Instant::now(), claim.token, claim.limit);
        self.tasks.push(
            async move { Event::Claimed(ClaimAnswer { sent_at, token, limit, is_read_back: false, result: store.claim(claim).await }) }
                .boxed(),
        );
    }

    /// Listens for work from before a claim is sent until after it has answered, so that nothing published meanwhile is missed.
    fn wait_for_work(&mut self) {
        if self.claiming.is_waiting {
            return;
        }
        self.claiming.is_waiting = true;
        let store = self.store.clone();
        // Jittered, so that many workers do not poll as one wave.
        let timeout = self.options.poll_interval.mul_f64(0.5 + rand::random::<f64>() / 2.0);
        self.tasks.push(
            async move {
                store.wait_for_work(timeout).await;
                Event::Woken
            }
            .boxed(),
        );
    }

    pub(super) fn on_woken(&mut self) {
        self.claiming.is_waiting = false;
        self.claiming.was_woken = true;
        // While the store fails, its wake-ups are no reason to ask it more often.
        if self.claiming.n_failures == 0 {
            self.claiming.next_at = Timer::now();
        }
    }

    /// The claim that fills the free places, if there are enough of them to be worth a call.
    fn next_claim(&self) -> Option<Claim> {
        let n_free = self.options.concurrency.saturating_sub(self.held.n_running());
        let mut n_prefetch = 0;
        let mut handlers = Vec::with_capacity(self.handlers.len());
        for (index, served) in self.handlers.iter().enumerate() {
            let n_slots = self.n_slots_of(index);
            let target = self.claiming.prefetch_target(index, n_slots, self.options.prefetch);
            n_prefetch += target;
            let n_places = n_slots.saturating_sub(self.held.n_running_of(index)) + target;
            let limit = n_places.saturating_sub(self.held.n_prefetched_of(index));
            if limit > 0 {
                handlers.push(ClaimFor { handler: served.id, limit, lease_duration: self.options.lease_duration });
            }
        }
        let n_prefetch = n_prefetch.min(self.options.prefetch);
        let n_prefetched = self.held.n_prefetched();
        let limit = (n_free + n_prefetch).saturating_sub(n_prefetched);
        let has_idle_slots = n_prefetched < n_free;
        let is_worth_a_call = limit > 0 && !handlers.is_empty() && (has_idle_slots || limit * 2 >= n_prefetch);
        // A settlement that lags behind must not let the worker pile up finished deliveries.
        let n_settling = u32::try_from(self.held.len()).unwrap_or(u32::MAX) - self.held.n_running() - n_prefetched;
        let bytes_left = self.options.prefetch_bytes.saturating_sub(self.held.prefetched_bytes());
        if !is_worth_a_call || n_settling > self.options.concurrency + 2 * self.options.prefetch || (bytes_left == 0 && !has_idle_slots) {
            return None;
        }
        Some(Claim {
            worker: self.id,
            token: LeaseToken::random(),
            handlers,
            limit,
            max_payload_bytes: bytes_left,
            isolation: if self.held.is_empty() { Isolation::Alone } else { Isolation::Shared },
            exclude: self.held.ids().collect(),
        })
    }

    pub(super) fn on_claimed(&mut self, answer: ClaimAnswer) {
        self.claiming.is_in_flight = false;
        let ClaimAnswer { sent_at, token, limit, is_read_back, result } = answer;
        let claimed = match result {
            Ok(claimed) => claimed,
            Err(error) => {
                self.on_store_failure(&error);
                self.claiming.n_failures += 1;
                let delay = backoff(self.claiming.n_failures, LONGEST_BACKOFF);
                // Reading back is repeated whatever its own error: it is the claim whose outcome is unknown. Also during a stop, which releases
                // what is read: a stop that ends in time costs no attempt and counts no crash (R8).
                let may_hold_leases =
                    (is_read_back || error.outcome == Outcome::Unknown) && !(sent_at + self.options.lease_duration).has_passed();
                if may_hold_leases {
                    self.read_claim_back(sent_at, token, limit, delay);
                } else {
                    self.claiming.next_at = Timer::now() + delay;
                }
                return;
            }
        };
        self.on_store_answer();
        self.claiming.n_failures = 0;
        let n_answered = claimed.deliveries.len() + claimed.malformed.len() + claimed.buried.len();
        let is_full = n_answered >= limit as usize;
        self.claiming.is_quiescing = claimed.isolated_due || claimed.deliveries.iter().any(ClaimedDelivery::is_isolated);
        let look_at_once = is_full || self.claiming.was_woken || self.claiming.is_quiescing;
        let next_due_in = claimed.next_due_in.unwrap_or(self.options.poll_interval).min(self.options.poll_interval);
        self.claiming.next_at = Timer::now() + if look_at_once { Duration::ZERO } else { next_due_in };
        self.take_in(claimed, sent_at + self.options.lease_duration, token);
    }

    /// The reply of a claim was lost: what it leased, if it did, is read back by its token (R2).
    fn read_claim_back(&mut self, sent_at: Instant, token: LeaseToken, limit: u32, delay: Duration) {
        self.claiming.is_in_flight = true;
        let store = self.store.clone();
        self.tasks.push(
            async move {
                tokio::time::sleep(delay).await;
                Event::Claimed(ClaimAnswer { sent_at, token, limit, is_read_back: true, result: store.recover_claim(token).await })
            }
            .boxed(),
        );
    }

    fn take_in(&mut self, claimed: Claimed, deadline: Instant, token: LeaseToken) {
        for buried in &claimed.buried {
            tracing::warn!(delivery = %buried.id, reason = %buried.reason, "delivery buried at claim");
            super::counts::count(&self.counts.buried, 1);
        }
        for malformed in claimed.malformed {
            tracing::error!(delivery = %malformed.id, problem = malformed.problem, "delivery is malformed and will be buried");
            let report = AttemptReport {
                worker: self.id,
                ran_for: Duration::ZERO,
                reason: Reason::Malformed,
                message: malformed.problem,
                output: String::new(),
            };
            let lease = Lease { delivery: malformed.id, token };
            self.settling.add(Unsettled { settlement: Settlement { lease, settle: Settle::Bury, report: Some(report) }, deadline });
        }
        for delivery in claimed.deliveries {
            let lease = Lease { delivery: delivery.id, token };
            let served = self.handlers.iter().enumerate().find(|(_, served)| served.id == delivery.handler);
            let delay = match served {
                Some((index, served)) if served.topics.iter().any(|pattern| pattern.matches(&delivery.topic)) => {
                    self.held.prefetch(index, lease, deadline, delivery);
                    continue;
                }
                _ => Some(NOT_SUBSCRIBED_DELAY),
            };
            tracing::warn!(delivery = %delivery.id, topic = %delivery.topic, "component does not subscribe to the topic: delivery released");
            self.settling.add(Unsettled { settlement: Settlement { lease, settle: Settle::Release { delay }, report: None }, deadline });
        }
    }
}
