//! Leases due deliveries (R1, R2).
//!
//! The transaction is immediate, so what is read as due here is still due when it is leased, and no other claimer comes between. What
//! follows for each candidate is a pure decision; then one statement per kind of decision does it for all of them.

mod read;
mod write;

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use self::read::Candidate;
use self::write::Holder;
use super::rows::hex;
use super::time::StoreTime;
use super::transaction::Transaction;
use super::writer::Write;
use crate::delivery::HandlerId;
use crate::lease::LeaseToken;
use crate::store::decide::{Choice, Limits, Room, choose};
use crate::store::{BuriedAtClaim, Claim, ClaimFor, Claimed, Isolation};

/// How often one claim looks again because what it found had to be buried or put back. Each round has got past what it found, so the next
/// claim begins behind it.
const MAX_ROUNDS: usize = 8;
/// How many of those that must run alone are read at once; all but one are only of interest if they have to be buried.
const N_ISOLATED: u32 = 16;

#[async_trait]
impl Write for Claim {
    type Answer = Claimed;
    const OPERATION: &'static str = "claim";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Claimed> {
        let mut claiming = Claiming::begin(self, transaction).await?;
        if self.isolation == Isolation::Alone {
            claiming.take_isolated(transaction).await?;
        }
        if claiming.taken.is_empty() {
            claiming.take_shared(transaction).await?;
        }
        claiming.answer(transaction).await
    }
}

/// Reads back what the claim with a token holds (R2). Takes the writer's queue, so that it comes after that claim.
pub(super) struct RecoverClaim(pub(super) LeaseToken);

#[async_trait]
impl Write for RecoverClaim {
    type Answer = Claimed;
    const OPERATION: &'static str = "recover_claim";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Claimed> {
        let taken = read::held(transaction, self.0).await?;
        let mut claimed = Claimed::default();
        read::taken(transaction, &taken, &mut claimed).await?;
        Ok(claimed)
    }
}

/// A claim under way.
struct Claiming<'a> {
    request: &'a Claim,
    now: StoreTime,
    /// Those with places; the others are not looked at.
    handlers: HashMap<HandlerId, Served>,
    limits: HashMap<HandlerId, Limits>,
    exclude: Vec<String>,
    room: Room,
    may_have_isolated: bool,
    /// Leased, by due time.
    taken: Vec<String>,
    buried: Vec<BuriedAtClaim>,
    next_due_at: Option<StoreTime>,
    /// Something that is due had to be left.
    is_full: bool,
}

struct Served {
    lease_duration: Duration,
    /// Whether the last look did not come to the end of what is due.
    may_have_more: bool,
}

impl<'a> Claiming<'a> {
    async fn begin(request: &'a Claim, transaction: &mut Transaction) -> sqlx::Result<Self> {
        let wanted: Vec<&ClaimFor> = request.handlers.iter().filter(|wanted| wanted.limit > 0 && request.limit > 0).collect();
        let now = transaction.now();
        let looks = read::look(transaction, wanted.iter().map(|wanted| wanted.handler).collect(), now).await?;
        let mut handlers = HashMap::new();
        for wanted in &wanted {
            if let Some(look) = looks.get(&wanted.handler) {
                handlers.insert(wanted.handler, Served { lease_duration: wanted.lease_duration, may_have_more: look.has_due });
            }
        }
        Ok(Self {
            request,
            now,
            handlers,
            limits: looks.iter().map(|(handler, look)| (*handler, look.limits)).collect(),
            exclude: request.exclude.iter().map(|id| hex(id.0)).collect(),
            room: Room::new(request.limit, wanted.iter().map(|wanted| (wanted.handler, wanted.limit)).collect(), request.max_payload_bytes),
            may_have_isolated: looks.values().any(|look| look.has_isolated_due),
            taken: Vec::new(),
            buried: Vec::new(),
            next_due_at: looks.values().filter_map(|look| look.next_due_at).min(),
            is_full: false,
        })
    }

    /// Takes one delivery that must run alone, if one is due (C9).
    async fn take_isolated(&mut self, transaction: &mut Transaction) -> sqlx::Result<()> {
        for _ in 0..MAX_ROUNDS {
            let candidates = self.isolated(transaction, N_ISOLATED).await?;
            if candidates.is_empty() {
                return Ok(());
            }
            let mut alone = self.room.for_one_alone();
            let choice = choose(candidates, &self.limits, &mut alone);
            let is_taken = !choice.hand_out.is_empty();
            self.carry_out(transaction, choice).await?;
            if is_taken {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes what may run beside others (C10).
    async fn take_shared(&mut self, transaction: &mut Transaction) -> sqlx::Result<()> {
        for _ in 0..MAX_ROUNDS {
            let candidates = self.candidates(transaction).await?;
            if candidates.is_empty() {
                break;
            }
            let choice = choose(candidates, &self.limits, &mut self.room);
            self.is_full = choice.is_full;
            self.carry_out(transaction, choice).await?;
            if self.is_full || self.room.n_left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The next deliveries that are due, of every handler that has some and has places: as many as there is room for.
    async fn candidates(&mut self, transaction: &mut Transaction) -> sqlx::Result<Vec<Candidate>> {
        let mut candidates = Vec::new();
        for (handler, served) in self.handlers.iter_mut().filter(|(_, served)| served.may_have_more) {
            let limit = self.room.n_left.min(self.room.n_left_of.get(handler).copied().unwrap_or(0));
            if limit == 0 {
                continue;
            }
            let found = read::candidates(transaction, *handler, self.now, &self.exclude, limit).await?;
            served.may_have_more = found.len() >= limit as usize;
            candidates.extend(found);
        }
        candidates.sort_by_key(|candidate| (candidate.due_at, candidate.due.id));
        Ok(candidates)
    }

    async fn isolated(&self, transaction: &mut Transaction, limit: u32) -> sqlx::Result<Vec<Candidate>> {
        if !self.may_have_isolated {
            return Ok(Vec::new());
        }
        read::isolated(transaction, self.handlers.keys().copied().collect(), self.now, &self.exclude, limit).await
    }

    async fn carry_out(&mut self, transaction: &mut Transaction, choice: Choice<Candidate>) -> sqlx::Result<()> {
        let Choice { hand_out, isolate, bury, is_full: _ } = choice;
        write::record_lost_leases(transaction, hand_out.iter().chain(&isolate).chain(bury.iter().map(|(candidate, _)| candidate))).await?;

        let leased = hand_out.iter().map(|candidate| (candidate.due.id, self.now.after(self.lease_duration(candidate.due.handler))));
        let holder = Holder { worker: self.request.worker, token: self.request.token, now: self.now };
        write::lease(transaction, leased, holder).await?;
        self.taken.extend(hand_out.iter().map(|candidate| hex(candidate.due.id.0)));

        let delay = |handler| self.lease_duration(handler).mul_f64(rand::random::<f64>());
        let isolated: Vec<_> = isolate.iter().map(|candidate| (candidate.due.id, self.now.after(delay(candidate.due.handler)))).collect();
        write::isolate(transaction, &isolated).await?;
        self.next_due_at = isolated.iter().map(|(_, due_at)| *due_at).chain(self.next_due_at).min();
        self.may_have_isolated |= !isolated.is_empty();

        write::bury(transaction, bury.iter().map(|(candidate, reason)| (candidate.due.id, *reason)), self.now).await?;
        let buried =
            bury.iter().map(|(candidate, reason)| BuriedAtClaim { id: candidate.due.id, handler: candidate.due.handler, reason: *reason });
        self.buried.extend(buried);
        Ok(())
    }

    async fn answer(mut self, transaction: &mut Transaction) -> sqlx::Result<Claimed> {
        // One that was taken is processing by now: what is found here is another one.
        let isolated_due = !self.isolated(transaction, 1).await?.is_empty();
        let mut claimed = Claimed { isolated_due, next_due_in: self.next_due_in(), ..Claimed::default() };
        claimed.buried = std::mem::take(&mut self.buried);
        read::taken(transaction, &self.taken, &mut claimed).await?;
        Ok(claimed)
    }

    /// C14. Deliveries that were passed over on purpose (excluded, alone, of a handler without places) are no reason to come back.
    fn next_due_in(&self) -> Option<Duration> {
        if self.taken.len() >= self.request.limit as usize {
            return None;
        }
        let has_left_some = self.is_full
            || self
                .handlers
                .iter()
                .any(|(handler, served)| served.may_have_more && self.room.n_left_of.get(handler).is_some_and(|n| *n > 0));
        if has_left_some { Some(Duration::ZERO) } else { self.next_due_at.map(|next| self.now.until(next)) }
    }

    /// At least a microsecond: a lease that has ended when it begins would be found expired by the same claim.
    fn lease_duration(&self, handler: HandlerId) -> Duration {
        self.handlers.get(&handler).map_or(Duration::ZERO, |served| served.lease_duration).max(Duration::from_micros(1))
    }
}
