//! Shows deliveries, many in short or one in full.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Postgres, QueryBuilder};

use crate::delivery::{DeliveryId, EventId, Status};
use crate::store::postgres::rows::{Problem, corrupt, count, field, headers, status};
use crate::store::{AttemptRecord, DeliveryDetails, DeliverySummary, List, Result};

const LIST: &str = include_str!("../sql/list.sql");

pub(super) async fn list(connection: &mut PgConnection, request: List) -> sqlx::Result<Vec<DeliverySummary>> {
    let rows = query(&request).build().fetch_all(connection).await?;
    rows.iter().map(|row| summary(row).map_err(corrupt)).collect()
}

/// The caller sees to it that all of it is from the same moment.
pub(super) async fn show(connection: &mut PgConnection, id: DeliveryId) -> sqlx::Result<Option<DeliveryDetails>> {
    let mut query = QueryBuilder::<Postgres>::new(LIST);
    query.push(" and delivery.id = ").push_bind(id.0);
    let Some(row) = query.build().fetch_optional(&mut *connection).await? else {
        return Ok(None);
    };
    let event = sqlx::query(include_str!("../sql/show_event.sql")).bind(id.0).fetch_optional(&mut *connection).await?;
    let event = event.ok_or_else(|| corrupt("event: expected a row with the id that the delivery names, got none".to_owned()))?;
    let records = sqlx::query(include_str!("../sql/show_attempt_records.sql")).bind(id.0).fetch_all(connection).await?;
    details(&row, &event, &records).map(Some).map_err(corrupt)
}

fn query(request: &List) -> QueryBuilder<Postgres> {
    let mut query = QueryBuilder::new(LIST);
    if let Some(status) = request.status {
        query.push(" and delivery.status = ").push_bind(status.as_str());
    }
    let texts = [
        (" and delivery.tenant = ", &request.tenant),
        (" and handler.name = ", &request.handler),
        (" and delivery.topic = ", &request.topic),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            query.push(condition).push_bind(text.clone());
        }
    }
    if let Some(before) = request.before {
        query.push(" and delivery.id < ").push_bind(before.0);
    }
    query.push(" order by delivery.id desc limit ").push_bind(i64::from(request.limit));
    query
}

fn summary(row: &PgRow) -> Result<DeliverySummary, Problem> {
    let status = status(row)?;
    let due_at = field(row, "due_at")?;
    let is_processing = status == Status::Processing;
    Ok(DeliverySummary {
        id: DeliveryId(field(row, "id")?),
        event_id: EventId(field(row, "event_id")?),
        tenant: field(row, "tenant")?,
        handler: field(row, "handler")?,
        topic: field(row, "topic")?,
        key: field(row, "key")?,
        status,
        attempts: count(row, "attempts")?,
        max_attempts: count(row, "max_attempts")?,
        crashes: count(row, "crashes")?,
        due_at: if is_processing { None } else { due_at },
        lease_expires_at: if is_processing { due_at } else { None },
        worker: field(row, "worker")?,
        published_at: field(row, "published_at")?,
        settled_at: field(row, "settled_at")?,
        reason: field(row, "reason")?,
        message: field(row, "message")?,
        output: field(row, "output")?,
    })
}

fn details(row: &PgRow, event: &PgRow, records: &[PgRow]) -> Result<DeliveryDetails, Problem> {
    Ok(DeliveryDetails {
        summary: summary(row)?,
        content_type: field(event, "content_type")?,
        headers: headers(event)?,
        payload: field::<Vec<u8>>(event, "payload")?.into(),
        attempt_records: records.iter().map(record).collect::<Result<_, Problem>>()?,
    })
}

fn record(row: &PgRow) -> Result<AttemptRecord, Problem> {
    Ok(AttemptRecord {
        attempt: count(row, "attempt")?,
        worker: field(row, "worker")?,
        started_at: field(row, "started_at")?,
        ended_at: field(row, "ended_at")?,
        reason: field(row, "reason")?,
        message: field(row, "message")?,
        output: field(row, "output")?,
    })
}
