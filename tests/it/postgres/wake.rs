//! Wake-ups between hosts, and what becomes of them when a session is lost.

use relaybus_host::store::OpenStore;
use sqlx::{PgConnection, Row};

use super::{PATIENCE, claim, event, on_a_database, open_with, raw, subscribe};

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
async fn w1_a_host_whose_listening_session_was_ended_listens_again() {
    on_a_database(|url| async move {
        let (publisher, worker) = (open_with(&url, 2).await, open_with(&url, 2).await);
        let handler = subscribe(&worker, "mailer").await;
        let mut raw = raw(&url).await;
        let before = sessions_that_listen(&mut raw, 2, &[]).await;

        // Twice, so that it is not only the first that is replaced.
        let ended = sqlx::query("select pg_terminate_backend(pid) from unnest($1::integer[]) as pid");
        ended.bind(&before).execute(&mut raw).await.unwrap();
        let between = sessions_that_listen(&mut raw, 2, &before).await;
        let ended = sqlx::query("select pg_terminate_backend(pid) from unnest($1::integer[]) as pid");
        ended.bind(&between).execute(&mut raw).await.unwrap();
        sessions_that_listen(&mut raw, 2, &[before, between].concat()).await;

        let (found, ()) = tokio::join!(tokio::time::timeout(PATIENCE, first_claim(&worker, handler)), async {
            publisher.store.publish(vec![event()]).await.unwrap().remove(0).unwrap();
        });
        assert_eq!(found.expect("the worker is woken"), 1);
        publisher.store.close().await;
        worker.store.close().await;
    })
    .await;
}

/// How many deliveries the first claim finds that finds any, made by a worker that claims only when it is woken.
async fn first_claim(worker: &OpenStore, handler: relaybus_host::delivery::HandlerId) -> usize {
    loop {
        let claimed = worker.store.claim(claim(handler)).await.unwrap();
        if !claimed.deliveries.is_empty() {
            return claimed.deliveries.len();
        }
        worker.store.wait_for_work(PATIENCE * 10).await;
    }
}

/// The processes of `n` sessions that listen, or have, and are none of `old`.
async fn sessions_that_listen(connection: &mut PgConnection, n: usize, old: &[i32]) -> Vec<i32> {
    let look = async {
        loop {
            // The last statement of a listener is `listen`, or one by which it says that it is idle or asks for an answer.
            let listeners = "select pid from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and pid <> all ($1)
                    and (query ilike 'listen %' or query ilike '%idle_hosts%')";
            let rows = sqlx::query(listeners).bind(old).fetch_all(&mut *connection).await.unwrap();
            if rows.len() >= n {
                return rows.iter().map(|row| row.get(0)).collect();
            }
            relaybus_tests::pause().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("the hosts listen")
}
