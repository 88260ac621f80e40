//! The one task that writes to the file.
//!
//! It runs whatever is waiting in one transaction and commits once, because a commit waits for the disk. Each write has a savepoint, so that
//! a bad one fails alone. Nobody is answered before the commit, and a caller that goes away never stops a statement half-way.

mod command;
mod log_watch;
mod task;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::command::{Command, Waiting};
use self::task::Task;
use super::transaction::Transaction;
use super::trouble::Trouble;
use crate::store::work_signal::WorkSignal;
use crate::store::{ErrorKind, Outcome, Result, StoreOptions};

/// Writes that may wait; beyond it callers wait for a place, and time out there.
const QUEUE_LENGTH: usize = 1024;

/// One write, run by the writer in a savepoint of the transaction that it shares with others.
#[async_trait]
pub(super) trait Write: Send + Sync + 'static {
    type Answer: Send + 'static;
    /// The verb, for errors.
    const OPERATION: &'static str;
    const URGENCY: Urgency = Urgency::Ordinary;

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Self::Answer>;

    /// Whether workers should look for work once this is committed.
    fn makes_work(&self, _answer: &Self::Answer) -> bool {
        false
    }
}

/// Which writes go first.
pub(super) enum Urgency {
    /// Lease renewals: a late one is a lost lease.
    Urgent,
    Ordinary,
}

/// What waits for the writer.
struct Queues {
    urgent: mpsc::Receiver<Box<dyn Command>>,
    ordinary: mpsc::Receiver<Box<dyn Command>>,
}

/// The way to the writer, for the callers of verbs.
pub(super) struct Writer {
    urgent: mpsc::Sender<Box<dyn Command>>,
    ordinary: mpsc::Sender<Box<dyn Command>>,
    closing: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    call_timeout: Duration,
}

impl Writer {
    /// Starts the task on a connection that is open and migrated. [`Writer::close`] ends and awaits it.
    pub(super) fn start(transaction: Transaction, path: PathBuf, options: StoreOptions, signal: Arc<WorkSignal>) -> Self {
        let (urgent, urgent_queue) = mpsc::channel(QUEUE_LENGTH);
        let (ordinary, ordinary_queue) = mpsc::channel(QUEUE_LENGTH);
        let closing = CancellationToken::new();
        let call_timeout = options.call_timeout;
        let queues = Queues { urgent: urgent_queue, ordinary: ordinary_queue };
        let task = Task::new(transaction, path, options, queues, signal, closing.clone());
        Self { urgent, ordinary, closing, task: Mutex::new(Some(tokio::spawn(task.run()))), call_timeout }
    }

    /// Hands `write` to the writer and waits for its commit.
    ///
    /// # Errors
    /// `Timeout` after the call's timeout: `Unknown` if the writer had it by then, for it may still run. `Unavailable` after a close.
    pub(super) async fn write<W: Write>(&self, write: W) -> Result<W::Answer> {
        let (reply, answer) = oneshot::channel();
        let queue = match W::URGENCY {
            Urgency::Urgent => &self.urgent,
            Urgency::Ordinary => &self.ordinary,
        };
        let mut outcome = Outcome::NotApplied;
        let call = async {
            let closed = |outcome| Trouble::new(ErrorKind::Unavailable, outcome, "the store is closed").into_error(W::OPERATION);
            queue.send(Box::new(Waiting::new(write, reply))).await.map_err(|_| closed(Outcome::NotApplied))?;
            outcome = Outcome::Unknown;
            answer.await.map_err(|_| closed(Outcome::Unknown))?
        };
        match tokio::time::timeout(self.call_timeout, call).await {
            Ok(answer) => answer,
            Err(_) => {
                let message = format!("no answer within {:?}", self.call_timeout);
                Err(Trouble::new(ErrorKind::Timeout, outcome, message).into_error(W::OPERATION))
            }
        }
    }

    /// Lets what is waiting run, refuses what comes later, and returns when the connection is closed.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the writer of the store has failed");
        }
    }
}

/// A store that is dropped without a close ends its task all the same, only without anybody waiting for the end.
impl Drop for Writer {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}
