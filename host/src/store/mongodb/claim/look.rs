//! What a claim reads before it writes: what is due, and when the next delivery is.
//!
//! All of it hints: an update decides by the document as it is then. Each range is one of the index `due`, already sorted; ranges of several
//! handlers are merged by the server, so another handler's backlog costs nothing (R5).

use std::collections::HashMap;
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};
use uuid::Uuid;

use crate::delivery::{DeliveryId, HandlerId};
use crate::store::decide::{Due, Limits};
use crate::store::mongodb::calls::{Call, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, HANDLERS, id};
use crate::store::mongodb::fields::{Problem, integer, text, uuid};

/// The most handlers of a range: the server merges at most 200 index ranges, and sorts in memory beyond.
pub(super) const MAX_MERGED: usize = 100;

/// Deliveries of some handlers, those that must run alone or the others.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) handlers: Vec<HandlerId>,
    pub(super) isolated: bool,
    /// At least 1.
    pub(super) limit: u32,
}

impl Range {
    /// The first ones of the range, by due time, without the deliveries `without`.
    fn pipeline(&self, due_at: Document, without: &[Bson]) -> Vec<Document> {
        let handlers: Vec<i64> = self.handlers.iter().map(|handler| handler.0).collect();
        // Also leaves out what cannot be named: an id that is none.
        let mut ids = doc! { "$gte": id(Uuid::nil()), "$lte": id(Uuid::max()) };
        if !without.is_empty() {
            ids.insert("$nin", without);
        }
        let mut filter = doc! { "handlerId": { "$in": handlers }, "isolated": self.isolated, "_id": ids };
        filter.extend(due_at);
        vec![doc! { "$match": filter }, doc! { "$sort": { "dueAt": 1, "_id": 1 } }, doc! { "$limit": i64::from(self.limit.max(1)) }]
    }
}

/// A delivery that is due, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) due: Due,
    pub(super) due_at: DateTime,
    /// `None` if it is no number.
    pub(super) attempts: Option<i64>,
    pub(super) crashes: Option<i64>,
}

impl AsRef<Due> for Candidate {
    fn as_ref(&self) -> &Due {
        &self.due
    }
}

/// What a look found, by due time.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) limits: HashMap<HandlerId, Limits>,
    pub(super) shared: Vec<Candidate>,
    pub(super) isolated: Vec<Candidate>,
}

/// The first due deliveries of each of `ranges`, and the limits of `handlers`, in one command. `bound` is no earlier than now.
pub(super) async fn look(
    call: &Call,
    handlers: &[HandlerId],
    ranges: &[Range],
    bound: DateTime,
    without: &[Bson],
) -> Result<Found, Trouble> {
    let due_at = doc! { "dueAt": { "$lte": bound }, "$expr": { "$lte": ["$dueAt", "$$NOW"] } };
    let projection = doc! { "handlerId": 1, "isolated": 1, "status": 1, "attempts": 1, "crashes": 1, "dueAt": 1, "payloadBytes": 1 };
    let handlers: Vec<i64> = handlers.iter().map(|handler| handler.0).collect();
    let mut pipeline = vec![
        doc! { "$match": { "_id": { "$in": handlers }, "removedAt": { "$exists": false } } },
        doc! { "$project": { "maxAttempts": 1, "maxCrashes": 1 } },
    ];
    for range in ranges {
        let mut deliveries = range.pipeline(due_at.clone(), without);
        deliveries.push(doc! { "$project": &projection });
        pipeline.push(doc! { "$unionWith": { "coll": DELIVERIES, "pipeline": deliveries } });
    }
    let mut found = Found::default();
    for document in call.aggregate(HANDLERS, pipeline).await? {
        let Ok(isolated) = document.get_bool("isolated") else {
            match limits(&document) {
                Ok((handler, limits)) => drop(found.limits.insert(handler, limits)),
                Err(problem) => tracing::warn!(problem, "a handler cannot be served, for its document cannot be read"),
            }
            continue;
        };
        let candidate = candidate(&document).map_err(Trouble::Corrupt)?;
        if isolated { found.isolated.push(candidate) } else { found.shared.push(candidate) }
    }
    for candidates in [&mut found.shared, &mut found.isolated] {
        candidates.sort_by_key(|candidate| (candidate.due_at, candidate.due.id));
    }
    Ok(found)
}

fn limits(handler: &Document) -> Result<(HandlerId, Limits), Problem> {
    let limits = Limits { max_attempts: integer(handler, "maxAttempts")?, max_crashes: integer(handler, "maxCrashes")? };
    Ok((HandlerId(integer(handler, "_id")?), limits))
}

/// What is wrong with a delivery is found when it is read with its event (C13); what was a condition of finding it can be read.
fn candidate(delivery: &Document) -> Result<Candidate, Problem> {
    let number = |name| integer(delivery, name).ok();
    let (attempts, crashes) = (number("attempts"), number("crashes"));
    let due = Due {
        id: DeliveryId(uuid(delivery, "_id")?),
        handler: HandlerId(integer(delivery, "handlerId")?),
        is_expired: text(delivery, "status").is_ok_and(|status| status == "processing"),
        attempts: attempts.unwrap_or(0),
        crashes: crashes.unwrap_or(0),
        payload_bytes: number("payloadBytes").unwrap_or(0),
    };
    let due_at = *delivery.get_datetime("dueAt").map_err(|error| format!("dueAt: {error}"))?;
    Ok(Candidate { due, due_at, attempts, crashes })
}

/// C14: the time until the next delivery of `handlers` is due, by the server's clock.
pub(super) async fn next_due_in(call: &Call, handlers: &[HandlerId], without: &[Bson]) -> Result<Option<Duration>, Trouble> {
    let mut ranges = handlers.chunks(MAX_MERGED).flat_map(|handlers| {
        [false, true].map(|isolated| {
            let range = Range { handlers: handlers.to_vec(), isolated, limit: 1 };
            let mut pipeline = range.pipeline(doc! { "dueAt": { "$gte": DateTime::MIN } }, without);
            pipeline.push(doc! { "$project": { "_id": 0, "isolated": 1, "in": { "$subtract": ["$dueAt", "$$NOW"] } } });
            pipeline
        })
    });
    let Some(mut pipeline) = ranges.next() else { return Ok(None) };
    pipeline.extend(ranges.map(|pipeline| doc! { "$unionWith": { "coll": DELIVERIES, "pipeline": pipeline } }));
    let times = call.aggregate(DELIVERIES, pipeline).await?.into_iter().filter_map(|document| {
        let due_in = integer(&document, "in").ok()?;
        // One that must run alone and is due is no reason to come back: the claim has said that there is one.
        let is_waited_for = due_in > 0 || !document.get_bool("isolated").unwrap_or(false);
        is_waited_for.then(|| Duration::from_millis(u64::try_from(due_in).unwrap_or(0)))
    });
    Ok(times.min())
}
