//! A store that does what it is asked, and loses the first replies of one verb.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use relaybus_host::delivery::{HandlerId, NewEvent};
use relaybus_host::lease::{LeaseToken, Renewal};
use relaybus_host::store::{
    Backlog, Capabilities, Claim, Claimed, ErrorKind, ExtendLeases, Outcome, Published, Result, Settled, Settlement, Store, StoreError,
    Subscribe, Subscribed,
};

/// Whose replies are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Claim,
    /// Of the first claim; and reading it back fails until `n` replies are lost.
    ClaimAndReadBack,
    Settle,
}

/// See the module.
pub struct Lossy {
    inner: Arc<dyn Store>,
    verb: Verb,
    n_left: AtomicU32,
}

impl Lossy {
    /// Loses the first `n` replies of `verb`.
    pub fn over(inner: Arc<dyn Store>, verb: Verb, n: u32) -> Arc<dyn Store> {
        Arc::new(Self { inner, verb, n_left: AtomicU32::new(n) })
    }

    fn lose<T>(&self, verb: Verb, reply: T) -> Result<T> {
        let is_lost = verb == self.verb && self.n_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if is_lost {
            return Err(StoreError::new("lossy", ErrorKind::Unavailable, "the reply was lost").with_outcome(Outcome::Unknown));
        }
        Ok(reply)
    }
}

#[async_trait]
impl Store for Lossy {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn subscribe(&self, request: Subscribe) -> Result<Subscribed> {
        self.inner.subscribe(request).await
    }
    async fn publish(&self, events: Vec<NewEvent>) -> Result<Vec<Result<Published>>> {
        self.inner.publish(events).await
    }
    async fn claim(&self, request: Claim) -> Result<Claimed> {
        let reply = self.inner.claim(request).await?;
        let verb = if self.verb == Verb::ClaimAndReadBack { Verb::ClaimAndReadBack } else { Verb::Claim };
        if reply.deliveries.is_empty() { Ok(reply) } else { self.lose(verb, reply) }
    }
    async fn recover_claim(&self, token: LeaseToken) -> Result<Claimed> {
        if self.verb == Verb::ClaimAndReadBack {
            // The connection is still down: nothing was asked, so nothing was applied.
            self.lose(Verb::ClaimAndReadBack, ()).map_err(|error| error.with_outcome(Outcome::NotApplied))?;
        }
        self.inner.recover_claim(token).await
    }
    async fn extend_leases(&self, request: ExtendLeases) -> Result<Vec<Renewal>> {
        self.inner.extend_leases(request).await
    }
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<Settled>>> {
        let reply = self.inner.settle(settlements).await?;
        self.lose(Verb::Settle, reply)
    }
    async fn wait_for_work(&self, timeout: Duration) {
        self.inner.wait_for_work(timeout).await;
    }
    async fn backlog(&self, handlers: &[HandlerId]) -> Result<Backlog> {
        self.inner.backlog(handlers).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}
