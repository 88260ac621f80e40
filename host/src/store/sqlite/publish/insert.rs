//! The statements that store events with their deliveries, and find those that are there already.

use std::collections::HashSet;

use serde::Serialize;
use sqlx::Row;
use sqlx::types::Json;

use crate::delivery::{DeliveryId, EventId, HandlerId, NewEvent};
use crate::store::Published;
use crate::store::sqlite::fan_out::Subscriber;
use crate::store::sqlite::rows::hex;
use crate::store::sqlite::time::StoreTime;
use crate::store::sqlite::transaction::Transaction;

/// An event, for `publish_events.sql`.
#[derive(Serialize)]
struct EventRow<'a> {
    id: String,
    tenant: &'a str,
    topic: &'a str,
    key: Option<&'a str>,
    content_type: &'a str,
    /// JSON within JSON: the column is a text.
    headers: String,
    dedup_id: Option<&'a str>,
    n_deliveries: u64,
    /// Counted from 1, as `substr` does.
    payload_start: usize,
    payload_bytes: usize,
}

/// A delivery, for `publish_deliveries.sql`.
#[derive(Serialize)]
struct DeliveryRow<'a> {
    id: String,
    event_id: String,
    handler_id: HandlerId,
    tenant: &'a str,
    topic: &'a str,
    key: Option<&'a str>,
    payload_bytes: usize,
    due_at: StoreTime,
}

/// What an event that was not stored may have met, for `publish_known.sql`.
#[derive(Serialize)]
struct SoughtRow<'a> {
    id: String,
    tenant: &'a str,
    topic: &'a str,
    dedup_id: Option<&'a str>,
}

/// Stores `events` with one statement for the events and one for the deliveries. Any error means that nothing of them may stay.
pub(super) async fn insert(transaction: &mut Transaction, events: &[&NewEvent]) -> sqlx::Result<Vec<Published>> {
    let now = transaction.now();
    let mut rows = Vec::with_capacity(events.len());
    let mut payloads = Vec::with_capacity(events.iter().map(|event| event.payload.len()).sum());
    let mut deliveries = Vec::with_capacity(events.len());
    for event in events {
        let subscriptions = transaction.subscriptions(&event.tenant).await?;
        let n_before = deliveries.len();
        deliveries.extend(subscriptions.of(&event.topic).map(|handler| (event.id, delivery_row(event, handler, now.after(event.delay)))));
        rows.push(EventRow {
            id: hex(event.id.0),
            tenant: &event.tenant,
            topic: event.topic.as_str(),
            key: event.key.as_deref(),
            content_type: &event.content_type,
            headers: serde_json::to_string(&event.headers).map_err(|error| sqlx::Error::Encode(error.into()))?,
            dedup_id: event.dedup_id.as_deref(),
            n_deliveries: (deliveries.len() - n_before) as u64,
            payload_start: payloads.len() + 1,
            payload_bytes: event.payload.len(),
        });
        payloads.extend_from_slice(&event.payload);
    }
    let stored = sqlx::query(include_str!("../sql/publish_events.sql"))
        .bind(Json(&rows))
        .bind(payloads)
        .bind(now)
        .fetch_all(&mut transaction.connection)
        .await?;
    let mut stored = stored.iter().map(|row| row.try_get("id").map(EventId)).collect::<sqlx::Result<HashSet<_>>>()?;

    let fanned_out: Vec<_> = deliveries.iter().filter(|(event, _)| stored.contains(event)).map(|(_, delivery)| delivery).collect();
    if !fanned_out.is_empty() {
        sqlx::query(include_str!("../sql/publish_deliveries.sql")).bind(Json(&fanned_out)).execute(&mut transaction.connection).await?;
    }

    // An id that occurs twice among `events` is new the first time only.
    let new: Vec<bool> = events.iter().map(|event| stored.remove(&event.id)).collect();
    let mut known = known(transaction, events.iter().zip(&new).filter(|(_, is_new)| !**is_new).map(|(event, _)| *event)).await?.into_iter();
    let answers = events.iter().zip(&rows).zip(new).map(|((event, row), is_new)| {
        if is_new {
            return Ok(Published { event: event.id, n_deliveries: row.n_deliveries, is_duplicate: false });
        }
        known.next().flatten().ok_or(sqlx::Error::RowNotFound)
    });
    answers.collect()
}

fn delivery_row<'a>(event: &'a NewEvent, handler: &Subscriber, due_at: StoreTime) -> DeliveryRow<'a> {
    DeliveryRow {
        id: hex(DeliveryId::derive(event.id, &event.tenant, &handler.name).0),
        event_id: hex(event.id.0),
        handler_id: handler.id,
        tenant: &event.tenant,
        topic: event.topic.as_str(),
        key: event.key.as_deref(),
        payload_bytes: event.payload.len(),
        due_at,
    }
}

/// What became of `events` when they, or the first ones with their dedup ids, were stored (P4, P5); in order.
async fn known<'a>(transaction: &mut Transaction, events: impl Iterator<Item = &'a NewEvent>) -> sqlx::Result<Vec<Option<Published>>> {
    let sought: Vec<_> = events
        .map(|event| SoughtRow {
            id: hex(event.id.0),
            tenant: &event.tenant,
            topic: event.topic.as_str(),
            dedup_id: event.dedup_id.as_deref(),
        })
        .collect();
    let mut found = vec![None; sought.len()];
    if sought.is_empty() {
        return Ok(found);
    }
    let rows = sqlx::query(include_str!("../sql/publish_known.sql")).bind(Json(&sought)).fetch_all(&mut transaction.connection).await?;
    for row in rows {
        let position = usize::try_from(row.try_get::<i64, _>("position")?).map_err(|error| sqlx::Error::Decode(error.into()))?;
        let n_deliveries = row.try_get::<i64, _>("n_deliveries")?.try_into().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        if let Some(place) = found.get_mut(position) {
            *place = Some(Published { event: EventId(row.try_get("id")?), n_deliveries, is_duplicate: row.try_get("is_duplicate")? });
        }
    }
    Ok(found)
}
