//! What people need of a store: look, repair, clean up.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Result;
use crate::delivery::{DeliveryId, EventId, Status};

/// What operators need of a store. On a delivery that is `processing` each changing verb clears the token, so the run loses its lease (R12).
#[async_trait]
pub trait Operators: Send + Sync + 'static {
    /// Deliveries, latest id first.
    ///
    /// - **O1** Only those that meet every given condition, at most `limit`, continued `before` an id.
    async fn list(&self, request: List) -> Result<Vec<DeliverySummary>>;

    /// One delivery with its event and attempt records, or [`ErrorKind::NotFound`](super::ErrorKind::NotFound).
    ///
    /// - **O2** Shows each attempt record, oldest first.
    async fn show(&self, id: DeliveryId) -> Result<DeliveryDetails>;

    /// Changes the named deliveries, and answers per id, in the order of the request.
    ///
    /// - **O3** `Redrive` puts a buried delivery back to pending, due now, attempts, crashes and snoozes at zero; any other is left alone.
    /// - **O4** `Bury` parks a pending or processing delivery with the reason `operator`; a settled one is left alone.
    /// - **O5** `Release` makes a pending or processing delivery due now, a processing one with its attempt given back; a settled one is left
    ///   alone.
    /// - **O6** A run whose delivery was buried or released by an operator settles to `LeaseLost` (R11).
    async fn change(&self, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>>;

    /// Deletes what was settled long enough ago, in batches, and events that no delivery is left of.
    ///
    /// - **O7** Deletes completed and buried deliveries by the time of their settling, never one that is pending or processing.
    /// - **O8** An event goes with its last delivery; one without deliveries goes by its age as a completed one would. A dedup id lives as long as its event.
    async fn prune(&self, retention: Retention) -> Result<Pruned>;

    /// All handlers, by tenant and name.
    ///
    /// - **O9** With topics, limits, digest, and how many of its deliveries have each status.
    async fn list_handlers(&self) -> Result<Vec<HandlerSummary>>;

    /// Removes a handler and its subscriptions, or answers `NotFound`.
    ///
    /// - **O10** Refused with `Conflict` while it has pending or processing deliveries, unless they are to be buried.
    async fn remove_handler(&self, request: RemoveHandler) -> Result<()>;
}

/// Parameters of [`Operators::list`]. `None` means any.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub status: Option<Status>,
    pub tenant: Option<String>,
    pub handler: Option<String>,
    pub topic: Option<String>,
    pub before: Option<DeliveryId>,
    pub limit: u32,
}

/// A delivery as the command line prints it.
#[derive(Clone, Debug, Serialize)]
pub struct DeliverySummary {
    pub id: DeliveryId,
    pub event_id: EventId,
    pub tenant: String,
    pub handler: String,
    pub topic: String,
    pub key: Option<String>,
    pub status: Status,
    pub attempts: u32,
    pub max_attempts: u32,
    pub crashes: u32,
    /// When it may be claimed; absent while processing and once settled.
    pub due_at: Option<DateTime<Utc>>,
    pub lease_expires_at: Option<DateTime<Utc>>,
    /// The worker that claimed it last.
    pub worker: Option<String>,
    pub published_at: DateTime<Utc>,
    pub settled_at: Option<DateTime<Utc>>,
    /// Of the last failed run.
    pub reason: Option<String>,
    pub message: Option<String>,
    pub output: Option<String>,
}

/// A delivery with its event and attempt records.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryDetails {
    #[serde(flatten)]
    pub summary: DeliverySummary,
    pub content_type: String,
    pub headers: Vec<crate::delivery::Header>,
    #[serde(skip)]
    pub payload: bytes::Bytes,
    pub attempt_records: Vec<AttemptRecord>,
}

/// What is kept of one failed run.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptRecord {
    pub attempt: u32,
    pub worker: String,
    pub started_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    pub reason: String,
    pub message: String,
    pub output: String,
}

/// What an operator does to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Redrive,
    Bury,
    Release,
}

impl Change {
    /// The status that the change leads to from `status`; `None` if it is not allowed (O3 to O5).
    pub(super) const fn status_after(self, status: Status) -> Option<Status> {
        match (self, status) {
            (Self::Redrive, Status::Buried) | (Self::Release, Status::Pending | Status::Processing) => Some(Status::Pending),
            (Self::Bury, Status::Pending | Status::Processing) => Some(Status::Buried),
            (Self::Redrive, Status::Pending | Status::Processing | Status::Completed)
            | (Self::Bury | Self::Release, Status::Completed | Status::Buried) => None,
        }
    }
}

/// Answer of [`Operators::change`], for one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Applied,
    /// Its status does not allow the change.
    NotAllowed(Status),
    NotFound,
}

/// How long settled deliveries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub completed: Duration,
    pub buried: Duration,
}

impl Default for Retention {
    /// Completed 1 day, buried 14 days.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { completed: DAY, buried: 14 * DAY }
    }
}

/// Answer of [`Operators::prune`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    pub n_deliveries: u64,
    pub n_events: u64,
}

/// A handler as the command line prints it.
#[derive(Clone, Debug, Serialize)]
pub struct HandlerSummary {
    pub tenant: String,
    pub name: String,
    pub digest: String,
    pub topics: Vec<String>,
    pub max_attempts: u32,
    pub max_crashes: u32,
    pub pending: u64,
    pub processing: u64,
    pub completed: u64,
    pub buried: u64,
}

/// Parameters of [`Operators::remove_handler`].
#[derive(Clone, Debug)]
pub struct RemoveHandler {
    pub tenant: String,
    pub name: String,
    pub unfinished: Unfinished,
}

/// What becomes of a removed handler's pending and processing deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// They are a reason to refuse.
    Refuse,
    /// They are buried with the reason `operator`.
    Bury,
}
