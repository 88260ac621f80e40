//! Keeps what is known of failed runs.
//!
//! Texts come from guests: they are cleaned and cut here, and can never be the reason that a settlement fails.

use serde::Serialize;
use sqlx::types::Json;

use super::time::StoreTime;
use super::transaction::Transaction;
use crate::store::MAX_ATTEMPT_RECORDS;

/// A record, for `attempt_records_insert.sql`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NewAttemptRecord {
    pub(super) delivery_id: String,
    pub(super) tenant: String,
    /// As the claim counted it.
    pub(super) attempt: i64,
    pub(super) worker: String,
    pub(super) started_at: StoreTime,
    pub(super) ended_at: StoreTime,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) output: String,
}

/// Appends `records`, at most one per delivery, and drops what is older than the last few.
pub(super) async fn append(transaction: &mut Transaction, records: &[NewAttemptRecord]) -> sqlx::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("sql/attempt_records_insert.sql")).bind(Json(records)).execute(&mut transaction.connection).await?;
    sqlx::query(include_str!("sql/attempt_records_trim.sql"))
        .bind(Json(records))
        .bind(MAX_ATTEMPT_RECORDS)
        .execute(&mut transaction.connection)
        .await?;
    Ok(())
}
