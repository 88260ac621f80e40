//! Stores who handles what.

use async_trait::async_trait;
use sqlx::Row;

use super::transaction::Transaction;
use super::writer::Write;
use crate::delivery::HandlerId;
use crate::store::{Subscribe, Subscribed};

#[async_trait]
impl Write for Subscribe {
    type Answer = Subscribed;
    const OPERATION: &'static str = "subscribe";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Subscribed> {
        let now = transaction.now();
        let previous = sqlx::query(include_str!("sql/subscribe_previous.sql"))
            .bind(&self.tenant)
            .bind(&self.name)
            .fetch_optional(&mut transaction.connection)
            .await?;
        let stored = sqlx::query(include_str!("sql/subscribe_handler.sql"))
            .bind(&self.tenant)
            .bind(&self.name)
            .bind(&self.digest)
            .bind(self.max_attempts)
            .bind(self.max_crashes)
            .bind(now)
            .fetch_one(&mut transaction.connection)
            .await?;
        let handler = HandlerId(stored.try_get("id")?);
        sqlx::query(include_str!("sql/subscriptions_delete.sql"))
            .bind(&self.tenant)
            .bind(handler.0)
            .execute(&mut transaction.connection)
            .await?;
        sqlx::query(include_str!("sql/subscriptions_insert.sql"))
            .bind(&self.tenant)
            .bind(handler.0)
            .bind(sqlx::types::Json(&self.topics))
            .execute(&mut transaction.connection)
            .await?;
        transaction.forget_subscriptions();
        let previous_digest = previous.map(|row| row.try_get("digest")).transpose()?;
        Ok(Subscribed { handler, previous_digest })
    }
}
