//! What can go wrong at a store.

use std::fmt;

/// What kind of error it is: what a caller branches on. Closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The delivery is not processing under this token any more.
    LeaseLost,
    /// The write met another one, and is likely to succeed when it is tried again.
    Conflict,
    /// No such delivery, event or handler.
    NotFound,
    /// The store cannot be reached, or refuses all work for now (connection lost, disk full, read-only).
    Unavailable,
    /// The store did not answer in time.
    Timeout,
    /// What the store holds cannot be read as what it should be.
    Corrupt,
    /// The store is not what was asked for: no database, a newer schema, missing rights.
    Misconfigured,
}

/// Whether the failed operation may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store changed nothing.
    NotApplied,
    /// The reply was lost: the change is there or is not.
    Unknown,
}

/// An operation on a store that failed.
///
/// `Display` names the operation and what was wrong; the source is the driver's error and is not repeated in it.
#[derive(Debug)]
pub struct StoreError {
    /// The verb that failed, such as `claim`.
    pub operation: &'static str,
    pub kind: ErrorKind,
    pub outcome: Outcome,
    /// For people: what was wrong, and what to do where that is known.
    pub message: String,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error after which nothing has changed.
    pub fn new(operation: &'static str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { operation, kind, outcome: Outcome::NotApplied, message: message.into(), source: None }
    }

    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
