//! The words that cases are written in: events, subscriptions, claims and settlements in one line each.
//!
//! Every verb here expects the store to answer; a case that wants the error calls the store itself.

use std::time::Duration;

use relaybus_host::delivery::{ClaimedDelivery, DeliveryId, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, AttemptReport, Change, Changed, Claim, ClaimFor, Claimed, ExtendLeases, Isolation, Published, Settle, Settled, Settlement,
    Subscribe,
};
use relaybus_host::verdict::Reason;

use crate::harness::{LONG, Process, SHORT, until};

/// An event with a payload that nothing depends on.
pub(crate) fn event(topic: &str) -> NewEvent {
    NewEvent::new(topic.parse().expect("a topic"), "{}")
}

/// A handler of the default tenant with limits that no case runs into by accident.
pub(crate) fn handler(name: &str, topics: &[&str]) -> Subscribe {
    let topics = topics.iter().map(|topic| topic.parse().expect("a topic pattern")).collect();
    let (tenant, name, digest) = ("default".to_owned(), name.to_owned(), "d1".repeat(32));
    Subscribe { tenant, name, digest, topics, max_attempts: 100, max_crashes: 100 }
}

/// A claim of a new worker for everything of these handlers, under a [`LONG`] lease.
pub(crate) fn claim_for(handlers: &[HandlerId]) -> Claim {
    Claim {
        worker: WorkerId::random(),
        token: LeaseToken::random(),
        handlers: handlers.iter().map(|&handler| ClaimFor { handler, limit: 1000, lease_duration: LONG }).collect(),
        limit: 1000,
        max_payload_bytes: 1 << 30,
        isolation: Isolation::Shared,
        exclude: Vec::new(),
    }
}

/// [`claim_for`] one handler.
pub(crate) fn claim(handler: HandlerId) -> Claim {
    claim_for(&[handler])
}

/// What one claim wants to be different.
pub(crate) trait ClaimWords {
    fn limit(self, limit: u32) -> Claim;
    fn lease(self, lease_duration: Duration) -> Claim;
    fn alone(self) -> Claim;
    fn by(self, worker: WorkerId) -> Claim;
}

impl ClaimWords for Claim {
    fn limit(self, limit: u32) -> Claim {
        Claim { limit, ..self }
    }

    fn lease(mut self, lease_duration: Duration) -> Claim {
        self.handlers.iter_mut().for_each(|wanted| wanted.lease_duration = lease_duration);
        self
    }

    fn alone(self) -> Claim {
        Claim { isolation: Isolation::Alone, ..self }
    }

    fn by(self, worker: WorkerId) -> Claim {
        Claim { worker, ..self }
    }
}

/// A claimed delivery and the right to settle it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) delivery: ClaimedDelivery,
    pub(crate) lease: Lease,
}

/// The four ways to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Complete,
    Reschedule,
    Bury,
    Release,
}

impl Verb {
    pub(crate) const ALL: [Self; 4] = [Self::Complete, Self::Reschedule, Self::Bury, Self::Release];

    /// Also serves as the name of a handler and as a topic, where a case wants one for each verb.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Reschedule => "reschedule",
            Self::Bury => "bury",
            Self::Release => "release",
        }
    }

    pub(crate) fn of(self, lease: Lease) -> Settlement {
        match self {
            Self::Complete => complete(lease),
            Self::Reschedule => reschedule(lease, LONG),
            Self::Bury => bury(lease),
            Self::Release => release(lease),
        }
    }
}

pub(crate) fn complete(lease: Lease) -> Settlement {
    complete_with(lease, Vec::new())
}

pub(crate) fn complete_with(lease: Lease, events: Vec<NewEvent>) -> Settlement {
    Settlement { lease, settle: Settle::Complete { events }, report: None }
}

pub(crate) fn reschedule(lease: Lease, delay: Duration) -> Settlement {
    Settlement { lease, settle: Settle::Reschedule { delay, attempt: Attempt::Counts }, report: Some(report("it failed")) }
}

pub(crate) fn snooze(lease: Lease, delay: Duration) -> Settlement {
    Settlement { lease, settle: Settle::Reschedule { delay, attempt: Attempt::Snoozed }, report: None }
}

pub(crate) fn bury(lease: Lease) -> Settlement {
    Settlement { lease, settle: Settle::Bury, report: Some(report("it must not be tried again")) }
}

pub(crate) fn release(lease: Lease) -> Settlement {
    Settlement { lease, settle: Settle::Release { delay: None }, report: None }
}

pub(crate) fn release_after(lease: Lease, delay: Duration) -> Settlement {
    Settlement { lease, settle: Settle::Release { delay: Some(delay) }, report: None }
}

/// What is kept of a run that failed with this message.
pub(crate) fn report(message: &str) -> AttemptReport {
    AttemptReport {
        worker: WorkerId::random(),
        ran_for: Duration::from_millis(5),
        reason: Reason::Failed,
        message: message.to_owned(),
        output: String::new(),
    }
}

/// The ids of what a claim handed out, in its order.
pub(crate) fn ids(claimed: &Claimed) -> Vec<DeliveryId> {
    claimed.deliveries.iter().map(|delivery| delivery.id).collect()
}

impl Process {
    /// Stores the handler and answers its id.
    pub(crate) async fn subscribe(&self, handler: Subscribe) -> HandlerId {
        self.store.subscribe(handler).await.expect("the subscription is stored").handler
    }

    /// Publishes one event.
    pub(crate) async fn publish(&self, event: NewEvent) -> Published {
        self.publish_all(vec![event]).await.remove(0)
    }

    pub(crate) async fn publish_all(&self, events: Vec<NewEvent>) -> Vec<Published> {
        let published = self.store.publish(events).await.expect("the batch is stored");
        published.into_iter().map(|event| event.expect("the event is accepted")).collect()
    }

    /// Publishes `n` events that nothing tells apart but their ids.
    pub(crate) async fn publish_many(&self, topic: &str, n: usize) {
        self.publish_all(std::iter::repeat_with(|| event(topic)).take(n).collect()).await;
    }

    pub(crate) async fn claim(&self, claim: Claim) -> Claimed {
        self.store.claim(claim).await.expect("the claim is answered")
    }

    /// Claims what is due, which must be a single delivery.
    pub(crate) async fn hold(&self, claim: Claim) -> Held {
        let token = claim.token;
        let mut claimed = self.claim(claim).await;
        assert_eq!(claimed.deliveries.len(), 1, "expected one delivery to be due, got {claimed:?}");
        let delivery = claimed.deliveries.remove(0);
        Held { lease: Lease { delivery: delivery.id, token }, delivery }
    }

    /// Claims again and again, until a single delivery is due. Each time with a new token.
    pub(crate) async fn hold_when_due(&self, claim: Claim) -> Held {
        until("the delivery is due", || async {
            let claim = Claim { token: LeaseToken::random(), ..claim.clone() };
            let token = claim.token;
            let delivery = self.claim(claim).await.deliveries.pop()?;
            Some(Held { lease: Lease { delivery: delivery.id, token }, delivery })
        })
        .await
    }

    /// Publishes an `order.created` to a new handler and claims its delivery.
    pub(crate) async fn hold_one(&self, name: &str) -> (HandlerId, Held) {
        self.hold_one_of(name, "order.created").await
    }

    /// Publishes an event of this topic to a new handler and claims its delivery.
    pub(crate) async fn hold_one_of(&self, name: &str, topic: &str) -> (HandlerId, Held) {
        let handler = self.subscribe(handler(name, &[topic])).await;
        self.publish(event(topic)).await;
        (handler, self.hold(claim(handler)).await)
    }

    pub(crate) async fn settle(&self, settlement: Settlement) -> Settled {
        self.settle_all(vec![settlement]).await.remove(0)
    }

    pub(crate) async fn settle_all(&self, settlements: Vec<Settlement>) -> Vec<Settled> {
        let settled = self.store.settle(settlements).await.expect("the batch is settled");
        settled.into_iter().map(|settled| settled.expect("the settlement is answered")).collect()
    }

    pub(crate) async fn extend(&self, lease: Lease, lease_duration: Duration) -> Renewal {
        self.extend_all(vec![lease], lease_duration).await.remove(0)
    }

    pub(crate) async fn extend_all(&self, leases: Vec<Lease>, lease_duration: Duration) -> Vec<Renewal> {
        self.store.extend_leases(ExtendLeases { leases, lease_duration }).await.expect("the renewal is answered")
    }

    pub(crate) async fn change(&self, id: DeliveryId, change: Change) -> Changed {
        self.operators.change(&[id], change).await.expect("the change is answered").remove(0)
    }
}

impl crate::harness::Test {
    /// Claims as a worker does that then dies: when this returns, its lease has run out.
    pub(crate) async fn crash(&self, claim: Claim) -> Held {
        let held = self.hold_when_due(claim.lease(SHORT)).await;
        self.expired(held.lease).await;
        held
    }
}
