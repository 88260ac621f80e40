//! What a store has really done, call by call, and what must hold of it.
//!
//! It is recorded between the store and whatever goes wrong above it, so a lost reply is in it. The checker takes nothing from the product but
//! what the store answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use relaybus_host::delivery::{DeliveryId, EventId, HandlerId, NewEvent, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, Backlog, Capabilities, Claim, Claimed, DeliverySummary, ExtendLeases, Outcome, Published, Result, Settle, Settled, Settlement,
    Store, Subscribe, Subscribed,
};

/// One thing that a store has done.
#[derive(Clone, Debug)]
pub enum Entry {
    /// An event was accepted, with so many deliveries.
    Accepted {
        event: EventId,
        n_deliveries: u64,
    },
    /// A claim handed a delivery out, or leased it as malformed.
    Claimed {
        delivery: DeliveryId,
        token: LeaseToken,
        worker: WorkerId,
        lease: Duration,
        call: Span,
    },
    /// A claim buried a delivery.
    BuriedAtClaim {
        delivery: DeliveryId,
    },
    Renewed {
        lease: Lease,
        lease_duration: Duration,
        call: Span,
    },
    Settled {
        lease: Lease,
        verb: Verb,
        answer: Settled,
        call: Span,
    },
    /// The store itself does not know what became of a call about this delivery.
    Doubtful {
        delivery: DeliveryId,
    },
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

    /// What does not hold, in words. `deliveries` is how all of them stand at the end, when nobody works any more.
    pub fn violations(&self, deliveries: &[DeliverySummary]) -> Vec<String> {
        let entries = self.entries();
        let mut violations = of_events(&entries, deliveries);
        let has_doubtful_claims = entries.iter().any(|entry| matches!(entry, Entry::DoubtfulClaim));
        let mut lives: HashMap<DeliveryId, Life> = HashMap::new();
        for entry in &entries {
            match entry {
                Entry::Accepted { .. } | Entry::DoubtfulClaim => {}
                Entry::Claimed { delivery, .. } | Entry::BuriedAtClaim { delivery } | Entry::Doubtful { delivery } => {
                    lives.entry(*delivery).or_default().add(entry);
                }
                Entry::Renewed { lease, .. } | Entry::Settled { lease, .. } => lives.entry(lease.delivery).or_default().add(entry),
            }
        }
        for delivery in deliveries {
            let life = lives.remove(&delivery.id).unwrap_or_default();
            let found = life.violations(delivery, has_doubtful_claims);
            violations.extend(found.into_iter().map(|violation| format!("{} of `{}`: {violation}", delivery.id, delivery.handler)));
        }
        violations.extend(lives.into_keys().map(|id| format!("{id}: claimed or settled, and not there at the end")));
        violations
    }
}

/// R22: what was accepted is there, with all its deliveries, and each has ended.
fn of_events(entries: &[Entry], deliveries: &[DeliverySummary]) -> Vec<String> {
    let mut n_of: HashMap<EventId, u64> = HashMap::new();
    for delivery in deliveries {
        *n_of.entry(delivery.event_id).or_default() += 1;
    }
    let accepted = entries
        .iter()
        .filter_map(|entry| if let Entry::Accepted { event, n_deliveries } = entry { Some((event, n_deliveries)) } else { None });
    let lost = accepted.filter(|(event, n)| n_of.get(event).copied().unwrap_or(0) != **n);
    let lost = lost
        .map(|(event, n)| format!("event {event}: accepted with {n} deliveries, and {} are there", n_of.get(event).copied().unwrap_or(0)));
    let open = deliveries.iter().filter(|delivery| !matches!(delivery.status, Status::Completed | Status::Buried));
    lost.chain(open.map(|delivery| format!("{}: expected to be settled, got `{}`", delivery.id, delivery.status))).collect()
}

/// What is recorded of one delivery.
#[derive(Debug, Default)]
struct Life {
    claims: Vec<(LeaseToken, Duration, Span)>,
    renewals: Vec<(LeaseToken, Duration, Span)>,
    applied: Vec<(LeaseToken, Verb, Span)>,
    n_buried_at_claim: usize,
    is_doubtful: bool,
}

impl Life {
    fn add(&mut self, entry: &Entry) {
        match *entry {
            Entry::Claimed { token, lease, call, .. } => self.claims.push((token, lease, call)),
            Entry::BuriedAtClaim { .. } => self.n_buried_at_claim += 1,
            Entry::Renewed { lease, lease_duration, call } => self.renewals.push((lease.token, lease_duration, call)),
            Entry::Settled { lease, verb, answer: Settled::Applied, call } => self.applied.push((lease.token, verb, call)),
            Entry::Settled { answer: Settled::LeaseLost, .. } | Entry::Accepted { .. } | Entry::DoubtfulClaim => {}
            Entry::Doubtful { .. } => self.is_doubtful = true,
        }
    }

    fn violations(&self, end: &DeliverySummary, has_doubtful_claims: bool) -> Vec<String> {
        let mut violations = Vec::new();
        let tokens: BTreeSet<_> = self.claims.iter().map(|(token, ..)| token.0).collect();
        let mut verbs_of: BTreeMap<_, BTreeSet<Verb>> = BTreeMap::new();
        for (token, verb, _) in &self.applied {
            verbs_of.entry(token.0).or_default().insert(*verb);
        }
        if !has_doubtful_claims && let Some(token) = verbs_of.keys().find(|token| !tokens.contains(*token)) {
            violations.push(format!("settled under the token {token}, which no claim has handed out (R11)"));
        }
        if let Some((token, verbs)) = verbs_of.iter().find(|(_, verbs)| verbs.len() > 1) {
            violations.push(format!("settled in more than one way under the token {token}: {verbs:?} (R12)"));
        }
        let n_of = |wanted: &[Verb]| verbs_of.values().filter(|verbs| wanted.iter().any(|verb| verbs.contains(verb))).count();
        let n_ended = n_of(&[Verb::Complete, Verb::Bury]) + self.n_buried_at_claim;
        if n_ended > 1 || (n_ended == 0 && !self.is_doubtful && !has_doubtful_claims) {
            violations.push(format!("expected to end once, ended {n_ended} times"));
        }
        if let Some(overlap) = self.overlapping_leases() {
            violations.push(overlap);
        }
        if !self.is_doubtful && !has_doubtful_claims {
            let (n_claims, n_settled, crashes) = (tokens.len(), verbs_of.len(), end.crashes as usize);
            if n_claims != n_settled + crashes {
                violations.push(format!("{n_claims} claims, but {n_settled} of them settled and {crashes} crashes (R8)"));
            }
            let (n_given_back, attempts) = (n_of(&[Verb::Release, Verb::Snooze]), end.attempts as usize);
            if n_claims != attempts + n_given_back {
                violations.push(format!("{n_claims} claims, but {attempts} attempts and {n_given_back} given back (R15)"));
            }
        }
        violations
    }

    /// R1, R2: nobody gets a delivery before the lease of another can have run out, unless that one has settled it.
    fn overlapping_leases(&self) -> Option<String> {
        for (token, lease, call) in &self.claims {
            for (other, _, other_call) in &self.claims {
                // Only what certainly came later, and certainly too early, counts.
                if token == other || other_call.from < call.to {
                    continue;
                }
                let renewed = self.renewals.iter().filter(|(renewed, _, renewal)| renewed == token && renewal.to <= other_call.from);
                let ends_at = renewed.map(|(_, lease, renewal)| renewal.from + *lease).fold(call.from + *lease, Instant::max);
                let is_settled = self.applied.iter().any(|(settled, _, settling)| settled == token && settling.from <= other_call.to);
                if other_call.to < ends_at && !is_settled {
                    let early = ends_at.duration_since(other_call.to);
                    return Some(format!("handed out under {other:?} {early:?} before the lease {token:?} ended (R2)"));
                }
            }
        }
        None
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
        let renewed = leases.into_iter().zip(&answers).filter(|(_, renewal)| **renewal == Renewal::Renewed);
        self.history.add(renewed.map(|(lease, _)| Entry::Renewed { lease, lease_duration, call }));
        Ok(answers)
    }
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        let asked: Vec<_> = settlements.iter().map(|settlement| (settlement.lease, verb_of(&settlement.settle))).collect();
        let from = Instant::now();
        let answers = self.inner.settle(settlements).await;
        let call = Span { from, to: Instant::now() };
        let doubtful = |lease: Lease| Entry::Doubtful { delivery: lease.delivery };
        match &answers {
            Ok(answers) => self.history.add(asked.into_iter().zip(answers).filter_map(|((lease, verb), answer)| match answer {
                Ok(answer) => Some(Entry::Settled { lease, verb, answer: *answer, call }),
                Err(error) if error.outcome == Outcome::Unknown => Some(doubtful(lease)),
                Err(_) => None,
            })),
            Err(error) if error.outcome == Outcome::Unknown => self.history.add(asked.into_iter().map(|(lease, _)| doubtful(lease))),
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
