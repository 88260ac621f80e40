//! The connections for reading, which never write and never wait for the writer.
//!
//! A read must not last: an old snapshot keeps the write-ahead log from starting anew, and the log grows meanwhile.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnection, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool};

use super::connect;
use super::trouble::Trouble;
use crate::store::{ErrorKind, Outcome, Result, StoreOptions};

/// Reads are for people and for `--until-idle`: a few at once are plenty.
const MAX_READERS: u32 = 4;
/// SQLite asks whether to go on after this many of its instructions: some tens of microseconds.
const INSTRUCTIONS_PER_CHECK: i32 = 10_000;

pub(super) struct Readers {
    pool: SqlitePool,
    path: PathBuf,
    call_timeout: Duration,
}

/// Closes its connection unless the read has ended: a statement may still run on it.
struct Reading(Option<PoolConnection<Sqlite>>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

impl Readers {
    /// Connects at the first read.
    pub(super) fn new(path: &Path, options: &StoreOptions) -> Self {
        let pool = SqlitePoolOptions::new()
            .max_connections(options.max_connections.clamp(1, MAX_READERS))
            .acquire_timeout(options.call_timeout)
            .connect_lazy_with(connect::settings(path, options).pragma("query_only", "on"));
        Self { pool, path: path.to_owned(), call_timeout: options.call_timeout }
    }

    /// Runs `read` on one connection. At the timeout the statement is stopped, not only left alone.
    pub(super) async fn read<T>(
        &self,
        operation: &'static str,
        read: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send,
    ) -> Result<T> {
        let started = Instant::now();
        let call_timeout = self.call_timeout;
        let reading = async {
            let mut reading = Reading(Some(self.pool.acquire().await?));
            let connection: &mut SqliteConnection = reading.0.as_mut().ok_or(sqlx::Error::PoolClosed)?;
            connection.lock_handle().await?.set_progress_handler(INSTRUCTIONS_PER_CHECK, move || started.elapsed() < call_timeout);
            let answer = read(connection).await;
            if answer.is_ok() {
                drop(reading.0.take());
            }
            answer
        };
        match tokio::time::timeout(self.call_timeout, reading).await {
            Ok(answer) => answer.map_err(|error| Trouble::from_driver(error, &self.path).into_error(operation)),
            Err(_) => {
                let message = format!("no answer within {:?}", self.call_timeout);
                Err(Trouble::new(ErrorKind::Timeout, Outcome::NotApplied, message).into_error(operation))
            }
        }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}
