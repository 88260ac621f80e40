//! Where deliveries stand, and what their holders may therefore do.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::types::Json;
use uuid::Uuid;

use crate::delivery::DeliveryId;
use crate::store::Settlement;
use crate::store::sqlite::rows::hex;
use crate::store::sqlite::transaction::Transaction;

/// Where a delivery stands before it is settled.
pub(super) struct Standing {
    is_processing: bool,
    token: Option<Uuid>,
    verb: Option<String>,
    run: Run,
}

/// The run that is settled.
pub(super) struct Run {
    pub(super) tenant: String,
    pub(super) attempt: i64,
}

pub(super) enum Judgement<'a> {
    Apply(&'a Run),
    /// The same holder has said the same before (T3).
    Repeated,
    LeaseLost,
}

impl Judgement<'_> {
    pub(super) fn to_apply(&self) -> Option<&Run> {
        match self {
            Self::Apply(run) => Some(run),
            Self::Repeated | Self::LeaseLost => None,
        }
    }
}

pub(super) async fn look(transaction: &mut Transaction, settlements: &[&Settlement]) -> sqlx::Result<HashMap<DeliveryId, Standing>> {
    let ids: Vec<_> = settlements.iter().map(|settlement| hex(settlement.lease.delivery.0)).collect();
    let rows = sqlx::query(include_str!("../sql/settle_look.sql")).bind(Json(ids)).fetch_all(&mut transaction.connection).await?;
    let mut standings = HashMap::with_capacity(rows.len());
    for row in rows {
        let run = Run { tenant: row.try_get("tenant")?, attempt: row.try_get("attempts")? };
        let standing = Standing {
            is_processing: row.try_get("is_processing")?,
            token: row.try_get("lease_token")?,
            verb: row.try_get("settle_verb")?,
            run,
        };
        standings.insert(DeliveryId(row.try_get("id")?), standing);
    }
    Ok(standings)
}

/// T1 to T3.
pub(super) fn judge<'a>(standings: &'a HashMap<DeliveryId, Standing>, settlement: &Settlement) -> Judgement<'a> {
    match standings.get(&settlement.lease.delivery) {
        Some(standing) if standing.token == Some(settlement.lease.token.0) => {
            if standing.is_processing {
                Judgement::Apply(&standing.run)
            } else if standing.verb.as_deref() == Some(settlement.settle.verb()) {
                Judgement::Repeated
            } else {
                Judgement::LeaseLost
            }
        }
        Some(_) | None => Judgement::LeaseLost,
    }
}
