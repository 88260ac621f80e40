//! How the schema comes up to date.

use std::time::Duration;

use relaybus_host::store::{Backend, ErrorKind, StoreOptions, open};
use relaybus_tests::stores::Database;
use sqlx::{Connection, Row};
use uuid::Uuid;

use super::{PATIENCE, on_a_database, open_with, raw, refused, run, subscribe};

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
async fn hosts_that_start_together_migrate_once() {
    let database = Database::create_empty(Backend::Postgres).await.unwrap();
    let patient = StoreOptions { call_timeout: PATIENCE, max_connections: 2 };
    let opened = futures::future::join_all((0..6).map(|_| open(&database.url, patient.clone()))).await;

    for store in opened {
        store.unwrap().store.close().await;
    }
    let versions = sqlx::query(
        "select array_agg(version order by version) = array(select generate_series(1, count(*)::int)) from relaybus.migrations",
    );
    assert!(versions.fetch_one(&mut raw(&database.url).await).await.unwrap().get::<bool, _>(0));
    database.remove().await;
}

#[tokio::test]
async fn a_host_waits_for_the_migration_of_another_longer_than_any_call_may_take() {
    let database = Database::create_empty(Backend::Postgres).await.unwrap();
    let mut raw = raw(&database.url).await;
    let mut other = raw.begin().await.unwrap();
    // What a host holds that migrates.
    sqlx::raw_sql("select pg_advisory_xact_lock(x'72656c6179627573'::bigint)").execute(&mut *other).await.unwrap();

    let options = StoreOptions { call_timeout: Duration::from_secs(2), max_connections: 2 };
    let (opened, ()) = tokio::join!(open(&database.url, options), async {
        let waited = "select count(*) from pg_stat_activity
            where datname = current_database() and wait_event = 'advisory' and clock_timestamp() - query_start > interval '3 s'";
        let waits = async {
            while sqlx::query(waited).fetch_one(&mut *other).await.unwrap().get::<i64, _>(0) == 0 {
                relaybus_tests::pause().await;
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.expect("the host waits");
        other.rollback().await.unwrap();
    });

    opened.unwrap().store.close().await;
    database.remove().await;
}
