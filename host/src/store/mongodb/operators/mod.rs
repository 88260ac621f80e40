use super::MongoStore;
use crate::delivery::DeliveryId;
use crate::store::{
    Change, Changed, DeliveryDetails, DeliverySummary, HandlerSummary, List, Operators, Pruned, RemoveHandler, Result, Retention,
};
use async_trait::async_trait;
#[async_trait]
impl Operators for MongoStore {
    async fn list(&self, _request: List) -> Result<Vec<DeliverySummary>> {
        todo!()
    }
    async fn show(&self, _id: DeliveryId) -> Result<DeliveryDetails> {
        todo!()
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
