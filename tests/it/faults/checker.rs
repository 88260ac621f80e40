//! The checker finds what it is there to find: histories that are wrong in one way each.

use std::time::{Duration, Instant};

use chrono::Utc;
use relaybus_host::delivery::{DeliveryId, EventId, Status, WorkerId};
use relaybus_host::lease::{Lease, LeaseToken};
use relaybus_host::store::{DeliverySummary, Settled};
use relaybus_tests::history::{Entry, History, Span, Verb};

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
        Entry::Settled { lease: Lease { delivery: self.id, token }, verb, answer: Settled::Applied, call: self.at(second) }
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
    let renewal = Entry::Renewed { lease: Lease { delivery: story.id, token: one }, lease_duration: LEASE, call: story.at(9) };
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
