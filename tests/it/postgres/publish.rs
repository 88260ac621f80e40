//! The SQL functions by which other programs publish.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use relaybus_host::delivery::{DeliveryId, EventId};
use relaybus_host::store::{List, RemoveHandler, Retention, Unfinished};
use relaybus_host::topic::{Topic, TopicPattern};
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::{PATIENCE, claim, on_a_database, open_with, raw, run, subscribe};

async fn publish(connection: &mut PgConnection, topic: &str, payload: &Value, options: &Value) -> sqlx::Result<Uuid> {
    let call = sqlx::query_scalar("select relaybus.publish($1, $2, $3)").bind(topic).bind(payload).bind(options);
    call.fetch_one(connection).await
}

#[tokio::test]
async fn r22_an_application_publishes_in_its_own_transaction() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let mailer = subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        run(&mut application, "create table orders (id bigint primary key)").await;

        let mut rolled_back = application.begin().await.unwrap();
        run(&mut rolled_back, "insert into orders values (1)").await;
        publish(&mut rolled_back, "order.created", &json!({ "id": 1 }), &json!({})).await.unwrap();
        rolled_back.rollback().await.unwrap();
        let mut committed = application.begin().await.unwrap();
        run(&mut committed, "insert into orders values (2)").await;
        let options = json!({ "key": "order-2", "headers": { "trace": "t2" }, "content_type": "application/vnd.order+json" });
        let event = publish(&mut committed, "order.created", &json!({ "id": 2 }), &options).await.unwrap();
        let before = store.store.claim(claim(mailer)).await.unwrap();
        committed.commit().await.unwrap();
        let after = store.store.claim(claim(mailer)).await.unwrap();

        assert!(before.deliveries.is_empty(), "claimed before the commit: {before:?}");
        let [delivery] = &after.deliveries[..] else { panic!("expected the one that was committed, got {after:?}") };
        assert_eq!((delivery.event_id.0, delivery.key.as_deref()), (event, Some("order-2")));
        assert_eq!(serde_json::from_slice::<Value>(&delivery.payload).unwrap(), json!({ "id": 2 }));
        assert_eq!(delivery.content_type, "application/vnd.order+json");
        assert_eq!((delivery.headers[0].name.as_str(), delivery.headers[0].value.as_str()), ("trace", "t2"));
        assert_eq!(delivery.id, DeliveryId::derive(EventId(event), "default", "mailer"));
        assert_eq!((event.get_version_num(), event.get_variant()), (7, uuid::Variant::RFC4122));
    })
    .await;
}

#[tokio::test]
async fn p2_bytes_arrive_as_they_are() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let mailer = subscribe(&store, "mailer").await;
        let bytes: Vec<u8> = (0..=255).collect();
        let call = sqlx::query("select relaybus.publish_bytes('order.created', $1)").bind(&bytes);
        call.execute(&mut raw(&url).await).await.unwrap();

        let claimed = store.store.claim(claim(mailer)).await.unwrap();

        let delivery = &claimed.deliveries[0];
        assert_eq!((&delivery.payload[..], delivery.content_type.as_str()), (&bytes[..], "application/octet-stream"));
    })
    .await;
}

#[tokio::test]
async fn p3_a_delay_counts_from_the_call_and_not_from_the_beginning_of_the_transaction() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        let mut transaction = application.begin().await.unwrap();
        let began: DateTime<Utc> = sqlx::query_scalar("select now()").fetch_one(&mut *transaction).await.unwrap();
        let is_older = "select clock_timestamp() > $1 + interval '0.3 s'";
        while !sqlx::query_scalar::<_, bool>(is_older).bind(began).fetch_one(&mut *transaction).await.unwrap() {
            relaybus_tests::pause().await;
        }
        publish(&mut transaction, "order.created", &json!({}), &json!({ "delay": "1h" })).await.unwrap();
        let waits_long_enough: bool = sqlx::query_scalar(
            "select due_at >= now() + interval '1 hour' + interval '0.3 s' and due_at <= clock_timestamp() + interval '1 hour' from relaybus.deliveries",
        )
        .fetch_one(&mut *transaction)
        .await
        .unwrap();

        assert!(waits_long_enough);
    })
    .await;
}

#[tokio::test]
async fn p4_the_same_dedup_id_answers_the_first_event() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        subscribe(&store, "mailer").await;
        let (mut one, mut other) = (raw(&url).await, raw(&url).await);
        let (options, payloads) = (json!({ "dedup_id": "order-1" }), [json!(1), json!(2)]);

        let (first, second) = tokio::join!(
            publish(&mut one, "order.created", &payloads[0], &options),
            publish(&mut other, "order.created", &payloads[1], &options)
        );
        let of_another_topic = publish(&mut one, "order.paid", &json!(3), &options).await.unwrap();

        assert_eq!(first.unwrap(), second.unwrap());
        let events: BTreeSet<_> =
            store.operators.list(List { limit: 10, ..List::default() }).await.unwrap().iter().map(|it| it.event_id).collect();
        assert!(events.len() == 2 && events.contains(&EventId(of_another_topic)));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_published_is_refused_by_name() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        let long = "x".repeat(1025);
        let refusals = [
            ("order created", json!({}), "topic: expected 1 to 16 tokens"),
            ("order..created", json!({}), "topic: expected 1 to 16 tokens"),
            ("order.created", json!({ "dedup": "1" }), "got `dedup`"),
            ("order.created", json!([]), "options: expected an object"),
            ("order.created", json!({ "key": 7 }), "option key: expected a text, got number"),
            ("order.created", json!({ "key": long }), "option key: expected at most 1024 bytes, got 1025"),
            ("order.created", json!({ "delay": "soon" }), "option delay: expected a duration"),
            ("order.created", json!({ "delay": "-1s" }), "option delay: expected a duration from 0"),
            ("order.created", json!({ "tenant": "a b" }), "option tenant: expected"),
            ("order.created", json!({ "headers": { "n": 7 } }), "option headers: expected"),
            ("order.created", json!({ "headers": "n" }), "option headers: expected"),
        ];
        for (topic, options, expected) in refusals {
            let error = publish(&mut application, topic, &json!({}), &options).await.unwrap_err();
            let refusal = error.as_database_error().unwrap();
            assert!(refusal.message().contains(expected), "expected `{expected}`, got `{refusal}`");
            assert_eq!(refusal.code().as_deref(), Some("22023"));
        }

        assert!(store.operators.list(List { limit: 10, ..List::default() }).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_plain_role_may_be_granted_publishing_and_nothing_else() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        subscribe(&store, "mailer").await;
        let mut owner = raw(&url).await;
        let role = format!("shop_{}", Uuid::new_v4().simple());
        for statement in [
            format!("create role {role}"),
            format!("grant usage on schema relaybus to {role}"),
            format!("grant execute on function relaybus.publish, relaybus.publish_bytes to {role}"),
            format!("set role {role}"),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut owner).await.unwrap();
        }

        publish(&mut owner, "order.created", &json!({}), &json!({})).await.unwrap();
        let refused = [
            "select * from relaybus.events",
            "delete from relaybus.deliveries",
            "update relaybus.handlers set name = 'mine'",
            "insert into relaybus.idle_hosts values (gen_random_uuid(), 'infinity')",
            "select relaybus.publish_event('order.created', '', 'text/plain', '{}')",
        ];
        for statement in refused {
            let error = sqlx::query(statement).execute(&mut owner).await.unwrap_err();
            assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("42501"), "{statement}");
        }

        assert_eq!(store.operators.list(List { limit: 10, ..List::default() }).await.unwrap().len(), 1);
        run(&mut owner, "reset role").await;
        for statement in [format!("drop owned by {role}"), format!("drop role {role}")] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut owner).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn p1_topics_match_in_sql_as_they_do_in_the_host() {
    on_a_database(|url| async move {
        open_with(&url, 1).await;
        let token = || ["a", "b", "order", "x-1", "_", "A"][rand::random_range(0..6)];
        let pattern_token = || if rand::random_bool(0.3) { "*" } else { token() };
        let joined = |n: usize, token: &dyn Fn() -> &'static str| (0..n).map(|_| token()).collect::<Vec<_>>().join(".");
        let (mut patterns, mut topics, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..5000 {
            let mut pattern = joined(rand::random_range(1..=4), &pattern_token);
            if rand::random_bool(0.3) {
                pattern = if rand::random_bool(0.2) { ">".to_owned() } else { format!("{pattern}.>") };
            }
            let topic = joined(rand::random_range(1..=5), &token);
            expected.push(pattern.parse::<TopicPattern>().unwrap().matches(&topic.parse::<Topic>().unwrap()));
            patterns.push(pattern);
            topics.push(topic);
        }

        let matches: Vec<bool> = sqlx::query_scalar(
            "select relaybus.topic_matches(pattern, topic)
             from unnest($1::text[], $2::text[]) with ordinality as pair (pattern, topic, place) order by place",
        )
        .bind(&patterns)
        .bind(&topics)
        .fetch_all(&mut raw(&url).await)
        .await
        .unwrap();

        for (place, (matches, expected)) in matches.into_iter().zip(expected.iter().copied()).enumerate() {
            assert_eq!(matches, expected, "`{}` and `{}`", patterns[place], topics[place]);
        }
        assert!(expected.contains(&true) && expected.contains(&false));
    })
    .await;
}

#[tokio::test]
async fn w1_publishing_in_sql_wakes_an_idle_host() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let mailer = subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        assert!(store.store.claim(claim(mailer)).await.unwrap().deliveries.is_empty());
        until_idle_hosts(&mut application, 1).await;
        // The wake-up that follows the registration.
        let woken = tokio::time::timeout(PATIENCE, store.store.wait_for_work(PATIENCE)).await;
        assert!(woken.is_ok() && store.store.claim(claim(mailer)).await.unwrap().deliveries.is_empty());
        let waiting = tokio::spawn({
            let store = store.store.clone();
            async move { store.wait_for_work(Duration::from_secs(600)).await }
        });

        publish(&mut application, "order.created", &json!({}), &json!({})).await.unwrap();

        tokio::time::timeout(PATIENCE, waiting).await.expect("the host is woken").unwrap();
        until_idle_hosts(&mut application, 0).await;
    })
    .await;
}

#[tokio::test]
async fn w1_without_an_idle_host_publishing_notifies_nobody() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        let mut listener = PgListener::connect(&url).await.unwrap();
        listener.listen("relaybus_work").await.unwrap();

        publish(&mut application, "order.created", &json!({}), &json!({})).await.unwrap();
        run(&mut application, "insert into relaybus.idle_hosts values (gen_random_uuid(), clock_timestamp() - interval '1 hour')").await;
        publish(&mut application, "order.created", &json!({}), &json!({})).await.unwrap();
        run(&mut application, "notify relaybus_work, 'after both'").await;

        let first = tokio::time::timeout(PATIENCE, listener.recv()).await.unwrap().unwrap();
        assert_eq!(first.payload(), "after both");
    })
    .await;
}

#[tokio::test]
async fn o10_what_is_published_at_the_moment_of_a_removal_is_buried_by_the_next_prune() {
    on_a_database(|url| async move {
        let store = open_with(&url, 2).await;
        let mailer = subscribe(&store, "mailer").await;
        let mut application = raw(&url).await;
        let mut transaction = application.begin().await.unwrap();
        publish(&mut transaction, "order.created", &json!({}), &json!({})).await.unwrap();
        let removal = RemoveHandler { tenant: "default".to_owned(), name: "mailer".to_owned(), unfinished: Unfinished::Refuse };
        store.operators.remove_handler(removal).await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(store.store.backlog(&[mailer]).await.unwrap().n_pending, 1);

        store.operators.prune(Retention::default()).await.unwrap();

        assert_eq!(store.store.backlog(&[mailer]).await.unwrap().n_pending, 0);
    })
    .await;
}

async fn until_idle_hosts(connection: &mut PgConnection, expected: i64) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let n: i64 = sqlx::query_scalar("select count(*) from relaybus.idle_hosts").fetch_one(&mut *connection).await.unwrap();
        if n == expected {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "expected {expected} idle hosts, got {n}");
        relaybus_tests::pause().await;
    }
}
