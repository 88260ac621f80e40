//! The writer's loop: take, begin, run, commit, answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Queues;
use super::command::Command;
use super::log_watch::LogWatch;
use crate::store::StoreOptions;
use crate::store::sqlite::connect;
use crate::store::sqlite::transaction::Transaction;
use crate::store::sqlite::trouble::Trouble;
use crate::store::work_signal::WorkSignal;

/// The most writes in one transaction, and the longest time for which it takes in more: what bounds the wait of a renewal, and of other
/// processes for the lock.
const MAX_WRITES: usize = 256;
const MAX_INTAKE: Duration = Duration::from_millis(50);
/// How often the commits of other processes are looked for while somebody waits for work: a handler may start that much late.
const WATCH_INTERVAL: Duration = Duration::from_millis(10);
/// SQLite's lock goes to whoever asks at the right moment. Where processes contend, each leaves it free for this long after a transaction:
/// some times the interval at which the others ask.
const GAP: Duration = Duration::from_millis(3);
/// For how long after it was last seen another process is taken to contend.
const CONTENTION: Duration = Duration::from_secs(1);

/// What the task owns.
pub(super) struct Task {
    /// None after trouble that may have left a transaction open: the next write connects anew.
    transaction: Option<Transaction>,
    path: PathBuf,
    options: StoreOptions,
    signal: Arc<WorkSignal>,
    queues: Queues,
    closing: CancellationToken,
    log_watch: LogWatch,
    last_data_version: Option<i64>,
    /// When the lock was last seen in another process's hands.
    last_contended_at: Option<Instant>,
}

impl Task {
    pub(super) fn new(
        transaction: Transaction,
        path: PathBuf,
        options: StoreOptions,
        queues: Queues,
        signal: Arc<WorkSignal>,
        closing: CancellationToken,
    ) -> Self {
        let log_watch = LogWatch::new(&path);
        let transaction = Some(transaction);
        Self { transaction, path, options, signal, queues, closing, log_watch, last_data_version: None, last_contended_at: None }
    }

    pub(super) async fn run(mut self) {
        let mut next_watch = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some(command) = self.queues.urgent.recv() => self.write_batch(command).await,
                Some(command) = self.queues.ordinary.recv() => self.write_batch(command).await,
                () = self.closing.cancelled(), if !self.queues.urgent.is_closed() => {
                    self.queues.urgent.close();
                    self.queues.ordinary.close();
                    self.signal.arrived();
                }
                () = tokio::time::sleep_until(next_watch), if self.signal.has_waiting() && !self.queues.urgent.is_closed() => {
                    self.watch().await;
                    next_watch = Instant::now() + WATCH_INTERVAL;
                }
                () = self.signal.someone_waits(), if !self.signal.has_waiting() && !self.queues.urgent.is_closed() => {}
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
        let mut first = Some(first);
        let mut lost = None;
        while lost.is_none() && ran.len() < MAX_WRITES && (first.is_some() || started.elapsed() < MAX_INTAKE) {
            let urgent = self.queues.urgent.try_recv().ok();
            let Some(mut command) = urgent.or_else(|| first.take()).or_else(|| self.queues.ordinary.try_recv().ok()) else { break };
            if !command.is_abandoned() {
                lost = command.run(&mut transaction, &self.path).await.err();
                ran.push(command);
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
        for command in ran.into_iter().chain(first) {
            makes_work |= command.answer(committed.clone());
        }
        if makes_work {
            self.signal.arrived();
        }
    }

    /// Takes the write lock, asking again and again: SQLite's own way of waiting sleeps longer and longer, and starves beside a busy process.
    async fn begin(&mut self) -> Result<Transaction, Trouble> {
        let mut transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => {
                self.last_data_version = None;
                connect::adopt(connect::reopen(&self.path, &self.options).await?, &self.path).await?
            }
        };
        if self.last_contended_at.is_some_and(|at| at.elapsed() < CONTENTION) {
            tokio::time::sleep(GAP).await;
        }
        let started = Instant::now();
        loop {
            match transaction.begin().await.map_err(|error| Trouble::from_driver(error, &self.path)) {
                Ok(()) => return Ok(transaction),
                Err(trouble) if trouble.is_busy() => {
                    self.last_contended_at = Some(Instant::now());
                    if started.elapsed() >= connect::lock_patience(&self.options) {
                        self.transaction = Some(transaction);
                        return Err(trouble);
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Wakes waiting workers if another process has committed something.
    async fn watch(&mut self) {
        let Some(transaction) = &mut self.transaction else { return };
        if !self.log_watch.may_have_grown() {
            return;
        }
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
