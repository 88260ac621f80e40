//! What cannot be written or read keeps nothing else from being claimed, renewed or settled (R23).

use std::time::Duration;

use bson::{Document, doc};
use relaybus_host::delivery::{DeliveryId, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Backend, Claim, ClaimFor, Claimed, ErrorKind, ExtendLeases, Isolation, OpenStore, Settle, Settled, Settlement, StoreOptions, Subscribe,
    open,
};
use relaybus_tests::stores::Database;

const LEASE: Duration = Duration::from_secs(600);

/// A store, and a way round it.
struct Opened {
    database: Database,
    store: OpenStore,
    raw: mongodb::Database,
}

impl Opened {
    async fn new() -> Self {
        let database = Database::create(Backend::MongoDb).await.unwrap();
        let options = StoreOptions { call_timeout: Duration::from_secs(30), max_connections: 4 };
        let store = open(&database.url, options).await.unwrap();
        let client = mongodb::Client::with_uri_str(&database.url).await.unwrap();
        let raw = client.default_database().unwrap();
        Self { database, store, raw }
    }

    async fn subscribe(&self, name: &str) -> HandlerId {
        let request = Subscribe {
            tenant: "default".to_owned(),
            name: name.to_owned(),
            digest: "a".repeat(64),
            topics: vec![name.parse().unwrap()],
            max_attempts: 100,
            max_crashes: 100,
        };
        self.store.store.subscribe(request).await.unwrap().handler
    }

    async fn publish(&self, topic: &str, n: usize) {
        let events = std::iter::repeat_with(|| NewEvent::new(topic.parse().unwrap(), "{}")).take(n).collect();
        self.store.store.publish(events).await.unwrap().into_iter().for_each(|answer| assert!(answer.is_ok()));
    }

    async fn claim(&self, handlers: &[HandlerId], limit: u32) -> (LeaseToken, Claimed) {
        let token = LeaseToken::random();
        let handlers = handlers.iter().map(|&handler| ClaimFor { handler, limit, lease_duration: LEASE }).collect();
        let (worker, isolation) = (WorkerId::random(), Isolation::Shared);
        let claim = Claim { worker, token, handlers, limit, max_payload_bytes: u64::MAX, isolation, exclude: Vec::new() };
        (token, self.store.store.claim(claim).await.unwrap())
    }

    /// Claims `n` deliveries that were published to `handler`.
    async fn hold(&self, handler: HandlerId, topic: &str, n: usize) -> Vec<Lease> {
        self.publish(topic, n).await;
        let (token, claimed) = self.claim(&[handler], 1000).await;
        assert_eq!(claimed.deliveries.len(), n);
        let mut leases: Vec<Lease> = claimed.deliveries.iter().map(|delivery| Lease { delivery: delivery.id, token }).collect();
        leases.sort_by_key(|lease| lease.delivery);
        leases
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<Settled, ErrorKind>> {
        let settled = self.store.store.settle(settlements).await.unwrap();
        settled.into_iter().map(|settled| settled.map_err(|error| error.kind)).collect()
    }

    /// Changes a document past the store.
    async fn change(&self, collection: &str, filter: Document, change: Document) {
        let changed = self.raw.collection::<Document>(collection).update_one(filter, change).await.unwrap();
        assert_eq!(changed.modified_count, 1);
    }

    /// Holds these deliveries, as an open transaction of an application does.
    async fn lock(&self, deliveries: &[DeliveryId]) -> mongodb::ClientSession {
        let mut session = self.raw.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        for delivery in deliveries {
            let touch = doc! { "$set": { "touched": true } };
            let deliveries = self.raw.collection::<Document>("deliveries");
            deliveries.update_one(named(*delivery), touch).session(&mut session).await.unwrap();
        }
        session
    }

    async fn close(self) {
        self.store.store.close().await;
        self.raw.client().clone().shutdown().immediate(true).await;
        self.database.remove().await;
    }
}

fn named(delivery: DeliveryId) -> Document {
    doc! { "_id": bson::Uuid::from(delivery.0) }
}

fn complete(lease: Lease, events: Vec<NewEvent>) -> Settlement {
    Settlement { lease, settle: Settle::Complete { events }, report: None }
}

fn release(lease: Lease) -> Settlement {
    Settlement { lease, settle: Settle::Release { delay: None }, report: None }
}

#[tokio::test]
async fn t9_deliveries_that_somebody_holds_fail_alone_and_the_others_of_their_batch_are_settled() {
    let opened = Opened::new().await;
    let mailer = opened.subscribe("mailer").await;
    let leases = opened.hold(mailer, "mailer", 9).await;
    let mut lock = opened.lock(&[leases[2].delivery, leases[5].delivery]).await;

    // One statement for the first six, and one for the rest.
    let batch = |leases: &[Lease]| {
        let (completed, released) = leases.split_at(6);
        completed.iter().map(|lease| complete(*lease, Vec::new())).chain(released.iter().map(|lease| release(*lease))).collect()
    };
    let meanwhile = opened.settle(batch(&leases)).await;
    lock.abort_transaction().await.unwrap();
    let afterwards = opened.settle(batch(&leases)).await;

    let mut expected = vec![Ok(Settled::Applied); 9];
    (expected[2], expected[5]) = (Err(ErrorKind::Conflict), Err(ErrorKind::Conflict));
    assert_eq!(meanwhile, expected);
    assert_eq!(afterwards, vec![Ok(Settled::Applied); 9]);
    opened.close().await;
}

#[tokio::test]
async fn l4_of_many_leases_only_those_of_held_deliveries_are_unknown() {
    let opened = Opened::new().await;
    let mailer = opened.subscribe("mailer").await;
    let mut leases = opened.hold(mailer, "mailer", 20).await;
    let mut lock = opened.lock(&[leases[4].delivery, leases[15].delivery]).await;
    leases[7].token = LeaseToken::random();

    let renewals = opened.store.store.extend_leases(ExtendLeases { leases, lease_duration: LEASE }).await.unwrap();

    lock.abort_transaction().await.unwrap();
    let mut expected = vec![Renewal::Renewed; 20];
    (expected[4], expected[7], expected[15]) = (Renewal::Unknown, Renewal::Lost, Renewal::Unknown);
    assert_eq!(renewals, expected);
    opened.close().await;
}

#[tokio::test]
async fn c1_expired_deliveries_that_somebody_holds_keep_no_other_from_being_claimed() {
    let opened = Opened::new().await;
    let mailer = opened.subscribe("mailer").await;
    let leases = opened.hold(mailer, "mailer", 5).await;
    let long_ago = bson::DateTime::now().saturating_add_millis(-60_000);
    for lease in &leases {
        opened.change("deliveries", named(lease.delivery), doc! { "$set": { "dueAt": long_ago } }).await;
    }
    let mut lock = opened.lock(&[leases[1].delivery, leases[3].delivery]).await;

    let mut taken = Vec::new();
    let all_others = async {
        while taken.len() < 3 {
            taken.extend(opened.claim(&[mailer], 2).await.1.deliveries.into_iter().map(|delivery| delivery.id));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_others).await.unwrap();
    lock.abort_transaction().await.unwrap();

    taken.sort();
    assert_eq!(taken, [leases[0].delivery, leases[2].delivery, leases[4].delivery]);
    opened.close().await;
}

#[tokio::test]
async fn t9_events_that_do_not_fit_in_a_document_together_fail_alone() {
    let opened = Opened::new().await;
    let mailer = opened.subscribe("mailer").await;
    let leases = opened.hold(mailer, "mailer", 3).await;
    let large = || NewEvent::new("elsewhere".parse().unwrap(), vec![7; 9 << 20]);

    let settled = opened.settle(vec![
        complete(leases[0], Vec::new()),
        complete(leases[1], vec![large(), large()]),
        complete(leases[2], vec![large()]),
    ]);

    assert_eq!(settled.await, [Ok(Settled::Applied), Err(ErrorKind::Corrupt), Ok(Settled::Applied)]);
    assert_eq!(opened.settle(vec![complete(leases[1], vec![large()])]).await, [Ok(Settled::Applied)]);
    opened.close().await;
}

#[tokio::test]
async fn c13_a_delivery_whose_counts_are_none_is_leased_and_named_and_can_be_released() {
    let opened = Opened::new().await;
    let mailer = opened.subscribe("mailer").await;
    let leases = opened.hold(mailer, "mailer", 3).await;
    let nonsense = doc! { "$set": { "attempts": "many", "crashes": "some", "records": 7 } };
    opened.change("deliveries", named(leases[0].delivery), nonsense).await;
    assert_eq!(opened.settle(leases.iter().map(|lease| release(*lease)).collect()).await, [Ok(Settled::Applied); 3]);

    // It must run alone, as far as its crashes can be compared.
    opened.change("deliveries", named(leases[0].delivery), doc! { "$set": { "isolated": false } }).await;
    let (token, claimed) = opened.claim(&[mailer], 1000).await;

    assert_eq!((claimed.deliveries.len(), claimed.malformed.len()), (2, 1));
    let malformed = &claimed.malformed[0];
    assert!(malformed.id == leases[0].delivery && malformed.problem.contains("attempts"), "{malformed:?}");
    let bury = Settlement { lease: Lease { delivery: malformed.id, token }, settle: Settle::Bury, report: None };
    assert_eq!(opened.settle(vec![bury]).await, [Ok(Settled::Applied)]);
    opened.close().await;
}

#[tokio::test]
async fn c3_a_handler_whose_limits_cannot_be_read_hides_no_other() {
    let opened = Opened::new().await;
    let (broken, mailer) = (opened.subscribe("broken").await, opened.subscribe("mailer").await);
    opened.publish("broken", 50).await;
    opened.publish("mailer", 3).await;
    opened.change("handlers", doc! { "_id": broken.0 }, doc! { "$set": { "maxAttempts": "many" } }).await;

    let (_, claimed) = opened.claim(&[broken, mailer], 3).await;

    assert!(claimed.deliveries.len() == 3 && claimed.deliveries.iter().all(|delivery| delivery.handler == mailer), "{claimed:?}");
    opened.close().await;
}
