//! What a claim does about leases that ran out: crashes are counted, and what kills its host ends up alone, then buried (R8).

use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::delivery::{HandlerId, Status};
use relaybus_host::lease::Lease;
use relaybus_host::store::{BuriedAtClaim, List, Settled, Subscribe};
use relaybus_host::verdict::Reason;

use crate::harness::{SHORT, Test, case, until};
use crate::words::{ClaimWords, Held, bury, claim, complete, event, handler, ids, release, reschedule};

/// A handler with one delivery that has brought down two workers, and has been put back to pending by a claim of a third.
async fn twice_crashed(t: &Test) -> (HandlerId, Held) {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    t.crash(claim(mailer)).await;
    let held = t.crash(claim(mailer)).await;
    let claimed = t.claim(claim(mailer).lease(SHORT)).await;
    assert!(claimed.deliveries.is_empty(), "expected no takeover after the second crash, got {claimed:?}");
    (mailer, held)
}

/// Waits until the delivery that must run alone is due, and the claims that may not have it say so.
async fn isolated_due(t: &Test, mailer: HandlerId) {
    until("a delivery is due that must run alone", || async { t.claim(claim(mailer).limit(1)).await.isolated_due.then_some(()) }).await;
}

case!(c7_r7_r8_an_expired_lease_is_taken_over_at_once_and_counts_a_crash, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let dead = t.crash(claim(mailer)).await;

    let taken = t.reopen().await.hold(claim(mailer)).await;

    assert_eq!(taken.delivery.id, dead.delivery.id);
    assert_eq!((taken.delivery.attempt, taken.delivery.crashes), (2, 1));
});

case!(c7_r8_a_crash_leaves_an_attempt_record_of_the_dead_worker, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let dead = t.crash(claim(mailer)).await;
    let worker = t.show(dead.delivery.id).await.worker.expect("the worker is known");

    t.hold(claim(mailer)).await;

    let records = t.attempt_records(dead.delivery.id).await;
    let told: Vec<_> = records.iter().map(|record| (record.attempt, record.worker.clone(), record.reason.as_str())).collect();
    assert_eq!(told, [(1, worker, Reason::LeaseExpired.as_str())]);
});

case!(c7_r8_a_settled_or_released_run_never_counts_a_crash, |t| async move {
    let (mailer, first) = t.hold_one("mailer").await;
    t.settle(release(first.lease)).await;
    let second = t.hold(claim(mailer)).await;
    t.settle(reschedule(second.lease, Duration::ZERO)).await;

    assert_eq!(t.hold_when_due(claim(mailer)).await.delivery.crashes, 0);
});

case!(c8_r8_at_max_attempts_the_claim_buries_and_says_so, |t| async move {
    let mailer = t.subscribe(Subscribe { max_attempts: 1, ..handler("mailer", &["order.*"]) }).await;
    t.publish(event("order.created")).await;
    let held = t.crash(claim(mailer)).await;

    let claimed = t.claim(claim(mailer)).await;

    assert!(claimed.deliveries.is_empty());
    assert_eq!(claimed.buried, [BuriedAtClaim { id: held.delivery.id, handler: mailer, reason: Reason::MaxAttempts }]);
    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.crashes, shown.reason.as_deref()), (Status::Buried, 1, Some("max-attempts")));
    assert!(shown.settled_at.is_some() && shown.due_at.is_none() && shown.lease_expires_at.is_none());
});

case!(c8_r8_at_max_crashes_the_claim_buries_and_says_so, |t| async move {
    let mailer = t.subscribe(Subscribe { max_crashes: 1, ..handler("mailer", &["order.*"]) }).await;
    t.publish(event("order.created")).await;
    let held = t.crash(claim(mailer)).await;

    let claimed = t.claim(claim(mailer).alone()).await;

    assert!(claimed.deliveries.is_empty());
    assert_eq!(claimed.buried, [BuriedAtClaim { id: held.delivery.id, handler: mailer, reason: Reason::MaxCrashes }]);
    assert_eq!(t.show(held.delivery.id).await.reason.as_deref(), Some("max-crashes"));
    assert_eq!(t.attempt_records(held.delivery.id).await.len(), 1);
});

case!(c8_r8_what_kills_its_host_cannot_loop_for_ever, |t| async move {
    let mailer = t.subscribe(Subscribe { max_crashes: 3, ..handler("mailer", &["order.*"]) }).await;
    t.publish(event("order.created")).await;
    for _ in 0..3 {
        t.crash(claim(mailer).alone()).await;
    }

    let claimed = t.claim(claim(mailer).alone()).await;

    assert!(claimed.deliveries.is_empty() && claimed.buried.len() == 1, "expected it to be buried after three crashes, got {claimed:?}");
    assert_eq!((claimed.buried[0].reason, t.show(claimed.buried[0].id).await.attempts), (Reason::MaxCrashes, 3));
});

case!(c8_r12_burying_at_claim_clears_the_token, |t| async move {
    let mailer = t.subscribe(Subscribe { max_attempts: 1, ..handler("mailer", &["order.*"]) }).await;
    t.publish(event("order.created")).await;
    let held = t.crash(claim(mailer)).await;
    t.claim(claim(mailer)).await;

    let answers = [t.settle(bury(held.lease)).await, t.settle(complete(held.lease)).await];

    assert_eq!(answers, [Settled::LeaseLost; 2]);
    assert_eq!(t.show(held.delivery.id).await.reason.as_deref(), Some("max-attempts"));
});

case!(c8_a_claim_that_buries_hands_out_the_others, |t| async move {
    let mailer = t.subscribe(Subscribe { max_attempts: 1, ..handler("mailer", &["order.*"]) }).await;
    t.publish_many("order.created", 3).await;
    let dead = claim(mailer).lease(SHORT);
    let lease = Lease { token: dead.token, delivery: t.claim(dead).await.deliveries[2].id };
    t.expired(lease).await;
    t.publish_many("order.created", 2).await;

    let claimed = t.claim(claim(mailer)).await;

    assert_eq!((claimed.deliveries.len(), claimed.buried.len()), (2, 3));
});

case!(c8_r8_a_pending_delivery_whose_attempts_are_used_up_is_buried, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(reschedule(held.lease, Duration::ZERO)).await;
    t.subscribe(Subscribe { max_attempts: 1, ..handler("mailer", &["order.created"]) }).await;

    let claimed = t.claim(claim(mailer)).await;

    assert!(claimed.deliveries.is_empty());
    assert_eq!(claimed.buried, [BuriedAtClaim { id: held.delivery.id, handler: mailer, reason: Reason::MaxAttempts }]);
});

case!(c9_r8_from_the_second_crash_on_it_waits_up_to_a_lease_without_an_attempt, |t| async move {
    let (_, held) = twice_crashed(&t).await;

    let shown = t.show(held.delivery.id).await;

    assert_eq!((shown.status, shown.attempts, shown.crashes), (Status::Pending, 2, 2));
    let lease = TimeDelta::from_std(SHORT).expect("a short lease");
    assert!(shown.due_at.expect("it is pending") <= t.now().await + lease);
    assert_eq!(t.attempt_records(held.delivery.id).await.len(), 2);
});

case!(c9_r8_it_is_handed_out_alone_though_others_are_due, |t| async move {
    let (mailer, held) = twice_crashed(&t).await;
    isolated_due(&t, mailer).await;
    t.publish_many("order.created", 3).await;

    let claimed = t.claim(claim(mailer).alone()).await;

    assert_eq!(ids(&claimed), [held.delivery.id]);
    assert_eq!((claimed.deliveries[0].attempt, claimed.deliveries[0].crashes), (3, 2));
});

case!(c9_two_that_must_run_alone_are_handed_out_one_by_one, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 2).await;
    until("both are put back to pending", || async {
        t.claim(claim(mailer).lease(SHORT)).await;
        t.list(List::default()).await.iter().all(|delivery| delivery.crashes == 2 && delivery.status == Status::Pending).then_some(())
    })
    .await;

    let first = t.hold_when_due(claim(mailer).alone()).await;
    let second = t.hold_when_due(claim(mailer).alone()).await;

    assert!(first.delivery.id != second.delivery.id);
});

case!(c9_an_alone_claim_without_any_such_delivery_is_like_any_other, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;

    let claimed = t.claim(claim(mailer).alone()).await;

    assert_eq!((claimed.deliveries.len(), claimed.isolated_due), (3, false));
});

case!(c9_a_third_crash_puts_it_back_again, |t| async move {
    let (mailer, held) = twice_crashed(&t).await;
    t.crash(claim(mailer).alone()).await;

    // The delay is random, up to this claim's lease: under a short one it may be over before the claim has ended.
    let claimed = t.claim(claim(mailer).alone()).await;

    let shown = t.show(held.delivery.id).await;
    assert!(claimed.deliveries.is_empty(), "expected no takeover after the third crash, got {claimed:?}");
    assert_eq!((shown.status, shown.attempts, shown.crashes), (Status::Pending, 3, 3));
});

case!(c10_r8_a_shared_claim_leaves_it_and_says_that_one_is_due, |t| async move {
    let (mailer, held) = twice_crashed(&t).await;
    isolated_due(&t, mailer).await;
    t.publish_many("order.created", 3).await;

    let claimed = t.claim(claim(mailer)).await;

    assert!(claimed.isolated_due);
    assert!(claimed.deliveries.len() == 3 && !ids(&claimed).contains(&held.delivery.id), "{claimed:?}");
    assert_eq!(t.show(held.delivery.id).await.status, Status::Pending);
});

case!(c10_many_that_must_run_alone_do_not_keep_the_others_from_a_shared_claim, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 20).await;
    until("all are put back to pending", || async {
        t.claim(claim(mailer).lease(SHORT)).await;
        t.list(List::default()).await.iter().all(|delivery| delivery.crashes == 2 && delivery.status == Status::Pending).then_some(())
    })
    .await;
    isolated_due(&t, mailer).await;
    let late = t.publish(event("order.created")).await.event;

    let claimed = t.claim(claim(mailer).limit(2)).await;

    assert_eq!(claimed.deliveries.iter().map(|delivery| delivery.event_id).collect::<Vec<_>>(), [late]);
});

case!(c9_r8_one_poison_in_a_batch_buries_no_innocent, |t| async move {
    let mailer = t.subscribe(Subscribe { max_crashes: 3, ..handler("mailer", &["order.*"]) }).await;
    t.publish_many("order.created", 20).await;
    let poison = t.list(List::default()).await[7].id;

    let settled = until("every delivery is settled", || async {
        // A worker with nothing in flight. It dies, with all that it holds, if the poison is among it.
        let claim = claim(mailer).alone().lease(SHORT);
        let token = claim.token;
        let held = ids(&t.claim(claim).await);
        if !held.contains(&poison) {
            t.settle_all(held.into_iter().map(|delivery| complete(Lease { delivery, token })).collect()).await;
        }
        let shown = t.list(List::default()).await;
        shown.iter().all(|delivery| delivery.settled_at.is_some()).then_some(shown)
    })
    .await;

    let buried: Vec<_> = settled.iter().filter(|delivery| delivery.status == Status::Buried).map(|delivery| delivery.id).collect();
    assert_eq!(buried, [poison]);
});
