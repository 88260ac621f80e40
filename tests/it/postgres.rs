//! What is PostgreSQL's alone. The contract's clauses are the conformance suite's.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "postgres/migrate.rs"]
mod migrate;
#[path = "postgres/plans.rs"]
mod plans;
#[path = "postgres/pooler.rs"]
mod pooler;
#[path = "postgres/publish.rs"]
mod publish;
#[path = "postgres/wake.rs"]
mod wake;

use std::future::Future;
use std::time::Duration;

use relaybus_host::delivery::{EventId, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::LeaseToken;
use relaybus_host::store::{Backend, Claim, ClaimFor, ErrorKind, Isolation, OpenStore, Outcome, StoreError, StoreOptions, Subscribe, open};
use relaybus_tests::stores::{Database, is_skipped};
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
/// Far beyond what a busy machine needs: only what never comes fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `test` on a database of its own, which goes with the server if the test fails.
async fn on_a_database<F: Future<Output = ()>>(test: impl FnOnce(String) -> F) {
    if is_skipped(Backend::Postgres) {
        println!("skipped by name: postgres");
        return;
    }
    let database = Database::create(Backend::Postgres).await.unwrap();
    test(database.url.clone()).await;
    database.remove().await;
}

async fn open_with(url: &str, max_connections: u32) -> OpenStore {
    open(url, StoreOptions { max_connections, ..StoreOptions::default() }).await.unwrap()
}

async fn subscribe(store: &OpenStore, name: &str) -> HandlerId {
    let request = Subscribe {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        digest: "a".repeat(64),
        topics: vec!["order.*".parse().unwrap()],
        max_attempts: 5,
        max_crashes: 5,
    };
    store.store.subscribe(request).await.unwrap().handler
}

fn event() -> NewEvent {
    NewEvent {
        id: EventId(Uuid::now_v7()),
        tenant: "default".to_owned(),
        topic: "order.created".parse().unwrap(),
        key: None,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        payload: b"{}".to_vec().into(),
        delay: Duration::ZERO,
        dedup_id: None,
    }
}

fn claim(handler: HandlerId) -> Claim {
    Claim {
        worker: WorkerId(Uuid::new_v4()),
        token: LeaseToken(Uuid::new_v4()),
        handlers: vec![ClaimFor { handler, limit: 10, lease_duration: LEASE }],
        limit: 10,
        max_payload_bytes: 1 << 20,
        isolation: Isolation::Shared,
        exclude: Vec::new(),
    }
}

async fn raw(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn run(connection: &mut PgConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(connection).await.unwrap();
}

async fn refused(url: &str) -> StoreError {
    let options = StoreOptions { call_timeout: Duration::from_secs(2), ..StoreOptions::default() };
    open(url, options).await.err().expect("the store does not open")
}

#[tokio::test]
async fn r3_wake_ups_and_renewals_leave_the_calls_their_only_connection() {
    on_a_database(|url| async move {
        let store = open_with(&url, 1).await;
        let handler = subscribe(&store, "mailer").await;
        let mut looking = raw(&url).await;
        let listening = async {
            let listeners = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen %'";
            while sqlx::query(listeners).fetch_one(&mut looking).await.unwrap().get::<i64, _>(0) == 0 {
                relaybus_tests::pause().await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.expect("a session listens");

        store.store.publish(vec![event()]).await.unwrap().remove(0).unwrap();
        let claimed = store.store.claim(claim(handler)).await.unwrap();

        assert_eq!(claimed.deliveries.len(), 1);
        store.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn r2_an_error_after_a_claim_has_leased_is_an_unknown_outcome_and_the_claim_is_read_back() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let handler = subscribe(&store, "mailer").await;
        store.store.publish(vec![event()]).await.unwrap().remove(0).unwrap();
        let mut raw = raw(&url).await;
        let request = claim(handler);

        run(&mut raw, "alter table relaybus.events rename to events_elsewhere").await;
        let error = store.store.claim(request.clone()).await.expect_err("the events cannot be read");
        run(&mut raw, "alter table relaybus.events_elsewhere rename to events").await;

        assert_eq!(error.outcome, Outcome::Unknown, "{error}");
        assert_eq!(store.store.recover_claim(request.token).await.unwrap().deliveries.len(), 1);
        store.store.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_named_without_the_password() {
    // Bound and never listening: nobody else can take the port, and it refuses connections.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();

    let error = refused(&format!("postgres://someone:hunter2@{address}/relaybus")).await;

    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}
