//! The checker finds what it is there to find: histories that are wrong in one way each.

use std::time::{Duration, Instant};

use chrono::Utc;
use relaybus_host::delivery::{DeliveryId, EventId, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken, Renewal};
use relaybus_host::store::{DeliverySummary, Settled};
use relaybus_tests::history::{Entry, History, Span, Verb};
use relaybus_tests::invariants;

const LEASE: Duration = Duration::from_secs(10);

/// A delivery and moments of its life.
struct Story {
    event: EventId,
    id: DeliveryId,
    began: Instant,
}

impl Story {
    fn new() -> Self {
        let event = EventId::new();
        Self { event, id: DeliveryId::derive(event, "default", "mailer"), began: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Span {
        let from = self.began + Duration::from_secs(seconds);
        Span { from, to: from + Duration::from_millis(1) }
    }

    fn accepted(&self) -> Entry {
        Entry::Accepted { event: self.event, n_deliveries: 1 }
    }

    fn claimed(&self, token: LeaseToken, second: u64) -> Entry {
        Entry::Claimed { delivery: self.id, token, worker: WorkerId::random(), lease: LEASE, call: self.at(second) }
    }

    fn settled(&self, token: LeaseToken, verb: Verb, second: u64) -> Entry {
        let lease = Lease { delivery: self.id, token };
        Entry::Settled { lease, verb, events: Vec::new(), answer: Settled::Applied, call: self.at(second) }
    }

    fn refused(&self, token: LeaseToken, verb: Verb, second: u64) -> Entry {
        let lease = Lease { delivery: self.id, token };
        Entry::Settled { lease, verb, events: Vec::new(), answer: Settled::LeaseLost, call: self.at(second) }
    }

    fn published(&self, token: LeaseToken, event: EventId, answer: Settled) -> Entry {
        let lease = Lease { delivery: self.id, token };
        Entry::Settled { lease, verb: Verb::Complete, events: vec![event], answer, call: self.at(1) }
    }

    fn renewed(&self, token: LeaseToken, answer: Renewal, second: u64) -> Entry {
        Entry::Renewed { lease: Lease { delivery: self.id, token }, lease_duration: LEASE, answer, call: self.at(second) }
    }

    fn end(&self, status: Status, attempts: u32, crashes: u32) -> DeliverySummary {
        DeliverySummary {
            id: self.id,
            event_id: self.event,
            tenant: "default".to_owned(),
            handler: "mailer".to_owned(),
            topic: "order.created".to_owned(),
            key: None,
            status,
            attempts,
            max_attempts: 10,
            crashes,
            due_at: None,
            lease_expires_at: None,
            worker: None,
            published_at: Utc::now(),
            settled_at: None,
            reason: None,
            message: None,
            output: None,
        }
    }
}

fn violations(entries: impl IntoIterator<Item = Entry>, end: &[DeliverySummary]) -> String {
    let history = History::default();
    history.add(entries);
    history.violations(end).join("\n")
}

fn assert_found(expected: &str, entries: impl IntoIterator<Item = Entry>, end: &[DeliverySummary]) {
    let found = violations(entries, end);
    assert!(found.contains(expected), "expected `{expected}`, got `{found}`");
}

#[test]
fn a_sound_history_has_no_violations() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let crashed_once = [story.accepted(), story.claimed(one, 0), story.claimed(two, 11), story.settled(two, Verb::Complete, 12)];
    assert_eq!(violations(crashed_once, &[story.end(Status::Completed, 2, 1)]), "");
    let retried =
        [story.claimed(one, 0), story.settled(one, Verb::Reschedule, 1), story.claimed(two, 1), story.settled(two, Verb::Bury, 2)];
    assert_eq!(violations(retried, &[story.end(Status::Buried, 2, 0)]), "");
    let late = [
        story.claimed(one, 0),
        story.claimed(two, 11),
        story.refused(one, Verb::Complete, 12),
        story.renewed(one, Renewal::Lost, 12),
        story.settled(two, Verb::Complete, 13),
        story.settled(two, Verb::Complete, 14),
        story.renewed(two, Renewal::Lost, 14),
    ];
    assert_eq!(violations(late, &[story.end(Status::Completed, 2, 1)]), "");
}

#[test]
fn r22_a_lost_delivery_is_found() {
    let story = Story::new();
    assert_found("accepted with 1 deliveries, and 0 are there", [story.accepted()], &[]);
}

#[test]
fn r22_a_delivery_that_never_ended_is_found() {
    let (story, one) = (Story::new(), LeaseToken::random());
    assert_found("expected to be settled, got `processing`", [story.claimed(one, 0)], &[story.end(Status::Processing, 1, 0)]);
}

#[test]
fn r11_a_second_completion_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let twice =
        [story.claimed(one, 0), story.claimed(two, 11), story.settled(one, Verb::Complete, 12), story.settled(two, Verb::Complete, 13)];
    assert_found("expected to end once, ended 2 times", twice, &[story.end(Status::Completed, 2, 0)]);
}

#[test]
fn r11_a_settlement_without_a_claim_is_found() {
    let (story, one) = (Story::new(), LeaseToken::random());
    assert_found("which no claim has handed out", [story.settled(one, Verb::Complete, 1)], &[story.end(Status::Completed, 0, 0)]);
}

#[test]
fn r12_two_verbs_under_one_token_are_found() {
    let (story, one) = (Story::new(), LeaseToken::random());
    let both = [story.claimed(one, 0), story.settled(one, Verb::Reschedule, 1), story.settled(one, Verb::Complete, 2)];
    assert_found("settled in more than one way", both, &[story.end(Status::Completed, 1, 0)]);
}

#[test]
fn r2_two_live_leases_are_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let both = [story.claimed(one, 0), story.claimed(two, 5), story.settled(two, Verb::Complete, 6)];
    assert_found("before the lease", both, &[story.end(Status::Completed, 2, 1)]);
}

#[test]
fn r3_a_claim_before_the_end_of_a_renewed_lease_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let renewal = story.renewed(one, Renewal::Renewed, 9);
    let both = [story.claimed(one, 0), renewal, story.claimed(two, 12), story.settled(two, Verb::Complete, 13)];
    assert_found("before the lease", both, &[story.end(Status::Completed, 2, 1)]);
}

#[test]
fn r8_a_crash_that_was_not_counted_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let crashed = [story.claimed(one, 0), story.claimed(two, 11), story.settled(two, Verb::Complete, 12)];
    assert_found("2 claims, but 1 of them settled and 0 crashes", crashed, &[story.end(Status::Completed, 2, 0)]);
}

#[test]
fn r15_a_release_that_cost_an_attempt_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let released = [story.claimed(one, 0), story.settled(one, Verb::Release, 1), story.claimed(two, 2), story.settled(two, Verb::Bury, 3)];
    assert_found("2 claims, but 2 attempts and 1 given back", released, &[story.end(Status::Buried, 2, 0)]);
}

#[test]
fn r11_a_stale_settlement_is_found_though_the_sums_hold() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let stale = [
        story.claimed(one, 0),
        story.claimed(two, 11),
        story.settled(one, Verb::Reschedule, 12),
        story.settled(two, Verb::Complete, 13),
        Entry::Doubtful { delivery: story.id },
    ];
    assert_found("Reschedule applied under", stale, &[story.end(Status::Completed, 2, 1)]);
}

#[test]
fn r12_a_settlement_repeated_after_another_claim_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let repeated = [
        story.claimed(one, 0),
        story.settled(one, Verb::Reschedule, 1),
        story.claimed(two, 2),
        story.settled(one, Verb::Reschedule, 3),
        story.settled(two, Verb::Complete, 4),
    ];
    assert_found("Reschedule applied under", repeated, &[story.end(Status::Completed, 2, 0)]);
}

#[test]
fn r11_a_stale_renewal_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let after_a_claim =
        [story.claimed(one, 0), story.claimed(two, 11), story.renewed(one, Renewal::Renewed, 12), story.settled(two, Verb::Complete, 13)];
    assert_found("renewed under", after_a_claim, &[story.end(Status::Completed, 2, 1)]);
    let after_its_end = [story.claimed(one, 0), story.settled(one, Verb::Complete, 1), story.renewed(one, Renewal::Renewed, 2)];
    assert_found("renewed under", after_its_end, &[story.end(Status::Completed, 1, 0)]);
}

#[test]
fn r11_a_lease_that_is_lost_though_nobody_took_it_is_found() {
    let (story, one, two) = (Story::new(), LeaseToken::random(), LeaseToken::random());
    let refused = [
        story.claimed(one, 0),
        story.settled(one, Verb::Reschedule, 1),
        story.claimed(two, 2),
        story.refused(two, Verb::Complete, 3),
        story.settled(two, Verb::Complete, 4),
    ];
    assert_found("Complete refused under", refused, &[story.end(Status::Completed, 2, 0)]);
    let not_renewed = [story.claimed(one, 0), story.renewed(one, Renewal::Lost, 11), story.settled(one, Verb::Complete, 12)];
    assert_found("not renewed under", not_renewed, &[story.end(Status::Completed, 1, 0)]);
}

#[test]
fn r14_an_end_that_nobody_settled_is_found() {
    let (story, one) = (Story::new(), LeaseToken::random());
    let completed = [story.claimed(one, 0), story.settled(one, Verb::Complete, 1)];
    assert_found("expected to be `completed` as it was settled, got `buried`", completed, &[story.end(Status::Buried, 1, 0)]);
}

#[test]
fn r16_events_of_runs_that_are_lost_doubled_or_of_a_run_that_did_not_complete_are_found() {
    let (story, one, follower) = (Story::new(), LeaseToken::random(), Story::new());
    let found = |answer, end: &[DeliverySummary]| {
        invariants::violations_of_run_events(&[story.published(one, follower.event, answer)], end, "mailer").join("\n")
    };
    let end = follower.end(Status::Completed, 1, 0);
    assert_eq!(found(Settled::Applied, std::slice::from_ref(&end)), "");
    assert_eq!(found(Settled::LeaseLost, &[]), "");
    assert!(found(Settled::Applied, &[]).contains("of a run that completed: not there"));
    assert!(found(Settled::LeaseLost, std::slice::from_ref(&end)).contains("of no run that completed: there"));
    assert!(found(Settled::Applied, &[end.clone(), end]).contains("2 deliveries of 1 events"));
}
