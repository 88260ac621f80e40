//! What the server has to look at for a claim, a renewal and a settlement, however much else there is: as its own profiler saw it.

use std::time::Duration;

use bson::{DateTime, Document, doc};
use futures::TryStreamExt;
use relaybus_host::delivery::{HandlerId, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{
    Attempt, AttemptReport, Backend, Claim, ClaimFor, Claimed, ExtendLeases, Isolation, Settle, Settled, Settlement, Store, StoreOptions,
    Subscribe, open,
};
use relaybus_host::verdict::Reason;
use relaybus_tests::stores::Database;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
const HOUR_MS: i64 = 60 * 60 * 1000;
/// Keys beyond those of what is answered: where ranges begin and end.
const EDGES: i64 = 16;

/// How many deliveries there are of each kind.
fn n_of_each() -> usize {
    if std::env::var_os("RELAYBUS_TEST_FULL").is_some() { 1_000_000 } else { 100_000 }
}

async fn subscribe(store: &dyn Store, name: &str) -> HandlerId {
    let request = Subscribe {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        digest: "a".repeat(64),
        topics: vec!["order.*".parse().unwrap()],
        max_attempts: 100,
        max_crashes: 100,
    };
    store.subscribe(request).await.unwrap().handler
}

/// Stores `n` deliveries of `handler`, of which each has what `state` says of its number.
async fn fill(database: &mongodb::Database, handler: HandlerId, n: usize, state: impl Fn(i64) -> Document) {
    let now = DateTime::now();
    let delivery = |n: usize| {
        let mut delivery = doc! {
            "_id": bson::Uuid::from(Uuid::new_v4()), "eventId": bson::Uuid::from(Uuid::new_v4()), "handlerId": handler.0,
            "tenant": "default", "topic": "order.created", "publishedAt": now, "payloadBytes": 2_i64,
            "attempts": 0_i64, "crashes": 0_i64, "snoozes": 0_i64, "isolated": false,
        };
        delivery.extend(state(i64::try_from(n).unwrap()));
        delivery
    };
    for from in (0..n).step_by(10_000) {
        let deliveries: Vec<Document> = (from..n.min(from + 10_000)).map(delivery).collect();
        database.collection("deliveries").insert_many(deliveries).ordered(false).await.unwrap();
    }
}

fn in_ms(ms: i64) -> DateTime {
    DateTime::now().saturating_add_millis(ms)
}

fn pending(due_at: DateTime) -> Document {
    doc! { "status": "pending", "dueAt": due_at, "readyAt": due_at }
}

fn leased(until: DateTime) -> Document {
    let token = bson::Uuid::from(Uuid::new_v4());
    doc! { "status": "processing", "attempts": 1_i64, "dueAt": until, "readyAt": until, "leaseToken": token, "worker": "w", "claimedAt": until }
}

/// Claims at most 100 deliveries, whose events are not there, so that all of them are malformed.
async fn claim(store: &dyn Store, handlers: &[HandlerId]) -> (LeaseToken, Claimed) {
    let token = LeaseToken::random();
    let claim = Claim {
        worker: WorkerId::random(),
        token,
        handlers: handlers.iter().map(|&handler| ClaimFor { handler, limit: 100, lease_duration: LEASE }).collect(),
        limit: 100,
        max_payload_bytes: u64::MAX,
        isolation: Isolation::Shared,
        exclude: Vec::new(),
    };
    (token, store.claim(claim).await.unwrap())
}

fn settlements(leases: &[Lease]) -> Vec<Settlement> {
    let report = AttemptReport {
        worker: WorkerId::random(),
        ran_for: Duration::from_millis(5),
        reason: Reason::Failed,
        message: "it failed".to_owned(),
        output: String::new(),
    };
    let settlement = |(n, lease): (usize, &Lease)| {
        let (settle, report) = match n % 3 {
            0 => (Settle::Complete { events: Vec::new() }, None),
            1 => (Settle::Reschedule { delay: LEASE, attempt: Attempt::Counts }, Some(report.clone())),
            _ => (Settle::Release { delay: None }, None),
        };
        Settlement { lease: *lease, settle, report }
    };
    leases.iter().enumerate().map(settlement).collect()
}

/// What the server has done since its profiler was turned on, and turns that off.
async fn profiled(database: &mongodb::Database) -> Vec<Document> {
    database.run_command(doc! { "profile": 0 }).await.unwrap();
    let ours = doc! { "ns": { "$regex": r"\.(deliveries|handlers|events)$" } };
    database.collection("system.profile").find(ours).await.unwrap().try_collect().await.unwrap()
}

fn number(entry: &Document, name: &str) -> i64 {
    entry.get(name).map_or(0, |value| value.as_i64().or(value.as_i32().map(i64::from)).unwrap())
}

#[tokio::test]
async fn r5_claims_renewals_and_settlements_look_at_no_more_than_they_concern() {
    let database = Database::create(Backend::MongoDb).await.unwrap();
    let store = open(&database.url, StoreOptions { call_timeout: Duration::from_secs(60), max_connections: 4 }).await.unwrap().store;
    let (served, nearly_idle) = (subscribe(&*store, "served").await, subscribe(&*store, "nearly-idle").await);
    let unserved = subscribe(&*store, "unserved").await;
    let client = mongodb::Client::with_uri_str(&database.url).await.unwrap();
    let raw = client.default_database().unwrap();
    let n = n_of_each();
    fill(&raw, unserved, n, |n| pending(in_ms(n - 20 * HOUR_MS))).await;
    fill(&raw, served, 30, |n| leased(in_ms(n - 10 * HOUR_MS))).await;
    fill(&raw, served, n, |n| pending(in_ms(n - 9 * HOUR_MS))).await;
    for handler in [served, nearly_idle] {
        fill(&raw, handler, n / 2, |n| pending(in_ms(n + HOUR_MS))).await;
        fill(&raw, handler, n / 2, |n| leased(in_ms(n + HOUR_MS))).await;
        fill(&raw, handler, n / 2, |_| doc! { "status": "completed", "settledAt": in_ms(0) }).await;
    }
    fill(&raw, nearly_idle, 3, |n| pending(in_ms(n - HOUR_MS))).await;
    fill(&raw, nearly_idle, 3, |n| {
        [pending(in_ms(n - HOUR_MS)), doc! { "isolated": true, "crashes": 2_i64 }].into_iter().flatten().collect()
    })
    .await;
    raw.run_command(doc! { "profile": 2 }).await.unwrap();

    let (token, full) = claim(&*store, &[served, nearly_idle]).await;
    let (_, short) = claim(&*store, &[nearly_idle]).await;
    let leases: Vec<Lease> = full.malformed.iter().map(|malformed| Lease { delivery: malformed.id, token }).collect();
    let renewals = store.extend_leases(ExtendLeases { leases: leases.clone(), lease_duration: LEASE }).await.unwrap();
    let settled = store.settle(settlements(&leases)).await.unwrap();
    let recovered = store.recover_claim(token).await.unwrap();

    let entries = profiled(&raw).await;
    assert_eq!((full.malformed.len(), short.malformed.len(), short.isolated_due), (100, 3, true));
    assert!(short.next_due_in.is_some_and(|next| next <= LEASE));
    assert!(renewals.iter().all(|renewal| *renewal == Renewal::Renewed));
    assert!(settled.iter().all(|settled| matches!(settled, Ok(Settled::Applied))) && recovered.malformed.is_empty());
    let n_updates = entries.iter().filter(|entry| entry.get_str("op").is_ok_and(|op| op == "update")).count();
    assert!(n_updates > 30 && entries.len() > n_updates + 4, "expected the profiler to have seen everything, got {entries:#?}");
    for entry in &entries {
        let n_concerned = number(entry, "nreturned").max(number(entry, "nMatched"));
        let n_examined = number(entry, "keysExamined").max(number(entry, "docsExamined"));
        let is_sorted_in_memory = entry.get_bool("hasSortStage").unwrap_or(false);
        let is_scan = entry.get_str("planSummary").is_ok_and(|plan| plan.contains("COLLSCAN"));
        assert!(n_examined <= 2 * n_concerned + EDGES && !is_sorted_in_memory && !is_scan, "{entry:#}");
    }
    store.close().await;
    client.shutdown().await;
    database.remove().await;
}
