//! Hosts whose clock is wrong by ten minutes, ahead and behind: only the server's clock decides (R4). An embedded store has no clock but the
//! host's, which is a declared difference.

use chrono::{DateTime, TimeDelta, Utc};
use relaybus_host::delivery::Status;
use relaybus_tests::faketime::Clock;
use relaybus_tests::host::Running;

use crate::harness::{On, case};
use crate::history::Transition;
use crate::place::{Place, start, stop};

/// When the first line of the log was written, by the clock of the process that wrote it.
fn clock_of(host: &Running) -> DateTime<Utc> {
    let line = host.log().remove(0);
    line.split_whitespace().next().and_then(|instant| instant.parse().ok()).unwrap_or_else(|| panic!("expected an instant in {line}"))
}

/// A host that runs `guest` with a wrong clock, which is made sure of.
async fn start_host(place: &Place, clock: Clock, guest: &str) -> Running {
    let host = start(clock.of(&mut place.host(guest, &[]))).await;
    let told = clock_of(&host);
    assert!(clock.is_of(told), "expected a clock that is {clock:?}, got {told}");
    host
}

fn claims(history: &[Transition]) -> Vec<&Transition> {
    let token = |state: &Option<crate::history::State>| state.as_ref().and_then(|state| state.token);
    let is_claim = |transition: &&Transition| {
        let after = transition.after.as_ref().unwrap();
        after.status == Status::Processing && token(&transition.before) != after.token
    };
    history.iter().filter(is_claim).collect()
}

case!(On::Servers, r4_a_delayed_event_and_a_retry_come_at_their_time_whatever_the_hosts_clocks_say, |backend| async move {
    const DELAY: TimeDelta = TimeDelta::seconds(2);
    for (publisher, worker) in [(Clock::Ahead, Clock::Behind), (Clock::Behind, Clock::Ahead)] {
        let place = Place::on(backend).await;
        place.configure(
            "[handler_defaults]\nretry_initial_delay = \"2s\"\nretry_factor = 1.0\nretry_max_delay = \"2s\"\nretry_jitter = 0.0\n",
        );
        place.add("flaky");
        let host = start_host(&place, worker, "flaky").await;
        let delayed = ["publish", "flaky.a", "--delay", "2s", "--dedup-id", "once", "--data", r#"{"n": 2}"#];
        place.run_as(&delayed, |command| publisher.of(command));
        // A host that took its own clock would come at once, or ten minutes late.
        place.until_completed(1).await;
        stop(vec![host]).await;

        assert_eq!(place.facts().await.n_completed, 1);
        let history = place.history().await;
        let [first, second] = claims(&history)[..] else { panic!("expected two claims, got {history:#?}") };
        let settled = history.iter().find(|transition| transition.after.as_ref().unwrap().verb.as_deref() == Some("reschedule")).unwrap();
        for (from, until) in [(history[0].at, first), (settled.at, second)] {
            let due_at = until.before.as_ref().unwrap().due_at.unwrap();
            let (off, late) = ((due_at - from - DELAY).abs(), until.at - due_at);
            assert!(off < TimeDelta::seconds(1), "expected it to be due {DELAY} after {from}, got {due_at}");
            assert!(late < TimeDelta::minutes(5), "expected a claim soon after {due_at}, got {}", until.at);
        }
        place.remove().await;
    }
});

case!(On::Servers, r4_r7_a_lease_is_taken_over_after_its_end_whatever_the_hosts_clocks_say, |backend| async move {
    for (first, second) in [(Clock::Ahead, Clock::Behind), (Clock::Behind, Clock::Ahead)] {
        let place = Place::on(backend).await;
        place.add("slow-ok");
        place.publish("slow-ok.a", [r#"{"ms": 3000}"#.to_owned()]).await;
        let id = place.deliveries().await[0].id;
        let mut holder = start_host(&place, first, "slow-ok").await;
        let held = place.until_delivery(id, "is processing", |delivery| delivery.status == Status::Processing).await;
        let other = start_host(&place, second, "slow-ok").await;
        // The holder renews beyond the lease that it was first given, and the other one looks for work all the while.
        let first_end = held.lease_expires_at.unwrap();
        let renewed = place.until_delivery(id, "is renewed", |delivery| delivery.lease_expires_at != Some(first_end)).await;
        assert_eq!((renewed.worker.as_deref(), renewed.crashes), (held.worker.as_deref(), 0));
        holder.kill();
        place.until_completed(1).await;
        stop(vec![other]).await;

        // That no claim comes before the end of a lease, and that each lease has its length by the server's clock, is the checker's to find.
        let facts = place.facts().await;
        assert_eq!((facts.n_claims, facts.n_takeovers, facts.n_completed), (2, 1, 1), "{facts:?}");
        assert!(facts.n_renewals > 0, "{facts:?}");
        place.remove().await;
    }
});

case!(On::Servers, r4_what_is_settled_is_kept_for_its_time_whatever_the_hosts_clocks_say, |backend| async move {
    let place = Place::on(backend).await;
    place.add("noop");
    place.publish("noop.a", ["{}".to_owned()]).await;
    let host = start_host(&place, Clock::Behind, "noop").await;
    place.until_completed(1).await;
    stop(vec![host]).await;
    let prune = |clock: Clock, age| {
        let pruned = place.run_as(&["prune", "--json", "--completed", age], |command| clock.of(command));
        pruned.object()["deliveries"].as_u64()
    };
    assert_eq!(prune(Clock::Ahead, "5m"), Some(0), "it was settled a moment ago");
    assert_eq!(prune(Clock::Behind, "0s"), Some(1), "it was settled");
    place.remove().await;
});
