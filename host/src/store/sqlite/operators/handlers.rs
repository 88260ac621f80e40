//! Lists and removes handlers.
//!
//! A removed handler keeps its row, so that its deliveries still show a name, and gets its id back when it subscribes again.

use async_trait::async_trait;
use futures::FutureExt;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::store::sqlite::readers::Readers;
use crate::store::sqlite::rows::{Problem, corrupt, count, field};
use crate::store::sqlite::transaction::Transaction;
use crate::store::sqlite::writer::{Write, Writer};
use crate::store::{ErrorKind, HandlerSummary, RemoveHandler, Result, StoreError, Unfinished};

/// How many deliveries are buried in one transaction, so that claims and renewals come between.
const BATCH: u32 = 1000;

pub(super) async fn list(readers: &Readers) -> Result<Vec<HandlerSummary>> {
    readers
        .read("list_handlers", |connection| {
            async move {
                let rows = sqlx::query(include_str!("../sql/handlers_list.sql")).fetch_all(connection).await?;
                rows.iter().map(|row| summary(row).map_err(corrupt)).collect()
            }
            .boxed()
        })
        .await
}

fn summary(row: &SqliteRow) -> Result<HandlerSummary, Problem> {
    let n = |name| field::<i64>(row, name).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(HandlerSummary {
        tenant: field(row, "tenant")?,
        name: field(row, "name")?,
        digest: field(row, "digest")?,
        topics: field::<sqlx::types::Json<Vec<String>>>(row, "topics")?.0,
        max_attempts: count(row, "max_attempts")?,
        max_crashes: count(row, "max_crashes")?,
        pending: n("n_pending")?,
        processing: n("n_processing")?,
        completed: n("n_completed")?,
        buried: n("n_buried")?,
    })
}

/// Removes the handler in steps: each leaves the file in a state that repeating the call goes on from.
pub(super) async fn remove(writer: &Writer, request: RemoveHandler) -> Result<()> {
    let name = format!("`{}` of tenant `{}`", request.name, request.tenant);
    loop {
        match writer.write(RemoveStep(request.clone())).await? {
            Step::Removed => return Ok(()),
            Step::BuriedSome => {}
            Step::NotFound => {
                return Err(StoreError::new("remove_handler", ErrorKind::NotFound, format!("there is no handler {name}")));
            }
            Step::HasUnfinished => {
                let message = format!("handler {name} has pending or processing deliveries: wait for them, or have them buried");
                return Err(StoreError::new("remove_handler", ErrorKind::Conflict, message));
            }
        }
    }
}

struct RemoveStep(RemoveHandler);

/// How far the removal has come.
enum Step {
    Removed,
    BuriedSome,
    NotFound,
    HasUnfinished,
}

#[async_trait]
impl Write for RemoveStep {
    type Answer = Step;
    const OPERATION: &'static str = "remove_handler";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Step> {
        let now = transaction.now();
        let RemoveHandler { tenant, name, unfinished } = &self.0;
        let found = sqlx::query(include_str!("../sql/handlers_find.sql"))
            .bind(tenant)
            .bind(name)
            .fetch_optional(&mut transaction.connection)
            .await?;
        let Some(found) = found else { return Ok(Step::NotFound) };
        let (id, has_unfinished): (i64, bool) = (found.try_get("id")?, found.try_get("has_unfinished")?);
        if has_unfinished && *unfinished == Unfinished::Refuse {
            return Ok(Step::HasUnfinished);
        }
        // First of all no further events, or there might be no end to burying.
        sqlx::query(include_str!("../sql/subscriptions_delete.sql")).bind(tenant).bind(id).execute(&mut transaction.connection).await?;
        transaction.forget_subscriptions();
        if has_unfinished {
            let bury = sqlx::query(include_str!("../sql/handlers_bury_unfinished.sql")).bind(id).bind(now).bind(BATCH);
            bury.execute(&mut transaction.connection).await?;
            return Ok(Step::BuriedSome);
        }
        sqlx::query(include_str!("../sql/handlers_remove.sql")).bind(id).bind(now).execute(&mut transaction.connection).await?;
        Ok(Step::Removed)
    }
}
