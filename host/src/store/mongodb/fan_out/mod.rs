//! Creates the deliveries of events: at once by whoever published them, later by any host that finds the mark `fanoutAt`.
//!
//! It may be done twice, and by two hosts at a time: a delivery's id is derived from its event and handler, so nothing new comes of it. An
//! event that cannot be fanned out keeps no other from it (R23).

mod subject;

use std::collections::HashMap;

use bson::{Bson, Document, doc};
use mongodb::options::FindOptions;

use self::subject::Subject;
use super::calls::{Call, Trouble, code};
use super::documents::{DELIVERIES, EVENTS, HANDLERS, any_date, id, ids};
use super::fields::{integer, text};
use super::publish::store_of_runs;
use crate::delivery::{DEFAULT_TENANT, DeliveryId};
use crate::store::Backlog;
use crate::topic::TopicPattern;

/// How many events, or deliveries with events, one pass takes.
const PASS: i64 = 1000;

/// A handler that receives the events of some topics.
struct Subscriber {
    id: i64,
    name: String,
    patterns: Vec<TopicPattern>,
}

/// Fans out those of the events `ids` that are marked. Answers how many that were.
pub(super) async fn of_events(call: &Call, ids: Vec<Bson>) -> Result<usize, Trouble> {
    let mut found = marked(call, &ids).await?;
    if found.iter().any(Subject::is_foreign) {
        adopt(call, &found).await?;
        found = marked(call, &ids).await?;
    }
    let (sound, problems): (Vec<_>, Vec<_>) = found.into_iter().map(Subject::check).partition(Result::is_ok);
    set_aside(call, problems.into_iter().filter_map(Result::err).map(|problem| *problem).collect()).await?;
    let sound: Vec<Subject> = sound.into_iter().flatten().collect();
    if sound.is_empty() {
        return Ok(0);
    }
    let subscribers = subscribers(call, &sound).await?;
    let of = |event: &Subject| subscribers.get(&event.tenant).map(Vec::as_slice).unwrap_or_default();
    let matching =
        |event: &Subject| of(event).iter().filter(|it| it.patterns.iter().any(|pattern| event.topic_matches(pattern))).collect::<Vec<_>>();
    let (mut deliveries, mut fanned_out) = (Vec::new(), Vec::new());
    for event in &sound {
        let subscribers = matching(event);
        fanned_out.push(doc! {
            "q": { "_id": id(event.id), "fanoutAt": { "$exists": true } },
            "u": { "$set": { "nDeliveries": i64::try_from(subscribers.len()).unwrap_or(i64::MAX) }, "$unset": { "fanoutAt": true } },
        });
        deliveries.extend(subscribers.into_iter().map(|subscriber| delivery(event, subscriber)));
    }
    if !deliveries.is_empty() {
        let written = call.update(DELIVERIES, deliveries).await?;
        // The same delivery, created by another host at this moment, is as good.
        if let Some(refusal) = written.refused.into_values().find(|refusal| refusal.code != code::DUPLICATE_KEY) {
            return Err(Trouble::Corrupt(refusal.message));
        }
    }
    call.update(EVENTS, fanned_out).await?;
    Ok(sound.len())
}

/// Fans out what the completed runs of the deliveries `deliveries` have published (R16). Answers how many deliveries were marked.
pub(super) async fn of_deliveries(call: &Call, deliveries: &[uuid::Uuid]) -> Result<usize, Trouble> {
    let marked = doc! { "_id": { "$in": ids(deliveries.iter().copied()) }, "fanoutAt": { "$exists": true } };
    let found = call.find(DELIVERIES, marked.clone(), FindOptions::builder().projection(doc! { "published": 1 }).build()).await?;
    let events: Vec<Document> = found
        .iter()
        .filter_map(|delivery| delivery.get_array("published").ok())
        .flatten()
        .filter_map(|event| event.as_document().cloned())
        .collect();
    if !events.is_empty() {
        let ids = events.iter().filter_map(|event| event.get("_id").cloned()).collect();
        store_of_runs(call, events).await?;
        of_events(call, ids).await?;
    }
    if !found.is_empty() {
        let done = doc! { "q": marked, "u": { "$unset": { "published": true, "fanoutAt": true } }, "multi": true };
        call.update(DELIVERIES, vec![done]).await?;
    }
    Ok(found.len())
}

/// Fans out what others have left: publishers and workers that died before they did, and applications that stored an event themselves.
/// Answers whether there was anything.
pub(super) async fn left_by_others(call: &Call) -> Result<bool, Trouble> {
    let marked = doc! { "fanoutAt": { "$exists": true } };
    let look = |collection: &str| {
        vec![doc! { "$match": marked.clone() }, doc! { "$limit": PASS }, doc! { "$project": { "collection": { "$literal": collection } } }]
    };
    let mut pipeline = look(EVENTS);
    pipeline.push(doc! { "$unionWith": { "coll": DELIVERIES, "pipeline": look(DELIVERIES) } });
    let found = call.aggregate(EVENTS, pipeline).await?;
    let (events, deliveries): (Vec<_>, Vec<_>) = found.iter().partition(|it| it.get_str("collection").is_ok_and(|it| it == EVENTS));
    if !deliveries.is_empty() {
        let ids: Vec<_> = deliveries.iter().filter_map(|delivery| super::fields::uuid(delivery, "_id").ok()).collect();
        of_deliveries(call, &ids).await?;
    }
    if !events.is_empty() {
        of_events(call, events.iter().filter_map(|event| event.get("_id").cloned()).collect()).await?;
    }
    Ok(!found.is_empty())
}

/// What is pending and processing, once nothing is left to fan out.
pub(super) async fn backlog(call: Call, handlers: Vec<i64>) -> Result<Backlog, Trouble> {
    left_by_others(&call).await?;
    let unsettled = doc! { "handlerId": { "$in": handlers }, "isolated": { "$in": [false, true] }, "dueAt": any_date() };
    let counts = call
        .aggregate(DELIVERIES, vec![doc! { "$match": unsettled }, doc! { "$group": { "_id": "$status", "n": { "$sum": 1_i64 } } }])
        .await?;
    let n =
        |status| counts.iter().find(|count| count.get_str("_id").is_ok_and(|it| it == status)).map_or(Ok(0), |count| integer(count, "n"));
    let n = |status| n(status).map(i64::unsigned_abs).map_err(Trouble::Corrupt);
    Ok(Backlog { n_pending: n("pending")?, n_processing: n("processing")? })
}

async fn marked(call: &Call, ids: &[Bson]) -> Result<Vec<Subject>, Trouble> {
    let filter = doc! { "_id": { "$in": ids }, "fanoutAt": { "$exists": true } };
    let found = call.aggregate(EVENTS, vec![doc! { "$match": filter }, doc! { "$project": subject::fields() }]).await?;
    Ok(found.into_iter().map(Subject::new).collect())
}

/// Gives the events that applications have stored what only we and the server can: when they were published, and the defaults.
async fn adopt(call: &Call, events: &[Subject]) -> Result<(), Trouble> {
    let foreign: Vec<&Subject> = events.iter().filter(|event| event.is_foreign()).collect();
    let adoption = |event: &&Subject| {
        doc! {
            "q": { "_id": event.raw_id(), "publishedAt": Bson::Null },
            "u": [{ "$set": { "publishedAt": "$$NOW", "tenant": { "$ifNull": ["$tenant", DEFAULT_TENANT] } } }],
        }
    };
    let written = call.update(EVENTS, foreign.iter().map(adoption).collect()).await?;
    let duplicates = written.refused.into_iter().filter_map(|(place, refusal)| {
        let event = foreign.get(place)?;
        let is_duplicate = refusal.code == code::DUPLICATE_KEY;
        let problem =
            if is_duplicate { "dedupId: an event of this tenant and topic with it is there already".to_owned() } else { refusal.message };
        Some((event.raw_id(), problem))
    });
    set_aside(call, duplicates.collect()).await
}

/// Takes the mark off events that cannot be fanned out, and says why on them.
async fn set_aside(call: &Call, events: Vec<(Bson, String)>) -> Result<(), Trouble> {
    if events.is_empty() {
        return Ok(());
    }
    let statements = events.into_iter().map(|(id, problem)| {
        tracing::warn!(event = %id, problem, "an event cannot be fanned out and is set aside");
        doc! { "q": { "_id": id }, "u": { "$set": { "problem": problem }, "$unset": { "fanoutAt": true } } }
    });
    call.update(EVENTS, statements.collect()).await.map(|_| ())
}

async fn subscribers(call: &Call, events: &[Subject]) -> Result<HashMap<String, Vec<Subscriber>>, Trouble> {
    let mut tenants: Vec<&str> = events.iter().map(|event| event.tenant.as_str()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let filter = doc! { "tenant": { "$in": tenants }, "removedAt": Bson::Null };
    let mut subscribers: HashMap<String, Vec<Subscriber>> = HashMap::new();
    for handler in call.find(HANDLERS, filter, FindOptions::default()).await? {
        let (tenant, name) = (text(&handler, "tenant").map_err(Trouble::Corrupt)?, text(&handler, "name").map_err(Trouble::Corrupt)?);
        let id = integer(&handler, "_id").map_err(Trouble::Corrupt)?;
        let mut patterns = Vec::new();
        for pattern in handler.get_array("topics").into_iter().flatten().filter_map(Bson::as_str) {
            match pattern.parse() {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => tracing::warn!(tenant, handler = name, pattern, %error, "a stored topic pattern is passed over"),
            }
        }
        subscribers.entry(tenant).or_default().push(Subscriber { id, name, patterns });
    }
    Ok(subscribers)
}

/// Creates a delivery unless it is there.
fn delivery(event: &Subject, subscriber: &Subscriber) -> Document {
    let delivery = DeliveryId::derive(crate::delivery::EventId(event.id), &event.tenant, &subscriber.name);
    let due_at = event.due_at();
    let mut new = doc! {
        "eventId": id(event.id),
        "handlerId": subscriber.id,
        "tenant": &event.tenant,
        "topic": &event.topic,
        "publishedAt": event.published_at,
        "payloadBytes": event.payload_bytes,
        "status": "pending",
        "attempts": 0_i64,
        "crashes": 0_i64,
        "snoozes": 0_i64,
        "isolated": false,
        "dueAt": due_at,
        "readyAt": due_at,
    };
    if let Some(key) = &event.key {
        new.insert("key", key);
    }
    doc! { "q": { "_id": id(delivery.0) }, "u": { "$setOnInsert": new }, "upsert": true }
}
