//! Opens connections to the file.
//!
//! One way for all of them, so that none lacks a setting on which durability or a bound depends.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Executor};

use super::transaction::Transaction;
use super::trouble::Trouble;
use crate::store::{ErrorKind, Outcome, StoreOptions};

/// What the write-ahead log is cut back to when it starts anew, in bytes. It grows beyond only while a reader keeps it from starting anew.
const WAL_SIZE_LIMIT: &str = "67108864";
/// The driver takes no more than some weeks.
const LONGEST_LOCK_WAIT: Duration = Duration::from_secs(60 * 60);
/// How long to wait before asking again for a lock that SQLite does not wait for by itself.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// How long to wait for the write lock: a little less than the call's timeout, so that the caller of a write that waited in vain learns that
/// nothing was applied.
pub(super) fn lock_patience(options: &StoreOptions) -> Duration {
    options.call_timeout.mul_f32(0.9).min(LONGEST_LOCK_WAIT)
}

/// Settings of every connection to `path`.
///
/// FULL, because NORMAL loses the last commits at power loss and an accepted event must survive (R22).
pub(super) fn settings(path: &Path, options: &StoreOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(lock_patience(options))
        .pragma("journal_size_limit", WAL_SIZE_LIMIT)
        .pragma("temp_store", "memory")
        .pragma("cache_size", "-32768")
        .row_buffer_size(512)
        .disable_statement_logging()
}

/// Opens a connection, making the file if there is none.
pub(super) async fn create(path: &Path, options: &StoreOptions) -> Result<SqliteConnection, Trouble> {
    connect(settings(path, options).create_if_missing(true), path, options).await
}

/// Opens a connection to a file that was there before: if it is gone, an empty one would not be the same.
pub(super) async fn reopen(path: &Path, options: &StoreOptions) -> Result<SqliteConnection, Trouble> {
    connect(settings(path, options), path, options).await
}

/// Makes `connection` the writer's. From here on it waits for the lock a millisecond at a time, and the writer asks again.
pub(super) async fn adopt(mut connection: SqliteConnection, path: &Path) -> Result<Transaction, Trouble> {
    connection.execute("pragma busy_timeout = 1").await.map_err(|error| Trouble::from_driver(error, path))?;
    Ok(Transaction::new(connection))
}

/// Waits for others that open the same fresh file at the same time: SQLite does not wait by itself for the lock that the change to a
/// write-ahead log needs.
async fn connect(settings: SqliteConnectOptions, path: &Path, options: &StoreOptions) -> Result<SqliteConnection, Trouble> {
    let started = Instant::now();
    loop {
        match settings.connect().await.map_err(|error| Trouble::from_driver(error, path)) {
            Err(trouble) if trouble.is_busy() && started.elapsed() < options.call_timeout => tokio::time::sleep(LOCK_RETRY).await,
            result => return result,
        }
    }
}

/// Says in plain words what would otherwise be `unable to open database file`.
pub(super) fn check_path(path: &Path) -> Result<(), Trouble> {
    let wrong = |kind, message| Err(Trouble::new(kind, Outcome::NotApplied, message));
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        return wrong(ErrorKind::Misconfigured, "expected the path of a file after `sqlite:`, such as `sqlite:relaybus.db`".to_owned());
    }
    if path.is_dir() {
        return wrong(ErrorKind::Misconfigured, format!("expected a file, got the folder `{}`", path.display()));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    if !folder.is_dir() {
        return wrong(ErrorKind::Unavailable, format!("`{}` cannot be opened: there is no folder `{}`", path.display(), folder.display()));
    }
    Ok(())
}
