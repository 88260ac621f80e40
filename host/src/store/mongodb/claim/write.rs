//! What a claim writes: one statement for all deliveries that the same thing happens to.
//!
//! Each statement repeats what was read of its deliveries, so that it does nothing to one of which that is no longer true (R1).

use std::collections::HashMap;

use bson::{Document, doc};

use super::look::Candidate;
use crate::delivery::{HandlerId, WorkerId};
use crate::lease::LeaseToken;
use crate::store::decide::{Choice, Fate};
use crate::store::mongodb::attempt_records;
use crate::store::mongodb::documents::{id, ids};
use crate::verdict::Reason;

/// Who claims.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) worker: WorkerId,
    pub(super) token: LeaseToken,
}

/// What happens to a delivery, and what was read of it that this depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Move {
    fate: Fate,
    is_expired: bool,
    attempts: Option<i64>,
    crashes: Option<i64>,
    lease_ms: i64,
}

/// Deliveries with the same move, in the order in which the server updates them.
pub(super) struct Group {
    step: Move,
    pub(super) candidates: Vec<Candidate>,
}

/// Sorts what was chosen into groups. Expired leases come last: if somebody holds a document in an open transaction, it is most likely there.
pub(super) fn groups(choice: Choice<Candidate>, lease_ms: impl Fn(HandlerId) -> i64) -> Vec<Group> {
    let Choice { hand_out, isolate, bury, is_full: _ } = choice;
    let hand_out = hand_out.into_iter().map(|candidate| (candidate, Fate::HandOut));
    let isolate = isolate.into_iter().map(|candidate| (candidate, Fate::Isolate));
    let bury = bury.into_iter().map(|(candidate, reason)| (candidate, Fate::Bury(reason)));
    let mut groups: HashMap<Move, Vec<Candidate>> = HashMap::new();
    for (candidate, fate) in hand_out.chain(isolate).chain(bury) {
        let Candidate { due, attempts, crashes, .. } = candidate;
        let step = Move { fate, is_expired: due.is_expired, attempts, crashes, lease_ms: lease_ms(due.handler) };
        groups.entry(step).or_default().push(candidate);
    }
    let mut groups: Vec<Group> = groups.into_iter().map(|(step, candidates)| Group { step, candidates }).collect();
    groups.sort_by_key(|group| (group.step.is_expired, group.step.attempts));
    groups.iter_mut().for_each(|group| group.candidates.sort_by_key(|candidate| candidate.due.id));
    groups
}

impl Group {
    pub(super) fn fate(&self) -> Fate {
        self.step.fate
    }

    /// The statement that does it. Index: the primary key.
    pub(super) fn statement(&self, holder: Holder) -> Document {
        let mut update = vec![doc! { "$set": self.changes(holder) }];
        match self.step.fate {
            Fate::HandOut => update.push(doc! { "$unset": "settleVerb" }),
            Fate::Isolate => update.push(doc! { "$unset": ["leaseToken", "settleVerb"] }),
            Fate::Bury(_) => update.push(doc! { "$unset": ["dueAt", "leaseToken", "settleVerb"] }),
        }
        doc! { "q": self.filter(), "u": update, "multi": true }
    }

    fn filter(&self) -> Document {
        let is_expired = if self.step.is_expired { "$eq" } else { "$ne" };
        let mut filter = doc! {
            "_id": { "$in": ids(self.candidates.iter().map(|candidate| candidate.due.id.0)) },
            "status": { is_expired: "processing" },
            "$expr": { "$lte": ["$dueAt", "$$NOW"] },
        };
        // What cannot be read is not repeated and not changed.
        for (name, number) in [("attempts", self.step.attempts), ("crashes", self.step.crashes)] {
            if let Some(number) = number {
                filter.insert(name, number);
            }
        }
        filter
    }

    fn changes(&self, holder: Holder) -> Document {
        let Move { fate, is_expired, attempts, crashes, lease_ms } = self.step;
        let mut changes = doc! { "claimedIn": id(holder.token.0), "isolated": fate == Fate::Isolate };
        if is_expired {
            // C7. The lease end is no due time: a release goes back to the one before (R15).
            changes.insert("records", attempt_records::with(attempt_records::of_lost_lease()));
            changes.insert("reason", Reason::LeaseExpired.as_str());
            if let Some(crashes) = crashes {
                changes.insert("crashes", crashes.saturating_add(1));
            }
        }
        match fate {
            Fate::HandOut => {
                changes.extend(doc! {
                    "status": "processing",
                    "dueAt": { "$add": ["$$NOW", lease_ms] },
                    "leaseToken": id(holder.token.0),
                    "worker": holder.worker.0.to_string(),
                    "claimedAt": "$$NOW",
                });
                if !is_expired {
                    changes.insert("readyAt", "$dueAt");
                }
                if let Some(attempts) = attempts {
                    changes.insert("attempts", attempts.saturating_add(1));
                }
            }
            Fate::Isolate => {
                let delay = doc! { "$toLong": { "$multiply": [{ "$rand": {} }, lease_ms] } };
                changes.extend(doc! { "status": "pending", "dueAt": { "$add": ["$$NOW", delay] } });
            }
            Fate::Bury(reason) => changes.extend(doc! { "status": "buried", "settledAt": "$$NOW", "reason": reason.as_str() }),
        }
        changes
    }
}
