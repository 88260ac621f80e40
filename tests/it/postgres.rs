//! What is PostgreSQL's alone. The contract's clauses are the conformance suite's.
#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

#[path = "postgres/publish.rs"]
mod publish;

use std::future::Future;
use std::time::Duration;

use relaybus_host::delivery::{EventId, HandlerId, NewEvent, WorkerId};
use relaybus_host::lease::LeaseToken;
use relaybus_host::store::{Backend, Claim, ClaimFor, ErrorKind, Isolation, OpenStore, Outcome, StoreError, StoreOptions, Subscribe, open};
use relaybus_tests::stores::Database;
use sqlx::types::Json;
use sqlx::{Connection, PgConnection, Row};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);
/// Far beyond what a busy machine needs: only what never comes fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `test` on a database of its own, which goes with the server if the test fails.
async fn on_a_database<F: Future<Output = ()>>(test: impl FnOnce(String) -> F) {
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
async fn w1_a_publish_wakes_the_workers_of_other_processes() {
    on_a_database(|url| async move {
        let (publisher, worker) = (open_with(&url, 2).await, open_with(&url, 2).await);
        let handler = subscribe(&worker, "mailer").await;

        let found = async {
            loop {
                let claimed = worker.store.claim(claim(handler)).await.unwrap();
                if !claimed.deliveries.is_empty() {
                    return claimed.deliveries.len();
                }
                // Without a wake-up from the other process this lasts beyond all patience.
                worker.store.wait_for_work(PATIENCE * 10).await;
            }
        };
        let (found, published) = tokio::join!(tokio::time::timeout(PATIENCE, found), publisher.store.publish(vec![event()]));

        published.unwrap().remove(0).unwrap();
        assert_eq!(found.expect("the worker is woken"), 1);
        publisher.store.close().await;
        worker.store.close().await;
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
async fn a_schema_that_is_newer_than_the_program_is_misconfigured() {
    on_a_database(|url| async move {
        run(&mut raw(&url).await, "insert into relaybus.migrations (version) values (9999)").await;

        let error = refused(&url).await;

        assert_eq!(error.kind, ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("9999"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_host_without_the_right_to_create_opens_a_schema_that_is_there() {
    on_a_database(|url| async move {
        let role = format!("relaybus_host_{}", Uuid::new_v4().simple());
        let grants = format!(
            "create role {role} login;
             grant usage on schema relaybus to {role};
             grant select, insert, update, delete on all tables in schema relaybus to {role};"
        );
        let mut raw = raw(&url).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(grants)).execute(&mut raw).await.unwrap();

        let store = open_with(&url.replace("//postgres@", &format!("//{role}@")), 2).await;

        subscribe(&store, "mailer").await;
        store.store.close().await;
        let gone = format!("drop owned by {role}; drop role {role}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(gone)).execute(&mut raw).await.unwrap();
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

#[tokio::test]
async fn r5_a_claim_reads_one_index_range_per_handler() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let handler = subscribe(&store, "mailer").await;
        let mut raw = raw(&url).await;
        run(
            &mut raw,
            "insert into relaybus.deliveries (id, event_id, handler_id, tenant, topic, payload_bytes, status, due_at, ready_at)
             select gen_random_uuid(), gen_random_uuid(), 1 + n % 50, 'default', 'order.created', 2, 'pending', now(), now()
             from generate_series(1, 50000) as n",
        )
        .await;
        run(
            &mut raw,
            "insert into relaybus.attempt_records (delivery_id, n, tenant, attempt, worker, started_at, ended_at, reason, message, output)
             select id, 1, 'default', 1, 'worker', now(), now(), 'trap', '', '' from relaybus.deliveries",
        )
        .await;
        run(&mut raw, "analyze relaybus.deliveries; analyze relaybus.attempt_records").await;

        let explain = concat!("explain (costs off) ", include_str!("../../host/src/store/postgres/sql/claim.sql"));
        let lines = sqlx::query(explain)
            .bind(Json(serde_json::json!([{ "handler_id": handler.0, "limit": 500, "lease_us": 30_000_000 }])))
            .bind(Uuid::new_v4())
            .bind("worker")
            .bind(500_i64)
            .bind(1_i64 << 20)
            .bind(true)
            .bind(Vec::<Uuid>::new())
            .fetch_all(&mut raw)
            .await
            .unwrap();
        let plan = lines.iter().map(|line| line.get::<String, _>(0)).collect::<Vec<_>>().join("\n");

        assert!(plan.contains("Index Scan using deliveries_due on deliveries"), "{plan}");
        let range = plan.lines().skip_while(|line| !line.contains("using deliveries_due")).nth(1).unwrap_or_default();
        assert!(
            range.contains("Index Cond") && range.contains("handler_id = ") && range.contains("due_at <= statement_timestamp()"),
            "{plan}"
        );
        for table in ["deliveries", "attempt_records"] {
            assert!(!plan.contains(&format!("Seq Scan on {table}")), "{plan}");
        }
        store.store.close().await;
    })
    .await;
}
