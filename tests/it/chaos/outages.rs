//! The store goes away while hosts run, and comes back.

use std::time::Duration;

use futures::future::join_all;
use relaybus_tests::host::Running;
use relaybus_tests::private_server::{Down, PrivateServer};
use relaybus_tests::size;

use crate::harness::{On, case};
use crate::place::{LONG, Place, every, stop};

/// What the dispatcher says when the store has gone, and when it is back.
const AWAY: &str = "store does not answer, waiting for it";
const BACK: &str = "store answers again";

case!(On::Servers, r22_everything_is_completed_when_the_server_is_restarted_and_when_it_crashes_in_mid_drain, |backend| async move {
    let n = size::pick(1_500, 20_000);
    let mut server = PrivateServer::start(backend).await.unwrap();
    let place = Place::at(&server, backend).await;
    place.add("slow-ok");
    place.publish("slow-ok.a", (0..n).map(|_| r#"{"ms": 50}"#.to_owned())).await;
    let hosts = join_all((0..3).map(|_| place.start_host("slow-ok", &["--concurrency", "8"]))).await;
    for (share, down) in [(4, Down::Orderly), (2, Down::Crash)] {
        let counts = place.until("a part to be completed", |counts| counts.completed > n / share).await;
        assert!(counts.completed < n, "the drain was over before the server went down: {counts:?}");
        server.restart(down).await.unwrap();
    }
    let n = usize::try_from(n).unwrap();
    place.until_completed(n).await;

    stop(hosts).await;
    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed), (n, n));
    place.remove().await;
});

case!(On::Servers, r22_a_store_that_is_away_is_waited_for_and_not_complained_about_for_each_call, |backend| async move {
    const N: usize = 600;
    let mut server = PrivateServer::start(backend).await.unwrap();
    // Long enough for the outage: what was claimed stays ours, and what ended is settled afterwards, each once.
    let place = Place::at(&server, backend).await.with_leases(LONG);
    place.add("slow-ok");
    place.publish("slow-ok.a", (0..N).map(|_| r#"{"ms": 200}"#.to_owned())).await;
    let hosts = join_all((0..2).map(|_| place.start_host("slow-ok", &["--concurrency", "8"]))).await;
    place.until("a part to be completed", |counts| counts.completed > 50).await;

    server.stop(Down::Orderly).unwrap();
    let mut outage = every(size::pick(Duration::from_secs(6), Duration::from_secs(60)));
    outage.tick().await;
    outage.tick().await;
    server.start_again().await.unwrap();
    place.until_completed(N).await;

    for host in &hosts {
        let (n_away, n_back, n_errors) = (lines_with(host, &[AWAY]), lines_with(host, &[BACK]), lines_with(host, &["WARN", "error="]));
        // A call that was lost on the way may end after the first one that is answered again, and a long outage is mentioned once a minute.
        assert!((1..=3).contains(&n_away) && (1..=3).contains(&n_back) && n_errors <= 4, "{}", host.log().join("\n"));
    }
    stop(hosts).await;
    let facts = place.facts().await;
    assert_eq!((facts.n_deliveries, facts.n_completed, facts.n_claims), (N, N, N), "{facts:?}");
    place.remove().await;
});

/// How many lines of the log have all of these in them.
fn lines_with(host: &Running, words: &[&str]) -> usize {
    host.log().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
}
