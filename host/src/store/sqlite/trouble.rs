//! What SQLite's errors mean to the callers of a store.
//!
//! The driver's error stays the source, and is never repeated in the message.

use std::path::Path;
use std::sync::Arc;

use crate::store::{ErrorKind, Outcome, StoreError};

/// Why a statement, or a whole transaction of several writes, failed. Each of them is told.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) kind: ErrorKind,
    pub(super) outcome: Outcome,
    message: String,
    source: Option<Arc<sqlx::Error>>,
}

/// SQLite's primary result codes, of which each extended code is a refinement in its upper bytes.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const READONLY: i32 = 8;
    pub(super) const INTERRUPT: i32 = 9;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const TOOBIG: i32 = 18;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const MISMATCH: i32 = 20;
    pub(super) const AUTH: i32 = 23;
    pub(super) const NOTADB: i32 = 26;
}

impl Trouble {
    /// Trouble of the host's own making, such as a store that is closed.
    pub(super) fn new(kind: ErrorKind, outcome: Outcome, message: impl Into<String>) -> Self {
        Self { kind, outcome, message: message.into(), source: None }
    }

    /// What `error`, met while working on the file at `path`, means. Nothing of the failed statement has been applied.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the driver's enum is open, and has cases that do not occur here")]
    pub(super) fn from_driver(error: sqlx::Error, path: &Path) -> Self {
        let path = path.display();
        let (kind, message) = match primary_code(&error) {
            Some(code::BUSY | code::LOCKED) => (ErrorKind::Timeout, format!("another process holds the write lock of `{path}`")),
            Some(code::FULL) => (ErrorKind::Unavailable, format!("the disk of `{path}` is full")),
            Some(code::READONLY) => (ErrorKind::Unavailable, format!("`{path}` is read-only")),
            Some(code::CANTOPEN) => (ErrorKind::Unavailable, format!("`{path}` cannot be opened")),
            Some(code::IOERR) => (ErrorKind::Unavailable, format!("`{path}` cannot be read or written")),
            Some(code::NOMEM) => (ErrorKind::Unavailable, format!("no memory is left to work on `{path}`")),
            Some(code::PERM | code::AUTH) => (ErrorKind::Misconfigured, format!("access to `{path}` is denied")),
            Some(code::NOTADB) => (ErrorKind::Misconfigured, format!("`{path}` is not a SQLite database")),
            Some(code::CORRUPT) => (ErrorKind::Corrupt, format!("`{path}` is damaged")),
            Some(code::INTERRUPT) => (ErrorKind::Timeout, format!("the statement took too long on `{path}`")),
            Some(code::TOOBIG) => (ErrorKind::Corrupt, "a value is larger than SQLite can hold".to_owned()),
            Some(code::CONSTRAINT | code::MISMATCH) => (ErrorKind::Corrupt, format!("`{path}` refuses the value")),
            Some(_) => (ErrorKind::Misconfigured, format!("`{path}` refuses a statement: its tables are not as expected")),
            None => match &error {
                sqlx::Error::PoolTimedOut => (ErrorKind::Timeout, format!("no connection to `{path}` came free")),
                sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                    (ErrorKind::Unavailable, format!("the connection to `{path}` is closed"))
                }
                sqlx::Error::ColumnDecode { index, .. } => {
                    (ErrorKind::Corrupt, format!("`{path}` holds a row of which {index} cannot be read"))
                }
                sqlx::Error::Decode(_) => (ErrorKind::Corrupt, format!("`{path}` holds a value that cannot be read")),
                sqlx::Error::RowNotFound => (ErrorKind::NotFound, format!("`{path}` has no such row")),
                _ => (ErrorKind::Unavailable, format!("`{path}` cannot be used")),
            },
        };
        Self { kind, outcome: Outcome::NotApplied, message, source: Some(Arc::new(error)) }
    }

    /// As the answer to a caller whose commit failed: only a disk that is full or a lock that was not got say for sure that nothing was
    /// written. After an I/O error the commit may be found on the disk after all, when the file is opened again.
    pub(super) fn at_commit(mut self) -> Self {
        let definite = self.code().is_some_and(|code| matches!(code, code::FULL | code::BUSY | code::LOCKED | code::READONLY));
        self.outcome = if definite { Outcome::NotApplied } else { Outcome::Unknown };
        self
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(code::BUSY | code::LOCKED))
    }

    /// The error of the verb `operation`.
    pub(super) fn into_error(self, operation: &'static str) -> StoreError {
        let error = StoreError::new(operation, self.kind, self.message).with_outcome(self.outcome);
        match self.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    fn code(&self) -> Option<i32> {
        primary_code(self.source.as_deref()?)
    }
}

/// Whether an error is the file's or the disk's trouble and not that of the one row that met it: trying each row alone is of no use then.
pub(super) fn concerns_the_store(error: &sqlx::Error) -> bool {
    match primary_code(error) {
        Some(code) => !matches!(code, code::TOOBIG | code::CONSTRAINT | code::MISMATCH),
        None => {
            !matches!(error, sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound)
        }
    }
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
