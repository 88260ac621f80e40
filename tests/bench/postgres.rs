//! What waking idle hosts costs producers on PostgreSQL: `cargo bench -p relaybus-tests --bench postgres`.
//!
//! 64 producers commit single events by `relaybus.publish`, in rounds of each kind by turns: nobody is woken; one idle host is, as it comes; and,
//! to show what that avoids, every event notifies. Rates are medians, and ratios are of rounds side by side.
#![allow(clippy::unwrap_used, reason = "a benchmark ends where it expects too much")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use relaybus_host::delivery::WorkerId;
use relaybus_host::lease::LeaseToken;
use relaybus_host::store::{Claim, ClaimFor, Isolation, Store, StoreOptions, Subscribe, open};
use relaybus_tests::servers;
use sqlx::{Connection, Executor, PgConnection};

const N_PRODUCERS: usize = 64;
const N_ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(4);

/// What is different about a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeUps {
    /// The host cannot register, so no event notifies.
    None,
    /// As shipped.
    WhileIdle,
    /// Somebody is always registered.
    EveryEvent,
}

const KINDS: [WakeUps; 3] = [WakeUps::None, WakeUps::WhileIdle, WakeUps::EveryEvent];

#[tokio::main]
async fn main() {
    let server = servers::durable_postgres().await.unwrap();
    let name = format!("relaybus_bench_{}", uuid::Uuid::new_v4().simple());
    let mut admin = PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
    admin.execute(sqlx::AssertSqlSafe(format!("create database {name}"))).await.unwrap();
    let url = format!("{server}/{name}");

    let store = open(&url, StoreOptions::default()).await.unwrap().store;
    subscribe(store.as_ref(), "mailer", "order.*").await;
    let idle = subscribe(store.as_ref(), "idler", "idle.*").await;
    let host = tokio::spawn(idle_host(Arc::clone(&store), idle));
    let mut watcher = PgConnection::connect(&url).await.unwrap();
    watcher.execute(BLOCK_REGISTRATION).await.unwrap();

    let mut rates = [const { Vec::new() }; 3];
    round(&url, ROUND / 2).await; // warm
    for _ in 0..N_ROUNDS {
        for (kind, rates) in KINDS.into_iter().zip(&mut rates) {
            watcher.execute(setting(kind)).await.unwrap();
            rates.push(round(&url, ROUND).await);
        }
    }
    let ratios = |of: usize| rates[of].iter().zip(&rates[0]).map(|(rate, without)| rate / without).collect::<Vec<_>>();
    println!("{N_PRODUCERS} producers, single events, {N_ROUNDS} rounds of {ROUND:?} each; medians");
    println!("nobody is woken            {:8.0} events a second", median(rates[0].clone()));
    println!("one idle host              {:8.0} events a second, {:.3} of that", median(rates[1].clone()), median(ratios(1)));
    println!("every event notifies       {:8.0} events a second, {:.3} of that", median(rates[2].clone()), median(ratios(2)));

    host.abort();
    let _ = host.await;
    store.close().await;
    watcher.close().await.unwrap();
    admin.execute(sqlx::AssertSqlSafe(format!("drop database {name} with (force)"))).await.unwrap();
    servers::stop();
}

const BLOCK_REGISTRATION: &str = "
    create function public.refuse() returns trigger language plpgsql as 'begin return null; end';
    create trigger refuse before insert or update on relaybus.idle_hosts for each row execute function public.refuse();";

const fn setting(kind: WakeUps) -> &'static str {
    match kind {
        WakeUps::None => "alter table relaybus.idle_hosts enable trigger refuse; delete from relaybus.idle_hosts;",
        WakeUps::WhileIdle => "alter table relaybus.idle_hosts disable trigger refuse; delete from relaybus.idle_hosts;",
        WakeUps::EveryEvent => {
            "alter table relaybus.idle_hosts disable trigger refuse;
             insert into relaybus.idle_hosts values (gen_random_uuid(), 'infinity');"
        }
    }
}

async fn subscribe(store: &dyn Store, name: &str, topic: &str) -> relaybus_host::delivery::HandlerId {
    let request = Subscribe {
        tenant: "default".to_owned(),
        name: name.to_owned(),
        digest: "d".repeat(64),
        topics: vec![topic.parse().unwrap()],
        max_attempts: 10,
        max_crashes: 5,
    };
    store.subscribe(request).await.unwrap().handler
}

/// A host with nothing to do: it claims in vain whenever it is woken.
async fn idle_host(store: Arc<dyn Store>, handler: relaybus_host::delivery::HandlerId) {
    loop {
        let claim = Claim {
            worker: WorkerId::random(),
            token: LeaseToken::random(),
            handlers: vec![ClaimFor { handler, limit: 64, lease_duration: Duration::from_secs(30) }],
            limit: 64,
            max_payload_bytes: 1 << 20,
            isolation: Isolation::Shared,
            exclude: Vec::new(),
        };
        store.claim(claim).await.unwrap();
        store.wait_for_work(Duration::from_secs(1)).await;
    }
}

/// Events a second that the producers commit.
async fn round(url: &str, duration: Duration) -> f64 {
    let (n, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut producers = Vec::new();
    for _ in 0..N_PRODUCERS {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let (n, is_over) = (Arc::clone(&n), Arc::clone(&is_over));
        producers.push(tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                connection.execute("select relaybus.publish('order.created', '{}')").await.unwrap();
                n.fetch_add(1, Ordering::Relaxed);
            }
            connection.close().await.unwrap();
        }));
    }
    let (before, started) = (n.load(Ordering::Relaxed), std::time::Instant::now());
    tokio::time::sleep(duration).await;
    let rate = (n.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await.unwrap();
    }
    rate
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
