//! Settles runs, fenced by the lease token (R11, R12).
//!
//! All of a batch together; only if that fails for what one of them is, each by itself (T9). The events of a completed run are stored in the
//! same savepoint as its completion, so one is never there without the other (R16).

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;
use sqlx::Row;
use sqlx::types::Json;
use uuid::Uuid;

use super::attempt_records::{self, NewAttemptRecord, clean_message, clean_output};
use super::publish;
use super::rows::hex;
use super::time::StoreTime;
use super::transaction::Transaction;
use super::trouble;
use super::writer::Write;
use crate::delivery::{DeliveryId, NewEvent};
use crate::store::{Attempt, ErrorKind, Result, Settle, Settled, Settlement, StoreError};

/// Runs to be settled.
pub(super) struct SettleRuns(pub(super) Vec<Settlement>);

#[async_trait]
impl Write for SettleRuns {
    type Answer = Vec<Result<Settled>>;
    const OPERATION: &'static str = "settle";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Self::Answer> {
        let mut standings = look(transaction, &self.0).await?;
        let judgements: Vec<_> = self.0.iter().map(|settlement| judge(&mut standings, settlement)).collect();
        let valid: Vec<_> =
            self.0.iter().zip(&judgements).filter_map(|(settlement, judgement)| Some((settlement, judgement.to_apply()?))).collect();
        let mut applied = apply(transaction, &valid).await?.into_iter();
        let answers = judgements.iter().map(|judgement| match judgement {
            Judgement::Apply(_) => applied.next().unwrap_or(Ok(())).map(|()| Settled::Applied),
            Judgement::Repeated => Ok(Settled::Applied),
            Judgement::LeaseLost => Ok(Settled::LeaseLost),
        });
        Ok(answers.collect())
    }

    fn makes_work(&self, answer: &Self::Answer) -> bool {
        let is_applied = |answer: &Result<Settled>| matches!(answer, Ok(Settled::Applied));
        self.0.iter().zip(answer).filter(|(_, answer)| is_applied(answer)).any(|(settlement, _)| match &settlement.settle {
            Settle::Complete { events } => !events.is_empty(),
            Settle::Reschedule { .. } | Settle::Release { .. } => true,
            Settle::Bury => false,
        })
    }
}

/// Where a delivery stands before it is settled.
struct Standing {
    is_processing: bool,
    token: Option<Uuid>,
    verb: Option<String>,
    run: Run,
}

/// The run that is settled.
#[derive(Clone)]
struct Run {
    tenant: String,
    attempt: i64,
}

enum Judgement {
    Apply(Run),
    /// The same holder has said the same before (T3).
    Repeated,
    LeaseLost,
}

impl Judgement {
    fn to_apply(&self) -> Option<&Run> {
        match self {
            Self::Apply(run) => Some(run),
            Self::Repeated | Self::LeaseLost => None,
        }
    }
}

async fn look(transaction: &mut Transaction, settlements: &[Settlement]) -> sqlx::Result<HashMap<DeliveryId, Standing>> {
    let ids: Vec<_> = settlements.iter().map(|settlement| hex(settlement.lease.delivery.0)).collect();
    let rows = sqlx::query(include_str!("sql/settle_look.sql")).bind(Json(ids)).fetch_all(&mut transaction.connection).await?;
    let mut standings = HashMap::with_capacity(rows.len());
    for row in rows {
        let run = Run { tenant: row.try_get("tenant")?, attempt: row.try_get("attempts")? };
        let standing = Standing {
            is_processing: row.try_get("is_processing")?,
            token: row.try_get("lease_token")?,
            verb: row.try_get("settle_verb")?,
            run,
        };
        standings.insert(DeliveryId(row.try_get("id")?), standing);
    }
    Ok(standings)
}

/// T1 to T3. Notes the verdict in `standings`, so that a second settlement of the same batch finds what the first has done.
fn judge(standings: &mut HashMap<DeliveryId, Standing>, settlement: &Settlement) -> Judgement {
    let verb = settlement.settle.verb();
    match standings.get_mut(&settlement.lease.delivery) {
        Some(standing) if standing.token == Some(settlement.lease.token.0) => {
            if standing.is_processing {
                standing.is_processing = false;
                standing.verb = Some(verb.to_owned());
                Judgement::Apply(standing.run.clone())
            } else if standing.verb.as_deref() == Some(verb) {
                Judgement::Repeated
            } else {
                Judgement::LeaseLost
            }
        }
        Some(_) | None => Judgement::LeaseLost,
    }
}

/// Applies what has been judged valid: all together, or else each alone.
async fn apply(transaction: &mut Transaction, settlements: &[(&Settlement, &Run)]) -> sqlx::Result<Vec<Result<()>>> {
    match apply_in_savepoint(transaction, settlements).await? {
        Ok(()) => Ok(settlements.iter().map(|_| Ok(())).collect()),
        Err(error) if settlements.len() == 1 => Ok(vec![Err(error)]),
        Err(_) => {
            let mut answers = Vec::with_capacity(settlements.len());
            for settlement in settlements {
                answers.push(apply_in_savepoint(transaction, std::slice::from_ref(settlement)).await?);
            }
            Ok(answers)
        }
    }
}

/// All of `settlements` or none; the inner error is that of one of them, the outer one that of the store.
async fn apply_in_savepoint(transaction: &mut Transaction, settlements: &[(&Settlement, &Run)]) -> sqlx::Result<Result<()>> {
    transaction.savepoint().await?;
    let refused = match apply_all(transaction, settlements).await {
        Ok(Ok(())) => {
            transaction.release().await?;
            return Ok(Ok(()));
        }
        Ok(Err(error)) => error,
        Err(error) if trouble::concerns_the_store(&error) => return Err(error),
        Err(error) => StoreError::new(SettleRuns::OPERATION, ErrorKind::Corrupt, "SQLite refuses the settlement").with_source(error),
    };
    transaction.roll_back_to_savepoint().await?;
    Ok(Err(refused))
}

async fn apply_all(transaction: &mut Transaction, settlements: &[(&Settlement, &Run)]) -> sqlx::Result<Result<()>> {
    let now = transaction.now();
    let mut batch = Batch::default();
    for (settlement, run) in settlements {
        batch.add(settlement, run, now);
    }
    for answer in publish::store(transaction, &batch.events).await? {
        if let Err(error) = answer {
            let message = format!("an event of the run was refused: {}", error.message);
            return Ok(Err(StoreError::new(SettleRuns::OPERATION, error.kind, message).with_source(error)));
        }
    }
    attempt_records::append(transaction, &batch.records).await?;
    let statements = [
        (include_str!("sql/settle_complete.sql"), &batch.completed),
        (include_str!("sql/settle_reschedule.sql"), &batch.rescheduled),
        (include_str!("sql/settle_bury.sql"), &batch.buried),
        (include_str!("sql/settle_release.sql"), &batch.released),
    ];
    for (statement, rows) in statements.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        sqlx::query(statement).bind(Json(rows)).bind(now).execute(&mut transaction.connection).await?;
    }
    Ok(Ok(()))
}

/// Settlements sorted by verb, as the statements take them.
#[derive(Default)]
struct Batch<'a> {
    events: Vec<&'a NewEvent>,
    records: Vec<NewAttemptRecord>,
    completed: Vec<SettledRow>,
    rescheduled: Vec<SettledRow>,
    buried: Vec<SettledRow>,
    released: Vec<SettledRow>,
}

/// For `settle_*.sql`; each takes what it needs.
#[derive(Serialize)]
struct SettledRow {
    id: String,
    due_at: Option<StoreTime>,
    is_snoozed: bool,
    reason: Option<&'static str>,
}

impl<'a> Batch<'a> {
    fn add(&mut self, settlement: &'a Settlement, run: &Run, now: StoreTime) {
        let id = hex(settlement.lease.delivery.0);
        let reason = settlement.report.as_ref().map(|report| report.reason.as_str());
        let row = |due_at| SettledRow { id: id.clone(), due_at, is_snoozed: false, reason };
        match &settlement.settle {
            Settle::Complete { events } => {
                self.events.extend(events);
                self.completed.push(row(None));
            }
            Settle::Reschedule { delay, attempt } => {
                self.rescheduled.push(SettledRow { is_snoozed: *attempt == Attempt::Snoozed, ..row(Some(now.after(*delay))) });
            }
            Settle::Bury => self.buried.push(row(None)),
            Settle::Release { delay } => self.released.push(row(delay.map(|delay| now.after(delay)))),
        }
        if let Some(report) = &settlement.report {
            self.records.push(NewAttemptRecord {
                delivery_id: id,
                tenant: run.tenant.clone(),
                attempt: run.attempt,
                worker: report.worker.0.to_string(),
                started_at: now.before(report.ran_for),
                ended_at: now,
                reason: report.reason.as_str(),
                message: clean_message(&report.message),
                output: clean_output(&report.output),
            });
        }
    }
}
