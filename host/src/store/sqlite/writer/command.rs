//! A write on its way through the writer.
//!
//! It knows its verb's types, the writer does not: that keeps the two apart.

use std::path::Path;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::Write;
use crate::store::sqlite::transaction::Transaction;
use crate::store::sqlite::trouble::Trouble;
use crate::store::{ErrorKind, Outcome, Result};

/// A write with its type erased, for the queue.
#[async_trait]
pub(super) trait Command: Send {
    /// Runs in a savepoint and keeps the answer. An error means that the transaction is gone, with everything that ran in it.
    async fn run(&mut self, transaction: &mut Transaction, path: &Path) -> Result<(), Trouble>;

    /// Whether its caller has gone, so that it need not begin.
    fn is_abandoned(&self) -> bool;

    /// Tells the caller, after the commit or instead of it. Answers whether workers should look for work.
    fn answer(self: Box<Self>, committed: Result<(), Trouble>) -> bool;
}

/// A write that waits for its turn, its commit, and then for its answer to be taken.
pub(super) struct Waiting<W: Write> {
    write: W,
    answer: Option<Result<W::Answer, Trouble>>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

impl<W: Write> Waiting<W> {
    pub(super) fn new(write: W, reply: oneshot::Sender<Result<W::Answer>>) -> Self {
        Self { write, answer: None, reply }
    }
}

#[async_trait]
impl<W: Write> Command for Waiting<W> {
    async fn run(&mut self, transaction: &mut Transaction, path: &Path) -> Result<(), Trouble> {
        let driver = |error| Trouble::from_driver(error, path);
        transaction.savepoint().await.map_err(driver)?;
        self.answer = Some(match self.write.run(transaction).await.map_err(driver) {
            Ok(answer) => {
                transaction.release().await.map_err(driver)?;
                Ok(answer)
            }
            Err(trouble) => {
                transaction.roll_back_to_savepoint().await.map_err(|_| trouble.clone())?;
                Err(trouble)
            }
        });
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn answer(self: Box<Self>, committed: Result<(), Trouble>) -> bool {
        let answer = match (self.answer, committed) {
            (Some(Err(trouble)), _) | (_, Err(trouble)) => Err(trouble.into_error(W::OPERATION)),
            (Some(Ok(answer)), Ok(())) => Ok(answer),
            (None, Ok(())) => {
                Err(Trouble::new(ErrorKind::Unavailable, Outcome::NotApplied, "the write did not begin").into_error(W::OPERATION))
            }
        };
        let makes_work = answer.as_ref().is_ok_and(|answer| self.write.makes_work(answer));
        // A caller that has gone does not want the answer.
        let _ = self.reply.send(answer);
        makes_work
    }
}
