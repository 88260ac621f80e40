//! The fence is delivery and token (R11): who has lost the lease changes nothing, whatever it says and whoever it is.

use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::delivery::{HandlerId, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{List, Settled};

use crate::harness::{LONG, Test, case};
use crate::words::{ClaimWords, Held, Verb, claim, complete_with, event, handler, release};

/// A worker's lease runs out and the same worker, or another one, claims the delivery again.
async fn taken_over(t: &Test, stalled: WorkerId, by: WorkerId) -> (Held, Held) {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let stale = t.crash(claim(mailer).by(stalled)).await;
    let taken = t.hold(claim(mailer).by(by)).await;
    (stale, taken)
}

/// A worker releases the delivery, and another one claims it: with the attempt number that the first one had.
async fn released(t: &Test) -> (HandlerId, Held, Held) {
    let (mailer, stale) = t.hold_one("mailer").await;
    t.settle(release(stale.lease)).await;
    let taken = t.hold(claim(mailer)).await;
    assert_eq!(taken.delivery.attempt, stale.delivery.attempt);
    (mailer, stale, taken)
}

/// Says every verb under the stale lease, and checks that the delivery stays with whoever took it.
async fn assert_fenced(t: &Test, stale: &Held, taken: &Held) {
    let before = t.details(taken.delivery.id).await;
    for verb in Verb::ALL {
        assert_eq!(t.settle(verb.of(stale.lease)).await, Settled::LeaseLost, "{verb:?} under a stale token");
    }
    assert_eq!(t.extend(stale.lease, 2 * LONG).await, Renewal::Lost, "a renewal under a stale token");

    let after = t.details(taken.delivery.id).await;
    assert_eq!((after.summary.status, after.summary.attempts), (Status::Processing, taken.delivery.attempt));
    assert_eq!(after.summary.lease_expires_at, before.summary.lease_expires_at);
    assert_eq!((after.summary.worker, after.summary.message), (before.summary.worker, before.summary.message));
    assert_eq!(after.attempt_records.len(), before.attempt_records.len());
    assert_eq!(t.settle(Verb::Complete.of(taken.lease)).await, Settled::Applied);
}

case!(t1_r11_after_a_takeover_by_another_worker_no_verb_applies, |t| async move {
    let (stale, taken) = taken_over(&t, WorkerId::random(), WorkerId::random()).await;
    assert_fenced(&t, &stale, &taken).await;
});

case!(t1_r11_after_a_takeover_by_the_same_worker_no_verb_applies, |t| async move {
    let worker = WorkerId::random();
    let (stale, taken) = taken_over(&t, worker, worker).await;
    assert_fenced(&t, &stale, &taken).await;
});

case!(t1_r11_after_a_release_the_same_attempt_number_is_no_lease, |t| async move {
    let (_, stale, taken) = released(&t).await;
    assert_fenced(&t, &stale, &taken).await;
});

case!(t1_r11_another_deliverys_token_is_no_lease, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 2).await;
    let (first, second) = (t.hold(claim(mailer).limit(1)).await, t.hold(claim(mailer).limit(1)).await);

    let crossed = Held { lease: Lease { delivery: first.delivery.id, token: second.lease.token }, ..first.clone() };

    assert_fenced(&t, &crossed, &first).await;
});

case!(t1_no_verb_applies_to_a_pending_delivery, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let id = t.list(List::default()).await[0].id;

    for verb in Verb::ALL {
        let lease = Lease { delivery: id, token: LeaseToken::random() };
        assert_eq!(t.settle(verb.of(lease)).await, Settled::LeaseLost, "{verb:?} of a pending delivery");
    }

    assert_eq!(t.hold(claim(mailer)).await.delivery.attempt, 1);
});

case!(t1_r16_a_stale_completion_publishes_nothing, |t| async move {
    let (stale, _) = taken_over(&t, WorkerId::random(), WorkerId::random()).await;
    let auditor = t.subscribe(handler("auditor", &["order.audited"])).await;

    let settled = t.settle(complete_with(stale.lease, vec![event("order.audited")])).await;

    assert_eq!(settled, Settled::LeaseLost);
    assert!(t.claim(claim(auditor)).await.deliveries.is_empty());
});

case!(t2_r11_an_expired_lease_that_nobody_took_may_still_be_settled, |t| async move {
    for (verb, status) in Verb::ALL.into_iter().zip([Status::Completed, Status::Pending, Status::Buried, Status::Pending]) {
        let id = t.subscribe(handler(verb.name(), &[verb.name()])).await;
        t.publish(event(verb.name())).await;
        let held = t.crash(claim(id)).await;

        assert_eq!(t.settle(verb.of(held.lease)).await, Settled::Applied, "{verb:?} under an expired lease");

        let shown = t.show(held.delivery.id).await;
        assert_eq!((shown.status, shown.crashes), (status, 0), "after {verb:?}");
    }
});

case!(t3_r12_the_same_verb_again_is_applied_and_changes_nothing, |t| async move {
    for verb in Verb::ALL {
        let (_, held) = t.hold_one_of(verb.name(), verb.name()).await;
        t.settle(verb.of(held.lease)).await;
        let before = t.details(held.delivery.id).await;

        let again = t.reopen().await.settle(verb.of(held.lease)).await;

        let after = t.details(held.delivery.id).await;
        assert_eq!(again, Settled::Applied, "{verb:?} again");
        assert_eq!(
            (after.summary.status, after.summary.attempts, after.summary.due_at),
            (before.summary.status, before.summary.attempts, before.summary.due_at)
        );
        assert_eq!((after.summary.settled_at, after.attempt_records.len()), (before.summary.settled_at, before.attempt_records.len()));
    }
});

case!(t3_r12_another_verb_after_a_settle_has_lost_the_lease, |t| async move {
    for first in Verb::ALL {
        let (_, held) = t.hold_one_of(first.name(), first.name()).await;
        t.settle(first.of(held.lease)).await;
        let before = t.show(held.delivery.id).await;

        for second in Verb::ALL.into_iter().filter(|verb| *verb != first) {
            assert_eq!(t.settle(second.of(held.lease)).await, Settled::LeaseLost, "{second:?} after {first:?}");
        }

        let after = t.show(held.delivery.id).await;
        assert_eq!((after.status, after.due_at, after.settled_at), (before.status, before.due_at, before.settled_at));
    }
});

case!(t3_r12_a_repeated_release_after_the_next_claim_has_lost_the_lease, |t| async move {
    let (_, stale, taken) = released(&t).await;

    assert_eq!(t.settle(release(stale.lease)).await, Settled::LeaseLost);
    assert_eq!(t.settle(Verb::Complete.of(taken.lease)).await, Settled::Applied);
});

case!(t3_r16_a_repeated_completion_publishes_its_events_once, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let auditor = t.subscribe(handler("auditor", &["order.audited"])).await;
    let completion = complete_with(held.lease, vec![event("order.audited")]);
    t.settle(completion.clone()).await;

    assert_eq!(t.settle(completion).await, Settled::Applied);
    assert_eq!(t.claim(claim(auditor)).await.deliveries.len(), 1);
});

case!(t3_the_same_settlement_twice_in_one_batch_is_applied_once, |t| async move {
    let (_, held) = t.hold_one("mailer").await;

    let settled = t.settle_all(vec![Verb::Reschedule.of(held.lease), Verb::Reschedule.of(held.lease)]).await;

    assert_eq!(settled, [Settled::Applied; 2]);
    assert_eq!(t.attempt_records(held.delivery.id).await.len(), 1);
    let waits = t.show(held.delivery.id).await.due_at.expect("it is pending") - t.now().await;
    assert!(waits <= TimeDelta::from_std(LONG).expect("a delay") && waits > TimeDelta::from_std(Duration::from_secs(1)).expect("a delay"));
});
