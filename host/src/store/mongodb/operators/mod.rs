//! What people need of the store.

mod look;

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

    async fn change(&self, _ids: &[DeliveryId], _change: Change) -> Result<Vec<Changed>> {
        todo!()
    }
    async fn prune(&self, _retention: Retention) -> Result<Pruned> {
        todo!()
    }
    async fn list_handlers(&self) -> Result<Vec<HandlerSummary>> {
        todo!()
    }
    async fn remove_handler(&self, _request: RemoveHandler) -> Result<()> {
        todo!()
    }
}
