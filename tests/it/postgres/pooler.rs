//! The store behind a transaction pooler (pgbouncer), which lends two sessions to everybody.

use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::dispatch::DispatcherOptions;
use relaybus_host::lease::{Lease, Renewal};
use relaybus_host::store::{Change, List, OpenStore, Settle, Settled, Settlement, StoreOptions, WakeUps, open};
use relaybus_tests::pgbouncer::{Pooler, StartupSettings};
use relaybus_tests::rig::{Rig, until_idle};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};

use super::{LEASE, PATIENCE, claim, event, on_a_database, subscribe};

/// One session may be waited for behind many others.
async fn open_patiently(url: &str) -> OpenStore {
    open(url, StoreOptions { call_timeout: PATIENCE, max_connections: 6 }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_two_hosts_drain_what_is_published_through_a_pooler() {
    let pooler = Pooler::start(StartupSettings::Refused).await.unwrap();
    on_a_database(|url| async move {
        let url = pooler.in_front_of(&url);
        let (one, other) = (open_patiently(&url).await, open_patiently(&url).await);
        let options = DispatcherOptions { lease_duration: PATIENCE * 4, ..Rig::options() };
        let mut dispatchers = Vec::new();
        for store in [&one, &other] {
            let handlers = vec![Rig::handler("noop", |_| {}).await, Rig::handler("flaky", |_| {}).await];
            dispatchers.push(Rig::start_over(store.store.clone(), handlers, options.clone()).await);
        }

        for n in 0..4 {
            let topic = |n: i32| if n % 10 == 0 { "flaky.a" } else { "noop.many" };
            let events = (0..100).map(|m| NewEvent::new(topic(m).parse().unwrap(), format!("{{\"n\": {}}}", 1 + n % 2))).collect();
            assert!(one.store.publish(events).await.unwrap().iter().all(Result::is_ok));
        }
        for dispatcher in &dispatchers {
            until_idle(dispatcher).await;
        }

        let deliveries = other.operators.list(List { limit: 1000, ..List::default() }).await.unwrap();
        assert_eq!(deliveries.len(), 400);
        assert!(deliveries.iter().all(|delivery| delivery.status == Status::Completed && delivery.crashes == 0));
        for dispatcher in dispatchers {
            assert!(dispatcher.stop(PATIENCE).await.left.is_empty());
        }
        for store in [one, other] {
            store.store.close().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_works_through_a_pooler_that_ignores_settings_and_leaves_its_sessions_clean() {
    let pooler = Pooler::start(StartupSettings::Ignored).await.unwrap();
    on_a_database(|url| async move {
        let url = pooler.in_front_of(&url);
        let host = open_patiently(&url).await;
        assert_eq!(host.store.capabilities().wake_ups, WakeUps::Process);
        let handler = subscribe(&host, "mailer").await;
        let published = host.store.publish(vec![event(), event(), event()]).await.unwrap();
        assert!(published.iter().all(Result::is_ok));

        let request = claim(handler);
        let token = request.token;
        let claimed = host.store.claim(request).await.unwrap().deliveries;
        assert_eq!(claimed.len(), 3);
        assert_eq!(host.store.recover_claim(token).await.unwrap().deliveries.len(), 3);
        let leases: Vec<Lease> = claimed.iter().map(|delivery| Lease { delivery: delivery.id, token }).collect();
        let extend = relaybus_host::store::ExtendLeases { leases: leases.clone(), lease_duration: LEASE };
        assert_eq!(host.store.extend_leases(extend).await.unwrap(), [Renewal::Renewed; 3]);
        let settle = |lease: Lease, settle| Settlement { lease, settle, report: None };
        let settlements = vec![
            settle(leases[0], Settle::Complete { events: vec![event()] }),
            settle(leases[1], Settle::Release { delay: None }),
            settle(leases[2], Settle::Bury),
        ];
        let settled = host.store.settle(settlements).await.unwrap();
        assert!(settled.iter().all(|settled| matches!(settled, Ok(Settled::Applied))), "{settled:?}");
        assert_eq!(host.store.backlog(&[handler]).await.unwrap().n_pending, 2);
        host.operators.change(&[leases[2].delivery], Change::Redrive).await.unwrap();
        let shown = host.operators.show(leases[2].delivery).await.unwrap();
        assert_eq!(shown.summary.status, Status::Pending);
        assert_eq!(host.operators.list_handlers().await.unwrap().len(), 1);

        // Both sessions at once, held by a transaction each.
        let plain: PgConnectOptions = url.parse::<PgConnectOptions>().unwrap().extra_float_digits(None);
        let mut connections = [PgConnection::connect_with(&plain).await.unwrap(), PgConnection::connect_with(&plain).await.unwrap()];
        for connection in &mut connections {
            sqlx::raw_sql("begin").execute(&mut *connection).await.unwrap();
            let left = "select (select count(*) from pg_prepared_statements) + (select count(*) from pg_listening_channels()) as n,
                current_setting('statement_timeout') as statement_timeout";
            let row = sqlx::raw_sql(left).fetch_one(&mut *connection).await.unwrap();
            let left: (i64, String) = (row.get("n"), row.get("statement_timeout"));
            assert_eq!(left, (0, "0".to_owned()));
        }
        drop(connections);
        host.store.close().await;
    })
    .await;
}
