//! Reads what a claim holds, with its events.

use std::collections::HashMap;

use bson::{Bson, Document, doc};
use mongodb::options::FindOptions;
use uuid::Uuid;

use crate::delivery::{DeliveryId, HandlerId};
use crate::lease::LeaseToken;
use crate::store::Claimed;
use crate::store::mongodb::calls::{Call, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, EVENTS, HANDLERS, claimed_delivery, id, ids};
use crate::store::mongodb::fields::{count, integer, optional_instant, uuid};

/// Reads those of `taken` that `token` holds into `claimed`, in that order. Index: the primary key.
pub(super) async fn taken(
    call: &Call,
    taken: &[DeliveryId],
    token: LeaseToken,
    max_attempts: impl Fn(HandlerId) -> u32,
    claimed: &mut Claimed,
) -> Result<(), Trouble> {
    if taken.is_empty() {
        return Ok(());
    }
    let filter = doc! { "_id": { "$in": ids(taken.iter().map(|id| id.0)) }, "leaseToken": id(token.0), "status": "processing" };
    let deliveries = call.find(DELIVERIES, filter, projected()).await?;
    let mut deliveries: HashMap<Uuid, Document> =
        deliveries.into_iter().filter_map(|delivery| Some((uuid(&delivery, "_id").ok()?, delivery))).collect();
    let in_order = taken.iter().filter_map(|id| deliveries.remove(&id.0)).collect();
    with_events(call, in_order, max_attempts, claimed).await
}

/// Reads all that `token` holds into `claimed`. Index: `leased`.
pub(super) async fn held(call: &Call, token: LeaseToken, claimed: &mut Claimed) -> Result<(), Trouble> {
    let mut deliveries = call.find(DELIVERIES, doc! { "leaseToken": id(token.0), "status": "processing" }, projected()).await?;
    deliveries.sort_by_key(|delivery| (optional_instant(delivery, "readyAt").ok().flatten(), uuid(delivery, "_id").ok()));
    let handlers: Vec<&Bson> = deliveries.iter().filter_map(|delivery| delivery.get("handlerId")).collect();
    let handlers = call.find(HANDLERS, doc! { "_id": { "$in": handlers } }, FindOptions::default()).await?;
    let limits =
        handlers.iter().filter_map(|handler| Some((HandlerId(integer(handler, "_id").ok()?), count(handler, "maxAttempts").ok()?)));
    let limits: HashMap<HandlerId, u32> = limits.collect();
    with_events(call, deliveries, |handler| limits.get(&handler).copied().unwrap_or(u32::MAX), claimed).await
}

/// What a claim has to know of a delivery. Its records and its own events may be large.
fn projected() -> FindOptions {
    let projection = doc! { "eventId": 1, "handlerId": 1, "attempts": 1, "crashes": 1, "snoozes": 1, "publishedAt": 1, "readyAt": 1 };
    FindOptions::builder().projection(projection).build()
}

async fn with_events(
    call: &Call,
    deliveries: Vec<Document>,
    max_attempts: impl Fn(HandlerId) -> u32,
    claimed: &mut Claimed,
) -> Result<(), Trouble> {
    let event_of = |delivery: &Document| uuid(delivery, "eventId").ok();
    let filter = doc! { "_id": { "$in": ids(deliveries.iter().filter_map(event_of)) } };
    let projection = doc! { "topic": 1, "key": 1, "contentType": 1, "headers": 1, "payload": 1 };
    let events = call.find(EVENTS, filter, FindOptions::builder().projection(projection).build()).await?;
    let events: HashMap<Uuid, Document> = events.into_iter().filter_map(|event| Some((uuid(&event, "_id").ok()?, event))).collect();
    for delivery in &deliveries {
        let event = event_of(delivery).and_then(|event| events.get(&event));
        let handler = HandlerId(integer(delivery, "handlerId").unwrap_or_default());
        match claimed_delivery(delivery, event, max_attempts(handler)) {
            Ok(delivery) => claimed.deliveries.push(delivery),
            Err(malformed) => claimed.malformed.push(malformed),
        }
    }
    Ok(())
}
