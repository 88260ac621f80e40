//! One call to the server: a connection, a time limit, and an error that says what happened.
//!
//! Each call is a task that owns its connection. A caller that goes away does not drop a statement half-way; a call that takes too long closes
//! its connection and never gives it back to the pool. On a session that a pooler lends, a call is one transaction, and leaves nothing there.

use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection};
use tokio::time::Instant;

use super::connect::{Sessions, Settings};
use crate::store::{ErrorKind, Outcome, Result, StoreError, StoreOptions};

/// Calls on one pool of connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Calls {
    pool: PgPool,
    call_timeout: Duration,
    /// For messages: server and database, without the password.
    server: String,
    sessions: Sessions,
    /// What a transaction on a lent session begins with.
    set_local: String,
}

/// What the statements of a call see of those of others.
#[derive(Clone, Copy)]
enum Sees {
    /// Each what was committed before it.
    Commits,
    /// All the same, and they change nothing.
    OneMoment,
}

/// Why a call failed.
enum Trouble {
    NoConnection(sqlx::Error),
    Failed(sqlx::Error),
    TooLate(Duration),
}

impl Calls {
    pub(super) fn new(settings: &Settings, options: &StoreOptions, max_connections: u32) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(max_connections.max(1))
            .acquire_timeout(options.call_timeout / 2)
            .connect_lazy_with(settings.connect.clone());
        Self {
            pool,
            call_timeout: options.call_timeout,
            server: settings.server.clone(),
            sessions: settings.sessions,
            set_local: settings.set_local.clone(),
        }
    }

    pub(super) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs `work` on a connection. The time limit is that of the whole call, the wait for a connection included.
    pub(super) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        self.run_as(operation, self.call_timeout, Sees::Commits, work).await
    }

    /// Runs `work`, which only reads, and reads all of it as it was at one moment.
    pub(super) async fn read_at_one_moment<T, F>(&self, operation: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        self.run_as(operation, self.call_timeout, Sees::OneMoment, work).await
    }

    /// Runs `work` with a time limit of its own, which the server is not told.
    pub(super) async fn run_for<T, F>(&self, operation: &'static str, limit: Duration, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        self.run_as(operation, limit, Sees::Commits, work).await
    }

    async fn run_as<T, F>(&self, operation: &'static str, limit: Duration, sees: Sees, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        let (pool, deadline) = (self.pool.clone(), Instant::now() + limit);
        let begin = self.begin(sees);
        let call = tokio::spawn(async move {
            let mut connection = pool.acquire().await.map_err(Trouble::NoConnection)?;
            let answer = async {
                match begin {
                    Some(begin) => in_transaction(&mut connection, begin, work).await,
                    None => work(&mut connection).await,
                }
            };
            match tokio::time::timeout_at(deadline, answer).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(error)) => {
                    if !leaves_connection_usable(&error) {
                        drop(connection.detach());
                    }
                    Err(Trouble::Failed(error))
                }
                Err(_) => {
                    // Closing it makes the server roll back what it has not committed.
                    drop(connection.detach());
                    Err(Trouble::TooLate(limit))
                }
            }
        });
        match call.await {
            Ok(answer) => answer.map_err(|trouble| self.explain(operation, trouble)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn begin(&self, sees: Sees) -> Option<String> {
        let begin = match sees {
            Sees::Commits => "begin",
            Sees::OneMoment => "begin isolation level repeatable read read only",
        };
        match (self.sessions, sees) {
            (Sessions::Own, Sees::Commits) => None,
            (Sessions::Own, Sees::OneMoment) => Some(begin.to_owned()),
            (Sessions::Lent, _) => Some(format!("{begin}{}", self.set_local)),
        }
    }

    /// Says goodbye to the server, for as long as a call may take: a connection whose other end is gone would be waited for until TCP gives up.
    pub(super) async fn close(&self) {
        let _ = tokio::time::timeout(self.call_timeout, self.pool.close()).await;
    }

    /// Explains an error that came after part of the call had been committed.
    pub(super) fn half_done(&self, operation: &'static str, error: sqlx::Error) -> StoreError {
        self.explain(operation, Trouble::Failed(error)).with_outcome(Outcome::Unknown)
    }

    fn explain(&self, operation: &'static str, trouble: Trouble) -> StoreError {
        let server = &self.server;
        match trouble {
            Trouble::TooLate(limit) => {
                let message = format!("{server} did not answer within {limit:?}");
                StoreError::new(operation, ErrorKind::Timeout, message).with_outcome(Outcome::Unknown)
            }
            Trouble::NoConnection(error) => {
                let (kind, message) = match code(&error).as_deref() {
                    Some("28000" | "28P01" | "42501") => (ErrorKind::Misconfigured, format!("{server} denies access")),
                    Some("3D000") => (ErrorKind::Misconfigured, format!("{server} has no such database")),
                    Some(_) => (ErrorKind::Unavailable, format!("{server} refuses connections")),
                    // While a server refuses connections, the pool goes on trying until the time is up.
                    None if matches!(error, sqlx::Error::PoolTimedOut) && self.pool.size() < self.pool.options().get_max_connections() => {
                        (ErrorKind::Unavailable, format!("{server} cannot be reached; is it running?"))
                    }
                    None if matches!(error, sqlx::Error::PoolTimedOut) => {
                        (ErrorKind::Timeout, format!("no connection to {server} came free"))
                    }
                    None if matches!(error, sqlx::Error::PoolClosed) => {
                        (ErrorKind::Unavailable, format!("the connection to {server} is closed"))
                    }
                    None => (ErrorKind::Unavailable, format!("{server} cannot be reached; is it running?")),
                };
                StoreError::new(operation, kind, message).with_source(error)
            }
            Trouble::Failed(error) => {
                let outcome = if leaves_connection_usable(&error) { Outcome::NotApplied } else { Outcome::Unknown };
                let (kind, message) = explain_failure(&error, server);
                StoreError::new(operation, kind, message).with_outcome(outcome).with_source(error)
            }
        }
    }
}

/// The statements that were prepared in the transaction go with it: on a lent session the next borrower's may have the same names. One that
/// ends before that is closed by the pooler.
async fn in_transaction<T, F>(connection: &mut PgConnection, begin: String, work: F) -> sqlx::Result<T>
where
    F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>>,
{
    let mut transaction = connection.begin_with(AssertSqlSafe(begin)).await?;
    let answer = work(&mut transaction).await;
    if answer.as_ref().err().is_none_or(leaves_connection_usable) {
        transaction.clear_cached_statements().await?;
    }
    match answer {
        Ok(answer) => transaction.commit().await.map(|()| answer),
        Err(error) if leaves_connection_usable(&error) => transaction.rollback().await.and(Err(error)),
        Err(error) => Err(error),
    }
}

/// Whether what stands between us and the server will not hear of settings at the start of a connection.
pub(super) fn is_refused_startup(error: &StoreError) -> bool {
    let source = error.source.as_ref().and_then(|source| source.downcast_ref::<sqlx::Error>());
    source.and_then(code).is_some_and(|code| code == "08P01")
}

fn explain_failure(error: &sqlx::Error, server: &str) -> (ErrorKind, String) {
    let code = code(error);
    match code.as_deref().map(|code| (code.get(..2).unwrap_or(code), code)) {
        Some((_, "40001" | "40P01" | "55P03")) => (ErrorKind::Conflict, format!("another transaction on {server} was in the way")),
        Some((_, "57014")) => (ErrorKind::Timeout, format!("the statement took too long on {server}")),
        Some((_, "53100")) => (ErrorKind::Unavailable, format!("the disk of {server} is full")),
        Some((_, "42501")) => (ErrorKind::Misconfigured, format!("{server} denies access to the schema `relaybus`")),
        Some(("22" | "23", _)) => (ErrorKind::Corrupt, format!("{server} refuses a value")),
        Some(("42" | "3F", _)) => (ErrorKind::Misconfigured, format!("the tables on {server} are not as expected")),
        Some((_, "XX001" | "XX002")) => (ErrorKind::Corrupt, format!("{server} is damaged")),
        Some((_, "25P03")) => (ErrorKind::Timeout, format!("{server} gave the call up while this host was not heard of")),
        Some(_) => (ErrorKind::Unavailable, format!("{server} refuses the statement for now")),
        None if matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_)) => {
            (ErrorKind::Corrupt, format!("{server} holds a value that cannot be read"))
        }
        None if matches!(error, sqlx::Error::Configuration(_)) => (ErrorKind::Misconfigured, error.to_string()),
        None => (ErrorKind::Unavailable, format!("the connection to {server} was lost")),
    }
}

/// Whether an error is that of the one row that met it, so that trying each row alone is of use.
pub(super) fn concerns_a_row(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// Whether the same transaction is likely to succeed when it is tried again at once.
pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code == "40001" || code == "40P01")
}

/// Whether the server has answered, with a refusal, and goes on serving the connection. A server that shuts down may have committed before.
fn leaves_connection_usable(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| !code.starts_with("57P") && !code.starts_with("08") && code != "25P03")
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}
