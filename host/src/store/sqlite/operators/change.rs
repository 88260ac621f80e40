//! Repairs deliveries by hand.
//!
//! Every change clears the lease token: a run whose delivery was changed settles to `LeaseLost` (O6).

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::Row;
use sqlx::types::Json;

use crate::delivery::DeliveryId;
use crate::store::sqlite::rows::{corrupt, hex, status};
use crate::store::sqlite::transaction::Transaction;
use crate::store::sqlite::writer::{Write, Writer};
use crate::store::{Change, Changed, Result};

/// How many are changed in one transaction, so that claims and renewals come between.
const CHUNK: usize = 1000;

pub(super) async fn change(writer: &Writer, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>> {
    let mut answers = Vec::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        answers.extend(writer.write(ChangeDeliveries { ids: ids.to_vec(), change }).await?);
    }
    Ok(answers)
}

struct ChangeDeliveries {
    ids: Vec<DeliveryId>,
    change: Change,
}

#[async_trait]
impl Write for ChangeDeliveries {
    type Answer = Vec<Changed>;
    const OPERATION: &'static str = "change";

    async fn run(&self, transaction: &mut Transaction) -> sqlx::Result<Vec<Changed>> {
        let now = transaction.now();
        let named: Vec<_> = self.ids.iter().map(|id| hex(id.0)).collect();
        let rows = sqlx::query(include_str!("../sql/change_look.sql")).bind(Json(named)).fetch_all(&mut transaction.connection).await?;
        let mut statuses = HashMap::with_capacity(rows.len());
        for row in &rows {
            statuses.insert(DeliveryId(row.try_get("id")?), status(row).map_err(corrupt)?);
        }
        let mut to_change = Vec::new();
        let mut answer = |id: &DeliveryId| {
            let Some(status) = statuses.get_mut(id) else { return Changed::NotFound };
            match self.change.status_after(*status) {
                Some(changed) => {
                    *status = changed;
                    to_change.push(hex(id.0));
                    Changed::Applied
                }
                None => Changed::NotAllowed(*status),
            }
        };
        let answers = self.ids.iter().map(&mut answer).collect();
        let statement = match self.change {
            Change::Redrive => include_str!("../sql/change_redrive.sql"),
            Change::Bury => include_str!("../sql/change_bury.sql"),
            Change::Release => include_str!("../sql/change_release.sql"),
        };
        sqlx::query(statement).bind(Json(to_change)).bind(now).execute(&mut transaction.connection).await?;
        Ok(answers)
    }

    fn makes_work(&self, answer: &Self::Answer) -> bool {
        matches!(self.change, Change::Redrive | Change::Release) && answer.contains(&Changed::Applied)
    }
}
