//! Hosts that are killed in the middle of everything.

use std::time::Duration;

use relaybus_host::delivery::Status;
use relaybus_tests::host::Running;
use relaybus_tests::size;

use crate::harness::{On, case};
use crate::place::{MEDIUM, Place, every, stop};

/// Kills strike at random, and a delivery may be unlucky again and again: that is no poison here.
const NO_POISON: &str = "[handler_defaults]\nmax_crashes = 1000\n";

case!(On::Every, r1_r7_r11_r22_four_hosts_complete_everything_while_one_after_the_other_is_killed, |backend| async move {
    const N_HOSTS: usize = 4;
    let n = size::pick(3_000, 50_000);
    let place = Place::on(backend).await;
    place.configure(NO_POISON);
    place.add("slow-ok");
    place.publish("slow-ok.a", (0..n).map(|_| r#"{"ms": 50}"#.to_owned())).await;

    let start_host = || place.start_host("slow-ok", &["--concurrency", "8"]);
    let mut hosts = futures::future::join_all((0..N_HOSTS).map(|_| start_host())).await;
    let mut kills = every(size::pick(Duration::from_millis(1500), Duration::from_secs(3)));
    let mut n_kills = 0;
    kills.tick().await;
    while place.counts().await.completed < n as u64 {
        kills.tick().await;
        let victim = &mut hosts[n_kills % N_HOSTS];
        victim.kill();
        *victim = start_host().await;
        n_kills += 1;
    }
    stop(hosts).await;

    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed), (n, n));
    assert!(n_kills >= 3 && facts.n_takeovers > 0, "{n_kills} kills: {facts:?}");
    println!("{}: {n_kills} kills: {facts:?}", place.url);
    place.remove().await;
});

case!(On::Every, r7_r22_a_second_host_completes_everything_after_a_kill_in_mid_run, |backend| async move {
    const N: usize = 20;
    let place = Place::on(backend).await.with_leases(MEDIUM);
    place.add("slow-ok");
    place.publish("slow-ok.a", (0..N).map(|_| r#"{"ms": 1500}"#.to_owned())).await;
    let mut first = place.start_host("slow-ok", &[]).await;
    place.until("something to be in flight", |counts| counts.processing > 0).await;
    first.kill();
    let deliveries = place.deliveries().await;
    let taken: Vec<_> = deliveries.iter().filter(|delivery| delivery.status == Status::Processing).map(|delivery| delivery.id).collect();
    assert!(!taken.is_empty(), "something was in flight");

    let second = place.start_host("slow-ok", &["--until-idle"]).await.ended().await;
    assert_eq!(second.code, Some(0), "{second:?}");
    let deliveries = place.deliveries().await;
    assert_eq!(deliveries.len(), N, "nothing is lost");
    for delivery in deliveries {
        let expected = if taken.contains(&delivery.id) { (Status::Completed, 2, 1) } else { (Status::Completed, 1, 0) };
        assert_eq!((delivery.status, delivery.attempts, delivery.crashes), expected, "{delivery:?}");
    }
    assert_eq!(place.facts().await.n_takeovers, taken.len());
    place.remove().await;
});

case!(On::Every, r8_one_poison_in_a_batch_of_500_ends_buried_and_the_other_499_complete, |backend| async move {
    const MAX_CRASHES: usize = 5;
    let place = Place::on(backend).await.with_leases(MEDIUM);
    place.add("poison");
    place.publish("poison.a", (0..500).map(|n| format!(r#"{{"poison": {}}}"#, n == 250))).await;
    let mut n_kills = 0;
    while host_dies_of_poison(&place).await {
        n_kills += 1;
        assert!(n_kills <= MAX_CRASHES, "what kills its host cannot loop for ever");
    }
    // A machine that is too busy to renew counts like a kill.
    assert!(n_kills > 0, "nothing was killed");
    let deliveries = place.deliveries().await;
    let buried: Vec<_> = deliveries.iter().filter(|delivery| delivery.status == Status::Buried).collect();
    assert_eq!(buried.len(), 1, "{buried:?}");
    assert_eq!((buried[0].reason.as_deref(), buried[0].crashes), (Some("max-crashes"), 5));
    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed, facts.n_buried), (500, 499, 1));
    place.remove().await;
});

/// Runs a host until it is idle, or kills it as soon as it runs the poison; whether it was killed.
async fn host_dies_of_poison(place: &Place) -> bool {
    let mut host = place.start_host("poison", &["--until-idle"]).await;
    let runs_poison = |host: &Running| host.log().iter().any(|line| line.contains("poison is running"));
    while host.status().is_none() {
        if runs_poison(&host) {
            host.kill();
            return true;
        }
        relaybus_tests::pause().await;
    }
    let ended = host.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    false
}
