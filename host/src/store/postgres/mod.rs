//! The store in a PostgreSQL database that many hosts share, in the schema `relaybus`.
//!
//! Each verb is one statement, or one transaction of a few, on a connection of the pool ([`calls`]); renewals have a connection of their own, so
//! that busy ones cannot starve them (R3), and so have wake-ups. The clock is the server's (R4).

mod calls;
mod claim;
mod connect;
mod extend_leases;
mod migrate;
mod operators;
mod publish;
mod retry;
mod rows;
mod settle;
mod subscribe;
mod wake;

use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::Row;
use sqlx::postgres::PgConnection;

use self::calls::Calls;
use self::wake::Wake;
use super::{
    Backend, Backlog, Capabilities, Claim, Claimed, ClockOwner, ExtendLeases, Published, Result, Settled, Settlement, Store, StoreOptions,
    Subscribe, Subscribed,
};
use crate::delivery::{HandlerId, NewEvent};
use crate::lease::{LeaseToken, Renewal};

/// An open database.
pub(super) struct PostgresStore {
    calls: Calls,
    /// One connection, for nothing but renewals.
    renewals: Calls,
    wake: Wake,
}

impl PostgresStore {
    /// Connects to the database that `url` names, and brings its schema up to date.
    ///
    /// # Errors
    /// `Misconfigured` if the URL cannot be read, access is denied or the schema is newer than this program; `Unavailable` if the server cannot
    /// be reached. All name the server and the database, never the password.
    pub(super) async fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        let settings = connect::meet(connect::settings(url, options)?, options).await?;
        let calls = Calls::new(&settings, options, options.max_connections);
        migrate::migrate(&calls).await?;
        let renewals = Calls::new(&settings, options, 1);
        let wake = Wake::start(&settings, options);
        Ok(Self { calls, renewals, wake })
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { backend: Backend::Postgres, clock: ClockOwner::Server, wake_ups: self.wake.reach() }
    }

    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        request.check()?;
        self.calls.run("subscribe", move |connection| subscribe::subscribe(connection, request).boxed()).await
    }

    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        let answers = self.calls.run("publish", move |connection| publish::publish(connection, events).boxed()).await?;
        if answers.iter().flatten().any(|published| published.n_deliveries > 0 && !published.is_duplicate) {
            self.wake.arrived();
        }
        Ok(answers)
    }

    async fn claim(&self, request: Claim) -> Result<Claimed> {
        let (worker, limit, glance) = (request.worker, request.limit, self.wake.signal().glance());
        let claimed = self.calls.run("claim", move |connection| claim::claim(connection, request).boxed()).await?;
        let claimed = claimed.map_err(|error| self.calls.half_done("claim", error))?;
        self.wake.signal().looked(worker, glance);
        self.wake.has_claimed(claimed.deliveries.len() < limit as usize);
        Ok(claimed)
    }

    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        self.calls.run("recover_claim", move |connection| claim::recover(connection, token).boxed()).await
    }

    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        self.renewals.run("extend_leases", move |connection| extend_leases::extend(connection, request).boxed()).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        let makes_work: Vec<bool> = settlements.iter().map(|settlement| settlement.settle.makes_work()).collect();
        let answers = self.calls.run("settle", move |connection| settle::settle(connection, settlements).boxed()).await?;
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
        self.calls.run("backlog", move |connection| backlog(connection, handlers).boxed()).await
    }

    async fn close(&self) {
        self.wake.close().await;
        self.calls.close().await;
        self.renewals.close().await;
    }
}

async fn backlog(connection: &mut PgConnection, handlers: Vec<i64>) -> sqlx::Result<Backlog> {
    let row = sqlx::query(include_str!("sql/backlog.sql")).bind(handlers).fetch_one(connection).await?;
    let count = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
    Ok(Backlog { n_pending: count("n_pending")?, n_processing: count("n_processing")? })
}
