//! Shows one delivery with all that is known of it.

use futures::FutureExt;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, QueryBuilder};

use super::list::summary;
use crate::delivery::DeliveryId;
use crate::store::sqlite::readers::Readers;
use crate::store::sqlite::rows::{Problem, corrupt, count, date, field, headers};
use crate::store::{AttemptRecord, DeliveryDetails, ErrorKind, Result, StoreError};

pub(super) async fn show(readers: &Readers, id: DeliveryId) -> Result<DeliveryDetails> {
    let found = readers.read("show", move |connection| read(connection, id).boxed()).await?;
    found.ok_or_else(|| StoreError::new("show", ErrorKind::NotFound, format!("there is no delivery `{id}`")))
}

/// In one transaction, so that all of it is from the same moment.
async fn read(connection: &mut SqliteConnection, id: DeliveryId) -> sqlx::Result<Option<DeliveryDetails>> {
    let mut snapshot = connection.begin().await?;
    let mut query = QueryBuilder::new(include_str!("../sql/list.sql"));
    query.push(" and delivery.id = ").push_bind(id.0);
    let Some(row) = query.build().fetch_optional(&mut *snapshot).await? else {
        return Ok(None);
    };
    let event = sqlx::query(include_str!("../sql/show_event.sql")).bind(id.0).fetch_optional(&mut *snapshot).await?;
    let event = event.ok_or_else(|| corrupt("event: expected a row with the id that the delivery names, got none".to_owned()))?;
    let records = sqlx::query(include_str!("../sql/show_attempt_records.sql")).bind(id.0).fetch_all(&mut *snapshot).await?;
    snapshot.rollback().await?;
    details(&row, &event, &records).map(Some).map_err(corrupt)
}

fn details(row: &SqliteRow, event: &SqliteRow, records: &[SqliteRow]) -> Result<DeliveryDetails, Problem> {
    Ok(DeliveryDetails {
        summary: summary(row)?,
        content_type: field(event, "content_type")?,
        headers: headers(event)?,
        payload: field::<Vec<u8>>(event, "payload")?.into(),
        attempt_records: records.iter().map(record).collect::<Result<_, Problem>>()?,
    })
}

fn record(row: &SqliteRow) -> Result<AttemptRecord, Problem> {
    Ok(AttemptRecord {
        attempt: count(row, "attempt")?,
        worker: field(row, "worker")?,
        started_at: date(row, "started_at")?,
        ended_at: date(row, "ended_at")?,
        reason: field(row, "reason")?,
        message: field(row, "message")?,
        output: field(row, "output")?,
    })
}
