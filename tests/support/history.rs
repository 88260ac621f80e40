//! What a store has really done, call by call. What must hold of it is in [`invariants`](crate::invariants).
//!
//! It is recorded between the store and whatever goes wrong above it, so a call whose reply was lost is in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use relaybus_host::delivery::{DeliveryId, EventId, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, Backlog, Capabilities, Claim, Claimed, DeliverySummary, ExtendLeases, Outcome, Published, Result, Settle, Settled, Settlement,
    Store, Subscribe, Subscribed,
};

use crate::invariants;

/// One thing that a store has done.
#[derive(Clone, Debug)]
pub enum Entry {
    /// An event was accepted, with so many deliveries.
    Accepted { event: EventId, n_deliveries: u64 },
    /// A claim handed a delivery out, or leased it as malformed.
    Claimed { delivery: DeliveryId, token: LeaseToken, worker: WorkerId, lease: Duration, call: Span },
    /// A claim buried a delivery.
    BuriedAtClaim { delivery: DeliveryId },
    /// A renewal was answered.
    Renewed { lease: Lease, lease_duration: Duration, answer: Renewal, call: Span },
    /// A settlement was answered.
    Settled {
        lease: Lease,
        verb: Verb,
        /// What the run published, if it was completed.
        events: Vec<EventId>,
        answer: Settled,
        call: Span,
    },
    /// The store itself does not know what became of a call about this delivery.
    Doubtful { delivery: DeliveryId },
    /// The store itself does not know what became of a claim.
    DoubtfulClaim,
}

/// How a delivery was settled; a snooze is told from another reschedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Complete,
    Reschedule,
    Snooze,
    Bury,
    Release,
}

/// From when a call was made until it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Instant,
    pub to: Instant,
}

/// What several stores on one database have done.
#[derive(Debug, Default)]
pub struct History(Mutex<Vec<Entry>>);

/// A store whose doings are recorded.
pub struct Recorded {
    inner: Arc<dyn Store>,
    history: Arc<History>,
}

impl History {
    pub fn add(&self, entries: impl IntoIterator<Item = Entry>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(entries);
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn record(self: &Arc<Self>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Recorded { inner, history: Arc::clone(self) })
    }

    /// What does not hold, in words: see [`invariants::violations`].
    pub fn violations(&self, deliveries: &[DeliverySummary]) -> Vec<String> {
        invariants::violations(&self.entries(), deliveries)
    }
}

impl Recorded {
    fn claimed(&self, claimed: &Claimed, token: LeaseToken, worker: WorkerId, leases: &HashMap<HandlerId, Duration>, call: Span) {
        let handed_out = claimed.deliveries.iter().map(|delivery| (delivery.id, delivery.handler));
        let all = handed_out.chain(claimed.malformed.iter().map(|malformed| (malformed.id, malformed.handler)));
        let entry = |(delivery, handler)| {
            let lease = leases.get(&handler).copied().unwrap_or_default();
            Entry::Claimed { delivery, token, worker, lease, call }
        };
        self.history.add(all.map(entry));
        self.history.add(claimed.buried.iter().map(|buried| Entry::BuriedAtClaim { delivery: buried.id }));
    }
}

fn verb_of(settle: &Settle) -> Verb {
    match settle {
        Settle::Complete { .. } => Verb::Complete,
        Settle::Reschedule { attempt: Attempt::Counts, .. } => Verb::Reschedule,
        Settle::Reschedule { attempt: Attempt::Snoozed, .. } => Verb::Snooze,
        Settle::Bury => Verb::Bury,
        Settle::Release { .. } => Verb::Release,
    }
}

fn events_of(settle: &Settle) -> Vec<EventId> {
    match settle {
        Settle::Complete { events } => events.iter().map(|event| event.id).collect(),
        Settle::Reschedule { .. } | Settle::Bury | Settle::Release { .. } => Vec::new(),
    }
}

#[async_trait]
impl Store for Recorded {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        self.inner.subscribe(request).await
    }
    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        let answers = self.inner.publish(events).await?;
        self.history.add(answers.iter().flatten().map(|it| Entry::Accepted { event: it.event, n_deliveries: it.n_deliveries }));
        Ok(answers)
    }
    async fn claim(&self, request: Claim) -> Result<Claimed> {
        let (worker, token) = (request.worker, request.token);
        let leases = request.handlers.iter().map(|wanted| (wanted.handler, wanted.lease_duration)).collect();
        let from = Instant::now();
        let answer = self.inner.claim(request).await;
        match &answer {
            Ok(claimed) => self.claimed(claimed, token, worker, &leases, Span { from, to: Instant::now() }),
            Err(error) if error.outcome == Outcome::Unknown => self.history.add([Entry::DoubtfulClaim]),
            Err(_) => {}
        }
        answer
    }
    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        self.inner.recover_claim(token).await
    }
    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        let (leases, lease_duration, from) = (request.leases.clone(), request.lease_duration, Instant::now());
        let answers = self.inner.extend_leases(request).await?;
        let call = Span { from, to: Instant::now() };
        let renewed = leases.into_iter().zip(&answers);
        self.history.add(renewed.map(|(lease, answer)| Entry::Renewed { lease, lease_duration, answer: *answer, call }));
        Ok(answers)
    }
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        let asked: Vec<_> = settlements.iter().map(|it| (it.lease, verb_of(&it.settle), events_of(&it.settle))).collect();
        let from = Instant::now();
        let answers = self.inner.settle(settlements).await;
        let call = Span { from, to: Instant::now() };
        let doubtful = |lease: Lease| Entry::Doubtful { delivery: lease.delivery };
        match &answers {
            Ok(answers) => self.history.add(asked.into_iter().zip(answers).filter_map(|((lease, verb, events), answer)| match answer {
                Ok(answer) => Some(Entry::Settled { lease, verb, events, answer: *answer, call }),
                Err(error) if error.outcome == Outcome::Unknown => Some(doubtful(lease)),
                Err(_) => None,
            })),
            Err(error) if error.outcome == Outcome::Unknown => self.history.add(asked.into_iter().map(|(lease, ..)| doubtful(lease))),
            Err(_) => {}
        }
        answers
    }
    async fn wait_for_work(&self, timeout: Duration) {
        self.inner.wait_for_work(timeout).await;
    }
    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog> {
        self.inner.backlog(handlers).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}
