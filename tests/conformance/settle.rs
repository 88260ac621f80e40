//! What each way to settle promises while the lease is held. The fence is in `fencing`.

use std::time::Duration;

use chrono::TimeDelta;
use relaybus_host::delivery::{NewEvent, Status};
use relaybus_host::lease::{Lease, LeaseToken};
use relaybus_host::store::{AttemptReport, List, MAX_ATTEMPT_RECORDS, Settle, Settled, Settlement};
use relaybus_host::verdict::Reason;

use crate::harness::{LONG, case};
use crate::words::{
    ClaimWords, bury, claim, complete, complete_with, event, handler, ids, release, release_after, report, reschedule, snooze,
};

/// An event that no store accepts.
fn unstorable(topic: &str) -> NewEvent {
    NewEvent { tenant: "no\0tenant".to_owned(), ..event(topic) }
}

case!(t1_a_completed_delivery_is_settled_and_never_claimed_again, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;

    assert_eq!(t.settle(complete(held.lease)).await, Settled::Applied);

    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.due_at, shown.lease_expires_at), (Status::Completed, None, None));
    assert!(shown.settled_at.is_some());
    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(t1_the_answers_are_in_the_order_of_the_request, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 40).await;
    let all = claim(mailer);
    let token = all.token;
    let mut leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    leases.reverse();
    leases.iter_mut().step_by(3).for_each(|lease| lease.token = LeaseToken::random());
    let verbs = [complete, release, bury];

    let settled = t.settle_all(leases.iter().enumerate().map(|(n, lease)| verbs[n % 2](*lease)).collect()).await;

    let expected: Vec<_> = leases.iter().map(|lease| if lease.token == token { Settled::Applied } else { Settled::LeaseLost }).collect();
    assert_eq!(settled, expected);
});

case!(t4_r16_the_events_of_a_run_are_stored_with_its_completion, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let auditor = t.subscribe(handler("auditor", &["order.audited"])).await;
    let sent = NewEvent { key: Some("k".to_owned()), payload: vec![0, 1, 255].into(), ..event("order.audited") };

    t.settle(complete_with(held.lease, vec![sent.clone()])).await;

    let got = t.reopen().await.hold(claim(auditor)).await.delivery;
    assert_eq!((got.event_id, got.key, got.payload), (sent.id, sent.key, sent.payload));
});

case!(t4_r16_if_an_event_cannot_be_stored_neither_is_the_completion, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let auditor = t.subscribe(handler("auditor", &["order.audited"])).await;
    let completion = complete_with(held.lease, vec![event("order.audited"), unstorable("order.audited")]);

    let settled = t.store.settle(vec![completion]).await.expect("the batch is answered").remove(0);

    assert!(settled.is_err(), "expected an error, got {settled:?}");
    assert_eq!(t.show(held.delivery.id).await.status, Status::Processing);
    assert!(t.claim(claim(auditor)).await.deliveries.is_empty());
    assert_eq!(t.settle(bury(held.lease)).await, Settled::Applied);
});

case!(t4_an_event_that_was_published_before_does_not_hinder_the_completion, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let auditor = t.subscribe(handler("auditor", &["order.audited"])).await;
    let sent = NewEvent { dedup_id: Some("audit-1".to_owned()), ..event("order.audited") };
    t.publish(sent.clone()).await;
    let again = NewEvent { id: relaybus_host::delivery::EventId::new(), ..sent.clone() };

    assert_eq!(t.settle(complete_with(held.lease, vec![sent, again])).await, Settled::Applied);
    assert_eq!(t.claim(claim(auditor)).await.deliveries.len(), 1);
});

case!(t5_r14_a_rescheduled_delivery_is_due_after_the_delay_and_the_attempt_counts, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let (delay, before) = (Duration::from_millis(400), t.now().await);

    t.settle(reschedule(held.lease, delay)).await;

    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.attempts, shown.lease_expires_at), (Status::Pending, 1, None));
    assert!(t.hold_when_due(claim(mailer)).await.delivery.attempt == 2);
    let waited = t.now().await - before;
    assert!(waited >= TimeDelta::from_std(delay).expect("a short delay") - TimeDelta::milliseconds(1), "handed out after {waited}");
});

case!(t5_r14_a_snooze_gives_the_attempt_back_and_is_counted, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(snooze(held.lease, Duration::ZERO)).await;
    let second = t.hold_when_due(claim(mailer)).await;
    t.settle(snooze(second.lease, Duration::ZERO)).await;

    let third = t.hold_when_due(claim(mailer)).await.delivery;

    assert_eq!((second.delivery.attempt, second.delivery.snoozes), (1, 1));
    assert_eq!((third.attempt, third.snoozes), (1, 2));
});

case!(t5_a_failure_ends_the_row_of_snoozes, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(snooze(held.lease, Duration::ZERO)).await;
    let second = t.hold_when_due(claim(mailer)).await;
    t.settle(reschedule(second.lease, Duration::ZERO)).await;

    let third = t.hold_when_due(claim(mailer)).await.delivery;

    assert_eq!((third.attempt, third.snoozes), (2, 0));
});

case!(t6_a_buried_delivery_is_parked_with_its_reason_and_not_claimed_again, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;

    t.settle(bury(held.lease)).await;

    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.due_at, shown.attempts), (Status::Buried, None, 1));
    assert_eq!((shown.reason.as_deref(), shown.message.as_deref()), (Some("failed"), Some("it must not be tried again")));
    assert!(shown.settled_at.is_some() && t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(t7_r15_a_release_gives_the_attempt_back_and_goes_before_the_backlog, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let due_at = held.delivery.published_at;
    t.publish_many("order.created", 5).await;

    t.settle(release(held.lease)).await;

    let shown = t.show(held.delivery.id).await;
    assert_eq!((shown.status, shown.attempts), (Status::Pending, 0));
    let moved = (shown.due_at.expect("it is pending") - due_at).abs();
    assert!(moved <= TimeDelta::milliseconds(2), "expected its original due time {due_at}, moved by {moved}");
    assert_eq!(t.hold(claim(mailer).limit(1)).await.delivery.id, held.delivery.id);
});

case!(t7_r15_a_released_retry_keeps_its_own_due_time, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    t.settle(reschedule(held.lease, Duration::from_millis(200))).await;
    let retry_at = t.show(held.delivery.id).await.due_at;
    let second = t.hold_when_due(claim(mailer)).await;

    t.settle(release(second.lease)).await;

    assert_eq!(t.show(held.delivery.id).await.due_at, retry_at);
});

case!(t7_r15_a_renewed_lease_does_not_move_the_original_due_time, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    t.extend(held.lease, LONG).await;

    t.settle(release(held.lease)).await;

    let moved = (t.show(held.delivery.id).await.due_at.expect("it is pending") - held.delivery.published_at).abs();
    assert!(moved <= TimeDelta::milliseconds(2), "moved by {moved}");
});

case!(t7_a_release_with_a_delay_is_due_after_it, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;

    t.settle(release_after(held.lease, LONG)).await;

    assert_eq!(t.show(held.delivery.id).await.attempts, 0);
    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(t8_r14_a_report_leaves_an_attempt_record, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let report = AttemptReport {
        ran_for: Duration::from_secs(2),
        reason: Reason::Trap,
        message: "unreachable".to_owned(),
        output: "last words\n".to_owned(),
        ..report("")
    };
    let settle = Settle::Reschedule { delay: LONG, attempt: relaybus_host::store::Attempt::Counts };

    t.settle(Settlement { lease: held.lease, settle, report: Some(report.clone()) }).await;

    let record = t.attempt_records(held.delivery.id).await.remove(0);
    assert_eq!((record.attempt, record.worker, record.reason.as_str()), (1, report.worker.to_string(), "trap"));
    assert_eq!((record.message, record.output), (report.message, report.output));
    assert_eq!(record.ended_at - record.started_at, TimeDelta::seconds(2));
});

case!(t8_r14_the_last_ten_attempt_records_are_kept_oldest_first, |t| async move {
    let (mailer, first) = t.hold_one("mailer").await;
    let id = first.delivery.id;
    t.settle(reschedule(first.lease, Duration::ZERO)).await;
    for _ in 1..MAX_ATTEMPT_RECORDS + 3 {
        let held = t.hold_when_due(claim(mailer)).await;
        t.settle(reschedule(held.lease, Duration::ZERO)).await;
    }

    let attempts: Vec<_> = t.attempt_records(id).await.iter().map(|record| record.attempt).collect();

    assert_eq!(attempts, (4..=13).collect::<Vec<_>>());
});

case!(t8_texts_are_cleaned_of_what_the_store_refuses, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let report = AttemptReport { output: "x\0y".to_owned(), ..report("before\0after \u{1F600} \u{7}") };

    let settled = t.settle(Settlement { lease: held.lease, settle: Settle::Bury, report: Some(report) }).await;

    assert_eq!(settled, Settled::Applied);
    let shown = t.show(held.delivery.id).await;
    let (message, output) = (shown.message.expect("a message"), shown.output.expect("an output"));
    assert!(message.starts_with("before") && message.contains("after \u{1F600}") && output.contains('y'), "got `{message}` and `{output}`");
});

case!(t8_a_very_long_text_does_not_fail_the_settlement, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let report = AttemptReport { output: "ö".repeat(1 << 20), ..report(&"ä".repeat(1 << 20)) };

    let settled = t.settle(Settlement { lease: held.lease, settle: Settle::Bury, report: Some(report) }).await;

    assert_eq!(settled, Settled::Applied);
    assert!(t.show(held.delivery.id).await.message.expect("a message").starts_with("ää"));
});

case!(t8_a_release_with_a_report_keeps_both_the_record_and_the_attempt, |t| async move {
    let (mailer, held) = t.hold_one("mailer").await;
    let report = AttemptReport { reason: Reason::HostFault, ..report("no slot") };

    t.settle(Settlement { lease: held.lease, settle: Settle::Release { delay: None }, report: Some(report) }).await;

    assert_eq!(t.attempt_records(held.delivery.id).await[0].reason, "host-fault");
    assert_eq!(t.hold(claim(mailer)).await.delivery.attempt, 1);
});

case!(t9_r23_one_bad_settlement_does_not_fail_its_batch, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 4).await;
    let all = claim(mailer);
    let token = all.token;
    let leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    let stale = Lease { token: LeaseToken::random(), ..leases[2] };
    let batch = vec![complete(leases[0]), complete_with(leases[1], vec![unstorable("x")]), complete(stale), reschedule(leases[3], LONG)];

    let settled = t.store.settle(batch).await.expect("the batch is answered");

    let told: Vec<_> = settled.iter().map(|settled| settled.as_ref().ok().copied()).collect();
    assert_eq!(told, [Some(Settled::Applied), None, Some(Settled::LeaseLost), Some(Settled::Applied)]);
    assert_eq!(t.list(List { status: Some(Status::Processing), ..List::default() }).await.len(), 2);
});

case!(t9_what_could_not_be_stored_is_never_told_as_applied, |t| async move {
    let (_, held) = t.hold_one("mailer").await;
    let bad = complete_with(held.lease, vec![unstorable("x")]);

    let settled = t.store.settle(vec![bad.clone(), bad]).await.expect("the batch is answered");

    assert!(settled.iter().all(Result::is_err), "expected two errors, got {settled:?}");
    assert_eq!(t.show(held.delivery.id).await.status, Status::Processing);
});

case!(t9_a_delay_beyond_all_time_is_kept_or_fails_by_itself, |t| async move {
    let mailer = t.subscribe(handler("mailer", &["order.*"])).await;
    t.publish_many("order.created", 3).await;
    let all = claim(mailer);
    let token = all.token;
    let leases: Vec<_> = ids(&t.claim(all).await).into_iter().map(|delivery| Lease { delivery, token }).collect();
    let batch = vec![reschedule(leases[0], Duration::MAX), release_after(leases[1], Duration::MAX), complete(leases[2])];

    let settled = t.store.settle(batch).await.expect("the batch is answered");

    assert!(matches!(settled[2], Ok(Settled::Applied)), "{settled:?}");
    for (lease, settled) in leases.iter().zip(&settled).take(2) {
        let expected = if settled.is_ok() { Status::Pending } else { Status::Processing };
        assert_eq!(t.show(lease.delivery).await.status, expected, "after {settled:?}");
    }
    assert!(t.claim(claim(mailer)).await.deliveries.is_empty());
});

case!(t9_nothing_to_settle_is_no_error, |t| async move {
    assert!(t.settle_all(Vec::new()).await.is_empty());
});
