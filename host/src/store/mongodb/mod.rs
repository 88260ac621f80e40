//! The store in a MongoDB database that many hosts share. `documents` says what is in it.
//!
//! There is no transaction here, so that a standalone server serves as well: each promise is kept by one update of one document, whose filter
//! repeats what was read (compare-and-set). Renewals and wake-ups have connections of their own, so that busy calls cannot starve them
//! (R3). The clock is the server's, by `$$NOW` (R4).

mod attempt_records;
mod calls;
mod claim;
mod clock;
mod connect;
mod documents;
mod extend_leases;
mod fan_out;
mod fields;
mod migrate;
mod operators;
mod publish;
mod settle;
mod subscribe;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::calls::Calls;
use self::claim::Claims;
use self::clock::ServerClock;
use self::connect::Connections;
use self::wake::Wake;
use super::{
    Backend, Backlog, Capabilities, Claim, Claimed, ClockOwner, ExtendLeases, Published, Result, Settled, Settlement, Store, StoreOptions,
    Subscribe, Subscribed, WakeUps,
};
use crate::delivery::{HandlerId, NewEvent};
use crate::lease::{LeaseToken, Renewal};

/// An open database.
pub(super) struct MongoStore {
    calls: Calls,
    /// On connections that nothing else uses.
    renewals: Calls,
    claims: Arc<Claims>,
    clock: Arc<ServerClock>,
    wake: Wake,
    is_replica_set: bool,
}

impl MongoStore {
    /// Connects to the database that `url` names, and brings its collections and indexes up to date.
    ///
    /// # Errors
    /// `Misconfigured` if the URL cannot be read, access is denied, the server is older than 6.0 or the schema is newer than this program;
    /// `Unavailable` if the server cannot be reached. All name the server and the database, never the password.
    pub(super) async fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        let Connections { calls, apart, server } = connect::connect(url, options).await?;
        let calls = Calls::new(calls, options.call_timeout, server.clone());
        let renewals = Calls::new(apart, options.call_timeout, server);
        let hello = calls.run("open", |call| async move { connect::hello(call.database(), call.time_left()).await }).await?;
        calls.run("open", |call| migrate::migrate(call, hello.is_replica_set)).await?;
        let clock = Arc::new(ServerClock::new(hello));
        let wake = Wake::start(renewals.clone(), Arc::clone(&clock), hello.is_replica_set);
        let claims = Arc::new(Claims::new(Arc::clone(&clock)));
        Ok(Self { calls, renewals, claims, clock, wake, is_replica_set: hello.is_replica_set })
    }
}

#[async_trait]
impl Store for MongoStore {
    fn capabilities(&self) -> Capabilities {
        // A standalone server has no change streams.
        let wake_ups = if self.is_replica_set { WakeUps::Everywhere } else { WakeUps::Process };
        Capabilities { backend: Backend::MongoDb, clock: ClockOwner::Server, wake_ups }
    }

    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        request.check()?;
        self.calls.run("subscribe", |call| subscribe::subscribe(call, request)).await
    }

    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        let answers = self.calls.run("publish", |call| publish::publish(call, events)).await?;
        if answers.iter().flatten().any(|published| published.n_deliveries > 0 && !published.is_duplicate) {
            self.wake.arrived();
        }
        Ok(answers)
    }

    async fn claim(&self, request: Claim) -> Result<Claimed> {
        let (worker, glance) = (request.worker, self.wake.signal().glance());
        let claims = Arc::clone(&self.claims);
        let claimed = self.calls.run("claim", |call| claims.claim(call, request)).await?;
        self.wake.signal().looked(worker, glance);
        Ok(claimed)
    }

    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        self.calls.run("recover_claim", |call| claim::recover(call, token)).await
    }

    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        self.renewals.run("extend_leases", |call| extend_leases::extend(call, request)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        let makes_work: Vec<bool> = settlements.iter().map(|settlement| settlement.settle.makes_work()).collect();
        let answers = self.calls.run("settle", |call| settle::settle(call, settlements)).await?;
        if answers.iter().zip(makes_work).any(|(answer, makes_work)| makes_work && matches!(answer, Ok(Settled::Applied))) {
            self.wake.arrived();
        }
        Ok(answers)
    }

    async fn wait_for_work(&self, timeout: Duration) {
        self.wake.signal().wait(timeout).await;
    }

    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog> {
        let handlers: Vec<i64> = handlers.iter().map(|handler| handler.0).collect();
        self.calls.run("backlog", |call| fan_out::backlog(call, handlers)).await
    }

    async fn close(&self) {
        self.wake.close().await;
        for calls in [&self.calls, &self.renewals] {
            calls.database().client().clone().shutdown().immediate(true).await;
        }
    }
}
