//! Stores events and fans them out to their handlers.
//!
//! The events of publishers and those of a completed run (R16) take the same way. An event that cannot be stored never costs another one
//! its place (P7).

mod insert;

use async_trait::async_trait;

use self::insert::insert;
use super::transaction::Transaction;
use super::trouble;
use super::writer::Write;
use crate::delivery::NewEvent;
use crate::store::soundness::problem_of;
use crate::store::{ErrorKind, Published, Result, StoreError};

/// How many bytes of payload go into one statement, which holds them twice; a larger payload goes alone.
const CHUNK_BYTES: usize = 4 << 20;
/// The most events in one statement.
const CHUNK_EVENTS: usize = 512;

/// Events to be stored.
pub(super) struct Publish(pub(super) Vec<NewEvent>);

#[async_trait]
impl Write for Publish {
    type Answer = Vec<Result<Published>>;
    const OPERATION: &'static str = "publish";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Self::Answer> {
        store(transaction, &self.0.iter().collect::<Vec<_>>()).await
    }

    fn makes_work(&self, answer: &Self::Answer) -> bool {
        answer.iter().flatten().any(|published| published.n_deliveries > 0 && !published.is_duplicate)
    }
}

/// Stores `events` and their deliveries; answers per event, in order.
pub(super) async fn store(transaction: &mut Transaction, events: &[&NewEvent]) -> sqlx::Result<Vec<Result<Published>>> {
    let mut answers: Vec<Result<Published>> = Vec::with_capacity(events.len());
    let mut rest = events;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(chunk_length(rest));
        answers.extend(store_chunk(transaction, chunk).await?);
        rest = later;
    }
    Ok(answers)
}

/// How many of the first events go into one statement; at least one.
fn chunk_length(events: &[&NewEvent]) -> usize {
    let mut n_bytes = 0_usize;
    let fitting = events.iter().take(CHUNK_EVENTS).take_while(|event| {
        n_bytes = n_bytes.saturating_add(event.payload.len());
        n_bytes <= CHUNK_BYTES
    });
    fitting.count().max(1)
}

async fn store_chunk(transaction: &mut Transaction, events: &[&NewEvent]) -> sqlx::Result<Vec<Result<Published>>> {
    let problems: Vec<Option<StoreError>> = events.iter().map(|event| problem_of(Publish::OPERATION, event)).collect();
    let sound: Vec<&NewEvent> = events.iter().zip(&problems).filter(|(_, problem)| problem.is_none()).map(|(event, _)| *event).collect();
    let mut stored = store_together(transaction, &sound).await?.into_iter();
    let unanswered = || StoreError::new(Publish::OPERATION, ErrorKind::Corrupt, "the event was neither stored nor found");
    Ok(problems
        .into_iter()
        .map(|problem| match problem {
            Some(problem) => Err(problem),
            None => stored.next().unwrap_or_else(|| Err(unanswered())),
        })
        .collect())
}

/// All in one statement; if that fails for what one of them is, each alone.
async fn store_together(transaction: &mut Transaction, events: &[&NewEvent]) -> sqlx::Result<Vec<Result<Published>>> {
    transaction.savepoint().await?;
    let error = match insert(transaction, events).await {
        Ok(published) => {
            transaction.release().await?;
            return Ok(published.into_iter().map(Ok).collect());
        }
        Err(error) => error,
    };
    let mut answers = Vec::with_capacity(events.len());
    transaction.roll_back_to_savepoint().await?;
    match reject(error)? {
        rejection if events.len() == 1 => answers.push(Err(rejection)),
        _ => {
            for event in events {
                transaction.savepoint().await?;
                match insert(transaction, &[event]).await {
                    Ok(published) => {
                        transaction.release().await?;
                        answers.extend(published.into_iter().map(Ok));
                    }
                    Err(error) => {
                        transaction.roll_back_to_savepoint().await?;
                        answers.push(Err(reject(error)?));
                    }
                }
            }
        }
    }
    Ok(answers)
}

/// The rejection of one event, or the error if it is not the event's fault.
fn reject(error: sqlx::Error) -> sqlx::Result<StoreError> {
    if trouble::concerns_the_store(&error) {
        return Err(error);
    }
    Ok(StoreError::new(Publish::OPERATION, ErrorKind::Corrupt, "SQLite refuses the event").with_source(error))
}
