//! A host that stands still for a while and then goes on as if nothing had happened.

use relaybus_host::delivery::Status;
use relaybus_host::store::DeliverySummary;
use relaybus_tests::host::{Ended, Running};
use rustix::process::Signal;

use crate::harness::{On, case};
use crate::history::State;
use crate::place::{LONG, Place, stop, until_logged};

/// A host in the middle of the only delivery's run, and the delivery.
async fn host_in_mid_run(place: &Place) -> (Running, DeliverySummary) {
    place.add("slow-ok");
    place.publish("slow-ok.a", [r#"{"ms": 3000}"#.to_owned()]).await;
    let host = place.start_host("slow-ok", &[]).await;
    let id = place.deliveries().await[0].id;
    let delivery = place.until_delivery(id, "is processing", |delivery| delivery.status == Status::Processing).await;
    (host, delivery)
}

fn summary(ended: &Ended) -> (u64, u64) {
    let summary = ended.object();
    (summary["completed"].as_u64().unwrap(), summary["lease_lost"].as_u64().unwrap())
}

/// Lets the stalled host go on, waits until it has noticed, and answers how it counted.
async fn awaken(host: Running) -> Ended {
    host.signal(Signal::CONT);
    until_logged(&host, &["lease lost", "could not be stored within the lease"]).await;
    stop(vec![host]).await.remove(0)
}

case!(
    On::Servers,
    r9_r11_a_host_that_stood_still_beyond_its_lease_writes_nothing_and_the_outcome_of_the_other_stands,
    |backend| async move {
        let place = Place::on(backend).await;
        let (stalled, claimed) = host_in_mid_run(&place).await;
        // The first renewal tells that the run has begun.
        let is_renewed = |delivery: &DeliverySummary| delivery.lease_expires_at != claimed.lease_expires_at;
        let before = place.until_delivery(claimed.id, "is renewed", is_renewed).await;
        stalled.signal(Signal::STOP);
        assert_eq!(before.status, Status::Processing, "the run was over before it was stopped");
        let other = place.start_host("slow-ok", &[]).await;
        let outcome = place.until_delivery(before.id, "is completed", |delivery| delivery.status == Status::Completed).await;
        assert_eq!((outcome.attempts, outcome.crashes), (2, 1));
        assert_ne!(outcome.worker, before.worker);

        let stalled = awaken(stalled).await;
        assert_eq!(summary(&stalled), (0, 1), "{stalled:?}");
        assert_eq!(summary(&stop(vec![other]).await[0]), (1, 0));
        let after = place.deliveries().await.remove(0);
        assert_eq!(format!("{after:?}"), format!("{outcome:?}"));
        let facts = place.facts().await;
        assert_eq!((facts.n_takeovers, facts.n_settles, facts.n_completed), (1, 1, 1), "{facts:?}");
        place.remove().await;
    }
);

case!(On::Servers, r11_a_late_settle_is_refused_as_a_lost_lease_and_the_outcome_of_the_other_stands, |backend| async move {
    let place = Place::on(backend).await.with_leases(LONG);
    let (stalled, before) = host_in_mid_run(&place).await;
    // By its own clock the lease lasts, so it will try to settle. Meanwhile an operator has given the delivery to whoever comes.
    stalled.signal(Signal::STOP);
    place.run(&["deliveries", "release", &before.id.to_string()]);
    let other = place.start_host("slow-ok", &[]).await;
    let outcome = place.until_delivery(before.id, "is completed", |delivery| delivery.status == Status::Completed).await;
    assert_ne!(outcome.worker, before.worker);
    let n_changes = place.history().await.len();

    let stalled = awaken(stalled).await;
    assert!(stalled.stderr.contains("lease lost: the settlement changed nothing"), "{stalled:?}");
    assert_eq!(summary(&stalled), (0, 1), "{stalled:?}");
    assert_eq!(summary(&stop(vec![other]).await[0]), (1, 0));
    let history = place.history().await;
    assert_eq!(history.len(), n_changes, "the late settle changed something: {history:#?}");
    let last: &State = history.last().unwrap().after.as_ref().unwrap();
    assert_eq!((last.status, last.worker.as_deref()), (Status::Completed, outcome.worker.as_deref()));
    place.remove().await;
});
