//! Stores who handles what.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::delivery::HandlerId;
use crate::store::{Subscribe, Subscribed};

pub(super) async fn subscribe(connection: &mut PgConnection, request: Subscribe) -> sqlx::Result<Subscribed> {
    let mut transaction = connection.begin().await?;
    let row = sqlx::query(include_str!("sql/subscribe.sql"))
        .bind(&request.tenant)
        .bind(&request.name)
        .bind(&request.digest)
        .bind(i64::from(request.max_attempts))
        .bind(i64::from(request.max_crashes))
        .fetch_one(&mut *transaction)
        .await?;
    let handler = HandlerId(row.try_get("id")?);
    let patterns: Vec<&str> = request.topics.iter().map(crate::topic::TopicPattern::as_str).collect();
    sqlx::query(include_str!("sql/subscriptions_replace.sql"))
        .bind(&request.tenant)
        .bind(handler.0)
        .bind(patterns)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(Subscribed { handler, previous_digest: row.try_get("previous_digest")? })
}
