//! Leases due deliveries (R1, R2): look, choose, compare and set, read back.
//!
//! Who else claims may come between any two of these steps. What is promised is promised by the one update alone, each of whose statements
//! repeats what was read; a claimer that comes too late with some looks again.

mod contention;
mod look;
mod outcome;
mod read;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bson::Bson;

use self::contention::Contention;
use self::look::{Candidate, Found, MAX_MERGED, Range};
use self::outcome::Outcome;
use self::write::{Group, Holder, groups};
use super::calls::{Call, Trouble};
use super::clock::ServerClock;
use super::documents::{DELIVERIES, delay_ms, id, ids};
use crate::delivery::{DeliveryId, HandlerId};
use crate::lease::LeaseToken;
use crate::store::decide::{Choice, Fate, Limits, Room, choose};
use crate::store::{BuriedAtClaim, Claim, Claimed, Isolation};

/// How often one claim looks again because what it found had to be buried or put back, or went to others.
const MAX_ROUNDS: usize = 8;
/// How many of those that must run alone are read at once; all but one are only of interest if they have to be buried.
const N_ISOLATED: u32 = 16;
/// How long an update may take, unless the call has less time: far longer than it takes if no open transaction holds a document of it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Dates count milliseconds: a lease that has ended when it begins would be found expired by the same claim.
const SHORTEST_LEASE_MS: i64 = 1;

/// All claims of a store.
pub(super) struct Claims {
    clock: Arc<ServerClock>,
    contention: Contention,
}

impl Claims {
    pub(super) fn new(clock: Arc<ServerClock>) -> Self {
        Self { clock, contention: Contention::new() }
    }

    pub(super) async fn claim(self: Arc<Self>, call: Call, request: Claim) -> Result<Claimed, Trouble> {
        let mut claiming = Claiming::begin(&self, &call, &request);
        if claiming.room.n_left == 0 || claiming.leases.is_empty() {
            return Ok(Claimed::default());
        }
        for _ in 0..MAX_ROUNDS {
            let has_moved_on = claiming.round().await?;
            if !claiming.leased.is_empty() || !has_moved_on {
                break;
            }
        }
        claiming.answer().await
    }
}

/// Reads back what the claim with a token holds (R2).
pub(super) async fn recover(call: Call, token: LeaseToken) -> Result<Claimed, Trouble> {
    let mut claimed = Claimed::default();
    read::held(&call, token, &mut claimed).await?;
    Ok(claimed)
}

/// A claim under way.
struct Claiming<'a> {
    claims: &'a Claims,
    call: &'a Call,
    request: &'a Claim,
    /// In milliseconds, of the handlers with places; the others are not looked at.
    leases: HashMap<HandlerId, i64>,
    limits: HashMap<HandlerId, Limits>,
    room: Room,
    exclude: HashSet<DeliveryId>,
    /// What the looks leave out: what could not be written, and all of `exclude` once some of it was found due.
    without: Vec<Bson>,
    has_found_excluded: bool,
    /// By due time.
    leased: Vec<Candidate>,
    claimed: Claimed,
}

impl<'a> Claiming<'a> {
    fn begin(claims: &'a Claims, call: &'a Call, request: &'a Claim) -> Self {
        let wanted = || request.handlers.iter().filter(|wanted| wanted.limit > 0);
        let lease_ms = |duration| delay_ms(duration).max(SHORTEST_LEASE_MS);
        let n_left_of = wanted().map(|wanted| (wanted.handler, wanted.limit)).collect();
        Self {
            claims,
            call,
            request,
            leases: wanted().map(|wanted| (wanted.handler, lease_ms(wanted.lease_duration))).collect(),
            limits: HashMap::new(),
            room: Room::new(request.limit, n_left_of, request.max_payload_bytes),
            exclude: request.exclude.iter().copied().collect(),
            without: ids(claims.contention.passed_over().0),
            has_found_excluded: false,
            leased: Vec::new(),
            claimed: Claimed::default(),
        }
    }

    /// Answers whether another round would find something else.
    async fn round(&mut self) -> Result<bool, Trouble> {
        let found = self.look().await?;
        let choice = self.choose(found);
        let groups = groups(choice, |handler| self.leases.get(&handler).copied().unwrap_or(SHORTEST_LEASE_MS));
        if groups.is_empty() {
            return Ok(false);
        }
        self.carry_out(groups).await?;
        Ok(true)
    }

    async fn look(&mut self) -> Result<Found, Trouble> {
        loop {
            let handlers: Vec<HandlerId> = self.leases.keys().copied().collect();
            let ranges = self.ranges(&handlers);
            let found = look::look(self.call, &handlers, &ranges, self.claims.clock.bound(), &self.without).await?;
            self.leases.retain(|handler, _| found.limits.contains_key(handler));
            let any = |is: &dyn Fn(&Candidate) -> bool| found.shared.iter().chain(&found.isolated).any(is);
            // Both are rare. They must not hide what is behind them.
            let excluded = !self.has_found_excluded && any(&|candidate| self.exclude.contains(&candidate.due.id));
            let unserved = any(&|candidate| !self.leases.contains_key(&candidate.due.handler));
            if excluded {
                self.has_found_excluded = true;
                self.without.extend(ids(self.exclude.iter().map(|id| id.0)));
            }
            if !excluded && !unserved {
                return Ok(found);
            }
        }
    }

    /// Handlers that may take all places share ranges; one with fewer needs its own, lest its backlog hides the others'.
    fn ranges(&self, handlers: &[HandlerId]) -> Vec<Range> {
        let limit_of = |handler: &HandlerId| self.room.n_left_of.get(handler).copied().unwrap_or(0);
        let range = |handlers: &[HandlerId], isolated, limit| Range { handlers: handlers.to_vec(), isolated, limit };
        let window = |limit| self.claims.contention.window(limit);
        let (free, limited): (Vec<HandlerId>, Vec<HandlerId>) =
            handlers.iter().partition(|handler| limit_of(handler) >= self.request.limit);
        let isolated = handlers.chunks(MAX_MERGED).map(|handlers| range(handlers, true, N_ISOLATED));
        let free = free.chunks(MAX_MERGED).map(|handlers| range(handlers, false, window(self.request.limit)));
        let limited = limited.chunks(1).map(|handlers| range(handlers, false, window(handlers.iter().map(limit_of).sum())));
        isolated.chain(free).chain(limited).collect()
    }

    fn choose(&mut self, found: Found) -> Choice<Candidate> {
        let Found { limits, mut shared, isolated } = found;
        self.limits.extend(limits);
        let n_isolated = isolated.len();
        if self.request.isolation == Isolation::Alone && n_isolated > 0 {
            let choice = choose(isolated, &self.limits, &mut self.room.for_one_alone());
            self.claimed.isolated_due = n_isolated > choice.hand_out.len() + choice.bury.len();
            return choice;
        }
        self.claimed.isolated_due = n_isolated > 0;
        // More than was wanted: others claim too, and each begins somewhere else.
        let n_spare = shared.len().saturating_sub(self.request.limit as usize);
        if n_spare > 0 {
            shared.rotate_left(rand::random_range(0..=n_spare));
        }
        choose(shared, &self.limits, &mut self.room.clone())
    }

    async fn carry_out(&mut self, groups: Vec<Group>) -> Result<(), Trouble> {
        let holder = Holder { worker: self.request.worker, token: self.request.token };
        let statements = groups.iter().map(|group| group.statement(holder)).collect();
        let patience = PATIENCE.min(self.call.time_left() / 4);
        let written = match self.call.update_within(DELIVERIES, statements, patience).await {
            Ok(written) => Some(written),
            Err(trouble) if trouble.is_out_of_time() => None,
            Err(trouble) => return Err(trouble),
        };
        for refusal in written.iter().flat_map(|written| written.refused.values()) {
            tracing::warn!(problem = refusal.message, "a delivery cannot be claimed, for the store refuses the update");
        }
        let outcome = Outcome::of(self.call, &groups, self.request.token, written.as_ref()).await?;
        for stuck in &outcome.stuck {
            self.claims.contention.pass_over(stuck.0);
            self.without.push(id(stuck.0));
        }
        self.claims.contention.learn(groups.iter().map(|group| group.candidates.len()).sum(), outcome.won.len());
        for group in groups {
            let fate = group.fate();
            let won = group.candidates.into_iter().filter(|candidate| outcome.won.contains(&candidate.due.id));
            match fate {
                Fate::HandOut => self.leased.extend(won),
                Fate::Isolate => {}
                Fate::Bury(reason) => {
                    let buried = won.map(|candidate| BuriedAtClaim { id: candidate.due.id, handler: candidate.due.handler, reason });
                    self.claimed.buried.extend(buried);
                }
            }
        }
        self.leased.sort_by_key(|candidate| (candidate.due_at, candidate.due.id));
        Ok(())
    }

    async fn answer(mut self) -> Result<Claimed, Trouble> {
        let max_attempts = |handler| {
            let limits: Option<&Limits> = self.limits.get(&handler);
            limits.and_then(|limits| u32::try_from(limits.max_attempts).ok()).unwrap_or(u32::MAX)
        };
        let leased: Vec<DeliveryId> = self.leased.iter().map(|candidate| candidate.due.id).collect();
        read::taken(self.call, &leased, self.request.token, max_attempts, &mut self.claimed).await?;
        if leased.len() < self.request.limit as usize {
            self.claimed.next_due_in = self.next_due_in().await?;
        }
        Ok(self.claimed)
    }

    /// C14. Deliveries that were passed over on purpose (excluded, alone, of a handler without places) are no reason to come back.
    async fn next_due_in(&mut self) -> Result<Option<Duration>, Trouble> {
        for candidate in &self.leased {
            self.room.n_left_of.entry(candidate.due.handler).and_modify(|n| *n = n.saturating_sub(1));
        }
        let with_places: Vec<HandlerId> =
            self.leases.keys().copied().filter(|handler| self.room.n_left_of.get(handler) > Some(&0)).collect();
        if !self.has_found_excluded {
            self.without.extend(ids(self.exclude.iter().map(|id| id.0)));
        }
        let next = look::next_due_in(self.call, &with_places, &self.without).await?;
        let (_, next_try) = self.claims.contention.passed_over();
        Ok(next.into_iter().chain(next_try).min())
    }
}
