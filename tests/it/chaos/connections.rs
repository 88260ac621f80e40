//! The server ends what hosts have going with it, again and again, while they work.

use std::time::Duration;

use bson::doc;
use futures::future::join_all;
use relaybus_host::store::Backend;
use relaybus_tests::private_server::PrivateServer;
use relaybus_tests::size;
use sqlx::{Connection, PgConnection};

use crate::harness::{On, case};
use crate::place::{Place, every, stop};

case!(On::Servers, r22_everything_is_completed_while_the_server_ends_all_sessions_again_and_again, |backend| async move {
    let (n_rounds, n_each) = size::pick((8, 250), (30, 1_000));
    let server = PrivateServer::start(backend).await.unwrap();
    let place = Place::at(&server, backend).await;
    place.add("slow-ok");
    let mut hosts = join_all((0..3).map(|_| place.start_host("slow-ok", &["--concurrency", "16"]))).await;

    let mut rounds = every(size::pick(Duration::from_secs(1), Duration::from_secs(2)));
    let mut n_ended = 0;
    rounds.tick().await;
    for _ in 0..n_rounds {
        place.publish("slow-ok.a", (0..n_each).map(|_| r#"{"ms": 100}"#.to_owned())).await;
        rounds.tick().await;
        n_ended += end_sessions(backend, &place.url).await;
    }
    place.until_completed(n_rounds * n_each).await;

    assert!(hosts.iter_mut().all(|host| host.status().is_none()), "a host did not stay up");
    stop(hosts).await;
    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed), (n_rounds * n_each, n_rounds * n_each));
    assert!(n_ended >= n_rounds, "{n_ended} sessions ended in {n_rounds} rounds");
    println!("{}: {n_ended} sessions ended: {facts:?}", place.url);
    place.remove().await;
});

/// Ends what our sessions have going, this process's as well, and answers how many there were.
async fn end_sessions(backend: Backend, url: &str) -> usize {
    match backend {
        Backend::Sqlite => unreachable!("it has no sessions"),
        Backend::Postgres => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            let n_ended: i64 = sqlx::query_scalar(
                "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
                 where datname = current_database() and application_name = 'relaybus-host'",
            )
            .fetch_one(&mut connection)
            .await
            .unwrap();
            connection.close().await.unwrap();
            usize::try_from(n_ended).unwrap()
        }
        Backend::MongoDb => {
            // The primary steps down, which ends every operation, and is elected again a second later.
            let client = mongodb::Client::with_uri_str(url).await.unwrap();
            let stepped_down = client.database("admin").run_command(doc! { "replSetStepDown": 1, "force": true }).await;
            client.shutdown().await;
            usize::from(stepped_down.is_ok())
        }
    }
}
