//! Leases due deliveries, in one statement each time (R1, R2).

use std::time::Duration;

use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::publish::micros;
use super::rows::{claimed_delivery, corrupt};
use crate::delivery::{DeliveryId, HandlerId};
use crate::lease::LeaseToken;
use crate::store::{BuriedAtClaim, Claim, Claimed, Isolation};

/// How often one claim looks again because what it found had to be buried or put back. Each round has got past what it found.
const MAX_ROUNDS: usize = 8;
/// At least a microsecond: a lease that has ended when it begins would be found expired by the same claim.
const SHORTEST_LEASE: Duration = Duration::from_micros(1);

/// A handler as `claim.sql` takes it.
#[derive(Serialize)]
struct Wanted {
    handler_id: i64,
    limit: i64,
    lease_us: i64,
}

/// What one round did.
#[derive(Default)]
struct Round {
    leased: Vec<Uuid>,
    buried: Vec<BuriedAtClaim>,
    n_put_back: usize,
}

/// The inner error came after something was leased, which stays leased: the caller has to read it back (R2).
pub(super) async fn claim(connection: &mut PgConnection, request: Claim) -> sqlx::Result<Result<Claimed, sqlx::Error>> {
    let exclude: Vec<Uuid> = request.exclude.iter().map(|id| id.0).collect();
    let mut claimed = Claimed::default();
    let mut leased = Vec::new();
    // Another round would not know what the last one has leased of each handler, so only one that leased nothing is followed by another.
    for _ in 0..MAX_ROUNDS {
        let round = round(connection, &request, &exclude).await?;
        let has_moved_on = round.n_put_back + round.buried.len() > 0;
        claimed.buried.extend(round.buried);
        leased = round.leased;
        if !leased.is_empty() || !has_moved_on {
            break;
        }
    }
    let answered = answer(connection, &request, &exclude, &leased, &mut claimed).await;
    Ok(answered.map(|()| claimed))
}

async fn answer(
    connection: &mut PgConnection,
    request: &Claim,
    exclude: &[Uuid],
    leased: &[Uuid],
    claimed: &mut Claimed,
) -> sqlx::Result<()> {
    if leased.len() > request.limit as usize {
        return Err(corrupt(format!("expected at most {} deliveries of a claim, got {}", request.limit, leased.len())));
    }
    read(connection, leased, request.token, claimed).await?;
    look(connection, request, exclude, leased.len(), claimed).await
}

/// Reads back what the claim with a token holds (R2).
pub(super) async fn recover(connection: &mut PgConnection, token: LeaseToken) -> sqlx::Result<Claimed> {
    let rows = sqlx::query(include_str!("sql/claim_recover.sql")).bind(token.0).fetch_all(&mut *connection).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<_>>()?;
    let mut claimed = Claimed::default();
    read(connection, &ids, token, &mut claimed).await?;
    Ok(claimed)
}

async fn round(connection: &mut PgConnection, request: &Claim, exclude: &[Uuid]) -> sqlx::Result<Round> {
    let wanted: Vec<Wanted> = request
        .handlers
        .iter()
        .map(|wanted| Wanted {
            handler_id: wanted.handler.0,
            limit: i64::from(wanted.limit),
            lease_us: micros(wanted.lease_duration.max(SHORTEST_LEASE)),
        })
        .collect();
    let rows = sqlx::query(include_str!("sql/claim.sql"))
        .bind(Json(wanted))
        .bind(request.token.0)
        .bind(request.worker.0.to_string())
        .bind(i64::from(request.limit))
        .bind(i64::try_from(request.max_payload_bytes).unwrap_or(i64::MAX))
        .bind(request.isolation == Isolation::Alone)
        .bind(exclude)
        .fetch_all(connection)
        .await?;
    let mut round = Round::default();
    for row in rows {
        let id: Uuid = row.try_get("id")?;
        match row.try_get("fate")? {
            "leased" => round.leased.push(id),
            "buried" => {
                let reason: &str = row.try_get("reason")?;
                let reason = reason.parse().map_err(corrupt)?;
                round.buried.push(BuriedAtClaim { id: DeliveryId(id), handler: HandlerId(row.try_get("handler_id")?), reason });
            }
            _ => round.n_put_back += 1,
        }
    }
    Ok(round)
}

async fn read(connection: &mut PgConnection, ids: &[Uuid], token: LeaseToken, claimed: &mut Claimed) -> sqlx::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(include_str!("sql/claim_read.sql")).bind(ids).bind(token.0).fetch_all(connection).await?;
    for row in &rows {
        match claimed_delivery(row)? {
            Ok(delivery) => claimed.deliveries.push(delivery),
            Err(malformed) => claimed.malformed.push(malformed),
        }
    }
    Ok(())
}

/// C10 and C14.
async fn look(
    connection: &mut PgConnection,
    request: &Claim,
    exclude: &[Uuid],
    n_leased: usize,
    claimed: &mut Claimed,
) -> sqlx::Result<()> {
    let handlers: Vec<i64> = request.handlers.iter().filter(|wanted| wanted.limit > 0).map(|wanted| wanted.handler.0).collect();
    let row = sqlx::query(include_str!("sql/claim_look.sql")).bind(handlers).bind(exclude).fetch_one(connection).await?;
    claimed.isolated_due = row.try_get("isolated_due")?;
    if n_leased < request.limit as usize {
        let next_due_in_us: Option<i64> = row.try_get("next_due_in_us")?;
        claimed.next_due_in = next_due_in_us.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
    }
    Ok(())
}
