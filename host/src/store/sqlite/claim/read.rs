//! What a claim reads: what is due, and what it took.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;

use crate::delivery::{DeliveryId, HandlerId};
use crate::lease::LeaseToken;
use crate::store::Claimed;
use crate::store::decide::{Due, Limits};
use crate::store::sqlite::rows::claimed_delivery;
use crate::store::sqlite::time::StoreTime;
use crate::store::sqlite::transaction::Transaction;

/// A delivery that is due, as read under the write lock.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) due: Due,
    pub(super) tenant: String,
    pub(super) due_at: StoreTime,
    /// That held the lease which has ended.
    pub(super) worker: Option<String>,
    pub(super) claimed_at: Option<StoreTime>,
}

impl AsRef<Due> for Candidate {
    fn as_ref(&self) -> &Due {
        &self.due
    }
}

/// A first look at a handler's queue.
pub(super) struct Look {
    pub(super) limits: Limits,
    pub(super) has_due: bool,
    pub(super) has_isolated_due: bool,
    pub(super) next_due_at: Option<StoreTime>,
}

/// Looks at each handler's queue without reading a delivery.
pub(super) async fn look(
    transaction: &mut Transaction,
    handlers: Vec<HandlerId>,
    now: StoreTime,
) -> sqlx::Result<HashMap<HandlerId, Look>> {
    if handlers.is_empty() {
        return Ok(HashMap::new());
    }
    let rows =
        sqlx::query(include_str!("../sql/claim_look.sql")).bind(Json(handlers)).bind(now).fetch_all(&mut transaction.connection).await?;
    let look = |row: &SqliteRow| {
        let limits = Limits { max_attempts: row.try_get("max_attempts")?, max_crashes: row.try_get("max_crashes")? };
        let look = Look {
            limits,
            has_due: row.try_get("has_due")?,
            has_isolated_due: row.try_get("has_isolated_due")?,
            next_due_at: row.try_get("next_due_at")?,
        };
        Ok((HandlerId(row.try_get("handler_id")?), look))
    };
    rows.iter().map(look).collect()
}

/// The first `limit` due deliveries of `handler` that need not run alone.
pub(super) async fn candidates(
    transaction: &mut Transaction,
    handler: HandlerId,
    now: StoreTime,
    exclude: &[String],
    limit: u32,
) -> sqlx::Result<Vec<Candidate>> {
    let rows = sqlx::query(include_str!("../sql/claim_candidates.sql"))
        .bind(handler.0)
        .bind(now)
        .bind(Json(exclude))
        .bind(limit)
        .fetch_all(&mut transaction.connection)
        .await?;
    rows.iter().map(|row| candidate(row, handler)).collect()
}

/// The first `limit` due deliveries of `handlers` that must run alone.
pub(super) async fn isolated(
    transaction: &mut Transaction,
    handlers: Vec<HandlerId>,
    now: StoreTime,
    exclude: &[String],
    limit: u32,
) -> sqlx::Result<Vec<Candidate>> {
    let rows = sqlx::query(include_str!("../sql/claim_isolated.sql"))
        .bind(Json(handlers))
        .bind(now)
        .bind(Json(exclude))
        .bind(limit)
        .fetch_all(&mut transaction.connection)
        .await?;
    rows.iter().map(|row| candidate(row, HandlerId(row.try_get("handler_id")?))).collect()
}

/// The ids of what is still held under `token`, in hex.
pub(super) async fn held(transaction: &mut Transaction, token: LeaseToken) -> sqlx::Result<Vec<String>> {
    let rows = sqlx::query(include_str!("../sql/claim_recover.sql")).bind(token.0).fetch_all(&mut transaction.connection).await?;
    rows.iter().map(|row| row.try_get("id")).collect()
}

/// Reads the deliveries `taken` with their events into `claimed`, sound and malformed ones.
pub(super) async fn taken(transaction: &mut Transaction, taken: &[String], claimed: &mut Claimed) -> sqlx::Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(include_str!("../sql/claim_read.sql")).bind(Json(taken)).fetch_all(&mut transaction.connection).await?;
    for row in &rows {
        match claimed_delivery(row)? {
            Ok(delivery) => claimed.deliveries.push(delivery),
            Err(malformed) => claimed.malformed.push(malformed),
        }
    }
    Ok(())
}

fn candidate(row: &SqliteRow, handler: HandlerId) -> sqlx::Result<Candidate> {
    let due = Due {
        id: DeliveryId(row.try_get("id")?),
        handler,
        is_expired: row.try_get("is_expired")?,
        attempts: row.try_get("attempts")?,
        crashes: row.try_get("crashes")?,
        payload_bytes: row.try_get("payload_bytes")?,
    };
    Ok(Candidate {
        due,
        tenant: row.try_get("tenant")?,
        due_at: row.try_get("due_at")?,
        worker: row.try_get("worker")?,
        claimed_at: row.try_get("claimed_at")?,
    })
}
