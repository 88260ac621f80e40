//! Goes over what happened to deliveries, and finds whatever the rules forbid. Pure: the record comes from [`audit`](crate::audit).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

/// One change of one delivery, as the database saw it.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) delivery: Uuid,
    /// By the store's clock.
    pub(crate) at: DateTime<Utc>,
    /// The session that made the change, where the database says so.
    pub(crate) by: Option<String>,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
}

/// A delivery's row or document, as far as the rules are about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) token: Option<Uuid>,
    pub(crate) verb: Option<String>,
    pub(crate) due_at: Option<DateTime<Utc>>,
    pub(crate) attempts: i64,
    pub(crate) crashes: i64,
    pub(crate) worker: Option<String>,
}

pub(crate) use relaybus_host::delivery::Status;

/// What there was to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) n_deliveries: usize,
    pub(crate) n_completed: usize,
    pub(crate) n_buried: usize,
    pub(crate) n_claims: usize,
    /// Claims of deliveries whose lease had expired.
    pub(crate) n_takeovers: usize,
    pub(crate) n_renewals: usize,
    pub(crate) n_settles: usize,
    /// Settles by a session of which is known whose it is.
    pub(crate) n_attributed: usize,
}

/// Instants of MongoDB and of SQLite's triggers are cut to this.
const GRAIN: TimeDelta = TimeDelta::milliseconds(1);
/// How long before the record a change may have been decided. A wrong clock is far more wrong than this.
const SLACK: TimeDelta = TimeDelta::seconds(2);

/// Checks a record that is complete from the first event on, in the order in which each delivery changed.
///
/// - A lease is given only of what is due, so never while another one is valid; each has a token of its own, and lasts for `lease` (R1, R2, R4).
/// - Only the session of the worker that holds the lease settles (R11), and what is settled changes no more.
/// - Attempts and crashes are counted (R2, R8).
///
/// # Errors
/// Everything that is against the rules.
pub(crate) fn check(transitions: &[Transition], lease: Duration) -> Result<Facts, String> {
    let mut checker = Checker { lease: TimeDelta::from_std(lease).expect("a lease of less than an age"), ..Checker::default() };
    for transition in transitions {
        checker.see(transition);
    }
    checker.facts.n_deliveries = checker.last.len();
    let count = |status| checker.last.values().filter(|state| state.status == status).count();
    (checker.facts.n_completed, checker.facts.n_buried) = (count(Status::Completed), count(Status::Buried));
    if checker.problems.is_empty() {
        return Ok(checker.facts);
    }
    let n = checker.problems.len();
    checker.problems.truncate(10);
    Err(format!("{n} things in the record are against the rules, such as\n{}", checker.problems.join("\n")))
}

#[derive(Default)]
struct Checker {
    lease: TimeDelta,
    last: BTreeMap<Uuid, State>,
    tokens: HashMap<Uuid, HashSet<Uuid>>,
    /// Whose each session is, as its claims tell.
    workers: HashMap<String, String>,
    facts: Facts,
    problems: Vec<String>,
}

impl Checker {
    fn see(&mut self, transition: &Transition) {
        if self.last.get(&transition.delivery) != transition.before.as_ref() {
            self.report(transition, "the record has a gap");
        }
        match (&transition.before, &transition.after) {
            (None, Some(after)) if after.status == Status::Pending && after.attempts == 0 => {}
            (Some(before), Some(after)) => self.see_change(transition, before, after),
            (_, after) => self.report(transition, if after.is_some() { "it begins in the middle" } else { "it is gone" }),
        }
        if let Some(after) = &transition.after {
            self.last.insert(transition.delivery, after.clone());
        }
    }

    fn see_change(&mut self, transition: &Transition, before: &State, after: &State) {
        match (before.status, after.status) {
            (Status::Completed | Status::Buried, _) => self.report(transition, "it changed after it was settled"),
            (_, Status::Processing) if before.status != Status::Processing || before.token != after.token => {
                self.see_claim(transition, before, after);
            }
            (Status::Processing, Status::Processing) => self.see_renewal(transition, before, after),
            (Status::Processing, _) if after.verb.is_some() => self.see_settle(transition, before, after),
            // Buried or put back by a claim.
            _ if !is_due(before, transition.at) => self.report(transition, "a claim took it before it was due"),
            _ => {}
        }
    }

    fn see_claim(&mut self, transition: &Transition, before: &State, after: &State) {
        self.facts.n_claims += 1;
        let is_takeover = before.status == Status::Processing;
        self.facts.n_takeovers += usize::from(is_takeover);
        if !is_due(before, transition.at) {
            self.report(transition, if is_takeover { "it was leased under a valid lease" } else { "it was leased before it was due" });
        }
        let is_new = after.token.is_some_and(|token| self.tokens.entry(transition.delivery).or_default().insert(token));
        if !is_new {
            self.report(transition, "its token is not new");
        }
        if (after.attempts, after.crashes) != (before.attempts + 1, before.crashes + i64::from(is_takeover)) {
            self.report(transition, "attempts or crashes are miscounted");
        }
        self.expect_full_lease(transition, after);
        if let (Some(session), Some(worker)) = (&transition.by, &after.worker) {
            self.workers.insert(session.clone(), worker.clone());
        }
    }

    fn see_renewal(&mut self, transition: &Transition, before: &State, after: &State) {
        self.facts.n_renewals += 1;
        let is_only_later = *before == State { due_at: before.due_at, ..after.clone() } && after.due_at >= before.due_at;
        if !is_only_later {
            self.report(transition, "a renewal changed more than the end of the lease");
        }
        self.expect_full_lease(transition, after);
    }

    fn see_settle(&mut self, transition: &Transition, before: &State, after: &State) {
        self.facts.n_settles += 1;
        if after.token != before.token {
            self.report(transition, "a settle changed the token");
        }
        let Some(worker) = transition.by.as_ref().and_then(|session| self.workers.get(session)) else { return };
        self.facts.n_attributed += 1;
        if Some(worker) != before.worker.as_ref() {
            self.report(transition, "another worker than its holder settled it");
        }
    }

    fn expect_full_lease(&mut self, transition: &Transition, after: &State) {
        let lasts = after.due_at.map(|end| end - transition.at);
        if lasts.is_none_or(|lasts| (lasts - self.lease).abs() > SLACK) {
            self.report(transition, "its lease is not as long as it should be");
        }
    }

    fn report(&mut self, transition: &Transition, problem: &str) {
        self.problems.push(format!("{problem}: {transition:?}"));
    }
}

/// Whether a claim at that time may have it: its retry time, or the end of its lease, has come.
fn is_due(state: &State, at: DateTime<Utc>) -> bool {
    state.due_at.is_some_and(|due_at| due_at <= at + GRAIN)
}
