//! Deletes what was settled long enough ago, in small transactions.

use std::time::Duration;

use futures::FutureExt;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::delivery::Status;
use crate::store::postgres::calls::Calls;
use crate::store::postgres::publish::micros;
use crate::store::{Pruned, Result, Retention};

/// Rows that one statement deletes: some tens of milliseconds.
const BATCH: u32 = 1000;
/// Held while a batch is deleted. The number is arbitrary and ours.
const LOCK: i64 = 0x7265_6c61_7072_756e;

pub(super) async fn prune(calls: &Calls, retention: Retention) -> Result<Pruned> {
    calls.run("prune", |connection| sqlx::query(include_str!("../sql/prune_removed.sql")).execute(connection).boxed()).await?;
    let mut pruned = Pruned::default();
    for (status, age) in [(Status::Completed, retention.completed), (Status::Buried, retention.buried)] {
        loop {
            let batch = calls.run("prune", move |connection| deliveries(connection, status, age).boxed()).await?;
            pruned.n_deliveries += batch.n_deliveries;
            pruned.n_events += batch.n_events;
            if batch.n_deliveries < u64::from(BATCH) {
                break;
            }
        }
    }
    loop {
        let n_events = calls.run("prune", move |connection| events(connection, retention.completed).boxed()).await?;
        pruned.n_events += n_events;
        if n_events < u64::from(BATCH) {
            return Ok(pruned);
        }
    }
}

/// One host at a time: two that each delete one of an event's last two deliveries would both leave the event to the other, for ever.
async fn deliveries(connection: &mut PgConnection, status: Status, age: Duration) -> sqlx::Result<Pruned> {
    let mut transaction = connection.begin().await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    let row = sqlx::query(include_str!("../sql/prune_deliveries.sql"))
        .bind(status.as_str())
        .bind(micros(age))
        .bind(i64::from(BATCH))
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let n = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
    Ok(Pruned { n_deliveries: n("n_deliveries")?, n_events: n("n_events")? })
}

async fn events(connection: &mut PgConnection, age: Duration) -> sqlx::Result<u64> {
    let deleted = sqlx::query(include_str!("../sql/prune_events.sql")).bind(micros(age)).bind(i64::from(BATCH)).execute(connection).await?;
    Ok(deleted.rows_affected())
}
