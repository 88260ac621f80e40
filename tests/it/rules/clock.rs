//! The worker's own clock (R9).

use std::time::Duration;

use relaybus_host::clock::Instant;
use relaybus_host::lease;

#[test]
fn time_goes_on_and_never_back() {
    let first = Instant::now();
    let second = Instant::now();

    assert!(second >= first);
    assert_eq!(second.until(first), Duration::ZERO);
    assert!(first.has_passed());
}

#[test]
fn a_deadline_ahead_has_not_passed() {
    let deadline = Instant::now() + Duration::from_secs(3600);

    assert!(!deadline.has_passed());
    assert!(deadline.remaining() > Duration::from_secs(3590) && deadline.elapsed() == Duration::ZERO);
}

#[test]
fn a_deadline_far_beyond_all_time_is_no_panic() {
    let deadline = Instant::now() + Duration::MAX + Duration::MAX;

    assert!(!deadline.has_passed());
}

#[test]
fn r3_two_renewals_may_fail_within_a_lease() {
    let lease_duration = Duration::from_secs(30);

    assert_eq!(lease::renewal_interval(lease_duration) * 3, lease_duration);
}
