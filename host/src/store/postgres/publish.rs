//! Stores events and fans them out to their handlers.
//!
//! The events of publishers and those of a completed run (R16) take the same way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::calls::concerns_a_row;
use super::retry;
use crate::delivery::{DeliveryId, EventId, NewEvent};
use crate::store::soundness::problem_of;
use crate::store::{ErrorKind, Published, Result, StoreError};
use crate::topic::TopicPattern;

/// Longer delays end here: dates beyond it are none to most programs.
const LONGEST_DELAY: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// A handler that receives the events of some topics.
struct Subscriber {
    id: i64,
    name: String,
    patterns: Vec<TopicPattern>,
}

type Subscriptions = HashMap<String, Vec<Subscriber>>;

/// A duration as the statements take it.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST_DELAY).as_micros()).unwrap_or(i64::MAX)
}

/// Stores `events` in a transaction of their own; answers per event, in order.
pub(super) async fn publish(connection: &mut PgConnection, events: Vec<NewEvent>) -> sqlx::Result<Vec<Result<Published>>> {
    let events = Arc::new(events);
    retry::in_transaction(connection, |connection| {
        let events = Arc::clone(&events);
        async move { store(connection, &events.iter().collect::<Vec<_>>()).await }.boxed()
    })
    .await
}

/// Stores `events` in the transaction of `connection`. If one of them is refused, each is tried alone (P7).
pub(super) async fn store(connection: &mut PgConnection, events: &[&NewEvent]) -> sqlx::Result<Vec<Result<Published>>> {
    let problems: Vec<Option<StoreError>> = events.iter().map(|event| problem_of("publish", event)).collect();
    let sound: Vec<&NewEvent> = events.iter().zip(&problems).filter(|(_, problem)| problem.is_none()).map(|(event, _)| *event).collect();
    let mut stored = store_sound(connection, &sound).await?.into_iter();
    let unanswered = || StoreError::new("publish", ErrorKind::Corrupt, "the event was neither stored nor found");
    Ok(problems.into_iter().map(|problem| problem.map_or_else(|| stored.next().unwrap_or_else(|| Err(unanswered())), Err)).collect())
}

async fn store_sound(connection: &mut PgConnection, events: &[&NewEvent]) -> sqlx::Result<Vec<Result<Published>>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let subscriptions = subscriptions(connection, events).await?;
    match insert_in_savepoint(connection, events, &subscriptions).await {
        Ok(published) => return Ok(published.into_iter().map(Ok).collect()),
        Err(error) if concerns_a_row(&error) => {}
        Err(error) => return Err(error),
    }
    let mut answers = Vec::with_capacity(events.len());
    for event in events {
        match insert_in_savepoint(connection, std::slice::from_ref(event), &subscriptions).await {
            Ok(published) => answers.extend(published.into_iter().map(Ok)),
            Err(error) if concerns_a_row(&error) => {
                answers.push(Err(StoreError::new("publish", ErrorKind::Corrupt, "PostgreSQL refuses the event").with_source(error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

async fn insert_in_savepoint(
    connection: &mut PgConnection,
    events: &[&NewEvent],
    subscriptions: &Subscriptions,
) -> sqlx::Result<Vec<Published>> {
    let mut savepoint = connection.begin().await?;
    match insert(&mut savepoint, events, subscriptions).await {
        Ok(published) => {
            savepoint.commit().await?;
            Ok(published)
        }
        Err(error) => {
            savepoint.rollback().await?;
            Err(error)
        }
    }
}

async fn insert(connection: &mut PgConnection, events: &[&NewEvent], subscriptions: &Subscriptions) -> sqlx::Result<Vec<Published>> {
    let subscribers: Vec<Vec<&Subscriber>> = events.iter().map(|event| subscribers(subscriptions, event)).collect();
    let (new, published_at) = insert_events(connection, events, &subscribers).await?;
    let known = if new.len() < events.len() { known(connection, events).await? } else { BTreeMap::new() };
    let mut answers = Vec::with_capacity(events.len());
    let mut to_deliver = Vec::new();
    let mut unanswered = new;
    for (place, (event, subscribers)) in events.iter().zip(subscribers).enumerate() {
        // The same id twice in one call: the second place finds the first one's event.
        if unanswered.remove(&event.id.0) {
            answers.push(Published { event: event.id, n_deliveries: subscribers.len() as u64, is_duplicate: false });
            to_deliver.extend(subscribers.into_iter().map(|subscriber| (*event, subscriber)));
        } else {
            let (id, n_deliveries) = known.get(&place).copied().ok_or(sqlx::Error::RowNotFound)?;
            answers.push(Published { event: EventId(id), n_deliveries, is_duplicate: id != event.id.0 });
        }
    }
    if let Some(published_at) = published_at {
        insert_deliveries(connection, &to_deliver, published_at).await?;
    }
    Ok(answers)
}

fn subscribers<'a>(subscriptions: &'a Subscriptions, event: &NewEvent) -> Vec<&'a Subscriber> {
    let of_tenant = subscriptions.get(&event.tenant).map(Vec::as_slice).unwrap_or_default();
    of_tenant.iter().filter(|subscriber| subscriber.patterns.iter().any(|pattern| pattern.matches(&event.topic))).collect()
}

async fn subscriptions(connection: &mut PgConnection, events: &[&NewEvent]) -> sqlx::Result<Subscriptions> {
    let tenants: HashSet<&str> = events.iter().map(|event| event.tenant.as_str()).collect();
    let rows = sqlx::query(include_str!("sql/subscriptions_of_tenants.sql"))
        .bind(tenants.into_iter().collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut subscriptions = Subscriptions::new();
    for row in rows {
        let (tenant, id, name): (String, i64, String) = (row.try_get("tenant")?, row.try_get("handler_id")?, row.try_get("name")?);
        let text: String = row.try_get("pattern")?;
        let pattern = match text.parse::<TopicPattern>() {
            Ok(pattern) => pattern,
            Err(error) => {
                tracing::warn!(tenant, handler = name, pattern = text, %error, "a stored topic pattern is passed over");
                continue;
            }
        };
        let of_tenant = subscriptions.entry(tenant).or_default();
        match of_tenant.last_mut() {
            Some(last) if last.id == id => last.patterns.push(pattern),
            Some(_) | None => of_tenant.push(Subscriber { id, name, patterns: vec![pattern] }),
        }
    }
    Ok(subscriptions)
}

/// The ids that were not there before, and when they were published.
async fn insert_events(
    connection: &mut PgConnection,
    events: &[&NewEvent],
    subscribers: &[Vec<&Subscriber>],
) -> sqlx::Result<(HashSet<Uuid>, Option<DateTime<Utc>>)> {
    let headers: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(&event.headers).map_err(|error| sqlx::Error::Encode(error.into())))
        .collect::<sqlx::Result<_>>()?;
    let rows = sqlx::query(include_str!("sql/publish_events.sql"))
        .bind(events.iter().map(|event| event.id.0).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.tenant.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.topic.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.key.as_deref()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.content_type.as_str()).collect::<Vec<_>>())
        .bind(headers)
        .bind(events.iter().map(|event| event.dedup_id.as_deref()).collect::<Vec<_>>())
        .bind(subscribers.iter().map(|subscribers| i64::try_from(subscribers.len()).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .bind(events.iter().map(|event| &event.payload[..]).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    // The same for all: it is the time of the statement.
    let published_at = rows.first().map(|row| row.try_get("published_at")).transpose()?;
    let new = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<_>>()?;
    Ok((new, published_at))
}

/// By place: the id of the event that was there before, and its deliveries.
async fn known(connection: &mut PgConnection, events: &[&NewEvent]) -> sqlx::Result<BTreeMap<usize, (Uuid, u64)>> {
    let rows = sqlx::query(include_str!("sql/publish_known.sql"))
        .bind(events.iter().map(|event| event.id.0).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.tenant.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.topic.as_str()).collect::<Vec<_>>())
        .bind(events.iter().map(|event| event.dedup_id.as_deref()).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut known = BTreeMap::new();
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>("place")? - 1).unwrap_or(usize::MAX);
        known.insert(place, (row.try_get("id")?, row.try_get::<i64, _>("n_deliveries")?.unsigned_abs()));
    }
    Ok(known)
}

async fn insert_deliveries(
    connection: &mut PgConnection,
    deliveries: &[(&NewEvent, &Subscriber)],
    published_at: DateTime<Utc>,
) -> sqlx::Result<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> =
        deliveries.iter().map(|(event, subscriber)| DeliveryId::derive(event.id, &event.tenant, &subscriber.name).0).collect();
    sqlx::query(include_str!("sql/publish_deliveries.sql"))
        .bind(ids)
        .bind(deliveries.iter().map(|(event, _)| event.id.0).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(_, subscriber)| subscriber.id).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(event, _)| event.tenant.as_str()).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(event, _)| event.topic.as_str()).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(event, _)| event.key.as_deref()).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(event, _)| i64::try_from(event.payload.len()).unwrap_or(i64::MAX)).collect::<Vec<_>>())
        .bind(deliveries.iter().map(|(event, _)| micros(event.delay)).collect::<Vec<_>>())
        .bind(published_at)
        .execute(connection)
        .await?;
    Ok(())
}
