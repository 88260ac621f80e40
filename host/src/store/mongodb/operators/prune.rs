//! Deletes what was settled long enough ago, in batches.
//!
//! A batch is many writes, and the host may die between any two. So what it is about to delete is written down first, in `prunings`:
//! whoever prunes next carries it out again from the beginning, which deletes what is left of it and nothing else.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};
use mongodb::options::{FindOptions, Hint};
use uuid::Uuid;

use super::remove;
use crate::delivery::Status;
use crate::store::mongodb::calls::{Call, Calls, Trouble};
use crate::store::mongodb::clock::ServerClock;
use crate::store::mongodb::documents::{DELIVERIES, EVENTS, PRUNINGS, delay_ms, id};
use crate::store::mongodb::fields::Problem;
use crate::store::{Pruned, Result, Retention};

/// Documents of one batch, so that each of its commands takes some tens of milliseconds.
const BATCH: usize = 1000;

pub(super) async fn prune(calls: &Calls, clock: &ServerClock, retention: Retention) -> Result<Pruned> {
    remove::bury_forgotten(calls).await?;
    let mut pruned = calls.run("prune", finish_what_others_began).await?;
    for (status, age) in [(Status::Completed, retention.completed), (Status::Buried, retention.buried)] {
        let mut fanning_out = Vec::new();
        loop {
            let old = doc! { "status": status.as_str(), "fanoutAt": { "$exists": false }, "eventId": { "$nin": &fanning_out } };
            let old = at_least("settledAt", age, clock, old);
            let batch = calls.run("prune", |call| deliveries(call, old)).await?;
            pruned = sum(pruned, batch.pruned);
            fanning_out.extend(batch.fanning_out);
            if batch.n_found < BATCH {
                break;
            }
        }
    }
    loop {
        let old = at_least("publishedAt", retention.completed, clock, without_deliveries());
        let (n_found, n_events) = calls.run("prune", |call| events(call, old)).await?;
        pruned.n_events += n_events;
        if n_found < BATCH {
            return Ok(pruned);
        }
    }
}

/// `conditions`, and that the date `name` is at least `age` old. The server's clock decides; the plain bound is for the index.
fn at_least(name: &str, age: Duration, clock: &ServerClock, mut conditions: Document) -> Document {
    let age = delay_ms(age);
    let bound = DateTime::from_millis(clock.bound().timestamp_millis().saturating_sub(age));
    conditions.insert(name, doc! { "$lte": bound });
    conditions.insert("$expr", doc! { "$lte": [format!("${name}"), { "$subtract": ["$$NOW", age] }] });
    conditions
}

/// What a batch of deliveries came to.
struct Batch {
    pruned: Pruned,
    n_found: usize,
    /// Events whose deliveries must not go yet.
    fanning_out: Vec<Bson>,
}

/// Deletes a batch of the deliveries that match `old`. Index: `settled`, one range.
async fn deliveries(call: Call, old: Document) -> Result<Batch, Trouble> {
    let options = FindOptions::builder()
        .projection(doc! { "eventId": 1, "settledAt": 1 })
        .sort(doc! { "settledAt": 1 })
        .limit(BATCH as i64)
        .hint(Hint::Name("settled".to_owned()))
        .build();
    let found = call.find(DELIVERIES, old, options).await?;
    let n_found = found.len();
    let events: Vec<Bson> = found.iter().filter_map(|delivery| delivery.get("eventId").cloned()).collect();
    // Its fan-out would create the deliveries again that it does not find.
    let fanning_out = doc! { "_id": { "$in": events }, "fanoutAt": { "$exists": true } };
    let fanning_out = call.find(EVENTS, fanning_out, only_ids()).await?.iter().filter_map(|event| event.get("_id").cloned()).collect();
    let mut batch = Batch { pruned: Pruned::default(), n_found, fanning_out };
    let is_free = |delivery: &&Document| !delivery.get("eventId").is_some_and(|event| batch.fanning_out.contains(event));
    if let Some(pruning) = Pruning::of(&found.iter().filter(is_free).collect::<Vec<_>>()) {
        pruning.write_down(&call).await?;
        batch.pruned = pruning.carry_out(&call).await?;
    }
    Ok(batch)
}

/// Deletes a batch of the events that match `old`, which nobody subscribed to. Index: `without_deliveries`, one range.
async fn events(call: Call, old: Document) -> Result<(usize, u64), Trouble> {
    let options = FindOptions::builder().projection(doc! { "_id": 1 }).sort(doc! { "publishedAt": 1 }).limit(BATCH as i64).build();
    let found: Vec<Bson> = call.find(EVENTS, old, options).await?.iter().filter_map(|event| event.get("_id").cloned()).collect();
    let n_found = found.len();
    if n_found == 0 {
        return Ok((0, 0));
    }
    let mut conditions = without_deliveries();
    conditions.insert("_id", doc! { "$in": found });
    Ok((n_found, call.delete(EVENTS, conditions).await?))
}

fn without_deliveries() -> Document {
    doc! { "nDeliveries": 0, "fanoutAt": { "$exists": false } }
}

fn only_ids() -> FindOptions {
    FindOptions::builder().projection(doc! { "_id": 1 }).build()
}

async fn finish_what_others_began(call: Call) -> Result<Pruned, Trouble> {
    let mut pruned = Pruned::default();
    for found in call.find(PRUNINGS, doc! {}, FindOptions::default()).await? {
        match Pruning::read(&found) {
            Ok(pruning) => pruned = sum(pruned, pruning.carry_out(&call).await?),
            Err(problem) => tracing::warn!(problem, "what an earlier prune has left cannot be read, and is skipped"),
        }
    }
    Ok(pruned)
}

fn sum(a: Pruned, b: Pruned) -> Pruned {
    Pruned { n_deliveries: a.n_deliveries + b.n_deliveries, n_events: a.n_events + b.n_events }
}

/// Deliveries that are to be deleted, and their events, each with the last of its deliveries.
///
/// Two hosts may carry out the same one at the same time, or one again after it was done. A delivery that was redriven and
/// settled meanwhile was settled later than any of them, and stays.
struct Pruning {
    id: Bson,
    deliveries: Vec<Bson>,
    events: Vec<Bson>,
    /// The latest time of settling among them.
    settled_at: Bson,
}

impl Pruning {
    /// Of deliveries by their time of settling; `None` if there are none.
    fn of(deliveries: &[&Document]) -> Option<Self> {
        let settled_at = deliveries.last()?.get("settledAt")?.clone();
        let all = |name| deliveries.iter().filter_map(|delivery| delivery.get(name).cloned()).collect();
        Some(Self { id: id(Uuid::new_v4()), deliveries: all("_id"), events: all("eventId"), settled_at })
    }

    fn read(document: &Document) -> Result<Self, Problem> {
        let field = |name: &str| document.get(name).cloned().ok_or_else(|| format!("{name}: expected a value, got nothing"));
        let array = |name: &str| document.get_array(name).cloned().map_err(|error| format!("{name}: {error}"));
        Ok(Self { id: field("_id")?, deliveries: array("deliveries")?, events: array("events")?, settled_at: field("settledAt")? })
    }

    async fn write_down(&self, call: &Call) -> Result<(), Trouble> {
        let document = doc! { "deliveries": &self.deliveries, "events": &self.events, "settledAt": &self.settled_at };
        let statement = doc! { "q": { "_id": &self.id }, "u": document, "upsert": true };
        call.update(PRUNINGS, vec![statement]).await?.all().map(|_| ())
    }

    async fn carry_out(&self, call: &Call) -> Result<Pruned, Trouble> {
        let deliveries = doc! {
            "_id": { "$in": &self.deliveries },
            "settledAt": { "$lte": &self.settled_at },
            "fanoutAt": { "$exists": false },
            // As an expression, so that the ids are the only way to find them: a range of `settled` may be much longer.
            "$expr": { "$in": ["$status", ["completed", "buried"]] },
        };
        let n_deliveries = call.delete(DELIVERIES, deliveries).await?;
        let n_events = call.delete(EVENTS, self.orphans(call).await?).await?;
        call.delete(PRUNINGS, doc! { "_id": &self.id }).await?;
        Ok(Pruned { n_deliveries, n_events })
    }

    /// The events that no delivery is left of. Of two hosts that each deleted one of the last two, the later sees that both are gone.
    async fn orphans(&self, call: &Call) -> Result<Document, Trouble> {
        let left = vec![doc! { "$match": { "eventId": { "$in": &self.events } } }, doc! { "$group": { "_id": "$eventId" } }];
        let left = call.aggregate(DELIVERIES, left).await?;
        let left: Vec<&Bson> = left.iter().filter_map(|event| event.get("_id")).collect();
        let orphans: Vec<&Bson> = self.events.iter().filter(|event| !left.contains(event)).collect();
        Ok(doc! { "_id": { "$in": orphans }, "fanoutAt": { "$exists": false } })
    }
}
