//! What the hot statements read of large tables: index ranges, and hardly a row in vain. With statistics and without, planned for their
//! parameters and for any.

use relaybus_host::store::Backend;
use relaybus_tests::size;
use relaybus_tests::stores::Database;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::{open_with, raw, run, subscribe};

/// How many deliveries a statement is about.
const BATCH: u64 = 100;

/// A statement of the store, with the types of its parameters and values for them.
struct Statement {
    name: &'static str,
    sql: &'static str,
    types: &'static str,
    values: String,
}

#[tokio::test]
async fn r5_the_hot_statements_read_what_they_return_however_they_are_planned() {
    let database = Database::create(Backend::Postgres).await.unwrap();
    let store = open_with(&database.url, 2).await;
    let (served, idle) = (subscribe(&store, "mailer").await.0, subscribe(&store, "idle").await.0);
    let mut raw = raw(&database.url).await;
    let n_rows = if size::is_full() { 1_000_000 } else { 100_000 };
    fill(&mut raw, served, n_rows).await;
    let statements = statements(&mut raw, served, idle).await;

    for statistics in ["no statistics", "statistics"] {
        if statistics == "statistics" {
            run(&mut raw, "analyze relaybus.deliveries; analyze relaybus.events; analyze relaybus.attempt_records").await;
        }
        for plans in ["force_custom_plan", "force_generic_plan"] {
            for statement in &statements {
                let plan = explain(&mut raw, plans, statement).await;
                check(&plan, &format!("{} with {statistics} and {plans}", statement.name));
            }
        }
    }

    store.store.close().await;
    database.remove().await;
}

/// Due, scheduled, leased and settled deliveries of the served handler, `n` each, and in front of them as many due ones of a handler that
/// nobody serves. Leases come in batches that share a token.
async fn fill(connection: &mut PgConnection, served: i64, n: u64) {
    run(
        connection,
        "alter table relaybus.deliveries set (autovacuum_enabled = false);
         alter table relaybus.events set (autovacuum_enabled = false);
         alter table relaybus.attempt_records set (autovacuum_enabled = false)",
    )
    .await;
    let kinds = [
        ("pending", served, "now() - interval '1 hour' + n * interval '1 microsecond'", "null"),
        ("pending", served, "now() + interval '1 day' + n * interval '1 microsecond'", "null"),
        ("processing", served, "now() + interval '1 hour' + n * interval '1 microsecond'", TOKEN),
        ("completed", served, "null", TOKEN),
        ("pending", 1_000_000, "now() - interval '1 day' + n * interval '1 microsecond'", "null"),
    ];
    for (status, handler, due_at, token) in kinds {
        let fill = format!(
            "insert into relaybus.deliveries
                (id, event_id, handler_id, tenant, topic, payload_bytes, status, attempts, due_at, ready_at, lease_token, settled_at)
             select gen_random_uuid(), gen_random_uuid(), {handler}, 'default', 'order.created', 2, '{status}', 1, {due_at}, now(), {token},
                case '{status}' when 'completed' then now() end
             from generate_series(0, {n} - 1) as n"
        );
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut *connection).await.unwrap();
    }
    run(
        connection,
        "insert into relaybus.events (id, tenant, topic, content_type, headers, n_deliveries, published_at, payload)
         select event_id, 'default', 'order.created', 'application/json', '[]', 1, now(), '{}'
         from relaybus.deliveries where status = 'processing';
         insert into relaybus.attempt_records (delivery_id, n, tenant, attempt, worker, started_at, ended_at, reason, message, output)
         select id, 1, 'default', 1, 'worker', now(), now(), 'trap', '', '' from relaybus.deliveries where status = 'processing'",
    )
    .await;
}

/// One for each batch of the series.
const TOKEN: &str = "('00000000-0000-4000-8000-' || lpad(to_hex(n / 100), 12, '0'))::uuid";
/// That of one batch.
const ONE_TOKEN: &str = "00000000-0000-4000-8000-000000000007";

async fn statements(connection: &mut PgConnection, served: i64, idle: i64) -> Vec<Statement> {
    let held = "select array_agg(id)::text as ids, array_agg(lease_token)::text as tokens,
            jsonb_agg(jsonb_build_object('id', id, 'verb', 'complete', 'is_snoozed', false))::text as settlements
        from relaybus.deliveries where lease_token = $1::uuid and status = 'processing'";
    let held = sqlx::query(held).bind(ONE_TOKEN).fetch_one(connection).await.unwrap();
    let (ids, tokens, settlements): (String, String, String) = (held.get("ids"), held.get("tokens"), held.get("settlements"));
    let wanted =
        serde_json::json!([served, idle].map(|id| serde_json::json!({ "handler_id": id, "limit": BATCH, "lease_us": 30_000_000 })));
    let claim = |isolation: bool| Statement {
        name: "claim",
        sql: include_str!("../../../host/src/store/postgres/sql/claim.sql"),
        types: "jsonb, uuid, text, bigint, bigint, boolean, uuid[]",
        values: format!("'{wanted}', gen_random_uuid(), 'worker', {BATCH}, 1000000, {isolation}, '{{}}'"),
    };
    vec![
        claim(true),
        claim(false),
        Statement {
            name: "claim_read",
            sql: include_str!("../../../host/src/store/postgres/sql/claim_read.sql"),
            types: "uuid[], uuid",
            values: format!("'{ids}', '{ONE_TOKEN}'"),
        },
        Statement {
            name: "claim_recover",
            sql: include_str!("../../../host/src/store/postgres/sql/claim_recover.sql"),
            types: "uuid",
            values: format!("'{ONE_TOKEN}'"),
        },
        Statement {
            name: "claim_look",
            sql: include_str!("../../../host/src/store/postgres/sql/claim_look.sql"),
            types: "bigint[], uuid[]",
            values: format!("'{{{served},{idle}}}', '{{}}'"),
        },
        Statement {
            name: "extend_leases",
            sql: include_str!("../../../host/src/store/postgres/sql/extend_leases.sql"),
            types: "uuid[], uuid[], bigint",
            values: format!("'{ids}', '{tokens}', 30000000"),
        },
        Statement {
            name: "settle_look",
            sql: include_str!("../../../host/src/store/postgres/sql/settle_look.sql"),
            types: "uuid[]",
            values: format!("'{ids}'"),
        },
        Statement {
            name: "settle_rows",
            sql: include_str!("../../../host/src/store/postgres/sql/settle_rows.sql"),
            types: "jsonb",
            values: format!("'{settlements}'"),
        },
    ]
}

/// Runs the statement as the host does, prepared, and takes back what it did.
async fn explain(connection: &mut PgConnection, plans: &str, statement: &Statement) -> Value {
    let Statement { sql, types, values, .. } = statement;
    let sql = sql.trim_end().trim_end_matches(';');
    let prepare = format!("begin; set local jit = off; set local plan_cache_mode = {plans}; prepare hot ({types}) as {sql};");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let explain = format!("explain (analyze, buffers, format json) execute hot ({values})");
    let plan: String = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.unwrap().get_unchecked(0);
    run(connection, "deallocate hot; rollback").await;
    serde_json::from_str::<Value>(&plan).unwrap()[0]["Plan"].take()
}

fn check(plan: &Value, what: &str) {
    let mut steps = Vec::new();
    flatten(plan, &mut steps);
    let number = |step: &Value, name: &str| step[name].as_f64().unwrap_or(0.0);
    for step in steps {
        let (kind, table) = (step["Node Type"].as_str().unwrap(), step["Relation Name"].as_str().unwrap_or_default());
        let n_read = (number(step, "Actual Rows") + number(step, "Rows Removed by Filter") + number(step, "Rows Removed by Index Recheck"))
            * number(step, "Actual Loops");
        let is_large = ["deliveries", "events", "attempt_records"].contains(&table);
        assert!(!(is_large && kind == "Seq Scan"), "{what}: expected no scan of all {table}: {step:#}");
        if (is_large && kind != "ModifyTable") || kind == "Sort" || kind == "Bitmap Index Scan" {
            assert!(n_read <= 2.0 * BATCH as f64, "{what}: expected at most {} rows, got {n_read}: {step:#}", 2 * BATCH);
        }
    }
}

fn flatten<'p>(step: &'p Value, into: &mut Vec<&'p Value>) {
    into.push(step);
    for inner in step["Plans"].as_array().into_iter().flatten() {
        flatten(inner, into);
    }
}
