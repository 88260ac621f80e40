//! Hosts that are killed in the middle of everything.

use std::time::Duration;

use relaybus_host::store::Backend;
use relaybus_tests::size;

use crate::harness::{On, case};
use crate::place::{FILE_LEASE, FILE_LEASES, LEASE, Place, SHORT_LEASES, every, stop};

/// Kills strike at random, and a delivery may be unlucky again and again: that is no poison here.
const NO_POISON: &str = "[handler_defaults]\nmax_crashes = 1000\n";

case!(On::Every, r1_r7_r11_r22_four_hosts_complete_everything_while_one_after_the_other_is_killed, |backend| async move {
    const N_HOSTS: usize = 4;
    let n = size::pick(3_000, 50_000);
    let (leases, lease) = match backend {
        Backend::Sqlite => (FILE_LEASES, FILE_LEASE),
        Backend::Postgres | Backend::MongoDb => (SHORT_LEASES, LEASE),
    };
    let place = Place::on(backend).await;
    place.configure(&format!("{leases}{NO_POISON}"));
    place.add("slow-ok");
    place.publish("slow-ok.a", (0..n).map(|_| r#"{"ms": 50}"#.to_owned())).await;

    let start_host = || place.start_host("slow-ok", &["--concurrency", "8"]);
    let mut hosts: Vec<_> = (0..N_HOSTS).map(|_| start_host()).collect();
    let mut kills = every(size::pick(Duration::from_millis(1500), Duration::from_secs(3)));
    let mut n_kills = 0;
    kills.tick().await;
    while place.counts().await.completed < n as u64 {
        kills.tick().await;
        let victim = &mut hosts[n_kills % N_HOSTS];
        victim.kill();
        *victim = start_host();
        n_kills += 1;
    }
    stop(hosts).await;

    let facts = place.facts(lease).await;
    assert_eq!((facts.n_deliveries, facts.n_completed), (n, n));
    assert!(n_kills >= 3 && facts.n_takeovers > 0, "{n_kills} kills: {facts:?}");
    println!("{}: {n_kills} kills: {facts:?}", place.url);
    place.remove().await;
});
