//! Cleaning up where there are no transactions, and by which indexes.

use std::future::Future;
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};
use futures::TryStreamExt;
use mongodb::options::ReplaceOptions;
use mongodb::{ClientSession, Database as Raw};
use relaybus_host::delivery::{DeliveryId, Status};
use relaybus_host::store::{Backend, List, OpenStore, Pruned, RemoveHandler, Retention, StoreOptions, Unfinished, open};
use relaybus_tests::stores::{Database, is_skipped};
use uuid::Uuid;

/// Keeps nothing that is settled, and everything.
const NOTHING: Retention = Retention { completed: Duration::ZERO, buried: Duration::ZERO };
const ALL: Retention = Retention { completed: A_DAY, buried: A_DAY };
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANDLER: i64 = 7;
/// Far beyond what a busy machine needs: only what never comes fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `test` on a database of its own.
async fn on_a_database<F: Future<Output = ()>>(test: impl FnOnce(OpenStore, Raw) -> F) {
    if is_skipped(Backend::MongoDb) {
        println!("skipped by name: mongodb");
        return;
    }
    let database = Database::create(Backend::MongoDb).await.unwrap();
    let store = open(&database.url, StoreOptions { call_timeout: Duration::from_secs(60), ..StoreOptions::default() }).await.unwrap();
    let client = mongodb::Client::with_uri_str(&database.url).await.unwrap();
    let raw = client.default_database().unwrap();
    handler(&raw, HANDLER, doc! {}).await;
    test(store, raw).await;
    database.remove().await;
}

fn id(uuid: Uuid) -> Bson {
    bson::Uuid::from(uuid).into()
}

fn seconds_ago(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - seconds * 1000)
}

async fn insert(raw: &Raw, collection: &str, document: Document) {
    raw.collection::<Document>(collection).insert_one(document).await.unwrap();
}

async fn n_documents(raw: &Raw, collection: &str) -> u64 {
    raw.collection::<Document>(collection).count_documents(doc! {}).await.unwrap()
}

async fn handler(raw: &Raw, id: i64, more: Document) {
    let mut handler = doc! {
        "_id": id, "tenant": "default", "name": format!("handler-{id}"), "digest": "a".repeat(64), "topics": ["order.*"],
        "maxAttempts": 5, "maxCrashes": 5, "subscribedAt": DateTime::now(),
    };
    handler.extend(more);
    let handlers = raw.collection::<Document>("handlers");
    handlers.replace_one(doc! { "_id": id }, handler).with_options(ReplaceOptions::builder().upsert(true).build()).await.unwrap();
}

fn new_event(more: Document) -> Document {
    let mut event = doc! {
        "_id": id(Uuid::now_v7()), "tenant": "default", "topic": "order.created", "contentType": "text/plain", "payload": "x",
        "publishedAt": seconds_ago(60), "nDeliveries": 1,
    };
    event.extend(more);
    event
}

async fn event(raw: &Raw, more: Document) -> Uuid {
    let event = Uuid::now_v7();
    let mut document = new_event(doc! { "_id": id(event) });
    document.extend(more);
    insert(raw, "events", document).await;
    event
}

fn delivery_of(event: Uuid, more: Document) -> (DeliveryId, Document) {
    let delivery = Uuid::now_v7();
    let mut document = doc! {
        "_id": id(delivery), "eventId": id(event), "handlerId": HANDLER, "tenant": "default", "topic": "order.created",
        "publishedAt": seconds_ago(60), "payloadBytes": 1, "attempts": 1, "crashes": 0, "snoozes": 0, "isolated": false,
    };
    document.extend(more);
    (DeliveryId(delivery), document)
}

async fn delivery(raw: &Raw, event: Uuid, more: Document) -> DeliveryId {
    let (id, document) = delivery_of(event, more);
    insert(raw, "deliveries", document).await;
    id
}

fn settled(status: &str, seconds: i64) -> Document {
    doc! { "status": status, "settledAt": seconds_ago(seconds) }
}

fn pending() -> Document {
    doc! { "status": "pending", "dueAt": seconds_ago(60), "readyAt": seconds_ago(60) }
}

/// Makes `collection` one that can be read and not written, for as long as `meanwhile` lasts.
async fn read_only<T>(raw: &Raw, collection: &str, meanwhile: impl Future<Output = T>) -> T {
    let admin = raw.client().database("admin");
    let [here, elsewhere] = [collection, "elsewhere"].map(|name| format!("{}.{name}", raw.name()));
    admin.run_command(doc! { "renameCollection": &here, "to": &elsewhere }).await.unwrap();
    raw.run_command(doc! { "create": collection, "viewOn": "elsewhere", "pipeline": [] }).await.unwrap();
    let answer = meanwhile.await;
    raw.collection::<Document>(collection).drop().await.unwrap();
    admin.run_command(doc! { "renameCollection": elsewhere, "to": here }).await.unwrap();
    answer
}

#[tokio::test]
async fn o8_a_prune_that_died_before_it_deleted_the_events_is_finished_by_the_next() {
    on_a_database(|store, raw| async move {
        let (gone, kept) = (event(&raw, doc! {}).await, event(&raw, doc! {}).await);
        delivery(&raw, gone, settled("completed", 60)).await;
        delivery(&raw, gone, settled("completed", 60)).await;
        delivery(&raw, kept, settled("completed", 60)).await;
        delivery(&raw, kept, pending()).await;

        read_only(&raw, "events", store.operators.prune(NOTHING)).await.expect_err("the events cannot be deleted");
        assert_eq!([n_documents(&raw, "deliveries").await, n_documents(&raw, "events").await], [1, 2]);
        let pruned = store.operators.prune(ALL).await.unwrap();

        assert_eq!(pruned, Pruned { n_deliveries: 0, n_events: 1 });
        assert_eq!([n_documents(&raw, "deliveries").await, n_documents(&raw, "events").await], [1, 1]);
        assert_eq!(n_documents(&raw, "prunings").await, 0);
    })
    .await;
}

#[tokio::test]
async fn o7_a_prune_that_died_before_it_deleted_the_deliveries_spares_what_was_redriven_meanwhile() {
    on_a_database(|store, raw| async move {
        let mut deliveries = Vec::new();
        for _ in 0..3 {
            deliveries.push(delivery(&raw, event(&raw, doc! {}).await, settled("buried", 60)).await);
        }

        read_only(&raw, "deliveries", store.operators.prune(NOTHING)).await.expect_err("the deliveries cannot be deleted");
        store.operators.change(&deliveries[..2], relaybus_host::store::Change::Redrive).await.unwrap();
        store.operators.change(&deliveries[..1], relaybus_host::store::Change::Bury).await.unwrap();
        let pruned = store.operators.prune(ALL).await.unwrap();

        assert_eq!(pruned, Pruned { n_deliveries: 1, n_events: 1 });
        let mut left: Vec<_> = listed(&store).await.into_iter().map(|(id, status, _)| (id, status)).collect();
        left.sort_by_key(|(id, _)| *id);
        assert_eq!(left, [(deliveries[0], Status::Buried), (deliveries[1], Status::Pending)]);
        assert_eq!([n_documents(&raw, "events").await, n_documents(&raw, "prunings").await], [2, 0]);
    })
    .await;
}

async fn listed(store: &OpenStore) -> Vec<(DeliveryId, Status, Option<String>)> {
    let deliveries = store.operators.list(List { limit: 100, ..List::default() }).await.unwrap();
    deliveries.into_iter().map(|delivery| (delivery.id, delivery.status, delivery.reason)).collect()
}

/// Inserts what `new` makes, marked as still to fan out, and holds it in a transaction, so that the host does not fan it out for as long as
/// the session lives.
async fn held_to_fan_out(raw: &Raw, collection: &str, new: impl Fn() -> Document) -> (ClientSession, Document) {
    loop {
        let mut document = new();
        document.insert("fanoutAt", seconds_ago(60));
        insert(raw, collection, document.clone()).await;
        let mut session = raw.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let marked = doc! { "_id": document.get("_id"), "fanoutAt": { "$exists": true } };
        let hold = raw.collection::<Document>(collection).update_one(marked, doc! { "$set": { "held": true } }).session(&mut session).await;
        // Else the host was quicker.
        if hold.is_ok_and(|hold| hold.matched_count == 1) {
            return (session, document);
        }
    }
}

#[tokio::test]
async fn r22_nothing_is_pruned_that_is_still_to_fan_out() {
    on_a_database(|store, raw| async move {
        handler(&raw, HANDLER, doc! { "topics": [] }).await;
        let (mut first, half_way) = held_to_fan_out(&raw, "events", || new_event(doc! {})).await;
        let (mut second, unheard) = held_to_fan_out(&raw, "events", || new_event(doc! { "nDeliveries": 0 })).await;
        let (mut third, completed) = held_to_fan_out(&raw, "deliveries", || {
            let mut published = settled("completed", 60);
            published.insert("published", [new_event(doc! {})]);
            delivery_of(Uuid::now_v7(), published).1
        })
        .await;
        let id_of = |document: &Document| document.get("_id").cloned().unwrap();
        let mut of_half_way = delivery_of(Uuid::nil(), settled("completed", 60)).1;
        of_half_way.insert("eventId", id_of(&half_way));
        insert(&raw, "deliveries", of_half_way.clone()).await;

        store.operators.prune(NOTHING).await.unwrap();

        for (collection, kept) in [("events", half_way), ("events", unheard), ("deliveries", completed), ("deliveries", of_half_way)] {
            let kept = doc! { "_id": id_of(&kept) };
            assert_eq!(raw.collection::<Document>(collection).count_documents(kept.clone()).await.unwrap(), 1, "{collection} {kept}");
        }
        for session in [&mut first, &mut second, &mut third] {
            session.abort_transaction().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn o8_an_event_that_cannot_be_fanned_out_goes_by_its_age() {
    on_a_database(|store, raw| async move {
        for nonsense in [doc! { "topic": 7 }, doc! { "topic": "a", "payload": "x", "publishedAt": "yesterday" }] {
            let mut event = doc! { "_id": id(Uuid::now_v7()), "fanoutAt": DateTime::now() };
            event.extend(nonsense);
            insert(&raw, "events", event).await;
        }
        let all_set_aside = async {
            let set_aside = doc! { "problem": { "$exists": true } };
            while raw.collection::<Document>("events").count_documents(set_aside.clone()).await.unwrap() < 2 {
                relaybus_tests::pause().await;
            }
        };
        tokio::time::timeout(PATIENCE, all_set_aside).await.expect("both are set aside");

        assert_eq!(store.operators.prune(ALL).await.unwrap().n_events, 0);
        let all_gone = async {
            // Until then it may be the same millisecond.
            while n_documents(&raw, "events").await > 0 {
                store.operators.prune(NOTHING).await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, all_gone).await.expect("both are pruned");
    })
    .await;
}

#[tokio::test]
async fn o10_what_a_removed_handler_still_got_is_buried_by_the_next_prune() {
    on_a_database(|store, raw| async move {
        handler(&raw, 8, doc! { "removedAt": seconds_ago(60), "topics": [] }).await;
        let mut of_removed = pending();
        of_removed.insert("handlerId", 8_i64);
        let late = delivery(&raw, event(&raw, doc! {}).await, of_removed).await;
        let other = delivery(&raw, event(&raw, doc! {}).await, pending()).await;

        store.operators.prune(ALL).await.unwrap();

        let mut listed = listed(&store).await;
        listed.sort_by_key(|(id, ..)| *id);
        assert_eq!(listed, [(late, Status::Buried, Some("operator".to_owned())), (other, Status::Pending, None)]);
    })
    .await;
}

#[tokio::test]
async fn o10_a_removal_that_did_not_come_to_its_end_may_be_repeated() {
    on_a_database(|store, raw| async move {
        let left = delivery(&raw, event(&raw, doc! {}).await, pending()).await;
        let removal = RemoveHandler { tenant: "default".to_owned(), name: format!("handler-{HANDLER}"), unfinished: Unfinished::Bury };

        let failed = read_only(&raw, "deliveries", store.operators.remove_handler(removal.clone())).await;
        failed.expect_err("nothing can be buried");
        store.operators.remove_handler(removal.clone()).await.unwrap();

        assert_eq!(listed(&store).await, [(left, Status::Buried, Some("operator".to_owned()))]);
        store.operators.remove_handler(removal).await.expect_err("it is gone");
    })
    .await;
}

/// What the server did for commands on `collection` since [`watch`], as its profiler tells it.
async fn watched(raw: &Raw, collection: &str) -> Vec<Document> {
    raw.run_command(doc! { "profile": 0 }).await.unwrap();
    let ours = doc! { "ns": format!("{}.{collection}", raw.name()), "appName": "relaybus-host" };
    let profile = raw.collection::<Document>("system.profile");
    let operations: Vec<Document> = profile.find(ours).await.unwrap().try_collect().await.unwrap();
    profile.drop().await.unwrap();
    operations
}

async fn watch(raw: &Raw) {
    raw.run_command(doc! { "profile": 2 }).await.unwrap();
}

fn n(operation: &Document, name: &str) -> i64 {
    operation.get_i32(name).map(i64::from).or_else(|_| operation.get_i64(name)).unwrap_or(0)
}

#[tokio::test]
async fn operators_read_index_ranges_beside_100000_settled_deliveries() {
    on_a_database(|store, raw| async move {
        let deliveries = (0..100_000).map(|n| delivery_of(Uuid::now_v7(), settled("completed", 60 + n % 60)).1);
        raw.collection::<Document>("deliveries").insert_many(deliveries).await.unwrap();
        let old = event(&raw, doc! {}).await;
        delivery(&raw, old, settled("buried", 2 * 24 * 60 * 60)).await;
        delivery(&raw, event(&raw, doc! {}).await, pending()).await;

        watch(&raw).await;
        assert_eq!(store.operators.prune(ALL).await.unwrap(), Pruned { n_deliveries: 1, n_events: 1 });
        let (deliveries, events) = (watched(&raw, "deliveries").await, watched(&raw, "events").await);
        watch(&raw).await;
        let handlers = store.operators.list_handlers().await.unwrap();
        let counting = watched(&raw, "deliveries").await;
        watch(&raw).await;
        let few = List { status: Some(Status::Pending), limit: 100, ..List::default() };
        assert_eq!(store.operators.list(few).await.unwrap().len(), 1);
        let listing = watched(&raw, "deliveries").await;

        assert!(!deliveries.is_empty() && !counting.is_empty() && !listing.is_empty());
        for operation in deliveries.iter().chain(&events).chain(&counting).chain(&listing) {
            let plan = operation.get_str("planSummary").unwrap_or_default();
            assert!(!plan.contains("COLLSCAN"), "{operation}");
            assert!(n(operation, "docsExamined") <= 10, "{operation}");
        }
        for operation in deliveries.iter().chain(&events).chain(&listing) {
            assert!(n(operation, "keysExamined") <= 100, "{operation}");
        }
        let [handler] = handlers.as_slice() else { panic!("expected one handler, got {handlers:?}") };
        assert_eq!([handler.pending, handler.processing, handler.completed, handler.buried], [1, 0, 100_000, 0]);
    })
    .await;
}
