//! Brings the schema up to date: numbered migrations, each once, one host at a time.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

/// All migrations, in order; the version of a schema is how many of them it has.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_tables.sql"), include_str!("migrations/0002_publish.sql")];
/// Held while a host migrates. The number is arbitrary and ours.
const LOCK: i64 = 0x7265_6c61_7962_7573;

pub(super) async fn migrate(connection: &mut PgConnection) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    // Asked first: `if not exists` wants the right to create, which a host that only uses the schema need not have.
    let is_new = sqlx::query("select to_regclass('relaybus.migrations') is null as is_new").fetch_one(&mut *transaction).await?;
    if is_new.try_get("is_new")? {
        sqlx::raw_sql(
            "create schema if not exists relaybus;
             create table relaybus.migrations (version integer primary key, applied_at timestamptz not null default now());",
        )
        .execute(&mut *transaction)
        .await?;
    }
    let row = sqlx::query("select coalesce(max(version), 0) as version from relaybus.migrations").fetch_one(&mut *transaction).await?;
    let version = usize::try_from(row.try_get::<i32, _>("version")?).unwrap_or(0);
    if version > MIGRATIONS.len() {
        let message = format!(
            "the schema `relaybus` has version {version}, and this program knows up to {}: use a newer relaybus-host",
            MIGRATIONS.len()
        );
        return Err(sqlx::Error::Configuration(message.into()));
    }
    for (number, migration) in (1_i32..).zip(MIGRATIONS).skip(version) {
        sqlx::raw_sql(*migration).execute(&mut *transaction).await?;
        sqlx::query("insert into relaybus.migrations (version) values ($1)").bind(number).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
