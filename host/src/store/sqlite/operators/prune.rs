//! Deletes what was settled long enough ago.
//!
//! In batches of a transaction each, so that claims and renewals come between and the write-ahead log stays small.

use async_trait::async_trait;
use sqlx::Row;
use sqlx::types::Json;
use uuid::Uuid;

use crate::delivery::Status;
use crate::store::sqlite::rows::hex;
use crate::store::sqlite::time::StoreTime;
use crate::store::sqlite::transaction::Transaction;
use crate::store::sqlite::writer::{Write, Writer};
use crate::store::{Pruned, Result, Retention};

/// Rows that one transaction deletes: some tens of milliseconds.
const BATCH: u32 = 1000;

pub(super) async fn prune(writer: &Writer, retention: Retention) -> Result<Pruned> {
    let now = StoreTime::now();
    let mut pruned = Pruned::default();
    for (status, age) in [(Status::Completed, retention.completed), (Status::Buried, retention.buried)] {
        let settled_before = now.before(age);
        loop {
            let batch = writer.write(PruneDeliveries { status, settled_before }).await?;
            pruned.n_deliveries += batch.n_deliveries;
            pruned.n_events += batch.n_events;
            if batch.n_deliveries < u64::from(BATCH) {
                break;
            }
        }
    }
    let published_before = now.before(retention.completed);
    loop {
        let n_events = writer.write(PruneEventsWithoutDeliveries { published_before }).await?;
        pruned.n_events += n_events;
        if n_events < u64::from(BATCH) {
            return Ok(pruned);
        }
    }
}

/// Deletes one batch of deliveries, and the events that they were the last of (O7, O8).
struct PruneDeliveries {
    status: Status,
    settled_before: StoreTime,
}

#[async_trait]
impl Write for PruneDeliveries {
    type Answer = Pruned;
    const OPERATION: &'static str = "prune";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Pruned> {
        let rows = sqlx::query(include_str!("../sql/prune_deliveries.sql"))
            .bind(self.status.as_str())
            .bind(self.settled_before)
            .bind(BATCH)
            .fetch_all(&mut transaction.connection)
            .await?;
        let ids = |name| rows.iter().map(|row| row.try_get::<Uuid, _>(name).map(hex)).collect::<sqlx::Result<Vec<_>>>();
        let (deliveries, events) = (ids("id")?, ids("event_id")?);
        sqlx::query(include_str!("../sql/prune_attempt_records.sql")).bind(Json(deliveries)).execute(&mut transaction.connection).await?;
        let orphans = sqlx::query(include_str!("../sql/prune_events.sql")).bind(Json(events)).execute(&mut transaction.connection).await?;
        Ok(Pruned { n_deliveries: rows.len() as u64, n_events: orphans.rows_affected() })
    }
}

/// Deletes one batch of events that fanned out to nothing (O8).
struct PruneEventsWithoutDeliveries {
    published_before: StoreTime,
}

#[async_trait]
impl Write for PruneEventsWithoutDeliveries {
    type Answer = u64;
    const OPERATION: &'static str = "prune";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<u64> {
        let deleted = sqlx::query(include_str!("../sql/prune_events_without_deliveries.sql"))
            .bind(self.published_before)
            .bind(BATCH)
            .execute(&mut transaction.connection)
            .await?;
        Ok(deleted.rows_affected())
    }
}
