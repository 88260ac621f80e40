//! Stores events, each with the mark that it is to be fanned out, and fans them out.
//!
//! An event is accepted once its document is stored. Whoever dies after that leaves the mark, and any host does the rest.

use std::collections::HashMap;

use bson::{Document, doc};
use mongodb::options::FindOptions;
use uuid::Uuid;

use super::calls::{Call, Trouble, Written, code};
use super::documents::{EVENTS, event, id, ids, problem_of};
use super::fan_out;
use super::fields::{optional_integer, optional_text, text, uuid};
use crate::delivery::{EventId, NewEvent};
use crate::store::{ErrorKind, Published, Result, StoreError};

/// Of a stored event: its id and how many deliveries it has.
type Known = (Uuid, u64);

pub(super) async fn publish(call: Call, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>, Trouble> {
    let problems: Vec<Option<StoreError>> = events.iter().map(|event| problem_of("publish", event)).collect();
    let sound: Vec<&NewEvent> = events.iter().zip(&problems).filter(|(_, problem)| problem.is_none()).map(|(event, _)| event).collect();
    let mut answers = publish_sound(&call, &sound).await?.into_iter();
    let unanswered = || Err(StoreError::new("publish", ErrorKind::Corrupt, "the event was neither stored nor found"));
    Ok(problems.into_iter().map(|problem| problem.map_or_else(|| answers.next().unwrap_or_else(unanswered), Err)).collect())
}

async fn publish_sound(call: &Call, events: &[&NewEvent]) -> Result<Vec<Result<Published>>, Trouble> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let written = call.update(EVENTS, events.iter().map(|new| insertion(event(new))).collect()).await?;
    // Those that were there before, too: their publisher may have died before it fanned them out (P5).
    fan_out::of_events(call, ids(events.iter().map(|event| event.id.0))).await?;
    let by_id = by_id(call, events).await?;
    let by_dedup_id = by_dedup_id(call, events, &written).await?;
    let answer = |(place, event): (usize, &&NewEvent)| match written.refused.get(&place) {
        Some(refusal) if refusal.code != code::DUPLICATE_KEY => {
            Err(StoreError::new("publish", ErrorKind::Corrupt, format!("MongoDB refuses the event: {}", refusal.message)))
        }
        Some(_) if event.dedup_id.is_some() => found(by_dedup_id.get(&dedup_key(event)), event),
        // Or its own id was stored by another call at this moment.
        Some(_) | None => found(by_id.get(&event.id.0), event),
    };
    Ok(events.iter().enumerate().map(answer).collect())
}

fn found(known: Option<&Known>, event: &NewEvent) -> Result<Published> {
    let &(id, n_deliveries) = known
        .ok_or_else(|| StoreError::new("publish", ErrorKind::Conflict, "the event that is there already was deleted at this moment"))?;
    Ok(Published { event: EventId(id), n_deliveries, is_duplicate: id != event.id.0 })
}

/// Stores the document of an event unless one with its id is there.
pub(super) fn insertion(event: Document) -> Document {
    let id = event.get("_id").cloned().unwrap_or_default();
    let new = doc! { "$mergeObjects": [{ "$literal": event }, { "publishedAt": "$$NOW", "fanoutAt": "$$NOW" }] };
    let is_there = doc! { "$gt": ["$topic", bson::Bson::Null] };
    doc! { "q": { "_id": id }, "u": [{ "$replaceWith": { "$cond": [is_there, "$$ROOT", new] } }], "upsert": true }
}

async fn by_id(call: &Call, events: &[&NewEvent]) -> Result<HashMap<Uuid, Known>, Trouble> {
    let filter = doc! { "_id": { "$in": ids(events.iter().map(|event| event.id.0)) } };
    let found = call.find(EVENTS, filter, FindOptions::builder().projection(doc! { "nDeliveries": 1 }).build()).await?;
    found.iter().map(|event| known(event).map(|known| (known.0, known))).collect()
}

/// The events that were there with the dedup id of one that was refused, in one call for all.
async fn by_dedup_id(call: &Call, events: &[&NewEvent], written: &Written) -> Result<HashMap<DedupKey, Known>, Trouble> {
    let refused =
        written.refused.iter().filter(|(_, refusal)| refusal.code == code::DUPLICATE_KEY).filter_map(|(place, _)| events.get(*place));
    let refused = refused.filter(|event| event.dedup_id.is_some());
    let sought: Vec<Document> = refused
        .map(|event| doc! { "tenant": &event.tenant, "topic": event.topic.as_str(), "dedupId": event.dedup_id.as_deref() })
        .collect();
    if sought.is_empty() {
        return Ok(HashMap::new());
    }
    let fields = doc! { "tenant": 1, "topic": 1, "dedupId": 1, "nDeliveries": 1 };
    let found = call.find(EVENTS, doc! { "$or": sought }, FindOptions::builder().projection(fields).build()).await?;
    let keyed = |event: &Document| {
        let key = (text(event, "tenant"), text(event, "topic"), optional_text(event, "dedupId"));
        Ok(((key.0.map_err(Trouble::Corrupt)?, key.1.map_err(Trouble::Corrupt)?, key.2.map_err(Trouble::Corrupt)?), known(event)?))
    };
    found.iter().map(keyed).collect()
}

type DedupKey = (String, String, Option<String>);

fn dedup_key(event: &NewEvent) -> DedupKey {
    (event.tenant.clone(), event.topic.as_str().to_owned(), event.dedup_id.clone())
}

fn known(event: &Document) -> Result<Known, Trouble> {
    let id = uuid(event, "_id").map_err(Trouble::Corrupt)?;
    // Absent while another publisher fans it out.
    let n_deliveries = optional_integer(event, "nDeliveries").map_err(Trouble::Corrupt)?.unwrap_or(0);
    Ok((id, n_deliveries.unsigned_abs()))
}

/// Stores the events of completed runs; what was published before under the same id or dedup id is left as it is.
pub(super) async fn store_of_runs(call: &Call, events: Vec<Document>) -> Result<(), Trouble> {
    let written = call.update(EVENTS, events.iter().cloned().map(insertion).collect()).await?;
    for (place, refusal) in written.refused {
        if refusal.code != code::DUPLICATE_KEY {
            let event = events.get(place).and_then(|event| event.get("_id")).map_or_else(|| id(Uuid::nil()), Clone::clone);
            tracing::error!(%event, problem = refusal.message, "an event of a completed run is refused by the server");
        }
    }
    Ok(())
}
