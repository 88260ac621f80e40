//! What a claim promises while all goes well. Crashes are in `isolation`, competitors in `races`.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::delivery::{HandlerId, NewEvent, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{Backend, Claim, ClaimFor, Claimed, List, Settled};
use tokio::time::Instant;

use crate::harness::{LONG, SHORT, Test, case, until};
use crate::words::{ClaimWords, bury, claim, claim_for, complete, event, handler, ids, release, reschedule};

case!(c1_r1_no_delivery_is_handed_to_two_claimers, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;

    let first = t.claim(claim(mailer)).await;
    let second = t.reopen().await.claim(claim(mailer)).await;

    assert_eq!((first.deliveries.len(), second.deliveries.len()), (3, 0));
});

case!([Backend::Postgres, Backend::MongoDb], c1_r1_a_row_locked_by_somebody_else_keeps_no_other_from_being_claimed, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;
    let locked = t.list(List::default()).await[2].id;
    let lock = t.lock(locked).await;

    let mut meanwhile = t.hold_when_due(claim(mailer).limit(1)).await;
    let first = meanwhile.delivery.id;
    meanwhile = t.hold_when_due(claim(mailer).limit(1)).await;

    lock.release().await;
    assert!(first != locked && meanwhile.delivery.id != locked && meanwhile.delivery.id != first);
    assert_eq!(t.hold_when_due(claim(mailer)).await.delivery.id, locked);
});

// MongoDB makes a write wait for the transaction that holds its document.
case!([Backend::Postgres], c1_r1_rows_locked_by_somebody_else_are_passed_over_and_not_waited_for, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;
    let locked = t.list(List::default()).await[2].id;
    let lock = t.lock(locked).await;

    let meanwhile = t.claim(claim(mailer).limit(2)).await;

    lock.release().await;
    assert!(meanwhile.deliveries.len() == 2 && !ids(&meanwhile).contains(&locked), "{meanwhile:?}");
    assert_eq!(ids(&t.claim(claim(mailer)).await), [locked]);
});

case!(c2_r1_never_more_than_the_limit, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 7).await;

    let sizes = [t.claim(claim(mailer).limit(3)).await, t.claim(claim(mailer).limit(3)).await, t.claim(claim(mailer).limit(3)).await];

    assert_eq!(sizes.map(|claimed| claimed.deliveries.len()), [3, 3, 1]);
    assert_eq!(t.list(List { status: Some(Status::Pending), ..List::default() }).await.len(), 0);
});

case!(c2_r1_never_more_of_a_handler_than_its_own_limit, |t| async move {
    let (mailer, auditor) = (t.subscribe(handler("mailer", &[">"])).await, t.subscribe(handler("auditor", &[">"])).await);
    t.publish_many("order.created", 5).await;
    let wanted = |handler: HandlerId, limit: u32| ClaimFor { handler, limit, lease_duration: LONG };

    let claimed = t.claim(Claim { handlers: vec![wanted(mailer, 2), wanted(auditor, 1)], ..claim_for(&[]) }).await;

    let of = |id: HandlerId| claimed.deliveries.iter().filter(|delivery| delivery.handler == id).count();
    assert_eq!((of(mailer), of(auditor), claimed.deliveries.len()), (2, 1, 3));
});

case!(c2_a_limit_of_zero_claims_nothing, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 2).await;

    assert!(t.claim(claim(mailer).limit(0)).await.deliveries.is_empty());
    assert!(t.claim(claim_for(&[])).await.deliveries.is_empty());
});

case!(c3_only_deliveries_of_the_named_handlers, |t| async move {
    let mailer = t.subscribe(handler("mailer", &[">"])).await;
    let auditor = t.subscribe(handler("auditor", &[">"])).await;
    t.publish_many("order.created", 2).await;

    let claimed = t.claim(claim(auditor)).await.deliveries;

    assert!(claimed.len() == 2 && claimed.iter().all(|delivery| delivery.handler == auditor), "{claimed:?}");
    assert_eq!(t.claim(claim(mailer)).await.deliveries.len(), 2);
});

case!(c3_many_handlers_are_served_by_one_claim, |t| async move {
    let mut handlers = Vec::new();
    for n in 0..100 {
        handlers.push(t.subscribe(handler(&format!("handler-{n}"), &["order.*"])).await);
    }
    t.publish(event("order.created")).await;

    let sizes = [t.claim(claim_for(&handlers).limit(30)).await, t.claim(claim_for(&handlers)).await];

    assert_eq!(sizes.map(|claimed| claimed.deliveries.len()), [30, 70]);
});

case!(c3_a_handler_that_is_not_there_has_nothing_and_does_no_harm, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;

    let claimed = t.claim(claim_for(&[HandlerId(-1), mailer, HandlerId(i64::MAX)])).await;

    assert_eq!(claimed.deliveries.len(), 1);
});

/// How long a claim takes: the best of a few, so that a busy machine cannot spoil it.
async fn shortest_claim(t: &Test, of: HandlerId) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        t.publish(event("served")).await;
        let started = Instant::now();
        t.hold(claim(of)).await;
        shortest = shortest.min(started.elapsed());
    }
    shortest
}

case!(c3_r5_a_backlog_of_100000_of_unserved_handlers_costs_nothing, |t| async move {
    let served = t.subscribe(handler("served", &["served"])).await;
    let without = shortest_claim(&t, served).await;
    for n in 0..10 {
        t.subscribe(handler(&format!("unserved-{n}"), &["unserved"])).await;
    }
    for _ in 0..10 {
        t.publish_many("unserved", 1000).await;
    }

    let with = shortest_claim(&t, served).await;

    // A claim that walks past the backlog takes hundreds of milliseconds; one that does not cannot tell.
    assert!(with < without * 3 + Duration::from_millis(25), "expected about {without:?}, got {with:?}");
});

case!(c4_r4_an_expired_lease_and_a_due_retry_are_found_by_one_claim, |t| async move {
    let (mailer, failed) = t.hold_one("mailer").await;
    t.settle(reschedule(failed.lease, Duration::ZERO)).await;
    t.publish(event("order.created")).await;
    let again = t.claim(claim(mailer).lease(SHORT)).await;
    t.publish(event("order.created")).await;

    let late = until("the leases run out", || async {
        let claimed = t.claim(claim(mailer)).await.deliveries;
        claimed.iter().any(|delivery| ids(&again).contains(&delivery.id)).then_some(claimed)
    });

    assert_eq!(again.deliveries.len(), 2);
    assert!(late.await.iter().all(|delivery| delivery.crashes == u32::from(ids(&again).contains(&delivery.id))));
});

case!(c4_a_retry_that_is_not_due_is_not_handed_out, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(reschedule(held.lease, LONG)).await;

    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(c5_r24_claims_go_by_due_time, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(NewEvent { delay: Duration::from_millis(500), ..event("order.created") }).await;
    t.publish(event("order.created")).await;
    // On a slow machine the second may have come when the first was due: what counts is what is stored.
    let mut by_due_time = t.list(List::default()).await;
    by_due_time.sort_by_key(|delivery| delivery.due_at);
    until("both are due", || async { (Some(t.now().await) > by_due_time[1].due_at).then_some(()) }).await;

    let (first, second) = (t.hold(claim(mailer).limit(1)).await, t.hold(claim(mailer).limit(1)).await);

    assert_eq!([first.delivery.id, second.delivery.id], [by_due_time[0].id, by_due_time[1].id]);
});

case!(c6_r2_each_claim_counts_an_attempt_and_names_its_worker, |t| async move {
    let worker = WorkerId::random();
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let first = t.hold(claim(mailer)).await;
    t.settle(reschedule(first.lease, Duration::ZERO)).await;

    let second = t.hold_when_due(claim(mailer).by(worker)).await;

    assert_eq!((first.delivery.attempt, second.delivery.attempt), (1, 2));
    let shown = t.show(second.delivery.id).await;
    assert_eq!((shown.status, shown.attempts, shown.worker), (Status::Processing, 2, Some(worker.to_string())));
});

case!(c6_the_lease_ends_one_lease_duration_after_the_claim, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish(event("order.created")).await;
    let before = t.now().await;

    let held = t.hold(claim(mailer).lease(Duration::from_secs(60))).await;

    let ends_at = t.show(held.delivery.id).await.lease_expires_at.expect("a lease end");
    let (minute, slack) = (TimeDelta::seconds(60), TimeDelta::milliseconds(2));
    assert!(ends_at >= before + minute - slack && ends_at <= t.now().await + minute + slack, "claimed at {before}, lease until {ends_at}");
});

case!(c6_a_delivery_under_a_live_lease_is_never_handed_out, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let other = t.reopen().await;

    for claim in [claim(mailer), claim(mailer).alone()] {
        assert!(other.claim(claim).await.deliveries.is_empty());
    }

    assert_eq!(t.show(held.delivery.id).await.attempts, 1);
});

case!(c11_r10_excluded_deliveries_are_left_as_they_are, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(reschedule(held.lease, Duration::ZERO)).await;
    let crashed = t.crash(claim(mailer)).await;
    let before = t.details(held.delivery.id).await;

    let claimed = t.claim(Claim { exclude: vec![held.delivery.id], ..claim(mailer) }).await;

    let after = t.details(held.delivery.id).await;
    assert!(claimed.deliveries.is_empty() && claimed.buried.is_empty());
    assert_eq!((after.summary.attempts, after.summary.crashes, after.attempt_records.len()), (2, 0, before.attempt_records.len()));
    assert_eq!((after.summary.worker, after.summary.lease_expires_at), (before.summary.worker, before.summary.lease_expires_at));
    assert_eq!(t.extend(crashed.lease, LONG).await, Renewal::Renewed);
});

case!(c11_r10_exclusion_neither_takes_places_of_the_limit_nor_hides_others, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    for _ in 0..5 {
        t.publish(event("order.created")).await;
        t.tick().await;
    }
    let latest_first: Vec<_> = t.list(List::default()).await.iter().map(|delivery| delivery.id).collect();

    let claimed = t.claim(Claim { exclude: latest_first[2..].to_vec(), ..claim(mailer).limit(2) }).await;

    assert_eq!(ids(&claimed).into_iter().collect::<BTreeSet<_>>(), latest_first[..2].iter().copied().collect());
    assert_eq!(t.reopen().await.claim(claim(mailer)).await.deliveries.len(), 3);
});

fn sized(n_bytes: usize) -> NewEvent {
    NewEvent { payload: vec![7; n_bytes].into(), ..event("order.created") }
}

case!(c12_r6_payloads_of_a_claim_fit_the_byte_limit, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_all(std::iter::repeat_with(|| sized(400)).take(5).collect()).await;
    let within = |bytes: u64| Claim { max_payload_bytes: bytes, ..claim(mailer) };

    let sizes = [t.claim(within(1000)).await, t.claim(within(800)).await, t.claim(within(799)).await];

    assert_eq!(sizes.map(|claimed| claimed.deliveries.len()), [2, 2, 1]);
    assert!(t.list(List::default()).await.iter().all(|delivery| delivery.attempts == 1));
});

case!(c12_r6_what_does_not_fit_is_left_untouched, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_all(std::iter::repeat_with(|| sized(600)).take(2).collect()).await;

    t.claim(Claim { max_payload_bytes: 1000, ..claim(mailer) }).await;

    let pending = t.list(List { status: Some(Status::Pending), ..List::default() }).await;
    assert_eq!(pending.iter().map(|delivery| (delivery.attempts, delivery.worker.clone())).collect::<Vec<_>>(), [(0, None)]);
});

case!(c12_r6_an_oversized_payload_goes_alone_and_is_never_starved, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_all(vec![sized(10), sized(5000), sized(10)]).await;

    let mut batches = Vec::new();
    for _ in 0..3 {
        let claimed = t.claim(Claim { max_payload_bytes: 1000, ..claim(mailer) }).await.deliveries;
        batches.push(claimed.iter().map(|delivery| delivery.payload.len()).collect::<Vec<_>>());
    }

    assert_eq!(batches.iter().flatten().count(), 3, "expected every payload within three claims, got {batches:?}");
    assert!(batches.contains(&vec![5000]), "expected the oversized payload alone, got {batches:?}");
});

case!(c13_r23_a_malformed_row_is_leased_and_named_and_the_others_are_handed_out, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let bad = t.publish(event("order.created")).await.event;
    t.publish_many("order.created", 2).await;
    t.corrupt_headers(bad).await;
    let first = claim(mailer);
    let token = first.token;

    let claimed = t.claim(first).await;

    assert_eq!((claimed.deliveries.len(), claimed.malformed.len()), (2, 1));
    let malformed = &claimed.malformed[0];
    assert!(malformed.handler == mailer && malformed.problem.contains("headers"), "expected the field's name in {malformed:?}");
    assert!(t.claim(claim(mailer)).await.malformed.is_empty(), "expected the malformed delivery to be under a lease");
    let settled = t.settle(bury(Lease { delivery: malformed.id, token })).await;
    assert_eq!(settled, Settled::Applied);
});

case!(c14_when_fewer_were_due_the_time_until_the_next_is_told, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    let delay = Duration::from_secs(60);
    t.publish_all(vec![event("order.created"), NewEvent { delay, ..event("order.created") }]).await;

    let claimed = t.claim(claim(mailer)).await;

    let next = claimed.next_due_in.expect("a delivery comes due");
    assert!(claimed.deliveries.len() == 1 && next <= delay && next > delay - Duration::from_secs(30), "got {next:?}");
});

case!(c14_a_lease_that_runs_out_comes_due_and_nothing_never_does, |t| async move {
    let (mailer, _) = t.hold_one("mailer").await;
    let empty = t.subscribe(handler("auditor", &["invoice.*"])).await;

    let (leased, nothing) = (t.claim(claim(mailer)).await.next_due_in, t.claim(claim(empty)).await.next_due_in);

    let leased = leased.expect("the lease runs out one day");
    assert!(leased <= LONG && leased > LONG / 2, "got {leased:?}");
    assert_eq!(nothing, None);
});

case!(c15_r2_a_claim_whose_reply_was_lost_is_read_back_by_its_token, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;
    let claim = claim(mailer);
    let token = claim.token;
    let claimed = t.claim(claim).await;

    let recovered = t.reopen().await.store.recover_claim(token).await.expect("the claim is read back");

    let told = |claimed: &Claimed| {
        let mut told: Vec<_> =
            claimed.deliveries.iter().map(|delivery| (delivery.id, delivery.attempt, delivery.payload.clone())).collect();
        told.sort();
        told
    };
    assert_eq!(told(&recovered), told(&claimed));
});

case!(c15_only_what_is_still_processing_under_the_token_is_read_back, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;
    let claim = claim(mailer);
    let token = claim.token;
    let leases: Vec<_> = ids(&t.claim(claim).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    t.settle_all(vec![complete(leases[0]), release(leases[1])]).await;

    let recovered = t.store.recover_claim(token).await.expect("the claim is read back");
    let unknown = t.store.recover_claim(LeaseToken::random()).await.expect("an unknown token is no error");

    assert_eq!(ids(&recovered), [leases[2].delivery]);
    assert!(ids(&unknown).is_empty());
});
