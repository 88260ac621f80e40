//! Settles runs, fenced by the lease token (R11, R12).
//!
//! All of a batch together; only if that fails for what one of them is, each by itself (T9). The events of a completed run are stored in the
//! same savepoint as its completion, so one is never there without the other (R16).

mod batch;
mod standing;

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use sqlx::types::Json;

use self::batch::Batch;
use self::standing::{Judgement, Run, judge, look};
use super::attempt_records;
use super::publish;
use super::transaction::Transaction;
use super::trouble;
use super::writer::Write;
use crate::store::{ErrorKind, Result, Settled, Settlement, StoreError};

/// Runs to be settled.
pub(super) struct SettleRuns(pub(super) Vec<Settlement>);

#[async_trait]
impl Write for SettleRuns {
    type Answer = Vec<Result<Settled>>;
    const OPERATION: &'static str = "settle";

    /// A delivery that is named twice is settled twice, one after the other: the second finds what the first has done, or failed to do.
    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Self::Answer> {
        let mut answers: BTreeMap<usize, Result<Settled>> = BTreeMap::new();
        let mut waiting: Vec<_> = self.0.iter().enumerate().collect();
        while !waiting.is_empty() {
            let mut named = HashSet::new();
            let (wave, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, settlement)| named.insert(settlement.lease.delivery));
            let settlements: Vec<_> = wave.iter().map(|(_, settlement)| *settlement).collect();
            let settled = settle_each_once(transaction, &settlements).await?;
            answers.extend(wave.iter().map(|(position, _)| *position).zip(settled));
            waiting = later;
        }
        Ok(answers.into_values().collect())
    }

    fn makes_work(&self, answer: &Self::Answer) -> bool {
        let is_applied = |answer: &Result<Settled>| matches!(answer, Ok(Settled::Applied));
        self.0.iter().zip(answer).filter(|(_, answer)| is_applied(answer)).any(|(settlement, _)| settlement.settle.makes_work())
    }
}

/// Settles deliveries of which none is named twice.
async fn settle_each_once(transaction: &mut Transaction, settlements: &[&Settlement]) -> sqlx::Result<Vec<Result<Settled>>> {
    let standings = look(transaction, settlements).await?;
    let judgements: Vec<_> = settlements.iter().map(|settlement| judge(&standings, settlement)).collect();
    let valid: Vec<_> =
        settlements.iter().zip(&judgements).filter_map(|(settlement, judgement)| Some((*settlement, judgement.to_apply()?))).collect();
    let mut applied = apply(transaction, &valid).await?.into_iter();
    let answers = judgements.iter().map(|judgement| match judgement {
        Judgement::Apply(_) => applied.next().unwrap_or(Ok(())).map(|()| Settled::Applied),
        Judgement::Repeated => Ok(Settled::Applied),
        Judgement::LeaseLost => Ok(Settled::LeaseLost),
    });
    Ok(answers.collect())
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
        (include_str!("../sql/settle_complete.sql"), &batch.completed),
        (include_str!("../sql/settle_reschedule.sql"), &batch.rescheduled),
        (include_str!("../sql/settle_bury.sql"), &batch.buried),
        (include_str!("../sql/settle_release.sql"), &batch.released),
    ];
    for (statement, rows) in statements.into_iter().filter(|(_, rows)| !rows.is_empty()) {
        sqlx::query(statement).bind(Json(rows)).bind(now).execute(&mut transaction.connection).await?;
    }
    Ok(Ok(()))
}
