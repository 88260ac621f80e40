//! What the worker holds a lease of: the table between claim, run and settle.
//!
//! A delivery is in it from the claim until its settlement was answered or its lease given up. Until then the process claims it for nobody,
//! so that two runs of it never overlap (R10).

use std::collections::{HashMap, VecDeque};

use crate::clock::Instant;
use crate::delivery::{ClaimedDelivery, DeliveryId};
use crate::engine::Abort;
use crate::lease::Lease;

/// One delivery under a lease of ours.
pub(super) struct Holding {
    pub lease: Lease,
    /// Index into the worker's handlers.
    pub handler: usize,
    pub tries: crate::policy::Tries,
    /// When the lease ends as far as this worker may trust in it: counted from the moment the claim or renewal was sent (R9).
    pub deadline: Instant,
    pub stage: Stage,
}

/// How far a held delivery has come.
pub(super) enum Stage {
    /// Waits for a free slot.
    Prefetched(Box<ClaimedDelivery>),
    Running(Abort),
    /// Its run has ended; the store has not confirmed the settlement yet.
    Settling,
}

/// All held deliveries, and the queues of those that wait for a slot.
pub(super) struct Held {
    by_id: HashMap<DeliveryId, Holding>,
    /// Prefetched ids of each handler, oldest first.
    queues: Vec<VecDeque<DeliveryId>>,
    n_running: Vec<u32>,
    n_prefetched: u32,
    prefetched_bytes: u64,
}

impl Held {
    pub(super) fn new(n_handlers: usize) -> Self {
        Self {
            by_id: HashMap::new(),
            queues: vec![VecDeque::new(); n_handlers],
            n_running: vec![0; n_handlers],
            n_prefetched: 0,
            prefetched_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = DeliveryId> {
        self.by_id.keys().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (DeliveryId, &Holding)> {
        self.by_id.iter().map(|(id, holding)| (*id, holding))
    }

    pub(super) fn get(&self, id: DeliveryId) -> Option<&Holding> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: DeliveryId) -> Option<&mut Holding> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn n_running(&self) -> u32 {
        self.n_running.iter().sum()
    }

    pub(super) fn n_running_of(&self, handler: usize) -> u32 {
        self.n_running[handler]
    }

    pub(super) fn n_prefetched(&self) -> u32 {
        self.n_prefetched
    }

    pub(super) fn n_prefetched_of(&self, handler: usize) -> u32 {
        u32::try_from(self.queues[handler].len()).unwrap_or(u32::MAX)
    }

    pub(super) fn prefetched_bytes(&self) -> u64 {
        self.prefetched_bytes
    }

    /// Takes in a claimed delivery.
    pub(super) fn prefetch(&mut self, handler: usize, lease: Lease, deadline: Instant, delivery: ClaimedDelivery) {
        self.n_prefetched += 1;
        self.prefetched_bytes += delivery.payload.len() as u64;
        self.queues[handler].push_back(delivery.id);
        let tries = crate::policy::Tries { attempt: delivery.attempt, max_attempts: delivery.max_attempts, snoozes: delivery.snoozes };
        let stage = Stage::Prefetched(Box::new(delivery));
        self.by_id.insert(lease.delivery, Holding { lease, handler, tries, deadline, stage });
    }

    /// The oldest prefetched delivery of `handler`, marked as running under `abort`. Those whose lease ran out while they waited are somebody
    /// else's by now, or due again: they are forgotten, and told to `on_expired`.
    pub(super) fn start_next(
        &mut self,
        handler: usize,
        mut on_expired: impl FnMut(DeliveryId),
    ) -> Option<(Lease, Box<ClaimedDelivery>, Abort)> {
        while let Some(id) = self.queues[handler].pop_front() {
            let Some(holding) = self.by_id.get_mut(&id) else { continue };
            if holding.deadline.has_passed() {
                self.remove(id);
                on_expired(id);
                continue;
            }
            let abort = Abort::new(holding.deadline);
            if let Stage::Prefetched(delivery) = std::mem::replace(&mut holding.stage, Stage::Running(abort.clone())) {
                let lease = holding.lease;
                self.n_prefetched -= 1;
                self.prefetched_bytes -= delivery.payload.len() as u64;
                self.n_running[handler] += 1;
                return Some((lease, delivery, abort));
            }
        }
        None
    }

    /// Marks a held delivery as being settled, wherever it stood, and answers its lease; `None` if it is not held.
    pub(super) fn begin_settling(&mut self, id: DeliveryId) -> Option<Lease> {
        let holding = self.by_id.get_mut(&id)?;
        let (handler, lease) = (holding.handler, holding.lease);
        let before = std::mem::replace(&mut holding.stage, Stage::Settling);
        self.leave(id, handler, &before);
        Some(lease)
    }

    /// Forgets a delivery: it was settled, or its lease is given up.
    pub(super) fn remove(&mut self, id: DeliveryId) -> Option<Holding> {
        let holding = self.by_id.remove(&id)?;
        self.leave(id, holding.handler, &holding.stage);
        Some(holding)
    }

    /// The ids of everything that has not started.
    pub(super) fn prefetched(&self) -> Vec<DeliveryId> {
        self.iter().filter(|(_, holding)| matches!(holding.stage, Stage::Prefetched(_))).map(|(id, _)| id).collect()
    }

    fn leave(&mut self, id: DeliveryId, handler: usize, stage: &Stage) {
        match stage {
            Stage::Prefetched(delivery) => {
                self.n_prefetched -= 1;
                self.prefetched_bytes -= delivery.payload.len() as u64;
                self.queues[handler].retain(|queued| *queued != id);
            }
            Stage::Running(_) => self.n_running[handler] -= 1,
            Stage::Settling => {}
        }
    }
}
