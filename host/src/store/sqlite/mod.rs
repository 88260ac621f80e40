//! The store in one SQLite file, for one machine.
//!
//! One task writes, in transactions that many callers share ([`writer`]); people read on connections of their own ([`readers`]). The
//! verbs are one file each, and know of neither. The clock is the host's, which on one machine is everybody's (R4).

mod attempt_records;
mod backlog;
mod claim;
mod connect;
mod extend_leases;
mod fan_out;
mod migrate;
mod operators;
mod publish;
mod readers;
mod rows;
mod settle;
mod subscribe;
mod time;
mod transaction;
mod trouble;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::claim::RecoverClaim;
use self::publish::Publish;
use self::readers::Readers;
use self::settle::SettleRuns;
use self::writer::Writer;
use super::work_signal::WorkSignal;
use super::{
    Backend, Backlog, Capabilities, Claim, Claimed, ClockOwner, ExtendLeases, Published, Result, Settled, Settlement, Store, StoreOptions,
    Subscribe, Subscribed, WakeUps,
};
use crate::delivery::{HandlerId, NewEvent};
use crate::lease::{LeaseToken, Renewal};

/// An open file. Other processes may have it open too.
pub(super) struct SqliteStore {
    writer: Writer,
    readers: Readers,
    /// Set off by the writer, waited on by dispatchers.
    signal: Arc<WorkSignal>,
}

impl SqliteStore {
    /// Opens the file at `path`, creating it where there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// `Misconfigured` if it is no SQLite database or its schema is newer than this program, `Unavailable` if it cannot be opened or
    /// written; all name the path.
    pub(super) async fn open(path: &Path, options: StoreOptions) -> Result<Self> {
        let error = |trouble: trouble::Trouble| trouble.into_error("open");
        connect::check_path(path).map_err(error)?;
        let mut connection = connect::create(path, &options).await.map_err(error)?;
        migrate::migrate(&mut connection, path).await.map_err(error)?;
        let transaction = connect::adopt(connection, path).await.map_err(error)?;
        let readers = Readers::new(path, &options);
        let signal = Arc::new(WorkSignal::new());
        let writer = Writer::start(transaction, path.to_owned(), options, Arc::clone(&signal));
        Ok(Self { writer, readers, signal })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { backend: Backend::Sqlite, clock: ClockOwner::Host, wake_ups: WakeUps::Everywhere }
    }

    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        request.check()?;
        self.writer.write(request).await
    }

    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        self.writer.write(Publish(events)).await
    }

    async fn claim(&self, request: Claim) -> Result<Claimed> {
        let (worker, glance) = (request.worker, self.signal.glance());
        let claimed = self.writer.write(request).await?;
        self.signal.looked(worker, glance);
        Ok(claimed)
    }

    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        self.writer.write(RecoverClaim(token)).await
    }

    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        self.writer.write(request).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        self.writer.write(SettleRuns(settlements)).await
    }

    async fn wait_for_work(&self, timeout: Duration) {
        self.signal.wait(timeout).await;
    }

    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog> {
        backlog::backlog(&self.readers, handlers).await
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
