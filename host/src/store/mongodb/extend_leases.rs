//! Renews leases: as many as possible in one command (R3).
//!
//! A document that somebody's open transaction holds keeps its own lease from being renewed, and no other (L4).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::options::FindOptions;
use uuid::Uuid;

use super::calls::{Call, Trouble};
use super::documents::{DELIVERIES, delay_ms, id, ids};
use super::fields::{optional_uuid, text, uuid};
use crate::lease::{Lease, Renewal};
use crate::store::ExtendLeases;

/// With less time than this, the leases that are left are not reached.
const LAST_ROUND: Duration = Duration::from_millis(50);
/// How long one update may take before a document is taken for held: far longer than it takes if none is.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn extend(call: Call, request: ExtendLeases) -> Result<Vec<Renewal>, Trouble> {
    let mut renewing = Renewing { waiting: request.leases.iter().map(by_id).collect(), answers: HashMap::new() };
    let lease_ms = delay_ms(request.lease_duration).max(1);
    while !renewing.waiting.is_empty() && call.time_left() > LAST_ROUND {
        renewing.round(&call, lease_ms).await?;
    }
    // Whatever has no answer was not reached.
    Ok(request.leases.iter().map(|lease| renewing.answers.get(&by_id(lease)).copied().unwrap_or(Renewal::Unknown)).collect())
}

/// A lease, in the order in which the server goes through them.
type ById = (Uuid, Uuid);

fn by_id(lease: &Lease) -> ById {
    (lease.token.0, lease.delivery.0)
}

struct Renewing {
    /// By token, then by delivery.
    waiting: BTreeSet<ById>,
    answers: HashMap<ById, Renewal>,
}

impl Renewing {
    /// Each round answers at least one lease.
    async fn round(&mut self, call: &Call, lease_ms: i64) -> Result<(), Trouble> {
        let round = Uuid::new_v4();
        let patience = PATIENCE.min(call.time_left() / 4);
        let is_out_of_time = match call.update_within(DELIVERIES, self.statements(round, lease_ms), patience).await {
            Ok(written) if written.n == self.waiting.len() as u64 => {
                self.answers.extend(std::mem::take(&mut self.waiting).into_iter().map(|lease| (lease, Renewal::Renewed)));
                return Ok(());
            }
            Ok(_) => false,
            Err(trouble) if trouble.is_out_of_time() => true,
            Err(trouble) => return Err(trouble),
        };
        let standings = self.look(call).await?;
        let mut is_behind_held = false;
        for lease in std::mem::take(&mut self.waiting) {
            let answer = match standings.get(&lease.1) {
                Some(standing) if standing.renewed_in == Some(round) => Renewal::Renewed,
                Some(standing) if standing.held_under == Some(lease.0) => {
                    // The server stops at the first document that it cannot write.
                    if is_out_of_time && std::mem::replace(&mut is_behind_held, true) {
                        self.waiting.insert(lease);
                        continue;
                    }
                    Renewal::Unknown
                }
                Some(_) | None => Renewal::Lost,
            };
            self.answers.insert(lease, answer);
        }
        Ok(())
    }

    /// One for each token. Index: the primary key, also for the order.
    fn statements(&self, round: Uuid, lease_ms: i64) -> Vec<Document> {
        let mut deliveries: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        for (token, delivery) in &self.waiting {
            deliveries.entry(*token).or_default().push(*delivery);
        }
        let statement = |(token, deliveries)| {
            doc! {
                "q": { "_id": { "$in": ids(deliveries) }, "leaseToken": id(token), "status": "processing" },
                "u": [{ "$set": { "dueAt": { "$add": ["$$NOW", lease_ms] }, "renewedIn": id(round) } }],
                "multi": true,
                "hint": { "_id": 1 },
            }
        };
        deliveries.into_iter().map(statement).collect()
    }

    async fn look(&self, call: &Call) -> Result<HashMap<Uuid, Standing>, Trouble> {
        let projection = doc! { "leaseToken": 1, "status": 1, "renewedIn": 1 };
        let filter = doc! { "_id": { "$in": ids(self.waiting.iter().map(|(_, delivery)| *delivery)) } };
        let deliveries = call.find(DELIVERIES, filter, FindOptions::builder().projection(projection).build()).await?;
        Ok(deliveries.iter().filter_map(|delivery| Some((uuid(delivery, "_id").ok()?, Standing::of(delivery)))).collect())
    }
}

/// Where a delivery stands after a round.
struct Standing {
    /// The token that holds it, if one does.
    held_under: Option<Uuid>,
    renewed_in: Option<Uuid>,
}

impl Standing {
    fn of(delivery: &Document) -> Self {
        let is_held = text(delivery, "status").is_ok_and(|status| status == "processing");
        let field = |name| optional_uuid(delivery, name).ok().flatten();
        Self { held_under: field("leaseToken").filter(|_| is_held), renewed_in: field("renewedIn") }
    }
}
