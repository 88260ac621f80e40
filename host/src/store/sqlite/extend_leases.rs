//! Renews leases, all of a round in one statement (R3).
//!
//! SQLite has no row locks, so a renewal that runs knows for sure: `Unknown` is never answered.

use std::collections::HashSet;

use async_trait::async_trait;
use serde::Serialize;
use sqlx::Row;
use sqlx::types::Json;

use super::rows::hex;
use super::transaction::Transaction;
use super::writer::{Urgency, Write};
use crate::delivery::DeliveryId;
use crate::lease::{Lease, Renewal};
use crate::store::ExtendLeases;

#[async_trait]
impl Write for ExtendLeases {
    type Answer = Vec<Renewal>;
    const OPERATION: &'static str = "extend_leases";
    const URGENCY: Urgency = Urgency::Urgent;

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Vec<Renewal>> {
        let held: Vec<_> = self.leases.iter().map(HeldRow::new).collect();
        let rows = sqlx::query(include_str!("sql/extend_leases.sql"))
            .bind(Json(held))
            .bind(transaction.now().after(self.lease_duration))
            .fetch_all(&mut transaction.connection)
            .await?;
        let renewed = rows.iter().map(|row| row.try_get("id").map(DeliveryId)).collect::<sqlx::Result<HashSet<_>>>()?;
        let renewal = |lease: &Lease| if renewed.contains(&lease.delivery) { Renewal::Renewed } else { Renewal::Lost };
        Ok(self.leases.iter().map(renewal).collect())
    }
}

/// For `extend_leases.sql`.
#[derive(Serialize)]
struct HeldRow {
    id: String,
    token: String,
}

impl HeldRow {
    fn new(lease: &Lease) -> Self {
        Self { id: hex(lease.delivery.0), token: hex(lease.token.0) }
    }
}
