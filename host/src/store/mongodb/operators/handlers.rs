//! Lists handlers with what they have. Nothing here changes any.

use std::collections::HashMap;

use bson::{Bson, Document, doc};
use mongodb::options::FindOptions;

use crate::store::mongodb::calls::{Call, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, HANDLERS, any_date};
use crate::store::mongodb::fields::{Problem, count, integer, text};
use crate::store::{HandlerSummary, Result};

pub(super) async fn list(call: Call) -> Result<Vec<HandlerSummary>, Trouble> {
    let options = FindOptions::builder().sort(doc! { "tenant": 1, "name": 1 }).build();
    let handlers = call.find(HANDLERS, doc! { "removedAt": { "$exists": false } }, options).await?;
    let counts = Counts::read(&call, &handlers).await?;
    handlers.iter().map(|handler| summary(handler, &counts)).collect::<Result<_, Problem>>().map_err(Trouble::Corrupt)
}

fn summary(handler: &Document, counts: &Counts) -> Result<HandlerSummary, Problem> {
    let id = integer(handler, "_id")?;
    let n = |counts: &HashMap<i64, u64>| counts.get(&id).copied().unwrap_or(0);
    let mut topics = topics(handler)?;
    topics.sort_unstable();
    Ok(HandlerSummary {
        tenant: text(handler, "tenant")?,
        name: text(handler, "name")?,
        digest: text(handler, "digest")?,
        topics,
        max_attempts: count(handler, "maxAttempts")?,
        max_crashes: count(handler, "maxCrashes")?,
        // Counted one after the other: a delivery may have been claimed in between.
        pending: n(&counts.unfinished).saturating_sub(n(&counts.processing)),
        processing: n(&counts.processing),
        completed: n(&counts.completed),
        buried: n(&counts.buried),
    })
}

fn topics(handler: &Document) -> Result<Vec<String>, Problem> {
    let topics = handler.get_array("topics").map_err(|error| format!("topics: {error}"))?;
    let topics: Option<_> = topics.iter().map(|topic| topic.as_str().map(str::to_owned)).collect();
    topics.ok_or_else(|| "topics: expected texts, got something else among them".to_owned())
}

/// How many deliveries of what kind each handler has. Nothing is read but keys of indexes, and what is processing.
struct Counts {
    unfinished: HashMap<i64, u64>,
    processing: HashMap<i64, u64>,
    completed: HashMap<i64, u64>,
    buried: HashMap<i64, u64>,
}

impl Counts {
    async fn read(call: &Call, handlers: &[Document]) -> Result<Self, Trouble> {
        let handlers: Vec<&Bson> = handlers.iter().filter_map(|handler| handler.get("_id")).collect();
        let settled = |status| doc! { "status": status, "settledAt": any_date() };
        Ok(Self {
            unfinished: by_handler(call, doc! { "handlerId": { "$in": handlers }, "dueAt": any_date() }).await?,
            processing: by_handler(call, doc! { "status": "processing", "leaseToken": { "$gte": Bson::MinKey } }).await?,
            completed: by_handler(call, settled("completed")).await?,
            buried: by_handler(call, settled("buried")).await?,
        })
    }
}

async fn by_handler(call: &Call, conditions: Document) -> Result<HashMap<i64, u64>, Trouble> {
    let groups = vec![doc! { "$match": conditions }, doc! { "$group": { "_id": "$handlerId", "n": { "$sum": 1 } } }];
    let groups = call.aggregate(DELIVERIES, groups).await?;
    // What is of no handler is of none of those that are listed.
    let read = |group: &Document| Some((integer(group, "_id").ok()?, integer(group, "n").ok()?.unsigned_abs()));
    Ok(groups.iter().filter_map(read).collect())
}
