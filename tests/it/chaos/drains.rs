//! Hosts that have a lot to do and nothing to disturb them.

use std::time::Instant;

use futures::future::join_all;
use relaybus_tests::size;

use crate::harness::{On, case};
use crate::place::{LONG, Place, stop};

case!(On::Every, r22_ten_thousand_deliveries_are_drained_by_two_hosts, |backend| async move {
    const N: usize = 10_000;
    let place = Place::on(backend).await.with_leases(LONG);
    place.add("noop");
    place.publish("noop.a", (0..N).map(|n| n.to_string())).await;
    let started = Instant::now();
    let hosts = join_all((0..2).map(|_| place.start_host("noop", &["--until-idle"]))).await;
    for host in hosts {
        let ended = host.ended().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let rate = N as f64 / started.elapsed().as_secs_f64();
    println!("{}: drained {N} deliveries with two hosts: {rate:.0} a second, start and audit included", place.url);
    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed, facts.n_claims), (N, N, N), "{facts:?}");
    place.remove().await;
});

case!(On::Every, a_host_that_drains_ten_thousand_deliveries_does_not_grow_and_ends_on_sigterm, |backend| async move {
    const WARM_UP: usize = 2_000;
    let n = size::pick(10_000, 100_000);
    let place = Place::on(backend).await.with_leases(LONG);
    place.add("noop");
    let host = place.start_host("noop", &[]).await;
    place.publish("noop.a", (0..WARM_UP).map(|n| n.to_string())).await;
    place.until_completed(WARM_UP).await;
    let before = host.resident_kib();

    let started = Instant::now();
    place.publish("noop.a", (0..n).map(|n| n.to_string())).await;
    place.until_completed(WARM_UP + n).await;
    let rate = n as f64 / started.elapsed().as_secs_f64();
    let after = host.resident_kib();
    println!("{}: published and drained {n} deliveries: {rate:.0} a second; resident {before} KiB before, {after} KiB after", place.url);
    assert!(after < before + 48 * 1024, "resident memory grew from {before} to {after} KiB");
    stop(vec![host]).await;
    place.remove().await;
});
