//! Shows deliveries, many in short or one in full.
//!
//! Several plain reads and no `$lookup`: a delivery with its records and the largest event would not fit in one document.

use std::collections::HashMap;

use bson::{Document, doc};
use mongodb::options::FindOptions;

use crate::delivery::{DeliveryId, EventId, Status};
use crate::store::mongodb::calls::{Call, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, EVENTS, HANDLERS, any_date, content_type, headers, id, payload, status};
use crate::store::mongodb::fields::{Problem, count, instant, integer, optional_instant, optional_text, text, uuid};
use crate::store::{AttemptRecord, DeliveryDetails, DeliverySummary, List, Result};

pub(super) async fn list(call: Call, request: List) -> Result<Vec<DeliverySummary>, Trouble> {
    // To MongoDB a limit of 0 is none.
    if request.limit == 0 {
        return Ok(Vec::new());
    }
    let handlers = handlers(&call, conditions_of_handlers(&request)).await?;
    let latest_first = FindOptions::builder()
        .sort(doc! { "_id": -1 })
        .limit(i64::from(request.limit))
        .projection(doc! { "published": 0, "records": { "$slice": -1 } })
        .build();
    let deliveries = call.find(DELIVERIES, conditions(&request, &handlers), latest_first).await?;
    deliveries.iter().map(|delivery| summary(delivery, &handlers).map_err(|problem| corrupt(delivery, &problem))).collect()
}

pub(super) async fn show(call: Call, delivery: DeliveryId) -> Result<Option<DeliveryDetails>, Trouble> {
    let Some(found) = find_delivery(&call, delivery).await? else { return Ok(None) };
    let handlers = handlers(&call, doc! { "_id": found.get("handlerId") }).await?;
    let events = call.find(EVENTS, doc! { "_id": found.get("eventId") }, FindOptions::default()).await?;
    // An event goes after its last delivery: without it the delivery is gone as well by now, or damaged.
    if events.is_empty() && find_delivery(&call, delivery).await?.is_none() {
        return Ok(None);
    }
    details(&found, events.first(), &handlers).map(Some).map_err(|problem| corrupt(&found, &problem))
}

async fn find_delivery(call: &Call, delivery: DeliveryId) -> Result<Option<Document>, Trouble> {
    let options = FindOptions::builder().projection(doc! { "published": 0 }).build();
    Ok(call.find(DELIVERIES, doc! { "_id": id(delivery.0) }, options).await?.pop())
}

/// Handlers by id. Removed ones as well, for their deliveries are still there.
async fn handlers(call: &Call, conditions: Document) -> Result<HashMap<i64, Document>, Trouble> {
    let found = call.find(HANDLERS, conditions, FindOptions::default()).await?;
    let by_id = found.into_iter().map(|handler| Ok((integer(&handler, "_id")?, handler)));
    by_id.collect::<Result<_, Problem>>().map_err(Trouble::Corrupt)
}

fn conditions_of_handlers(request: &List) -> Document {
    let mut conditions = Document::new();
    for (name, condition) in [("tenant", &request.tenant), ("name", &request.handler)] {
        if let Some(condition) = condition {
            conditions.insert(name, condition);
        }
    }
    conditions
}

/// With a status the conditions fit a partial index as well: the server tries it against the ids from the latest down, and takes what is
/// quicker.
fn conditions(request: &List, handlers: &HashMap<i64, Document>) -> Document {
    let mut conditions = Document::new();
    match request.status {
        Some(Status::Pending | Status::Processing) => conditions.insert("dueAt", any_date()),
        Some(Status::Completed | Status::Buried) => conditions.insert("settledAt", any_date()),
        None => None,
    };
    if request.handler.is_some() || request.status.is_some() {
        let ids: Vec<i64> = handlers.keys().copied().collect();
        conditions.insert("handlerId", doc! { "$in": ids });
    }
    let texts =
        [("status", request.status.map(Status::as_str)), ("tenant", request.tenant.as_deref()), ("topic", request.topic.as_deref())];
    for (name, text) in texts {
        if let Some(text) = text {
            conditions.insert(name, text);
        }
    }
    if let Some(before) = request.before {
        conditions.insert("_id", doc! { "$lt": id(before.0) });
    }
    conditions
}

fn summary(delivery: &Document, handlers: &HashMap<i64, Document>) -> Result<DeliverySummary, Problem> {
    let handler = integer(delivery, "handlerId")?;
    let handler = handlers.get(&handler).ok_or_else(|| format!("handlerId: expected the id of a handler, got `{handler}`"))?;
    let status = status(delivery)?;
    let due_at = optional_instant(delivery, "dueAt")?;
    let is_processing = status == Status::Processing;
    let last_record = records(delivery)?.pop().cloned().unwrap_or_default();
    Ok(DeliverySummary {
        id: DeliveryId(uuid(delivery, "_id")?),
        event_id: EventId(uuid(delivery, "eventId")?),
        tenant: text(delivery, "tenant")?,
        handler: text(handler, "name")?,
        topic: text(delivery, "topic")?,
        key: optional_text(delivery, "key")?,
        status,
        attempts: count(delivery, "attempts")?,
        max_attempts: count(handler, "maxAttempts")?,
        crashes: count(delivery, "crashes")?,
        due_at: due_at.filter(|_| !is_processing),
        lease_expires_at: due_at.filter(|_| is_processing),
        worker: optional_text(delivery, "worker")?,
        published_at: instant(delivery, "publishedAt")?,
        settled_at: optional_instant(delivery, "settledAt")?,
        reason: optional_text(delivery, "reason")?,
        message: optional_text(&last_record, "message")?,
        output: optional_text(&last_record, "output")?,
    })
}

fn details(delivery: &Document, event: Option<&Document>, handlers: &HashMap<i64, Document>) -> Result<DeliveryDetails, Problem> {
    let event = event.ok_or("event: expected a document with the id that the delivery names, got none")?;
    Ok(DeliveryDetails {
        summary: summary(delivery, handlers)?,
        content_type: content_type(event)?,
        headers: headers(event)?,
        payload: payload(event)?.into(),
        attempt_records: records(delivery)?.into_iter().map(record).collect::<Result<_, Problem>>()?,
    })
}

/// Oldest first, which is how they are pushed.
fn records(delivery: &Document) -> Result<Vec<&Document>, Problem> {
    let Some(records) = delivery.get("records") else { return Ok(Vec::new()) };
    let documents = records.as_array().and_then(|records| records.iter().map(bson::Bson::as_document).collect());
    documents.ok_or_else(|| format!("records: expected an array of documents, got {:?}", records.element_type()))
}

fn record(record: &Document) -> Result<AttemptRecord, Problem> {
    Ok(AttemptRecord {
        attempt: count(record, "attempt")?,
        worker: text(record, "worker")?,
        started_at: instant(record, "startedAt")?,
        ended_at: instant(record, "endedAt")?,
        reason: text(record, "reason")?,
        message: text(record, "message")?,
        output: text(record, "output")?,
    })
}

fn corrupt(delivery: &Document, problem: &str) -> Trouble {
    let id = uuid(delivery, "_id").map_or_else(|problem| problem, |id| id.to_string());
    Trouble::Corrupt(format!("delivery `{id}`: {problem}"))
}
