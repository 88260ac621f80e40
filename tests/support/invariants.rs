//! What must hold of any history of a store, whatever went wrong above it.
//!
//! Only what is certain counts: calls that overlapped may have happened in either order, and a call whose end the store itself does not know
//! takes its delivery out of the sums.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use relaybus_host::delivery::{DeliveryId, EventId, Status};
use relaybus_host::lease::{LeaseToken, Renewal};
use relaybus_host::store::{DeliverySummary, Settled};

use crate::history::{Entry, Span, Verb};

/// What does not hold, in words. `deliveries` is how all of them stand at the end, when nobody works any more.
pub fn violations(entries: &[Entry], deliveries: &[DeliverySummary]) -> Vec<String> {
    let mut violations = of_events(entries, deliveries);
    let has_doubtful_claims = entries.iter().any(|entry| matches!(entry, Entry::DoubtfulClaim));
    let mut lives: HashMap<DeliveryId, Life> = HashMap::new();
    for entry in entries {
        match entry {
            Entry::Accepted { .. } | Entry::DoubtfulClaim => {}
            Entry::Claimed { delivery, .. } | Entry::BuriedAtClaim { delivery } | Entry::Doubtful { delivery } => {
                lives.entry(*delivery).or_default().add(entry);
            }
            Entry::Renewed { lease, .. } | Entry::Settled { lease, .. } => lives.entry(lease.delivery).or_default().add(entry),
        }
    }
    for delivery in deliveries {
        let mut life = lives.remove(&delivery.id).unwrap_or_default();
        life.has_unseen_claims = has_doubtful_claims;
        let found = life.violations(delivery);
        violations.extend(found.into_iter().map(|violation| format!("{} of `{}`: {violation}", delivery.id, delivery.handler)));
    }
    violations.extend(lives.into_keys().map(|id| format!("{id}: claimed or settled, and not there at the end")));
    violations
}

/// R16: `follower` is the only handler of the events that runs publish. It has got those of the runs that completed, each once, and no others.
pub fn violations_of_run_events(entries: &[Entry], deliveries: &[DeliverySummary], follower: &str) -> Vec<String> {
    let events_of = |wanted: Settled| -> BTreeSet<EventId> {
        let completions = entries
            .iter()
            .filter_map(|entry| if let Entry::Settled { events, answer, .. } = entry { Some((events, *answer)) } else { None })
            .filter_map(|(events, answer)| (answer == wanted).then_some(events));
        completions.flatten().copied().collect()
    };
    let doubtful: BTreeSet<DeliveryId> =
        entries.iter().filter_map(|entry| if let Entry::Doubtful { delivery } = entry { Some(*delivery) } else { None }).collect();
    let expected = events_of(Settled::Applied);
    let got: Vec<EventId> = deliveries.iter().filter(|delivery| delivery.handler == follower).map(|delivery| delivery.event_id).collect();
    let there: BTreeSet<EventId> = got.iter().copied().collect();
    let mut violations = Vec::new();
    if there.len() < got.len() {
        violations.push(format!("events of runs: {} deliveries of {} events (R16)", got.len(), there.len()));
    }
    violations.extend(expected.difference(&there).map(|event| format!("event {event} of a run that completed: not there (R16)")));
    if doubtful.is_empty() {
        violations.extend(there.difference(&expected).map(|event| format!("event {event} of no run that completed: there (R16)")));
    }
    violations
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
    /// Answers that a lease is lost; to a settle with its verb, to a renewal without.
    lost: Vec<(LeaseToken, Option<Verb>, Span)>,
    n_buried_at_claim: usize,
    /// It may have been settled or renewed in a call that the store does not know the end of.
    is_doubtful: bool,
    /// It may have been claimed in such a call.
    has_unseen_claims: bool,
}

impl Life {
    fn add(&mut self, entry: &Entry) {
        match *entry {
            Entry::Claimed { token, lease, call, .. } => self.claims.push((token, lease, call)),
            Entry::BuriedAtClaim { .. } => self.n_buried_at_claim += 1,
            Entry::Renewed { lease, lease_duration, answer: Renewal::Renewed, call } => {
                self.renewals.push((lease.token, lease_duration, call));
            }
            Entry::Renewed { lease, answer: Renewal::Lost, call, .. } => self.lost.push((lease.token, None, call)),
            Entry::Settled { lease, verb, answer: Settled::Applied, call, .. } => self.applied.push((lease.token, verb, call)),
            Entry::Settled { lease, verb, answer: Settled::LeaseLost, call, .. } => self.lost.push((lease.token, Some(verb), call)),
            Entry::Renewed { answer: Renewal::Unknown, .. } | Entry::Accepted { .. } | Entry::DoubtfulClaim => {}
            Entry::Doubtful { .. } => self.is_doubtful = true,
        }
    }

    fn violations(&self, end: &DeliverySummary) -> Vec<String> {
        let mut violations = Vec::new();
        violations.extend(self.of_settling());
        violations.extend(self.stale_settlement());
        violations.extend(self.stale_renewal());
        if !self.is_doubtful {
            violations.extend(self.overlapping_leases());
        }
        if !self.is_doubtful && !self.has_unseen_claims {
            violations.extend(self.of_end(end));
            violations.extend(self.of_sums(end));
            violations.extend(self.causeless_loss(end));
        }
        violations
    }

    /// Under each token that settled the delivery, the ways in which.
    fn verbs_of_tokens(&self) -> BTreeMap<uuid::Uuid, BTreeSet<Verb>> {
        let mut verbs: BTreeMap<_, BTreeSet<Verb>> = BTreeMap::new();
        for (token, verb, _) in &self.applied {
            verbs.entry(token.0).or_default().insert(*verb);
        }
        verbs
    }

    /// Under how many tokens the delivery was settled in one of these ways.
    fn n_settled(&self, wanted: &[Verb]) -> usize {
        self.verbs_of_tokens().values().filter(|verbs| wanted.iter().any(|verb| verbs.contains(verb))).count()
    }

    fn of_settling(&self) -> Option<String> {
        let verbs = self.verbs_of_tokens();
        let is_handed_out = |token: &uuid::Uuid| self.claims.iter().any(|(claimed, ..)| claimed.0 == *token);
        if !self.has_unseen_claims
            && let Some(token) = verbs.keys().find(|token| !is_handed_out(token))
        {
            return Some(format!("settled under the token {token}, which no claim has handed out (R11)"));
        }
        let (token, verbs) = verbs.iter().find(|(_, verbs)| verbs.len() > 1)?;
        Some(format!("settled in more than one way under the token {token}: {verbs:?} (R12)"))
    }

    /// It ended once, and is what it ended as.
    fn of_end(&self, end: &DeliverySummary) -> Option<String> {
        let (n_completed, n_buried) = (self.n_settled(&[Verb::Complete]), self.n_settled(&[Verb::Bury]) + self.n_buried_at_claim);
        if n_completed + n_buried != 1 {
            return Some(format!("expected to end once, ended {} times", n_completed + n_buried));
        }
        let expected = if n_completed == 1 { Status::Completed } else { Status::Buried };
        (end.status != expected).then(|| format!("expected to be `{expected}` as it was settled, got `{}`", end.status))
    }

    /// Every claim has ended, by a settlement or by a crash; and all but those that were given back are attempts.
    fn of_sums(&self, end: &DeliverySummary) -> Vec<String> {
        let mut violations = Vec::new();
        let n_claims = self.claims.iter().map(|(token, ..)| token.0).collect::<BTreeSet<_>>().len();
        let (n_settled, crashes) = (self.verbs_of_tokens().len(), end.crashes as usize);
        if n_claims != n_settled + crashes {
            violations.push(format!("{n_claims} claims, but {n_settled} of them settled and {crashes} crashes (R8)"));
        }
        let (n_given_back, attempts) = (self.n_settled(&[Verb::Release, Verb::Snooze]), end.attempts as usize);
        if n_claims != attempts + n_given_back {
            violations.push(format!("{n_claims} claims, but {attempts} attempts and {n_given_back} given back (R15)"));
        }
        violations
    }

    /// Whether somebody else had certainly been handed the delivery, after `token` had, when `call` was made.
    fn is_succeeded(&self, token: LeaseToken, call: Span) -> bool {
        let own = self.claims.iter().find(|(claimed, ..)| *claimed == token);
        own.is_some_and(|(.., own)| {
            self.claims.iter().any(|(other, _, theirs)| *other != token && theirs.from >= own.to && call.from >= theirs.to)
        })
    }

    /// R11: whoever lost the lease changes nothing, the verb that was applied before included.
    fn stale_settlement(&self) -> Option<String> {
        let (token, verb, _) = self.applied.iter().find(|(token, _, call)| self.is_succeeded(*token, *call))?;
        Some(format!("{verb:?} applied under {token:?} after another claim (R11)"))
    }

    /// R11: neither a lost lease nor a settled one is renewed.
    fn stale_renewal(&self) -> Option<String> {
        let is_settled =
            |token: LeaseToken, call: Span| self.applied.iter().any(|(settled, _, settling)| *settled == token && settling.to <= call.from);
        let stale = |(token, _, call): &&(LeaseToken, Duration, Span)| self.is_succeeded(*token, *call) || is_settled(*token, *call);
        let (token, ..) = self.renewals.iter().find(stale)?;
        Some(format!("renewed under {token:?} after a settlement or another claim (R11)"))
    }

    /// T2, L3: a lease that nobody took and that its holder did not end is not lost, expired or not.
    fn causeless_loss(&self, end: &DeliverySummary) -> Option<String> {
        // A claim that buries, or that puts back for the second crash, takes the lease and hands nothing out.
        if self.n_buried_at_claim > 0 || end.crashes > 1 {
            return None;
        }
        let has_cause = |(token, verb, call): &&(LeaseToken, Option<Verb>, Span)| {
            let Some((.., own)) = self.claims.iter().find(|(claimed, ..)| claimed == token) else { return true };
            let mut others = self.claims.iter().filter(|(other, ..)| other != token);
            let is_taken = others.any(|(.., theirs)| theirs.to >= own.from && theirs.from <= call.to);
            let is_ended =
                self.applied.iter().any(|(settled, other, settling)| settled == token && Some(*other) != *verb && settling.from <= call.to);
            is_taken || is_ended
        };
        let (token, verb, _) = self.lost.iter().find(|lost| !has_cause(lost))?;
        Some(match verb {
            Some(verb) => format!("{verb:?} refused under {token:?}, a lease that nobody took (R11)"),
            None => format!("not renewed under {token:?}, a lease that nobody took (R11)"),
        })
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
