//! What people need of the store.

mod change;
mod handlers;
mod look;
mod prune;

use async_trait::async_trait;
use futures::FutureExt;

use super::PostgresStore;
use crate::delivery::DeliveryId;
use crate::store::{
    Change, Changed, DeliveryDetails, DeliverySummary, ErrorKind, HandlerSummary, List, Operators, Pruned, RemoveHandler, Result,
    Retention, StoreError,
};

#[async_trait]
impl Operators for PostgresStore {
    async fn list(&self, request: List) -> Result<Vec<DeliverySummary>> {
        self.calls.run("list", move |connection| look::list(connection, request).boxed()).await
    }

    async fn show(&self, id: DeliveryId) -> Result<DeliveryDetails> {
        let found = self.calls.read_at_one_moment("show", move |connection| look::show(connection, id).boxed()).await?;
        found.ok_or_else(|| StoreError::new("show", ErrorKind::NotFound, format!("there is no delivery `{id}`")))
    }

    async fn change(&self, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>> {
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(change::CHUNK) {
            let ids = ids.to_vec();
            answers.extend(self.calls.run("change", move |connection| change::change(connection, ids, change).boxed()).await?);
        }
        if matches!(change, Change::Redrive | Change::Release) && answers.contains(&Changed::Applied) {
            self.wake.arrived();
        }
        Ok(answers)
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned> {
        prune::prune(&self.calls, retention).await
    }

    async fn list_handlers(&self) -> Result<Vec<HandlerSummary>> {
        self.calls.run("list_handlers", |connection| handlers::list(connection).boxed()).await
    }

    async fn remove_handler(&self, request: RemoveHandler) -> Result<()> {
        self.calls.run("remove_handler", move |connection| handlers::remove(connection, request).boxed()).await?
    }
}
