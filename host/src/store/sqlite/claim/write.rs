//! What a claim writes: one statement for each kind of decision.

use serde::Serialize;
use sqlx::types::Json;

use super::read::Candidate;
use crate::delivery::{DeliveryId, WorkerId};
use crate::lease::LeaseToken;
use crate::store::sqlite::attempt_records::{self, NewAttemptRecord};
use crate::store::sqlite::rows::hex;
use crate::store::sqlite::time::StoreTime;
use crate::store::sqlite::transaction::Transaction;
use crate::verdict::Reason;

/// Who leases, and when.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) worker: WorkerId,
    pub(super) token: LeaseToken,
    pub(super) now: StoreTime,
}

/// Leases each delivery until its lease end.
pub(super) async fn lease(
    transaction: &mut Transaction,
    deliveries: impl Iterator<Item = (DeliveryId, StoreTime)>,
    holder: Holder,
) -> sqlx::Result<()> {
    let rows: Vec<_> = deliveries.map(|(id, lease_end)| LeasedRow { id: hex(id.0), lease_end }).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("../sql/claim_lease.sql"))
        .bind(Json(rows))
        .bind(holder.token.0)
        .bind(holder.worker.0.to_string())
        .bind(holder.now)
        .execute(&mut transaction.connection)
        .await
        .map(drop)
}

/// Puts each delivery back to pending, due at its time.
pub(super) async fn isolate(transaction: &mut Transaction, deliveries: &[(DeliveryId, StoreTime)]) -> sqlx::Result<()> {
    let rows: Vec<_> = deliveries.iter().map(|(id, due_at)| IsolatedRow { id: hex(id.0), due_at: *due_at }).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("../sql/claim_isolate.sql")).bind(Json(rows)).execute(&mut transaction.connection).await.map(drop)
}

/// Buries each delivery for its reason.
pub(super) async fn bury(
    transaction: &mut Transaction,
    deliveries: impl Iterator<Item = (DeliveryId, Reason)>,
    now: StoreTime,
) -> sqlx::Result<()> {
    let rows: Vec<_> = deliveries.map(|(id, reason)| BuriedRow { id: hex(id.0), reason: reason.as_str() }).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(include_str!("../sql/claim_bury.sql")).bind(Json(rows)).bind(now).execute(&mut transaction.connection).await.map(drop)
}

/// C7: leaves an attempt record of each lease that was found expired, for its worker cannot any more.
pub(super) async fn record_lost_leases(transaction: &mut Transaction, candidates: impl Iterator<Item = &Candidate>) -> sqlx::Result<()> {
    let records: Vec<_> = candidates.filter(|candidate| candidate.due.is_expired).map(record_of_lost_lease).collect();
    attempt_records::append(transaction, &records).await
}

fn record_of_lost_lease(candidate: &Candidate) -> NewAttemptRecord {
    NewAttemptRecord {
        delivery_id: hex(candidate.due.id.0),
        tenant: candidate.tenant.clone(),
        attempt: candidate.due.attempts,
        worker: candidate.worker.clone().unwrap_or_default(),
        started_at: candidate.claimed_at.unwrap_or(candidate.due_at),
        ended_at: candidate.due_at,
        reason: Reason::LeaseExpired.as_str(),
        message: "the lease ended before the worker settled: it died, stalled, or was cut off".to_owned(),
        output: String::new(),
    }
}

/// For `claim_lease.sql`.
#[derive(Serialize)]
struct LeasedRow {
    id: String,
    lease_end: StoreTime,
}

/// For `claim_isolate.sql`.
#[derive(Serialize)]
struct IsolatedRow {
    id: String,
    due_at: StoreTime,
}

/// For `claim_bury.sql`.
#[derive(Serialize)]
struct BuriedRow {
    id: String,
    reason: &'static str,
}
