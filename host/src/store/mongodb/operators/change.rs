//! Repairs deliveries by hand.
//!
//! Every change clears the lease token: a run whose delivery was changed settles to `LeaseLost` (O6).

use std::collections::HashMap;

use bson::{Document, doc};
use mongodb::options::FindOptions;
use uuid::Uuid;

use crate::delivery::{DeliveryId, Status};
use crate::store::decide::ISOLATED_FROM_CRASHES;
use crate::store::mongodb::calls::{Call, Calls, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, id, ids, status};
use crate::store::mongodb::fields::{Problem, optional_uuid, uuid};
use crate::store::{Change, Changed, Outcome, Result};

/// How many are changed in one call: some tens of milliseconds.
const CHUNK: usize = 1000;

pub(super) async fn change(calls: &Calls, ids: &[DeliveryId], change: Change) -> Result<Vec<Changed>> {
    let mut answers = Vec::with_capacity(ids.len());
    for ids in ids.chunks(CHUNK) {
        let ids = ids.to_vec();
        match calls.run("change", move |call| change_chunk(call, ids, change)).await {
            Ok(changed) => answers.extend(changed),
            Err(error) if answers.contains(&Changed::Applied) => return Err(error.with_outcome(Outcome::Unknown)),
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

async fn change_chunk(call: Call, named: Vec<DeliveryId>, change: Change) -> Result<Vec<Changed>, Trouble> {
    let batch = Uuid::new_v4();
    let among = doc! { "$in": ids(named.iter().map(|id| id.0)) };
    let statement = statement(&among, change, batch);
    call.update(DELIVERIES, vec![statement]).await?.all()?;
    let options = FindOptions::builder().projection(doc! { "status": 1, "changedIn": 1 }).build();
    let found = call.find(DELIVERIES, doc! { "_id": among }, options).await?;
    let states: Result<HashMap<_, _>, Problem> = found.iter().map(|delivery| state(delivery, batch)).collect();
    Ok(answers(&named, states.map_err(Trouble::Corrupt)?, change))
}

/// Makes `change` to those of the deliveries `among` whose status allows it. Index: the primary key.
pub(super) fn statement(among: &Document, change: Change, batch: Uuid) -> Document {
    let from: Vec<&str> = steps(change).map(|(from, _)| from.as_str()).collect();
    doc! { "q": { "_id": among, "status": { "$in": from } }, "u": pipeline(change, batch), "multi": true }
}

/// The statuses that `change` is allowed in, and those that it leads to.
fn steps(change: Change) -> impl Iterator<Item = (Status, Status)> {
    let statuses = [Status::Pending, Status::Processing, Status::Completed, Status::Buried];
    statuses.into_iter().filter_map(move |status| Some((status, change.status_after(status)?)))
}

/// Nothing in it fails on a field that cannot be read, or one bad document would stop the change of the others.
fn pipeline(change: Change, batch: Uuid) -> Vec<Document> {
    let mut set = doc! { "changedIn": id(batch) };
    let mut unset = vec!["leaseToken", "settleVerb"];
    match change {
        Change::Redrive => {
            let reasons = doc! { "$cond": [{ "$isArray": "$records" }, "$records.reason", []] };
            set.extend(doc! {
                "status": "pending",
                "attempts": 0_i64,
                "crashes": 0_i64,
                "snoozes": 0_i64,
                "isolated": false,
                "dueAt": "$$NOW",
                "readyAt": "$$NOW",
                "reason": { "$ifNull": [{ "$last": reasons }, "$$REMOVE"] },
            });
            unset.push("settledAt");
        }
        Change::Bury => {
            set.extend(doc! { "status": "buried", "isolated": false, "settledAt": "$$NOW", "reason": "operator" });
            unset.push("dueAt");
        }
        Change::Release => {
            let gives_back =
                doc! { "$and": [{ "$eq": ["$status", "processing"] }, { "$gt": ["$attempts", 0] }, { "$isNumber": "$attempts" }] };
            set.extend(doc! {
                "status": "pending",
                "attempts": { "$cond": [gives_back, { "$subtract": ["$attempts", 1] }, "$attempts"] },
                "isolated": { "$gte": ["$crashes", ISOLATED_FROM_CRASHES] },
                "dueAt": "$$NOW",
                "readyAt": "$$NOW",
            });
        }
    }
    vec![doc! { "$set": set }, doc! { "$unset": unset }]
}

/// What a delivery is after a change.
struct State {
    status: Status,
    is_changed: bool,
}

fn state(delivery: &Document, batch: Uuid) -> Result<(DeliveryId, State), Problem> {
    let is_changed = optional_uuid(delivery, "changedIn")? == Some(batch);
    Ok((DeliveryId(uuid(delivery, "_id")?), State { status: status(delivery)?, is_changed }))
}

/// A delivery that is named again is answered by the status that the change led to.
fn answers(named: &[DeliveryId], mut states: HashMap<DeliveryId, State>, change: Change) -> Vec<Changed> {
    let mut answer = |id: &DeliveryId| {
        let Some(state) = states.get_mut(id) else { return Changed::NotFound };
        if !state.is_changed {
            return Changed::NotAllowed(state.status);
        }
        if let Some((_, after)) = steps(change).next() {
            state.is_changed = change.status_after(after).is_some();
            state.status = after;
        }
        Changed::Applied
    };
    named.iter().map(&mut answer).collect()
}
