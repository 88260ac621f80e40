//! The record of every change to a delivery, kept by the database itself, so that no host has a say in it.
//!
//! | backend | how |
//! | --- | --- |
//! | SQLite, PostgreSQL | triggers of the test on the deliveries, which write old and new row into a table of the test |
//! | MongoDB | the oplog, read at the end as a change stream from where the test began, with the documents before and after |

use std::str::FromStr;
use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use mongodb::options::{FullDocumentBeforeChangeType, FullDocumentType};
use relaybus_host::store::Backend;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use uuid::Uuid;

use crate::history::{State, Status, Transition};

/// The row lock that a change holds puts the records of one delivery in their order.
const POSTGRES: &str = "
    create schema audit;
    create table audit.changes (
        n bigint generated always as identity, delivery uuid, at timestamptz, session text, before jsonb, after jsonb
    );
    create function audit.record() returns trigger language plpgsql as $$
    begin
        insert into audit.changes (delivery, at, session, before, after) values (
            coalesce(new.id, old.id), statement_timestamp(), pg_backend_pid() || ':' || inet_client_port(), to_jsonb(old), to_jsonb(new)
        );
        return null;
    end $$;
    create trigger record after insert or update or delete on relaybus.deliveries for each row execute function audit.record();
";

const SQLITE: &str = "
    create table audit (n integer primary key, delivery blob, at real, before text, after text);
    create trigger audit_insert after insert on relaybus_deliveries begin
        insert into audit (delivery, at, after) values (new.id, unixepoch('subsec'), {new});
    end;
    create trigger audit_update after update on relaybus_deliveries begin
        insert into audit (delivery, at, before, after) values (new.id, unixepoch('subsec'), {old}, {new});
    end;
    create trigger audit_delete after delete on relaybus_deliveries begin
        insert into audit (delivery, at, before) values (old.id, unixepoch('subsec'), {old});
    end;
";

/// A record that has begun.
pub(crate) enum Audit {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MongoDb { database: mongodb::Database, since: Timestamp },
}

impl Audit {
    /// Begins the record of a database whose schema is there.
    pub(crate) async fn begin(backend: Backend, url: &str) -> Self {
        match backend {
            Backend::Sqlite => {
                let path = url.trim_start_matches("sqlite:");
                let patient = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(30));
                let pool = SqlitePool::connect_with(patient).await.unwrap();
                let row = |name: &str| {
                    let fields = ["status", "settle_verb", "due_at", "attempts", "crashes", "worker"];
                    let fields = fields.map(|field| format!("'{field}', {name}.{field}")).join(", ");
                    format!("json_object({fields}, 'lease_token', hex({name}.lease_token))")
                };
                let script = SQLITE.replace("{old}", &row("old")).replace("{new}", &row("new"));
                sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&pool).await.unwrap();
                Self::Sqlite(pool)
            }
            Backend::Postgres => {
                // Under a name of its own: it is no session of a host.
                let options = PgConnectOptions::from_str(url).unwrap().application_name("audit").options([("timezone", "UTC")]);
                let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
                sqlx::raw_sql(POSTGRES).execute(&pool).await.unwrap();
                Self::Postgres(pool)
            }
            Backend::MongoDb => {
                let client = mongodb::Client::with_uri_str(url).await.unwrap();
                let database = client.default_database().unwrap();
                let keep_documents = doc! { "collMod": "deliveries", "changeStreamPreAndPostImages": { "enabled": true } };
                let kept = database.run_command(keep_documents).await.unwrap();
                let since = kept.get_timestamp("operationTime").unwrap();
                Self::MongoDb { database, since }
            }
        }
    }

    /// Everything that has happened so far; of each delivery in order.
    pub(crate) async fn transitions(&self) -> Vec<Transition> {
        match self {
            Self::Sqlite(pool) => {
                let rows = sqlx::query("select * from audit order by n").fetch_all(pool).await.unwrap();
                rows.iter().map(from_sqlite).collect()
            }
            Self::Postgres(pool) => {
                let rows = sqlx::query("select * from audit.changes order by n").fetch_all(pool).await.unwrap();
                rows.iter().map(from_postgres).collect()
            }
            Self::MongoDb { database, since } => from_oplog(database, *since).await,
        }
    }

    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
            Self::MongoDb { database, .. } => database.client().clone().shutdown().await,
        }
    }
}

fn from_sqlite(row: &sqlx::sqlite::SqliteRow) -> Transition {
    let instant = |value: &Value| DateTime::from_timestamp_micros(value.as_i64()?);
    let state = |name| {
        let text: Option<String> = row.get(name);
        text.map(|text| state(&serde_json::from_str(&text).unwrap(), instant))
    };
    // Seconds with a fraction: exact to the millisecond that the trigger tells.
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970 are few")]
    let at = DateTime::from_timestamp_millis((row.get::<f64, _>("at") * 1000.0).round() as i64).unwrap();
    Transition { delivery: row.get("delivery"), at, by: None, before: state("before"), after: state("after") }
}

fn from_postgres(row: &sqlx::postgres::PgRow) -> Transition {
    let instant = |value: &Value| value.as_str()?.parse().ok();
    let state = |name| row.get::<Option<Value>, _>(name).map(|value| state(&value, instant));
    Transition { delivery: row.get("delivery"), at: row.get("at"), by: row.get("session"), before: state("before"), after: state("after") }
}

fn state(row: &Value, instant: impl Fn(&Value) -> Option<DateTime<Utc>>) -> State {
    let text = |name: &str| row[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    State {
        status: status(row["status"].as_str().unwrap()),
        token: text("lease_token").map(|token| token.parse().unwrap()),
        verb: text("settle_verb"),
        due_at: (!row["due_at"].is_null()).then(|| instant(&row["due_at"]).expect("an instant")),
        attempts: row["attempts"].as_i64().unwrap(),
        crashes: row["crashes"].as_i64().unwrap(),
        worker: text("worker"),
    }
}

fn status(text: &str) -> Status {
    let all = [Status::Pending, Status::Processing, Status::Completed, Status::Buried];
    all.into_iter().find(|status| status.as_str() == text).expect("a status")
}

/// A marker tells that everything before it was read.
async fn from_oplog(database: &mongodb::Database, since: Timestamp) -> Vec<Transition> {
    let marker = Bson::ObjectId(bson::oid::ObjectId::new());
    database.collection::<Document>("audit_markers").insert_one(doc! { "_id": marker.clone() }).await.unwrap();
    let wanted = doc! { "$match": { "ns.coll": { "$in": ["deliveries", "audit_markers"] } } };
    let mut changes = database
        .watch()
        .pipeline([wanted])
        .start_at_operation_time(since)
        .full_document(FullDocumentType::WhenAvailable)
        .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable)
        .await
        .unwrap()
        .with_type::<Document>();
    let mut transitions = Vec::new();
    while let Some(change) = changes.try_next().await.unwrap() {
        let id = change.get_document("documentKey").unwrap().get("_id").unwrap();
        if *id == marker {
            break;
        }
        let Bson::Binary(id) = id else { continue };
        transitions.push(Transition {
            delivery: id.to_uuid().unwrap().into(),
            at: change.get_datetime("wallTime").unwrap().to_chrono(),
            by: None,
            before: change.get_document("fullDocumentBeforeChange").ok().map(document),
            after: change.get_document("fullDocument").ok().map(document),
        });
    }
    transitions
}

fn document(delivery: &Document) -> State {
    let text = |name| delivery.get_str(name).ok().map(str::to_owned);
    let number = |name| match delivery.get(name) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        other => panic!("expected a whole number in `{name}`, got {other:?}"),
    };
    let token = |value: &Bson| {
        let Bson::Binary(binary) = value else { return None };
        binary.to_uuid().ok().map(Uuid::from)
    };
    State {
        status: status(delivery.get_str("status").unwrap()),
        token: delivery.get("leaseToken").and_then(token),
        verb: text("settleVerb"),
        due_at: delivery.get_datetime("dueAt").ok().map(|instant| instant.to_chrono()),
        attempts: number("attempts"),
        crashes: number("crashes"),
        worker: text("worker"),
    }
}
