//! Repairs deliveries by hand.
//!
//! Every change clears the lease token: a run whose delivery was changed settles to `LeaseLost` (O6).

use std::collections::HashMap;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use uuid::Uuid;

use crate::delivery::DeliveryId;
use crate::store::postgres::rows::{corrupt, status};
use crate::store::{Change, Changed};

/// How many are changed in one transaction, so that no lock is held for long.
pub(super) const CHUNK: usize = 1000;

pub(super) async fn change(connection: &mut PgConnection, ids: Vec<DeliveryId>, change: Change) -> sqlx::Result<Vec<Changed>> {
    let mut transaction = connection.begin().await?;
    let named: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let rows = sqlx::query(include_str!("../sql/change_look.sql")).bind(named).fetch_all(&mut *transaction).await?;
    let mut statuses = HashMap::with_capacity(rows.len());
    for row in &rows {
        statuses.insert(DeliveryId(row.try_get("id")?), status(row).map_err(corrupt)?);
    }
    let mut to_change = Vec::new();
    let mut answer = |id: &DeliveryId| {
        let Some(status) = statuses.get_mut(id) else { return Changed::NotFound };
        let Some(changed) = change.status_after(*status) else { return Changed::NotAllowed(*status) };
        *status = changed;
        to_change.push(id.0);
        Changed::Applied
    };
    let answers = ids.iter().map(&mut answer).collect();
    let verb = match change {
        Change::Redrive => "redrive",
        Change::Bury => "bury",
        Change::Release => "release",
    };
    sqlx::query(include_str!("../sql/change_rows.sql")).bind(to_change).bind(verb).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(answers)
}
