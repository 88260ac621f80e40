//! What settling does to a delivery, as statements of an update.
//!
//! Nothing is sent here. Each statement applies only while the delivery is processing under the token (T1).

use std::collections::HashMap;

use bson::{Bson, Document, doc};
use uuid::Uuid;

use super::Placed;
use crate::store::decide::ISOLATED_FROM_CRASHES;
use crate::store::mongodb::attempt_records;
use crate::store::mongodb::documents::{delay_ms, event, id, ids};
use crate::store::{Attempt, Settle, Settlement};

/// What happens to a delivery: with the token, all that a statement can share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Move {
    Complete,
    Reschedule { delay_ms: i64, is_snoozed: bool },
    Bury,
    Release { delay_ms: Option<i64> },
}

/// Settlements that are one statement: many that say the same, or one with a report or events.
pub(super) struct Statement<'a> {
    step: Move,
    token: Uuid,
    /// By id, as the server goes through them.
    pub(super) settlements: Vec<Placed<'a>>,
}

pub(super) fn statements<'a>(settlements: &[Placed<'a>]) -> Vec<Statement<'a>> {
    let mut statements: Vec<Statement<'a>> = Vec::new();
    let mut shared: HashMap<(Move, Uuid), usize> = HashMap::new();
    for (place, settlement) in settlements {
        let (step, token) = (step(settlement), settlement.lease.token.0);
        let is_of_its_own = settlement.report.is_some() || has_events(settlement);
        match shared.get(&(step, token)) {
            Some(n) if !is_of_its_own => statements[*n].settlements.push((*place, settlement)),
            Some(_) | None => {
                if !is_of_its_own {
                    shared.insert((step, token), statements.len());
                }
                statements.push(Statement { step, token, settlements: vec![(*place, settlement)] });
            }
        }
    }
    statements.iter_mut().for_each(|statement| statement.settlements.sort_by_key(|(_, settlement)| settlement.lease.delivery));
    statements
}

fn step(settlement: &Settlement) -> Move {
    match &settlement.settle {
        Settle::Complete { .. } => Move::Complete,
        Settle::Reschedule { delay, attempt } => Move::Reschedule { delay_ms: delay_ms(*delay), is_snoozed: *attempt == Attempt::Snoozed },
        Settle::Bury => Move::Bury,
        Settle::Release { delay } => Move::Release { delay_ms: delay.map(delay_ms) },
    }
}

fn has_events(settlement: &Settlement) -> bool {
    matches!(&settlement.settle, Settle::Complete { events } if !events.is_empty())
}

impl Statement<'_> {
    /// Index: the primary key, also for the order.
    pub(super) fn command(&self, batch: Uuid) -> Document {
        let mut changes = doc! { "settledIn": id(batch) };
        let update = match self.step {
            Move::Complete => {
                changes.extend(doc! { "status": "completed", "settledAt": "$$NOW" });
                vec![doc! { "$unset": "dueAt" }]
            }
            Move::Bury => {
                changes.extend(doc! { "status": "buried", "settledAt": "$$NOW" });
                vec![doc! { "$unset": "dueAt" }]
            }
            Move::Reschedule { delay_ms, is_snoozed } => {
                changes.extend(pending_at(after(delay_ms)));
                if is_snoozed {
                    changes.extend(doc! { "attempts": given_back(), "snoozes": if_number("$snoozes", doc! { "$add": ["$snoozes", 1] }) });
                } else {
                    changes.insert("snoozes", 0_i64);
                }
                Vec::new()
            }
            Move::Release { delay_ms } => {
                let due_at = delay_ms.map_or_else(|| doc! { "$ifNull": ["$readyAt", "$$NOW"] }, after);
                changes.extend(pending_at(due_at));
                changes.insert("attempts", given_back());
                Vec::new()
            }
        };
        for (_, settlement) in &self.settlements {
            changes.extend(of_its_own(settlement));
        }
        let update: Vec<Document> = std::iter::once(doc! { "$set": changes }).chain(update).collect();
        let deliveries = ids(self.settlements.iter().map(|(_, settlement)| settlement.lease.delivery.0));
        doc! {
            "q": { "_id": { "$in": deliveries }, "leaseToken": id(self.token), "status": "processing" },
            "u": update,
            "multi": true,
            "hint": { "_id": 1 },
        }
    }
}

/// The verb, for all of a statement; a report and events, for its only one.
fn of_its_own(settlement: &Settlement) -> Document {
    let mut changes = doc! { "settleVerb": settlement.settle.verb() };
    if let Some(report) = &settlement.report {
        changes.insert("reason", report.reason.as_str());
        changes.insert("records", attempt_records::with(attempt_records::of_run(report)));
    }
    if let Settle::Complete { events } = &settlement.settle
        && !events.is_empty()
    {
        let events: Vec<Bson> = events.iter().map(|new| event(new).into()).collect();
        changes.extend(doc! { "published": { "$literal": events }, "fanoutAt": "$$NOW" });
    }
    changes
}

fn after(delay_ms: i64) -> Document {
    doc! { "$add": ["$$NOW", delay_ms] }
}

fn pending_at(due_at: Document) -> Document {
    doc! { "status": "pending", "isolated": { "$gte": ["$crashes", ISOLATED_FROM_CRASHES] }, "dueAt": &due_at, "readyAt": due_at }
}

/// An attempt less, and never less than none.
fn given_back() -> Document {
    if_number("$attempts", doc! { "$max": [{ "$subtract": ["$attempts", 1] }, 0] })
}

/// What is no number stays what it is: a malformed delivery, too, can be released.
fn if_number(field: &str, then: Document) -> Document {
    doc! { "$cond": [{ "$isNumber": field }, then, field] }
}
