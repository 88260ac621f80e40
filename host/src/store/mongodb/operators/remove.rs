//! Removes handlers.
//!
//! A removed handler keeps its document, so that its deliveries still show a name, and gets its id back when it subscribes again.

use std::collections::HashSet;

use bson::{Bson, Document, doc};
use mongodb::options::{FindOptions, Hint};
use uuid::Uuid;

use super::change;
use crate::store::mongodb::calls::{Call, Calls, Trouble};
use crate::store::mongodb::documents::{DELIVERIES, HANDLERS, any_date};
use crate::store::mongodb::fields::integer;
use crate::store::{Change, ErrorKind, Outcome, RemoveHandler, Result, StoreError, Unfinished};

/// How many deliveries are buried in one call, so that it takes some tens of milliseconds.
const BATCH: usize = 1000;

/// Removes the handler, then buries what it has left. A fan-out that has read its topics before may still create deliveries: they are
/// buried by what prunes ([`bury_forgotten`]), as is what this call leaves if it does not come to its end.
pub(super) async fn remove_handler(calls: &Calls, request: RemoveHandler) -> Result<()> {
    let handler = format!("`{}` of tenant `{}`", request.name, request.tenant);
    let not_found = || StoreError::new("remove_handler", ErrorKind::NotFound, format!("there is no handler {handler}"));
    match calls.run("remove_handler", |call| mark(call, request)).await? {
        Marked::Now(id) => match bury(calls, "remove_handler", vec![id]).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.with_outcome(Outcome::Unknown)),
        },
        // Perhaps by a call that did not come to its end, of which this is the repetition.
        Marked::Before(id) => match bury(calls, "remove_handler", vec![id]).await? {
            0 => Err(not_found()),
            _ => Ok(()),
        },
        Marked::NotFound => Err(not_found()),
        Marked::HasUnfinished => {
            let message = format!("handler {handler} has pending or processing deliveries: wait for them, or have them buried");
            Err(StoreError::new("remove_handler", ErrorKind::Conflict, message))
        }
    }
}

/// Whether a handler is marked as removed, so that it gets no more deliveries and none is claimed for it.
enum Marked {
    Now(i64),
    Before(i64),
    NotFound,
    HasUnfinished,
}

async fn mark(call: Call, request: RemoveHandler) -> Result<Marked, Trouble> {
    let RemoveHandler { tenant, name, unfinished } = request;
    let found = call.find(HANDLERS, doc! { "tenant": tenant, "name": name }, FindOptions::default()).await?;
    let Some(handler) = found.first() else { return Ok(Marked::NotFound) };
    let id = integer(handler, "_id").map_err(Trouble::Corrupt)?;
    if handler.contains_key("removedAt") {
        return Ok(if unfinished == Unfinished::Bury { Marked::Before(id) } else { Marked::NotFound });
    }
    if unfinished == Unfinished::Refuse && !unfinished_of(&call, &[id], 1).await?.is_empty() {
        return Ok(Marked::HasUnfinished);
    }
    let mark = vec![doc! { "$set": { "topics": [], "removedAt": "$$NOW" } }];
    let n_marked = call.update(HANDLERS, vec![doc! { "q": { "_id": id, "removedAt": { "$exists": false } }, "u": mark }]).await?.all()?;
    Ok(if n_marked == 1 { Marked::Now(id) } else { Marked::NotFound })
}

/// Buries what handlers have left that were removed before.
pub(super) async fn bury_forgotten(calls: &Calls) -> Result<()> {
    let removed = calls.run("prune", |call| async move { removed(&call, doc! {}).await }).await?;
    if !removed.is_empty() {
        bury(calls, "prune", removed.into_iter().collect()).await?;
    }
    Ok(())
}

/// Buries all that `handlers` have left, as far as they are removed, with the reason `operator`; answers how many.
async fn bury(calls: &Calls, operation: &'static str, handlers: Vec<i64>) -> Result<u64> {
    let mut n_buried = 0;
    loop {
        let handlers = handlers.clone();
        let (n_found, n_changed) = calls.run(operation, |call| bury_batch(call, handlers)).await?;
        n_buried += n_changed;
        if n_found < BATCH || n_changed == 0 {
            return Ok(n_buried);
        }
    }
}

async fn bury_batch(call: Call, handlers: Vec<i64>) -> Result<(usize, u64), Trouble> {
    let found = unfinished_of(&call, &handlers, BATCH).await?;
    if found.is_empty() {
        return Ok((0, 0));
    }
    // Asked after they were found: what a handler gets once it has subscribed again is not among them.
    let removed = removed(&call, doc! { "_id": { "$in": handlers } }).await?;
    let of_removed = found.iter().filter(|delivery| integer(delivery, "handlerId").is_ok_and(|handler| removed.contains(&handler)));
    let ids: Vec<&Bson> = of_removed.filter_map(|delivery| delivery.get("_id")).collect();
    let statement = change::statement(&doc! { "$in": ids }, Change::Bury, Uuid::new_v4());
    Ok((found.len(), call.update(DELIVERIES, vec![statement]).await?.all()?))
}

/// At most `limit` deliveries of `handlers` that are pending or processing. Index: `due`, nothing else is read.
async fn unfinished_of(call: &Call, handlers: &[i64], limit: usize) -> Result<Vec<Document>, Trouble> {
    let options = FindOptions::builder()
        .projection(doc! { "_id": 1, "handlerId": 1 })
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .hint(Hint::Name("due".to_owned()))
        .build();
    call.find(DELIVERIES, doc! { "handlerId": { "$in": handlers }, "dueAt": any_date() }, options).await
}

/// Those of the handlers that match `conditions` that are removed.
async fn removed(call: &Call, mut conditions: Document) -> Result<HashSet<i64>, Trouble> {
    conditions.insert("removedAt", any_date());
    let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
    let found = call.find(HANDLERS, conditions, options).await?;
    Ok(found.iter().filter_map(|handler| integer(handler, "_id").ok()).collect())
}
