//! Events that applications store themselves, and what publishers that died have left.

use std::future::Future;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};
use relaybus_host::delivery::{ClaimedDelivery, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken};
use relaybus_host::store::{
    Backend, Claim, ClaimFor, Isolation, OpenStore, Settle, Settled, Settlement, StoreOptions, Subscribe, WakeUps, open,
};
use relaybus_tests::servers;
use relaybus_tests::stores::{Database, is_skipped};
use uuid::Uuid;

/// Far beyond what a busy machine needs: only what never comes fails.
const PATIENCE: Duration = Duration::from_secs(30);

struct Place {
    store: OpenStore,
    raw: mongodb::Database,
    mailer: HandlerId,
}

async fn on<F: Future<Output = ()>>(database: Database, test: impl FnOnce(Place) -> F) {
    let store = open(&database.url, StoreOptions { call_timeout: PATIENCE, ..StoreOptions::default() }).await.unwrap();
    let raw = mongodb::Client::with_uri_str(&database.url).await.unwrap().default_database().unwrap();
    let request = Subscribe {
        tenant: "default".to_owned(),
        name: "mailer".to_owned(),
        digest: "a".repeat(64),
        topics: vec!["order.*".parse().unwrap()],
        max_attempts: 5,
        max_crashes: 5,
    };
    let mailer = store.store.subscribe(request).await.unwrap().handler;
    test(Place { store, raw, mailer }).await;
    database.remove().await;
}

async fn on_a_replica_set<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
    if is_skipped(Backend::MongoDb) {
        println!("skipped by name: mongodb");
        return;
    }
    on(Database::create(Backend::MongoDb).await.unwrap(), test).await;
}

impl Place {
    fn claim(&self) -> Claim {
        Claim {
            worker: WorkerId::random(),
            token: LeaseToken::random(),
            handlers: vec![ClaimFor { handler: self.mailer, limit: 10, lease_duration: Duration::from_secs(600) }],
            limit: 10,
            max_payload_bytes: 1 << 20,
            isolation: Isolation::Shared,
            exclude: Vec::new(),
        }
    }

    /// Claims until something was handed out.
    async fn delivered(&self) -> ClaimedDelivery {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(delivery) = self.store.store.claim(self.claim()).await.unwrap().deliveries.pop() {
                return delivery;
            }
            assert!(Instant::now() < deadline, "expected a delivery");
            relaybus_tests::pause().await;
        }
    }

    async fn event(&self, id: Uuid) -> Option<Document> {
        self.raw.collection::<Document>("events").find_one(doc! { "_id": bson::Uuid::from(id) }).await.unwrap()
    }

    async fn insert(&self, event: Document) {
        self.raw.collection::<Document>("events").insert_one(event).await.unwrap();
    }
}

/// What an application stores: no more than the documented fields.
fn event(id: Uuid, more: Document) -> Document {
    let mut event = doc! { "_id": bson::Uuid::from(id), "topic": "order.created", "payload": { "id": 7 }, "fanoutAt": DateTime::now() };
    event.extend(more);
    event
}

#[tokio::test]
async fn r22_an_application_stores_its_order_and_the_event_in_one_transaction() {
    on_a_replica_set(|place| async move {
        let mut session = place.raw.client().start_session().await.unwrap();
        let (orders, events) = (place.raw.collection::<Document>("orders"), place.raw.collection::<Document>("events"));
        let (rolled_back, committed) = (Uuid::now_v7(), Uuid::now_v7());
        orders.insert_one(doc! { "_id": 0 }).await.unwrap();
        for (n, (id, commits)) in (1..).zip([(rolled_back, false), (committed, true)]) {
            session.start_transaction().await.unwrap();
            orders.insert_one(doc! { "_id": n }).session(&mut session).await.unwrap();
            let more = doc! { "key": "order-7", "headers": [{ "name": "trace", "value": "t7" }] };
            events.insert_one(event(id, more)).session(&mut session).await.unwrap();
            if commits {
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
            }
        }

        let delivery = place.delivered().await;

        assert_eq!((delivery.event_id.0, delivery.key.as_deref()), (committed, Some("order-7")));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&delivery.payload).unwrap(), serde_json::json!({ "id": 7 }));
        assert_eq!((delivery.content_type.as_str(), delivery.headers[0].value.as_str()), ("application/json", "t7"));
        assert!(place.event(rolled_back).await.is_none());
        assert_eq!(place.store.operators.list_handlers().await.unwrap()[0].processing, 1);
    })
    .await;
}

#[tokio::test]
async fn p2_binary_and_text_payloads_arrive_byte_for_byte() {
    on_a_replica_set(|place| async move {
        let bytes: Vec<u8> = (0..=255).collect();
        let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.clone() };
        for (payload, expected) in [(Bson::Binary(binary), bytes), (Bson::String("ä".to_owned()), "ä".as_bytes().to_vec())] {
            place.insert(event(Uuid::now_v7(), doc! { "payload": payload })).await;
            assert_eq!(place.delivered().await.payload, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn r23_an_event_that_cannot_be_fanned_out_is_set_aside_by_name_and_stops_no_other() {
    on_a_replica_set(|place| async move {
        let bad = [
            (doc! { "topic": "order created" }, "topic: "),
            (doc! { "topic": 7 }, "topic: expected a text"),
            (doc! { "tenant": "a b" }, "tenant: expected"),
            (doc! { "payload": Bson::Null }, "payload: expected binary data"),
            (doc! { "headers": "none" }, "headers: expected an array"),
            (doc! { "delayMs": -1 }, "delayMs: expected a duration"),
            (doc! { "key": "x".repeat(1025) }, "key: expected at most 1024 bytes"),
        ];
        let ids: Vec<Uuid> = bad.iter().map(|_| Uuid::now_v7()).collect();
        for (id, (more, _)) in ids.iter().zip(&bad) {
            place.insert(event(*id, more.clone())).await;
        }
        place.insert(doc! { "_id": "no UUID", "topic": "order.created", "payload": "1", "fanoutAt": DateTime::MAX }).await;
        let good = Uuid::now_v7();
        place.insert(event(good, doc! { "fanoutAt": "whatever" })).await;

        assert_eq!(place.delivered().await.event_id.0, good);
        for (id, (_, expected)) in ids.iter().zip(&bad) {
            let event = place.event(*id).await.unwrap();
            let problem = event.get_str("problem").unwrap_or("none");
            assert!(problem.contains(expected), "expected `{expected}`, got `{problem}`");
            assert!(!event.contains_key("fanoutAt"));
        }
    })
    .await;
}

#[tokio::test]
async fn p4_an_event_of_an_application_with_a_known_dedup_id_is_delivered_once() {
    on_a_replica_set(|place| async move {
        let first = NewEvent { dedup_id: Some("order-7".to_owned()), ..NewEvent::new("order.created".parse().unwrap(), "1") };
        place.store.store.publish(vec![first]).await.unwrap();
        let (again, other) = (Uuid::now_v7(), Uuid::now_v7());
        place.insert(event(again, doc! { "dedupId": "order-7" })).await;
        place.insert(event(other, doc! { "dedupId": "order-8" })).await;

        let mut events = vec![place.delivered().await.event_id.0];
        while !events.contains(&other) {
            events.push(place.delivered().await.event_id.0);
        }

        assert!(!events.contains(&again));
        assert!(place.event(again).await.unwrap().get_str("problem").unwrap().starts_with("dedupId: "));
    })
    .await;
}

#[tokio::test]
async fn r22_what_a_publisher_that_died_has_stored_is_fanned_out_by_another_host() {
    on_a_replica_set(|place| async move {
        let id = Uuid::now_v7();
        let more = doc! { "tenant": "default", "contentType": "text/plain", "publishedAt": DateTime::now() };
        place.insert(event(id, more)).await;
        assert_eq!(place.delivered().await.event_id.0, id);
    })
    .await;
}

#[tokio::test]
async fn r16_what_a_completed_run_has_published_is_fanned_out_by_another_host_if_its_own_dies() {
    on_a_replica_set(|place| async move {
        let first = NewEvent::new("order.created".parse().unwrap(), "1");
        place.store.store.publish(vec![first]).await.unwrap();
        let claim = place.claim();
        let token = claim.token;
        let held = place.store.store.claim(claim).await.unwrap().deliveries.remove(0);
        let settlement =
            Settlement { lease: Lease { delivery: held.id, token }, settle: Settle::Complete { events: Vec::new() }, report: None };
        let settled = place.store.store.settle(vec![settlement]).await.unwrap().remove(0).unwrap();
        assert_eq!(settled, Settled::Applied);
        // As the completing update leaves it, before anything is fanned out.
        let id = Uuid::now_v7();
        let published = doc! { "_id": bson::Uuid::from(id), "tenant": "default", "topic": "order.paid", "payload": "2" };
        let left = doc! { "$set": { "published": [published], "fanoutAt": DateTime::now() } };
        let deliveries = place.raw.collection::<Document>("deliveries");
        deliveries.update_one(doc! { "_id": bson::Uuid::from(held.id.0) }, left).await.unwrap();

        assert_eq!(place.delivered().await.event_id.0, id);
        let deadline = Instant::now() + PATIENCE;
        while deliveries.count_documents(doc! { "fanoutAt": { "$exists": true } }).await.unwrap() > 0 {
            assert!(Instant::now() < deadline, "expected the mark to go");
            relaybus_tests::pause().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_standalone_server_serves_but_hosts_on_it_look_for_themselves() {
    if is_skipped(Backend::MongoDb) {
        return;
    }
    let database = Database::on_mongodb(&servers::standalone_mongodb().await.unwrap());
    let url = database.url.clone();
    on(database, |place| async move {
        assert_eq!(place.store.store.capabilities().wake_ups, WakeUps::Process);
        let other = open(&url, StoreOptions::default()).await.unwrap();
        other.store.publish(vec![NewEvent::new("order.created".parse().unwrap(), "1")]).await.unwrap();
        place.delivered().await;
        let id = Uuid::now_v7();
        place.insert(event(id, doc! {})).await;
        assert_eq!(place.delivered().await.event_id.0, id);
        other.store.close().await;
    })
    .await;
}
