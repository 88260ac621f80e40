//! Shows deliveries, latest first.

use futures::FutureExt;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite};

use crate::delivery::Status;
use crate::delivery::{DeliveryId, EventId};
use crate::store::sqlite::readers::Readers;
use crate::store::sqlite::rows::{Problem, corrupt, count, date, field, optional_date, status};
use crate::store::{DeliverySummary, List, Result};

pub(super) async fn list(readers: &Readers, request: List) -> Result<Vec<DeliverySummary>> {
    readers
        .read("list", move |connection| {
            async move {
                let rows = query(&request).build().fetch_all(connection).await?;
                rows.iter().map(|row| summary(row).map_err(corrupt)).collect()
            }
            .boxed()
        })
        .await
}

/// Only the conditions that are asked for, and the status as a literal, so that the partial indexes serve.
fn query(request: &List) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new(include_str!("../sql/list.sql"));
    if let Some(status) = request.status {
        query.push(match status {
            Status::Pending => " and delivery.status = 'pending'",
            Status::Processing => " and delivery.status = 'processing'",
            Status::Completed => " and delivery.status = 'completed'",
            Status::Buried => " and delivery.status = 'buried'",
        });
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
    query.push(" order by delivery.id desc limit ").push_bind(request.limit);
    query
}

/// Reads a row of `list.sql`.
pub(super) fn summary(row: &SqliteRow) -> Result<DeliverySummary, Problem> {
    let status = status(row)?;
    let due_at = optional_date(row, "due_at")?;
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
        due_at: due_at.filter(|_| !is_processing),
        lease_expires_at: due_at.filter(|_| is_processing),
        worker: field(row, "worker")?,
        published_at: date(row, "published_at")?,
        settled_at: optional_date(row, "settled_at")?,
        reason: field(row, "reason")?,
        message: field(row, "message")?,
        output: field(row, "output")?,
    })
}
