//! The contract that every store keeps, and the only door to a database.
//!
//! [`Store`] is what the dispatcher and publishers need, [`Operators`] what people need. Each promise is a numbered clause (`C3`) with a case
//! of the same number in the conformance suite, which runs unchanged on every backend. Nothing here knows of wasm.
//!
//! On every verb: only the store's clock decides what is due and what has expired (R4), so callers pass durations, never instants. Each call
//! has a timeout of its own at the client, [`StoreOptions::call_timeout`], and fails with [`ErrorKind::Timeout`] rather than hang.

mod decide;
pub mod error;
mod mongodb;
mod open;
mod operators;
mod postgres;
mod soundness;
mod sqlite;
mod work_signal;

use std::time::Duration;

use async_trait::async_trait;

pub use error::{ErrorKind, Outcome, StoreError};
pub use open::{DRIVER_LOG, OpenStore, StoreOptions, open};
pub use operators::*;

use crate::delivery::{ClaimedDelivery, DeliveryId, EventId, HandlerId, NewEvent, WorkerId};
use crate::lease::{Lease, LeaseToken, Renewal};
use crate::topic::TopicPattern;
use crate::verdict::Reason;

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What publishers and the dispatcher need of a store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What this backend can do beyond the contract.
    fn capabilities(&self) -> Capabilities;

    /// Stores who handles what, and answers the handler's id in this store.
    ///
    /// - **S1** The handler is found again by tenant and name; its id stays the same, its topics, digest and limits are replaced.
    /// - **S2** Topics that are no longer named receive no further events; deliveries that exist already stay.
    /// - **S3** Answers the digest that was stored before, so that the caller can log the change.
    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed>;

    /// Stores events and creates their deliveries, in one transaction (R22).
    ///
    /// Answers per event, in the order of the request; a rejected one does not fail the others.
    /// - **P1** Each handler of the event's tenant of which a pattern matches the topic gets exactly one delivery, however many match.
    /// - **P2** What was accepted is there, payload and headers byte for byte, for any later claim on any connection.
    /// - **P3** A delayed event is not handed out before its delay has passed by the store's clock.
    /// - **P4** A second event of the same tenant and topic with the same dedup id stores nothing and answers the first one's id as duplicate.
    /// - **P5** The same event id again stores nothing and answers as the first time: a publish whose reply was lost may be repeated.
    /// - **P6** An event that nobody subscribes to is stored and fans out to nothing.
    /// - **P7** One event that cannot be stored is rejected by itself; the others of its batch are stored.
    /// - **P8** Idle workers of the same process are woken ([`Store::wait_for_work`]).
    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>>;

    /// Leases due deliveries (R1, R2): `processing`, `attempts + 1`, the caller's token, a lease end.
    ///
    /// - **C1** Atomic: no delivery is handed to two claimers (R1).
    /// - **C2** Never more than `limit`, nor more of one handler than its own limit (R1).
    /// - **C3** Only deliveries of the named handlers; the backlog of others costs nothing (R5, R6).
    /// - **C4** Due are pending deliveries whose time has come and processing ones whose lease has expired, by the store's clock (R4).
    /// - **C5** By due time, best effort (R24).
    /// - **C6** Each claim counts an attempt; a delivery under a live lease is never handed out (R2).
    /// - **C7** A lease that is found expired counts a crash, and leaves an attempt record with [`Reason::LeaseExpired`] (R8).
    /// - **C8** At `max_attempts` attempts or `max_crashes` crashes the claim buries instead, with [`Reason::MaxAttempts`] or
    ///   [`Reason::MaxCrashes`], clears the token, and says so in [`Claimed::buried`] (R8).
    /// - **C9** The first takeover is immediate. From the second crash on the delivery goes back to pending, at a random delay of up to the
    ///   lease, without an attempt; and is then handed out only alone: by a claim that is [`Isolation::Alone`], as the only delivery (R8).
    /// - **C10** A claim that is not `Alone` hands out no such delivery, and says in [`Claimed::isolated_due`] that one is due.
    /// - **C11** Deliveries named in `exclude` are not handed out, and nothing about them is changed (R10).
    /// - **C12** Payloads of one claim sum to at most `max_payload_bytes`; a single larger one goes alone (R6).
    /// - **C13** A delivery whose row cannot be read is leased and answered in [`Claimed::malformed`]; the others are handed out (R23).
    /// - **C14** When fewer than `limit` were due, [`Claimed::next_due_in`] is the time until the next delivery of these handlers is.
    async fn claim(&self, request: Claim) -> Result<Claimed>;

    /// Reads back what the claim with this token holds: for a claim whose reply was lost (R2).
    ///
    /// - **C15** Answers the deliveries that are still processing under the token, attempts as the claim counted them.
    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed>;

    /// Renews leases in one statement (R3). Answers per lease, in the order of the request.
    ///
    /// - **L1** `Renewed`: the lease ends one `lease_duration` after now, by the store's clock.
    /// - **L2** `Lost`: the delivery is not processing under this token. Nothing is changed (R11).
    /// - **L3** An expired lease that nobody took yet is renewed.
    /// - **L4** A row that is locked by somebody else is `Unknown`, never `Lost` (R3).
    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>>;

    /// Settles runs. Answers per settlement, in the order of the request; an error of one does not fail the others.
    ///
    /// - **T1** Applies only while the delivery is processing under the token; else changes nothing and says [`Settled::LeaseLost`] (R11).
    /// - **T2** An expired lease that nobody took yet may still be settled (R11).
    /// - **T3** The same verb again says `Applied` and changes nothing, another verb `LeaseLost`, until the next claim (R12).
    /// - **T4** `complete` stores the events of the run with the completion, or neither (R16).
    /// - **T5** `reschedule` makes the delivery pending, due after the delay; a snooze gives the attempt back and counts a snooze (R14).
    /// - **T6** `bury` parks it; it is not claimed again.
    /// - **T7** `release` gives the attempt back; without a delay at its original due time, so before the backlog (R15).
    /// - **T8** A report leaves an attempt record; the last [`MAX_ATTEMPT_RECORDS`] are kept, and texts are cleaned of what the store refuses.
    /// - **T9** One settlement that cannot be stored fails by itself (R23).
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>>;

    /// Returns when there may be new work for a worker of this process, after `timeout` at the latest.
    ///
    /// - **W1** Returns promptly after a publish, release or redrive through the same store, also one that came between the last claim and
    ///   this call.
    /// - **W2** Returns after `timeout` though nothing happened.
    async fn wait_for_work(&self, timeout: Duration);

    /// How many deliveries of these handlers are pending and processing: what `--until-idle` waits for.
    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog>;

    /// Closes all connections. Calls that come later fail with [`ErrorKind::Unavailable`].
    async fn close(&self);
}

/// What a backend can do beyond the contract. Declared here and asserted both ways by the conformance suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub backend: Backend,
    /// Whose clock decides what is due.
    pub clock: ClockOwner,
    /// Who is woken by a publish: see [`Store::wait_for_work`].
    pub wake_ups: WakeUps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    Sqlite,
    Postgres,
    MongoDb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockOwner {
    /// The machine that the host runs on (an embedded store).
    Host,
    /// The database server.
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUps {
    /// Workers of the publishing process; those of others poll.
    Process,
    /// Workers of every process.
    Everywhere,
}

/// Parameters of [`Store::subscribe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    pub tenant: String,
    pub name: String,
    /// SHA-256 of the component, in hex: tells which version subscribed.
    pub digest: String,
    pub topics: Vec<TopicPattern>,
    pub max_attempts: u32,
    pub max_crashes: u32,
}

/// Answer of [`Store::subscribe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    pub handler: HandlerId,
    /// The digest that was stored before, if the handler was known.
    pub previous_digest: Option<String>,
}

/// Answer of [`Store::publish`], for one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The event's id; of a duplicate, the id of the event that was stored first.
    pub event: EventId,
    pub n_deliveries: u64,
    /// Whether the dedup id was there already, so that nothing was stored.
    pub is_duplicate: bool,
}

/// Parameters of [`Store::claim`].
#[derive(Clone, Debug)]
pub struct Claim {
    pub worker: WorkerId,
    /// New and random for every call; repeating a call with the same token is an error of the caller.
    pub token: LeaseToken,
    pub handlers: Vec<ClaimFor>,
    pub limit: u32,
    pub max_payload_bytes: u64,
    pub isolation: Isolation,
    /// What this process still runs, though its lease may be gone.
    pub exclude: Vec<DeliveryId>,
}

/// What a claim wants of one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimFor {
    pub handler: HandlerId,
    /// The most deliveries of this handler.
    pub limit: u32,
    pub lease_duration: Duration,
}

/// Whether a claim may hand out a delivery that must run with nothing else in flight (R8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The worker has runs in flight, or claims for several: none such.
    Shared,
    /// The worker has nothing in flight: if such a delivery is due, that one alone; else as `Shared`.
    Alone,
}

/// Answer of [`Store::claim`].
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    pub deliveries: Vec<ClaimedDelivery>,
    /// Leased like the others, so that the worker can bury them.
    pub malformed: Vec<Malformed>,
    pub buried: Vec<BuriedAtClaim>,
    /// A delivery is due that must run alone.
    pub isolated_due: bool,
    pub next_due_in: Option<Duration>,
}

/// A delivery whose row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub id: DeliveryId,
    pub handler: HandlerId,
    /// Names the field, what was expected and what is there.
    pub problem: String,
}

/// A delivery that a claim buried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuriedAtClaim {
    pub id: DeliveryId,
    pub handler: HandlerId,
    pub reason: Reason,
}

/// Parameters of [`Store::extend_leases`].
#[derive(Clone, Debug)]
pub struct ExtendLeases {
    pub leases: Vec<Lease>,
    pub lease_duration: Duration,
}

/// How one run is settled.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub lease: Lease,
    pub settle: Settle,
    /// Of a run that failed. A completion or a release for shutdown has none.
    pub report: Option<AttemptReport>,
}

/// The four ways to settle a delivery.
#[derive(Clone, Debug)]
pub enum Settle {
    Complete { events: Vec<NewEvent> },
    Reschedule { delay: Duration, attempt: Attempt },
    Bury,
    Release { delay: Option<Duration> },
}

impl Settle {
    /// The verb, as it is kept on the row to recognise a repeated settle (R12).
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Complete { .. } => "complete",
            Self::Reschedule { .. } => "reschedule",
            Self::Bury => "bury",
            Self::Release { .. } => "release",
        }
    }

    /// Whether a worker may find something to do after it, now or at a time that it does not know of.
    pub(super) const fn makes_work(&self) -> bool {
        match self {
            Self::Complete { events } => !events.is_empty(),
            Self::Reschedule { .. } | Self::Release { .. } => true,
            Self::Bury => false,
        }
    }
}

/// Whether a rescheduled delivery's attempt counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Counts,
    /// Given back, and a snooze counted instead.
    Snoozed,
}

/// The most attempt records that are kept of a delivery: the latest.
pub const MAX_ATTEMPT_RECORDS: u32 = 10;

/// What is kept of a failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    pub worker: WorkerId,
    pub ran_for: Duration,
    pub reason: Reason,
    pub message: String,
    pub output: String,
}

/// Answer of [`Store::settle`], for one settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Applied,
    LeaseLost,
}

/// Answer of [`Store::backlog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub n_pending: u64,
    pub n_processing: u64,
}
