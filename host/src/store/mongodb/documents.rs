//! The documents of this store: their collections and indexes, and how deliveries and events are read.
//!
//! | collection | document |
//! | --- | --- |
//! | `handlers` | `_id` (int64, never given twice), `tenant`, `name`, `digest`, `topics`, `maxAttempts`, `maxCrashes`, `subscribedAt`, `removedAt?` |
//! | `events` | `_id` (UUID), `tenant`, `topic`, `key?`, `contentType`, `headers`, `dedupId?`, `payload`, `delayMs?`, `publishedAt`, `nDeliveries`, `fanoutAt?` |
//! | `deliveries` | `_id` (UUID), `eventId`, `handlerId`, `tenant`, `topic`, `key?`, `publishedAt`, `payloadBytes`, and the state below |
//! | `counters` | the last id given to a handler |
//! | `wake` | one document, written by hosts that have work for others |
//! | `migrations` | the versions of this schema that are there |
//! | `prunings` | what a prune under way is about to delete: `_id` (UUID), `deliveries`, `events`, `settledAt` (the latest of the deliveries) |
//!
//! The state of a delivery: `status`; `attempts`, `crashes`, `snoozes`; `isolated` (pending, and must run alone: R8); `dueAt` (retry time while
//! pending, lease end while processing, absent once settled: R5); `readyAt` (the due time that it was claimed at, to which a release goes
//! back); `leaseToken`; `settleVerb` (how the holder of the token settled it, until the next claim: R12); `claimedIn`, `renewedIn`,
//! `settledIn` and `changedIn` (the claim, and the batches of renewals, of settlements and of operators' changes, that wrote it last: how a
//! batch learns what it did); `worker`, `claimedAt`, `settledAt`,
//! `reason`; `records` (the last attempt records); `published` and `fanoutAt` (events of the completed run that are still to fan out: R16).
//!
//! An event or a delivery with `fanoutAt` has something to fan out. Whoever finds it creates the missing deliveries, which is idempotent,
//! and then unsets it.

use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use uuid::Uuid;

use super::fields::{Problem, count, instant, integer, optional_text, text, uuid};
use crate::delivery::{ClaimedDelivery, DeliveryId, EventId, HandlerId, Header, NewEvent, Status};
use crate::store::{ErrorKind, Malformed, StoreError, soundness};

pub(super) const HANDLERS: &str = "handlers";
pub(super) const EVENTS: &str = "events";
pub(super) const DELIVERIES: &str = "deliveries";
pub(super) const COUNTERS: &str = "counters";
pub(super) const MIGRATIONS: &str = "migrations";
pub(super) const PRUNINGS: &str = "prunings";
pub(super) const WAKE: &str = "wake";

/// A document of 16 MiB, less what surrounds the payload.
const MAX_PAYLOAD_BYTES: usize = 15 << 20;
/// Longer delays end here: dates beyond it are none to most programs.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// An id or a token as it is stored: binary, of the subtype for UUIDs.
pub(super) fn id(uuid: Uuid) -> Bson {
    bson::Uuid::from(uuid).into()
}

pub(super) fn ids(uuids: impl IntoIterator<Item = Uuid>) -> Vec<Bson> {
    uuids.into_iter().map(id).collect()
}

/// The condition that a date is there, in the form that a partial index can answer by its keys alone.
pub(super) fn any_date() -> Document {
    doc! { "$gte": bson::DateTime::MIN }
}

/// An event as publishers store it. `publishedAt` and `fanoutAt` are the server's to set.
pub(super) fn event(event: &NewEvent) -> Document {
    let headers: Vec<Bson> = event.headers.iter().map(|header| doc! { "name": &header.name, "value": &header.value }.into()).collect();
    let mut document = doc! {
        "_id": id(event.id.0),
        "tenant": &event.tenant,
        "topic": event.topic.to_string(),
        "contentType": &event.content_type,
        "headers": headers,
        "payload": Binary { subtype: BinarySubtype::Generic, bytes: event.payload.to_vec() },
    };
    if let Some(key) = &event.key {
        document.insert("key", key);
    }
    if let Some(dedup_id) = &event.dedup_id {
        document.insert("dedupId", dedup_id);
    }
    if !event.delay.is_zero() {
        document.insert("delayMs", delay_ms(event.delay));
    }
    document
}

/// A duration as the documents hold it, rounded up: nothing is due before its time.
pub(super) fn delay_ms(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST_DELAY).as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Why `event` is not stored by `operation`: what every store refuses, and what does not fit in a document.
pub(super) fn problem_of(operation: &'static str, event: &NewEvent) -> Option<StoreError> {
    soundness::problem_of(operation, event).or_else(|| {
        let n_bytes = event.payload.len();
        (n_bytes > MAX_PAYLOAD_BYTES).then(|| {
            let message =
                format!("payload: expected at most {MAX_PAYLOAD_BYTES} bytes, which is what fits in a MongoDB document, got {n_bytes}");
            StoreError::new(operation, ErrorKind::Corrupt, message)
        })
    })
}

/// Reads a delivery that was just leased, with its event (absent if there is none) and the `max_attempts` of its handler.
pub(super) fn claimed_delivery(delivery: &Document, event: Option<&Document>, max_attempts: u32) -> Result<ClaimedDelivery, Malformed> {
    // Both were the condition of finding it, so they can be read.
    let id = DeliveryId(uuid(delivery, "_id").unwrap_or_default());
    let handler = HandlerId(integer(delivery, "handlerId").unwrap_or_default());
    read_claimed(delivery, event, id, handler, max_attempts).map_err(|problem| Malformed { id, handler, problem })
}

fn read_claimed(
    delivery: &Document,
    event: Option<&Document>,
    id: DeliveryId,
    handler: HandlerId,
    max_attempts: u32,
) -> Result<ClaimedDelivery, Problem> {
    let event = event.ok_or("event: expected a document with the id that the delivery names, got none")?;
    Ok(ClaimedDelivery {
        id,
        event_id: EventId(uuid(delivery, "eventId")?),
        handler,
        topic: text(event, "topic")?.parse().map_err(|error| format!("topic: {error}"))?,
        key: optional_text(event, "key")?,
        attempt: count(delivery, "attempts")?,
        max_attempts,
        crashes: count(delivery, "crashes")?,
        snoozes: count(delivery, "snoozes")?,
        published_at: instant(delivery, "publishedAt")?,
        content_type: content_type(event)?,
        headers: headers(event)?,
        payload: payload(event)?.into(),
    })
}

/// An application may leave it out.
pub(super) fn content_type(event: &Document) -> Result<String, Problem> {
    Ok(optional_text(event, "contentType")?.unwrap_or_else(|| NewEvent::DEFAULT_CONTENT_TYPE.to_owned()))
}

/// `[{ name, value }, ...]`, or absent.
pub(super) fn headers(event: &Document) -> Result<Vec<Header>, Problem> {
    let problem = |found: &Bson| {
        let cut: String = found.to_string().chars().take(80).collect();
        format!("headers: expected an array of documents with `name` and `value`, got `{cut}`")
    };
    match event.get("headers") {
        None | Some(Bson::Null) => Ok(Vec::new()),
        Some(Bson::Array(headers)) => {
            let header = |found: &Bson| {
                let header = found.as_document().ok_or_else(|| problem(found))?;
                Ok(Header { name: text(header, "name")?, value: text(header, "value")? })
            };
            headers.iter().map(header).collect()
        }
        Some(found) => Err(problem(found)),
    }
}

/// The bytes of a payload: binary as they are, a text in UTF-8, a document or an array as relaxed extended JSON.
pub(super) fn payload(event: &Document) -> Result<Vec<u8>, Problem> {
    match event.get("payload") {
        Some(Bson::Binary(binary)) => Ok(binary.bytes.clone()),
        Some(Bson::String(text)) => Ok(text.clone().into_bytes()),
        Some(json @ (Bson::Document(_) | Bson::Array(_))) => Ok(json.clone().into_relaxed_extjson().to_string().into_bytes()),
        None => Err("payload: expected binary data, a text, a document or an array, got nothing".to_owned()),
        Some(found) => Err(format!("payload: expected binary data, a text, a document or an array, got {:?}", found.element_type())),
    }
}

pub(super) fn status(delivery: &Document) -> Result<Status, Problem> {
    let text = text(delivery, "status")?;
    [Status::Pending, Status::Processing, Status::Completed, Status::Buried]
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| format!("status: expected `pending`, `processing`, `completed` or `buried`, got `{text}`"))
}

/// The indexes of a collection, as `createIndexes` takes them. Partial ones leave out what is settled, which is nearly everything.
pub(super) fn indexes() -> [(&'static str, Vec<Document>); 3] {
    let exists = |field: &str| doc! { field: { "$exists": true } };
    let handlers = vec![doc! { "name": "name", "key": { "tenant": 1, "name": 1 }, "unique": true }];
    let events = vec![
        doc! {
            "name": "dedup", "key": { "tenant": 1, "topic": 1, "dedupId": 1 }, "unique": true,
            "partialFilterExpression": exists("dedupId"),
        },
        doc! { "name": "fanout", "key": { "fanoutAt": 1 }, "partialFilterExpression": exists("fanoutAt") },
        // Retention of what nobody subscribed to.
        doc! { "name": "without_deliveries", "key": { "publishedAt": 1 }, "partialFilterExpression": { "nDeliveries": 0 } },
    ];
    let deliveries = vec![
        // What is due, one range per handler: retries and lost leases alike (R5).
        doc! { "name": "due", "key": { "handlerId": 1, "isolated": 1, "dueAt": 1, "_id": 1 }, "partialFilterExpression": exists("dueAt") },
        // What one claim holds.
        doc! { "name": "leased", "key": { "leaseToken": 1 }, "partialFilterExpression": { "status": "processing" } },
        // Retention, and counts of what is settled.
        doc! { "name": "settled", "key": { "status": 1, "settledAt": 1, "handlerId": 1 }, "partialFilterExpression": exists("settledAt") },
        doc! { "name": "event", "key": { "eventId": 1 } },
        doc! { "name": "fanout", "key": { "fanoutAt": 1 }, "partialFilterExpression": exists("fanoutAt") },
        // For the ordering by key.
        doc! { "name": "key", "key": { "handlerId": 1, "key": 1 }, "partialFilterExpression": exists("key") },
    ];
    [(HANDLERS, handlers), (EVENTS, events), (DELIVERIES, deliveries)]
}
