//! Who handles what.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use crate::store::postgres::rows::{Problem, corrupt, count, field};
use crate::store::{ErrorKind, HandlerSummary, RemoveHandler, Result, StoreError, Unfinished};

pub(super) async fn list(connection: &mut PgConnection) -> sqlx::Result<Vec<HandlerSummary>> {
    let rows = sqlx::query(include_str!("../sql/handlers_list.sql")).fetch_all(connection).await?;
    rows.iter().map(|row| summary(row).map_err(corrupt)).collect()
}

fn summary(row: &PgRow) -> Result<HandlerSummary, Problem> {
    let n = |name| field::<i64>(row, name).map(i64::unsigned_abs);
    Ok(HandlerSummary {
        tenant: field(row, "tenant")?,
        name: field(row, "name")?,
        digest: field(row, "digest")?,
        topics: field(row, "topics")?,
        max_attempts: count(row, "max_attempts")?,
        max_crashes: count(row, "max_crashes")?,
        pending: n("n_pending")?,
        processing: n("n_processing")?,
        completed: n("n_completed")?,
        buried: n("n_buried")?,
    })
}

/// The inner error is an answer of the store, the outer one its failure.
pub(super) async fn remove(connection: &mut PgConnection, request: RemoveHandler) -> sqlx::Result<Result<()>> {
    let RemoveHandler { tenant, name, unfinished } = request;
    let mut transaction = connection.begin().await?;
    let found = sqlx::query(include_str!("../sql/handlers_find.sql")).bind(&tenant).bind(&name).fetch_optional(&mut *transaction).await?;
    let Some(found) = found else {
        let message = format!("there is no handler `{name}` of tenant `{tenant}`");
        return Ok(Err(StoreError::new("remove_handler", ErrorKind::NotFound, message)));
    };
    let n_unfinished: i64 = found.try_get("n_unfinished")?;
    if n_unfinished > 0 && unfinished == Unfinished::Refuse {
        let message =
            format!("handler `{name}` of tenant `{tenant}` has pending or processing deliveries: wait for them, or have them buried");
        return Ok(Err(StoreError::new("remove_handler", ErrorKind::Conflict, message)));
    }
    let id: i64 = found.try_get("id")?;
    sqlx::query(include_str!("../sql/handlers_remove.sql")).bind(id).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Ok(()))
}
