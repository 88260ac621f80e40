//! The one task that writes to the file.
//!
//! It runs whatever is waiting in one transaction and commits once, because a commit waits for the disk. Each write has a savepoint, so that
//! a bad one fails alone. Nobody is answered before the commit, and a caller that goes away never stops a statement half-way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect;
use super::transaction::Transaction;
use super::trouble::Trouble;
use super::work_signal::WorkSignal;
use crate::store::{ErrorKind, Outcome, Result, StoreOptions};

/// The most writes in one transaction, and the longest time for which it takes in more: what bounds the wait of a renewal, and of other
/// processes for the lock.
const MAX_WRITES: usize = 256;
const MAX_INTAKE: Duration = Duration::from_millis(50);
/// Writes that may wait; beyond it callers wait for a place, and time out there.
const QUEUE_LENGTH: usize = 1024;
/// How often the commits of other processes are looked for while somebody waits for work: half of what a handler may start late by.
const WATCH_INTERVAL: Duration = Duration::from_millis(10);

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
    pub(super) fn start(connection: SqliteConnection, path: PathBuf, options: StoreOptions, signal: Arc<WorkSignal>) -> Self {
        let (urgent, urgent_queue) = mpsc::channel(QUEUE_LENGTH);
        let (ordinary, ordinary_queue) = mpsc::channel(QUEUE_LENGTH);
        let closing = CancellationToken::new();
        let call_timeout = options.call_timeout;
        let task = Task {
            transaction: Some(Transaction::new(connection)),
            path,
            options,
            signal,
            urgent: urgent_queue,
            ordinary: ordinary_queue,
            closing: closing.clone(),
            last_data_version: None,
        };
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
            queue.send(Box::new(Waiting { write, answer: None, reply })).await.map_err(|_| closed(Outcome::NotApplied))?;
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

/// A write with its type erased, for the queue.
#[async_trait]
trait Command: Send {
    /// Runs in a savepoint and keeps the answer. An error means that the transaction is gone, with everything that ran in it.
    async fn run(&mut self, transaction: &mut Transaction, path: &std::path::Path) -> Result<(), Trouble>;

    /// Whether its caller has gone, so that it need not begin.
    fn is_abandoned(&self) -> bool;

    /// Tells the caller, after the commit or instead of it. Answers whether workers should look for work.
    fn answer(self: Box<Self>, committed: Result<(), Trouble>) -> bool;
}

struct Waiting<W: Write> {
    write: W,
    answer: Option<Result<W::Answer, Trouble>>,
    reply: oneshot::Sender<Result<W::Answer>>,
}

#[async_trait]
impl<W: Write> Command for Waiting<W> {
    async fn run(&mut self, transaction: &mut Transaction, path: &std::path::Path) -> Result<(), Trouble> {
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

/// What the task owns.
struct Task {
    /// None after trouble that may have left a transaction open: the next write connects anew.
    transaction: Option<Transaction>,
    path: PathBuf,
    options: StoreOptions,
    signal: Arc<WorkSignal>,
    urgent: mpsc::Receiver<Box<dyn Command>>,
    ordinary: mpsc::Receiver<Box<dyn Command>>,
    closing: CancellationToken,
    last_data_version: Option<i64>,
}

impl Task {
    async fn run(mut self) {
        let mut next_watch = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some(command) = self.urgent.recv() => self.write_batch(command).await,
                Some(command) = self.ordinary.recv() => self.write_batch(command).await,
                () = self.closing.cancelled(), if !self.urgent.is_closed() => {
                    self.urgent.close();
                    self.ordinary.close();
                    self.signal.arrived();
                }
                () = tokio::time::sleep_until(next_watch), if self.signal.has_waiting() && !self.urgent.is_closed() => {
                    self.watch().await;
                    next_watch = Instant::now() + WATCH_INTERVAL;
                }
                () = self.signal.someone_waits(), if !self.signal.has_waiting() && !self.urgent.is_closed() => {}
                else => break,
            }
        }
        if let Some(transaction) = self.transaction.take()
            && let Err(error) = transaction.connection.close().await
        {
            tracing::warn!(%error, path = %self.path.display(), "the store's file did not close cleanly");
        }
    }

    /// Runs `first` and what else is waiting in one transaction, renewals first, and answers all of them.
    async fn write_batch(&mut self, first: Box<dyn Command>) {
        let mut transaction = match self.begin().await {
            Ok(transaction) => transaction,
            Err(trouble) => {
                first.answer(Err(trouble));
                return;
            }
        };
        let started = Instant::now();
        let mut ran = Vec::new();
        let mut next = Some(first);
        let mut lost = None;
        while let Some(mut command) = next.take() {
            if !command.is_abandoned() {
                lost = command.run(&mut transaction, &self.path).await.err();
                ran.push(command);
            }
            if lost.is_none() && ran.len() < MAX_WRITES && started.elapsed() < MAX_INTAKE {
                next = self.urgent.try_recv().or_else(|_| self.ordinary.try_recv()).ok();
            }
        }
        let committed = match lost {
            Some(trouble) => Err(trouble),
            None => transaction.commit().await.map_err(|error| Trouble::from_driver(error, &self.path).at_commit()),
        };
        // A failed commit leaves the transaction open, and other trouble may have ended it: only a clean rollback makes it usable again.
        if committed.is_ok() || transaction.roll_back().await.is_ok() {
            self.transaction = Some(transaction);
        }
        let mut makes_work = false;
        for command in ran {
            makes_work |= command.answer(committed.clone());
        }
        if makes_work {
            self.signal.arrived();
        }
    }

    async fn begin(&mut self) -> Result<Transaction, Trouble> {
        let mut transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => {
                self.last_data_version = None;
                Transaction::new(connect::connect(&self.path, &self.options).await?)
            }
        };
        let begun = transaction.begin().await.map_err(|error| Trouble::from_driver(error, &self.path));
        match begun {
            Ok(()) => Ok(transaction),
            Err(trouble) => {
                if trouble.is_busy() {
                    self.transaction = Some(transaction);
                }
                Err(trouble)
            }
        }
    }

    /// Wakes waiting workers if another process has committed something.
    async fn watch(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        match transaction.data_version().await {
            Ok(version) => {
                if self.last_data_version.replace(version).is_some_and(|last| last != version) {
                    self.signal.arrived();
                }
            }
            Err(error) => tracing::debug!(%error, path = %self.path.display(), "commits of other processes could not be looked for"),
        }
    }
}
