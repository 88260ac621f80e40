//! Renews leases, all in one statement (R3).

use sqlx::Row;
use sqlx::postgres::PgConnection;
use uuid::Uuid;

use super::publish::micros;
use crate::lease::Renewal;
use crate::store::ExtendLeases;

pub(super) async fn extend(connection: &mut PgConnection, request: ExtendLeases) -> sqlx::Result<Vec<Renewal>> {
    let (ids, tokens): (Vec<Uuid>, Vec<Uuid>) = request.leases.iter().map(|lease| (lease.delivery.0, lease.token.0)).unzip();
    let rows = sqlx::query(include_str!("sql/extend_leases.sql"))
        .bind(ids)
        .bind(tokens)
        .bind(micros(request.lease_duration))
        .fetch_all(connection)
        .await?;
    let renewal = |row: &sqlx::postgres::PgRow| {
        Ok(match (row.try_get("is_renewed")?, row.try_get("is_ours")?) {
            (true, _) => Renewal::Renewed,
            (false, true) => Renewal::Unknown,
            (false, false) => Renewal::Lost,
        })
    };
    rows.iter().map(renewal).collect()
}
