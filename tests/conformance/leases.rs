//! What renewing promises.

use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{Backend, ErrorKind, ExtendLeases, StoreOptions};

use crate::harness::{LONG, SHORT, case};
use crate::words::{ClaimWords, claim, complete, event, handler, ids};

case!(l1_r3_a_renewed_lease_ends_one_lease_duration_from_now, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let before = t.now().await;

    let renewal = t.extend(held.lease, Duration::from_secs(60)).await;

    let ends_at = t.show(held.delivery.id).await.lease_expires_at.expect("a lease end");
    let (minute, slack) = (TimeDelta::seconds(60), TimeDelta::milliseconds(2));
    assert_eq!(renewal, Renewal::Renewed);
    assert!(ends_at >= before + minute - slack && ends_at <= t.now().await + minute + slack, "renewed at {before}, lease until {ends_at}");
    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(l1_r3_a_renewed_lease_is_not_taken_over_when_the_first_one_would_have_run_out, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 2).await;
    let both = claim(mailer).lease(SHORT);
    let token = both.token;
    let leases: Vec<_> = ids(&t.claim(both).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    t.extend(leases[0], LONG).await;
    t.expired(leases[1]).await;

    let taken = t.claim(claim(mailer)).await;

    assert_eq!(ids(&taken), [leases[1].delivery]);
});

case!(l1_the_answers_are_in_the_order_of_the_request, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 40).await;
    let all = claim(mailer);
    let token = all.token;
    let stale = LeaseToken::random();
    let mut leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    leases.reverse();
    leases.iter_mut().step_by(3).for_each(|lease| lease.token = stale);

    let renewals = t.extend_all(leases.clone(), LONG).await;

    let expected: Vec<_> = leases.iter().map(|lease| if lease.token == stale { Renewal::Lost } else { Renewal::Renewed }).collect();
    assert_eq!(renewals, expected);
});

case!(l1_the_same_lease_twice_in_one_batch_is_renewed_twice, |t| async move {
    let (_, held) = t.hold_one("mailer").await;

    assert_eq!(t.extend_all(vec![held.lease, held.lease], LONG).await, [Renewal::Renewed; 2]);
});

case!(l2_r11_a_lease_that_is_not_ours_is_lost_and_nothing_is_changed, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let before = t.show(held.delivery.id).await.lease_expires_at;

    let renewal = t.extend(Lease { token: LeaseToken::random(), ..held.lease }, 2 * LONG).await;

    assert_eq!(renewal, Renewal::Lost);
    assert_eq!(t.show(held.delivery.id).await.lease_expires_at, before);
});

case!(l2_a_settled_or_pruned_delivery_is_lost, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    t.settle(complete(held.lease)).await;
    let gone = Lease { delivery: relaybus_host::delivery::DeliveryId(uuid::Uuid::new_v4()), ..held.lease };

    assert_eq!(t.extend_all(vec![held.lease, gone], LONG).await, [Renewal::Lost, Renewal::Lost]);
});

case!(l2_nothing_to_renew_is_no_error, |t| async move {
    assert!(t.extend_all(Vec::new(), LONG).await.is_empty());
});

case!(l3_an_expired_lease_that_nobody_took_is_renewed, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let held = t.crash(claim(mailer)).await;

    assert_eq!(t.extend(held.lease, LONG).await, Renewal::Renewed);
    assert!(t.reopen().await.claim(claim(mailer)).await.deliveries.is_empty());
    assert_eq!(t.show(held.delivery.id).await.crashes, 0);
});

case!([Backend::Postgres, Backend::MongoDb], l4_r3_a_row_locked_by_somebody_else_is_unknown_and_the_others_are_renewed, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 2).await;
    let both = claim(mailer);
    let token = both.token;
    let leases: Vec<_> = ids(&t.claim(both).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    let lock = t.lock(leases[0].delivery).await;

    let renewals = t.extend_all(leases.clone(), LONG).await;

    lock.release().await;
    assert_eq!(renewals, [Renewal::Unknown, Renewal::Renewed]);
    assert_eq!(t.extend(leases[0], LONG).await, Renewal::Renewed);
});

// SQLite has no row locks: whoever writes holds the file. Then nothing can be said about any lease, but none is lost either.
case!([Backend::Sqlite], l4_r3_while_somebody_else_writes_the_file_no_lease_is_lost, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let hasty = t.reopen_with(StoreOptions { call_timeout: SHORT, max_connections: 2 }).await;
    let lock = t.lock(held.delivery.id).await;

    let answer = hasty.store.extend_leases(ExtendLeases { leases: vec![held.lease], lease_duration: LONG }).await;

    lock.release().await;
    match answer {
        Ok(renewals) => assert_eq!(renewals, [Renewal::Unknown]),
        Err(error) => assert!(matches!(error.kind, ErrorKind::Timeout | ErrorKind::Conflict | ErrorKind::Unavailable), "{error:?}"),
    }
    assert_eq!(t.extend(held.lease, LONG).await, Renewal::Renewed);
});
