//! Brings the schema up to date: numbered migrations, each once, one host at a time.

use std::time::Duration;

use futures::FutureExt;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use super::calls::Calls;
use crate::store::Result;

/// All migrations, in order; the version of a schema is how many of them it has.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_tables.sql"), include_str!("migrations/0002_publish.sql")];
/// Held while a host migrates. The number is arbitrary and ours.
const LOCK: i64 = 0x7265_6c61_7962_7573;

/// Creating an index on a large table takes its time, and a host that starts waits for another's migration.
const LONGEST_MIGRATION: Duration = Duration::from_secs(60 * 60);

/// Brings the schema up to date. Where there is nothing to do this waits for nobody and needs no right to create.
pub(super) async fn migrate(calls: &Calls) -> Result<()> {
    let version = calls.run("open", |connection| known_version(connection).boxed()).await?;
    if version == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    calls.run_for("open", LONGEST_MIGRATION, |connection| apply_missing(connection).boxed()).await
}

async fn apply_missing(connection: &mut PgConnection) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *transaction).await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    let version = known_version(&mut transaction).await?;
    if version.is_none() {
        sqlx::raw_sql(
            "create schema if not exists relaybus;
             create table relaybus.migrations (version integer primary key, applied_at timestamptz not null default now());",
        )
        .execute(&mut *transaction)
        .await?;
    }
    for (number, migration) in (1_i32..).zip(MIGRATIONS).skip(version.unwrap_or(0)) {
        sqlx::raw_sql(*migration).execute(&mut *transaction).await?;
        sqlx::query("insert into relaybus.migrations (version) values ($1)").bind(number).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// `None` of a database that has no such schema yet.
async fn known_version(connection: &mut PgConnection) -> sqlx::Result<Option<usize>> {
    let is_new = sqlx::query("select to_regclass('relaybus.migrations') is null as is_new").fetch_one(&mut *connection).await?;
    if is_new.try_get("is_new")? {
        return Ok(None);
    }
    let row = sqlx::query("select coalesce(max(version), 0) as version from relaybus.migrations").fetch_one(connection).await?;
    let version = usize::try_from(row.try_get::<i32, _>("version")?).unwrap_or(0);
    if version > MIGRATIONS.len() {
        let message = format!(
            "the schema `relaybus` has version {version}, and this program knows up to {}: use a newer relaybus-host",
            MIGRATIONS.len()
        );
        return Err(sqlx::Error::Configuration(message.into()));
    }
    Ok(Some(version))
}
