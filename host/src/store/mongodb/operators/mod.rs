//! What people need of the store.

mod change;
mod handlers;
mod look;
mod prune;
mod remove;

use async_trait::async_trait;

use super::MongoStore;
use crate::delivery::DeliveryId;
use crate::store::{
    Change, Changed, DeliveryDetails, DeliverySummary, ErrorKind, HandlerSummary, List, Operators, Pruned, RemoveHandler, Result,
    Retention, StoreError,
};

#[async_trait]
impl Operators for MongoStore {
    async fn list(&self, request: List) -> Result<Vec<DeliverySummary>> {
        self.calls.run("list", |call| look::list(call, request)).await
    }

    async fn show(&self, id: DeliveryId) -> Result<DeliveryDetails> {
        let found = self.calls.run("show", |call| look::show(call, id)).await?;
        found.ok_or_else(|| StoreError::new("show", ErrorKind::NotFound, format!("there is no delivery `{id}`")))
    }

    async fn change(&self, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>> {
        let answers = change::change(&self.calls, ids, change).await?;
        if matches!(change, Change::Redrive | Change::Release) && answers.contains(&Changed::Applied) {
            self.wake.arrived();
        }
        Ok(answers)
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned> {
        prune::prune(&self.calls, &self.clock, retention).await
    }

    async fn list_handlers(&self) -> Result<Vec<HandlerSummary>> {
        self.calls.run("list_handlers", handlers::list).await
    }

    async fn remove_handler(&self, request: RemoveHandler) -> Result<()> {
        remove::remove_handler(&self.calls, request).await
    }
}
