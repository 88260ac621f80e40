//! What a claim does with each delivery that is due, on the stores that decide it here: pure decisions, without IO.

use std::collections::HashMap;

use crate::delivery::{DeliveryId, HandlerId};
use crate::verdict::Reason;

/// From this many crashes on a delivery runs alone (R8). SQLite's index of these deliveries has the number too.
pub(super) const ISOLATED_FROM_CRASHES: i64 = 2;

/// A delivery that is due, as far as it decides what becomes of it. Numbers are as stored: what is absurd about them is the reader's
/// finding (C13).
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) id: DeliveryId,
    pub(super) handler: HandlerId,
    /// Its lease has ended under a worker; else it was pending.
    pub(super) is_expired: bool,
    pub(super) attempts: i64,
    pub(super) crashes: i64,
    pub(super) payload_bytes: i64,
}

/// The limits of a handler, which belong to it and not to the claimer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_attempts: i64,
    pub(super) max_crashes: i64,
}

/// What becomes of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    HandOut,
    /// Back to pending for a random time, to run alone afterwards.
    Isolate,
    Bury(Reason),
}

/// C8, C9: what kills its host cannot loop for ever, and the first takeover is immediate.
pub(super) fn fate(due: &Due, limits: Limits) -> Fate {
    let crashes = due.crashes.saturating_add(i64::from(due.is_expired));
    if crashes > 0 && crashes >= limits.max_crashes {
        Fate::Bury(Reason::MaxCrashes)
    } else if due.attempts >= limits.max_attempts {
        Fate::Bury(Reason::MaxAttempts)
    } else if due.is_expired && crashes >= ISOLATED_FROM_CRASHES {
        Fate::Isolate
    } else {
        Fate::HandOut
    }
}

/// What the claimer still has room for.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Deliveries of any handler.
    pub(super) n_left: u32,
    pub(super) n_left_of: HashMap<HandlerId, u32>,
    pub(super) max_payload_bytes: u64,
    payload_bytes: u64,
    is_empty: bool,
}

/// Whether there was room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Admitted,
    /// Its handler has no place left; others may have.
    HandlerFull,
    /// Nothing further goes.
    Full,
}

impl Room {
    pub(super) fn new(n_left: u32, n_left_of: HashMap<HandlerId, u32>, max_payload_bytes: u64) -> Self {
        Self { n_left, n_left_of, max_payload_bytes, payload_bytes: 0, is_empty: true }
    }

    /// Room for one delivery, with nothing beside it.
    pub(super) fn for_one_alone(&self) -> Self {
        Self { n_left: 1, ..self.clone() }
    }

    /// C2 and C12: the first always goes, however large.
    fn admit(&mut self, due: &Due) -> Admission {
        let payload_bytes = self.payload_bytes.saturating_add(u64::try_from(due.payload_bytes).unwrap_or(0));
        let of_handler = self.n_left_of.entry(due.handler).or_insert(0);
        if self.n_left == 0 || (!self.is_empty && payload_bytes > self.max_payload_bytes) {
            return Admission::Full;
        }
        if *of_handler == 0 {
            return Admission::HandlerFull;
        }
        *of_handler -= 1;
        self.n_left -= 1;
        self.payload_bytes = payload_bytes;
        self.is_empty = false;
        Admission::Admitted
    }
}

/// What to do with some candidates: whatever a store knows of deliveries that are due.
#[derive(Debug)]
pub(super) struct Choice<C> {
    pub(super) hand_out: Vec<C>,
    pub(super) isolate: Vec<C>,
    pub(super) bury: Vec<(C, Reason)>,
    /// A delivery that could be handed out had to be left, for want of room.
    pub(super) is_full: bool,
}

/// Goes through `candidates`, which are in the order of their due times, until there is no room.
pub(super) fn choose<C: AsRef<Due>>(candidates: Vec<C>, limits: &HashMap<HandlerId, Limits>, room: &mut Room) -> Choice<C> {
    let mut choice = Choice { hand_out: Vec::new(), isolate: Vec::new(), bury: Vec::new(), is_full: false };
    for candidate in candidates {
        let due = candidate.as_ref();
        let Some(limits) = limits.get(&due.handler) else { continue };
        match fate(due, *limits) {
            Fate::Bury(reason) => choice.bury.push((candidate, reason)),
            Fate::Isolate => choice.isolate.push(candidate),
            Fate::HandOut => match room.admit(due) {
                Admission::Admitted => choice.hand_out.push(candidate),
                Admission::HandlerFull => {}
                Admission::Full => {
                    choice.is_full = true;
                    break;
                }
            },
        }
    }
    choice
}
