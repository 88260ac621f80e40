//! Counts what is unfinished.

use futures::FutureExt;
use sqlx::Row;
use sqlx::types::Json;

use super::readers::Readers;
use crate::delivery::HandlerId;
use crate::store::{Backlog, Result};

pub(super) async fn backlog(readers: &Readers, handlers: &[HandlerId]) -> Result<Backlog> {
    let handlers = handlers.to_vec();
    readers
        .read("backlog", move |connection| {
            async move {
                let row = sqlx::query(include_str!("sql/backlog.sql")).bind(Json(handlers)).fetch_one(connection).await?;
                let count = |name| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
                let (n_unfinished, n_processing) = (count("n_unfinished")?, count("n_processing")?);
                Ok(Backlog { n_pending: n_unfinished.saturating_sub(n_processing), n_processing })
            }
            .boxed()
        })
        .await
}
