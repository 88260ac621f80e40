//! Settles runs, fenced by the lease token (R11, R12).
//!
//! All of a batch together; only if that fails for what one of them is, each by itself (T9). The events of a completed run are stored in the
//! same savepoint as its completion, so one is never there without the other (R16).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use serde::Serialize;
use sqlx::postgres::PgConnection;
use sqlx::types::Json;
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::calls::concerns_a_row;
use super::publish::{self, micros};
use super::retry;
use crate::delivery::NewEvent;
use crate::store::soundness::{clean_message, clean_output};
use crate::store::{Attempt, ErrorKind, MAX_ATTEMPT_RECORDS, Result, Settle, Settled, Settlement, StoreError};

/// Where a delivery stands before it is settled.
struct Standing {
    is_processing: bool,
    token: Option<Uuid>,
    verb: Option<String>,
    tenant: String,
    attempts: i64,
}

/// A settlement as `settle_rows.sql` takes it.
#[derive(Serialize)]
struct SettledRow {
    id: Uuid,
    verb: &'static str,
    delay_us: Option<i64>,
    is_snoozed: bool,
    reason: Option<&'static str>,
}

/// A record as `attempt_records_insert.sql` takes it.
#[derive(Serialize)]
struct NewRecord {
    delivery_id: Uuid,
    tenant: String,
    attempt: i64,
    worker: String,
    ran_for_us: i64,
    reason: &'static str,
    message: String,
    output: String,
}

pub(super) async fn settle(connection: &mut PgConnection, settlements: Vec<Settlement>) -> sqlx::Result<Vec<Result<Settled>>> {
    let settlements = Arc::new(settlements);
    retry::in_transaction(connection, |connection| {
        let settlements = Arc::clone(&settlements);
        async move { settle_in_order(connection, &settlements).await }.boxed()
    })
    .await
}

/// A delivery that is named twice is settled twice, one after the other: the second finds what the first has done, or failed to do.
async fn settle_in_order(connection: &mut PgConnection, settlements: &[Settlement]) -> sqlx::Result<Vec<Result<Settled>>> {
    let mut answers: BTreeMap<usize, Result<Settled>> = BTreeMap::new();
    let mut waiting: Vec<_> = settlements.iter().enumerate().collect();
    while !waiting.is_empty() {
        let mut named = HashSet::new();
        let (wave, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, settlement)| named.insert(settlement.lease.delivery));
        settle_each_once(connection, &wave, &mut answers).await?;
        waiting = later;
    }
    Ok(answers.into_values().collect())
}

/// Settles deliveries of which none is named twice.
async fn settle_each_once(
    connection: &mut PgConnection,
    wave: &[(usize, &Settlement)],
    answers: &mut BTreeMap<usize, Result<Settled>>,
) -> sqlx::Result<()> {
    let standings = look(connection, wave).await?;
    let mut to_apply = Vec::new();
    for (place, settlement) in wave {
        let standing = standings.get(&settlement.lease.delivery.0).filter(|standing| standing.token == Some(settlement.lease.token.0));
        match standing {
            Some(standing) if standing.is_processing => to_apply.push((*place, *settlement, standing)),
            Some(standing) if standing.verb.as_deref() == Some(settlement.settle.verb()) => {
                answers.insert(*place, Ok(Settled::Applied));
            }
            Some(_) | None => {
                answers.insert(*place, Ok(Settled::LeaseLost));
            }
        }
    }
    match apply_in_savepoint(connection, &to_apply).await {
        Ok(()) => answers.extend(to_apply.iter().map(|(place, ..)| (*place, Ok(Settled::Applied)))),
        Err(Refusal::Row(_)) if to_apply.len() > 1 => {
            for one in &to_apply {
                let answer = match apply_in_savepoint(connection, std::slice::from_ref(one)).await {
                    Ok(()) => Ok(Settled::Applied),
                    Err(Refusal::Row(error)) => Err(error),
                    Err(Refusal::Store(error)) => return Err(error),
                };
                answers.insert(one.0, answer);
            }
        }
        Err(Refusal::Row(error)) => answers.extend(to_apply.first().map(|(place, ..)| (*place, Err(error)))),
        Err(Refusal::Store(error)) => return Err(error),
    }
    Ok(())
}

async fn look(connection: &mut PgConnection, wave: &[(usize, &Settlement)]) -> sqlx::Result<HashMap<Uuid, Standing>> {
    let ids: Vec<Uuid> = wave.iter().map(|(_, settlement)| settlement.lease.delivery.0).collect();
    let rows = sqlx::query(include_str!("sql/settle_look.sql")).bind(ids).fetch_all(connection).await?;
    let standing = |row: &sqlx::postgres::PgRow| {
        let standing = Standing {
            is_processing: row.try_get("is_processing")?,
            token: row.try_get("lease_token")?,
            verb: row.try_get("settle_verb")?,
            tenant: row.try_get("tenant")?,
            attempts: row.try_get("attempts")?,
        };
        Ok((row.try_get("id")?, standing))
    };
    rows.iter().map(standing).collect()
}

/// Why settlements were not applied: one of them cannot be stored, or the store has trouble of its own.
enum Refusal {
    Row(StoreError),
    Store(sqlx::Error),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        if concerns_a_row(&error) {
            Self::Row(StoreError::new("settle", ErrorKind::Corrupt, "PostgreSQL refuses the settlement").with_source(error))
        } else {
            Self::Store(error)
        }
    }
}

type Valid<'a> = (usize, &'a Settlement, &'a Standing);

async fn apply_in_savepoint(connection: &mut PgConnection, valid: &[Valid<'_>]) -> Result<(), Refusal> {
    if valid.is_empty() {
        return Ok(());
    }
    let mut savepoint = connection.begin().await?;
    match apply(&mut savepoint, valid).await {
        Ok(()) => Ok(savepoint.commit().await?),
        Err(refusal) => {
            savepoint.rollback().await?;
            Err(refusal)
        }
    }
}

async fn apply(connection: &mut PgConnection, valid: &[Valid<'_>]) -> Result<(), Refusal> {
    let events: Vec<&NewEvent> = valid.iter().flat_map(|(_, settlement, _)| events_of(settlement)).collect();
    for answer in publish::store(connection, &events).await? {
        answer.map_err(Refusal::Row)?;
    }
    let rows: Vec<SettledRow> = valid.iter().map(|(_, settlement, _)| settled_row(settlement)).collect();
    sqlx::query(include_str!("sql/settle_rows.sql")).bind(Json(rows)).execute(&mut *connection).await?;
    let records: Vec<NewRecord> = valid.iter().filter_map(|(_, settlement, standing)| new_record(settlement, standing)).collect();
    if !records.is_empty() {
        sqlx::query(include_str!("sql/attempt_records_insert.sql"))
            .bind(Json(records))
            .bind(i64::from(MAX_ATTEMPT_RECORDS))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

fn events_of(settlement: &Settlement) -> &[NewEvent] {
    match &settlement.settle {
        Settle::Complete { events } => events,
        Settle::Reschedule { .. } | Settle::Bury | Settle::Release { .. } => &[],
    }
}

fn settled_row(settlement: &Settlement) -> SettledRow {
    let (delay, is_snoozed) = match &settlement.settle {
        Settle::Complete { .. } | Settle::Bury => (None, false),
        Settle::Reschedule { delay, attempt } => (Some(*delay), *attempt == Attempt::Snoozed),
        Settle::Release { delay } => (*delay, false),
    };
    SettledRow {
        id: settlement.lease.delivery.0,
        verb: settlement.settle.verb(),
        delay_us: delay.map(micros),
        is_snoozed,
        reason: settlement.report.as_ref().map(|report| report.reason.as_str()),
    }
}

fn new_record(settlement: &Settlement, standing: &Standing) -> Option<NewRecord> {
    let report = settlement.report.as_ref()?;
    Some(NewRecord {
        delivery_id: settlement.lease.delivery.0,
        tenant: standing.tenant.clone(),
        attempt: standing.attempts,
        worker: report.worker.0.to_string(),
        ran_for_us: micros(report.ran_for),
        reason: report.reason.as_str(),
        message: clean_message(&report.message),
        output: clean_output(&report.output),
    })
}
