//! What people need of the file: look, repair, clean up.
//!
//! Looking takes a connection for reading; everything else goes through the writer, a bounded number of rows at a time.

mod change;
mod handlers;
mod list;
mod prune;
mod show;

use async_trait::async_trait;

use super::SqliteStore;
use crate::delivery::DeliveryId;
use crate::store::{
    Change, Changed, DeliveryDetails, DeliverySummary, HandlerSummary, List, Operators, Pruned, RemoveHandler, Result, Retention,
};

#[async_trait]
impl Operators for SqliteStore {
    async fn list(&self, request: List) -> Result<Vec<DeliverySummary>> {
        list::list(&self.readers, request).await
    }

    async fn show(&self, id: DeliveryId) -> Result<DeliveryDetails> {
        show::show(&self.readers, id).await
    }

    async fn change(&self, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>> {
        change::change(&self.writer, ids, change).await
    }

    async fn prune(&self, retention: Retention) -> Result<Pruned> {
        prune::prune(&self.writer, retention).await
    }

    async fn list_handlers(&self) -> Result<Vec<HandlerSummary>> {
        handlers::list(&self.readers).await
    }

    async fn remove_handler(&self, request: RemoveHandler) -> Result<()> {
        handlers::remove(&self.writer, request).await
    }
}
