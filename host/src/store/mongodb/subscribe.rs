//! Stores who handles what: one document for each handler, replaced as a whole.

use bson::{Bson, Document, doc};

use super::calls::{Call, Trouble, code};
use super::documents::{COUNTERS, HANDLERS};
use super::fields::{integer, optional_text};
use crate::delivery::HandlerId;
use crate::store::{Subscribe, Subscribed};

/// How often a host that met another one with the same handler tries again. Each time one of them gets further.
const MAX_TRIES: usize = 5;

pub(super) async fn subscribe(call: Call, request: Subscribe) -> Result<Subscribed, Trouble> {
    let mut refusal = String::new();
    for _ in 0..MAX_TRIES {
        if let Some(subscribed) = replace(&call, &request).await? {
            return Ok(subscribed);
        }
        let id = next_id(&call).await?;
        let mut written = call.update(HANDLERS, vec![insertion(id, &request)]).await?;
        match written.refused.remove(&0) {
            None => return Ok(Subscribed { handler: HandlerId(id), previous_digest: None }),
            // Another host was first: its document is replaced.
            Some(duplicate) if duplicate.code == code::DUPLICATE_KEY => refusal = duplicate.message,
            Some(refused) => return Err(Trouble::Corrupt(refused.message)),
        }
    }
    Err(Trouble::Corrupt(refusal))
}

/// `None` if there is no such handler.
async fn replace(call: &Call, request: &Subscribe) -> Result<Option<Subscribed>, Trouble> {
    let query = doc! { "tenant": &request.tenant, "name": &request.name };
    let update = [doc! { "$set": settings(request) }, doc! { "$unset": "removedAt" }];
    let Some(before) = call.find_and_update(HANDLERS, query, &update).await? else { return Ok(None) };
    let handler = HandlerId(integer(&before, "_id").map_err(Trouble::Corrupt)?);
    let digest = optional_text(&before, "digest").map_err(Trouble::Corrupt)?;
    Ok(Some(Subscribed { handler, previous_digest: digest.filter(|_| !before.contains_key("removedAt")) }))
}

fn insertion(id: i64, request: &Subscribe) -> Document {
    let names = doc! { "tenant": literal(&request.tenant), "name": literal(&request.name) };
    doc! { "q": { "_id": id }, "u": [{ "$set": names }, { "$set": settings(request) }], "upsert": true }
}

fn settings(request: &Subscribe) -> Document {
    let topics: Vec<&str> = request.topics.iter().map(crate::topic::TopicPattern::as_str).collect();
    doc! {
        "digest": literal(&request.digest),
        "topics": literal(topics),
        "maxAttempts": i64::from(request.max_attempts),
        "maxCrashes": i64::from(request.max_crashes),
        "subscribedAt": "$$NOW",
    }
}

/// A value that is no expression, whatever it begins with.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

/// Never given twice: a host may still claim for a handler that was removed.
async fn next_id(call: &Call) -> Result<i64, Trouble> {
    let (query, update) = (doc! { "_id": HANDLERS }, [doc! { "$set": { "n": { "$add": [{ "$ifNull": ["$n", 0_i64] }, 1_i64] } } }]);
    // The counter as it was before; another host may insert it at this moment, and then it is there.
    loop {
        if let Some(before) = call.find_and_update(COUNTERS, query.clone(), &update).await? {
            return Ok(integer(&before, "n").map_err(Trouble::Corrupt)? + 1);
        }
        let first = doc! { "q": query.clone(), "u": { "$setOnInsert": { "n": 0_i64 } }, "upsert": true };
        call.update(COUNTERS, vec![first]).await?;
    }
}
