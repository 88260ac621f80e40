//! What follows a run: each row of the table of R14, and the delays between tries.

use std::time::Duration;

use proptest::prelude::*;
use relaybus_host::policy::{Decision, RetryPolicy, Tries, decide};
use relaybus_host::verdict::{AbortReason, Failure, NextStep, Reason, RunReport, Verdict};

const SECOND: Duration = Duration::from_secs(1);

/// No randomness, so that a delay can be told.
fn policy() -> RetryPolicy {
    RetryPolicy { jitter: 0.0, ..RetryPolicy::default() }
}

fn run(verdict: Verdict) -> RunReport {
    RunReport { verdict, signalled: None, output: String::new(), ran_for: SECOND }
}

fn failed(next: NextStep) -> RunReport {
    run(Verdict::Failed(Failure { message: "it failed".to_owned(), code: None, next, extras: Vec::new() }))
}

fn ok() -> RunReport {
    run(Verdict::Ok { events: Vec::new() })
}

fn trapped(reason: Reason) -> RunReport {
    run(Verdict::Trapped { reason, message: "unreachable".to_owned() })
}

fn host_fault() -> RunReport {
    run(Verdict::HostFault { message: "no slot".to_owned() })
}

/// The same run, ended by itself after the worker had signalled that it stops it.
fn signalled(abort: AbortReason, run: RunReport) -> RunReport {
    RunReport { signalled: Some(abort), ..run }
}

/// What follows on the first of three attempts.
fn at_first(run: &RunReport) -> Decision {
    decide(run, Tries { attempt: 1, max_attempts: 3, snoozes: 0 }, &policy(), 0.5)
}

/// What follows on the last of three attempts.
fn at_last(run: &RunReport) -> Decision {
    decide(run, Tries { attempt: 3, max_attempts: 3, snoozes: 0 }, &policy(), 0.5)
}

#[test]
fn r14_ok_completes_at_any_attempt() {
    assert_eq!([at_first(&ok()), at_last(&ok())], [Decision::Complete; 2]);
}

#[test]
fn r14_retry_reschedules_by_the_policy_and_buries_at_the_last_attempt() {
    let run = failed(NextStep::Retry);

    assert_eq!(at_first(&run), Decision::Retry { delay: SECOND });
    assert_eq!(at_last(&run), Decision::Bury);
}

#[test]
fn r14_retry_after_reschedules_not_before_and_buries_at_the_last_attempt() {
    let run = failed(NextStep::RetryAfter(90 * SECOND));

    assert_eq!(at_first(&run), Decision::Retry { delay: 90 * SECOND });
    assert_eq!(at_last(&run), Decision::Bury);
}

#[test]
fn r14_snooze_gives_the_attempt_back_even_at_the_last_one() {
    let run = failed(NextStep::Snooze(5 * SECOND));

    assert_eq!([at_first(&run), at_last(&run)], [Decision::Snooze { delay: 5 * SECOND }; 2]);
}

#[test]
fn r14_beyond_the_bound_a_snooze_is_a_retry() {
    let run = failed(NextStep::Snooze(5 * SECOND));
    let policy = RetryPolicy { max_snoozes: 2, ..policy() };
    let after = |snoozes: u32, attempt: u32| decide(&run, Tries { attempt, max_attempts: 3, snoozes }, &policy, 0.5);

    assert_eq!(
        [after(1, 1), after(2, 1), after(2, 3)],
        [Decision::Snooze { delay: 5 * SECOND }, Decision::Retry { delay: 5 * SECOND }, Decision::Bury,]
    );
}

#[test]
fn r14_bury_buries_at_any_attempt() {
    let run = failed(NextStep::Bury);

    assert_eq!([at_first(&run), at_last(&run)], [Decision::Bury; 2]);
}

#[test]
fn r14_traps_panics_limits_and_timeouts_are_as_retry() {
    let limits = [Reason::MemoryLimit, Reason::TableLimit, Reason::StackLimit, Reason::HandleLimit, Reason::HostCallLimit];
    let traps = [Reason::Trap, Reason::Panic].into_iter().chain(limits).map(trapped);

    for run in traps.chain([run(Verdict::Aborted(AbortReason::Timeout))]) {
        assert_eq!([at_first(&run), at_last(&run)], [Decision::Retry { delay: SECOND }, Decision::Bury], "{run:?}");
    }
}

#[test]
fn r14_shutdown_releases_at_any_attempt() {
    let run = run(Verdict::Aborted(AbortReason::Shutdown));

    assert_eq!([at_first(&run), at_last(&run)], [Decision::Release; 2]);
}

#[test]
fn r14_after_the_shutdown_signal_a_failure_is_a_release_and_an_ok_completes() {
    let steps = [NextStep::Retry, NextStep::RetryAfter(SECOND), NextStep::Snooze(SECOND), NextStep::Bury];

    for run in steps.map(failed).into_iter().chain([trapped(Reason::Trap)]) {
        assert_eq!(at_last(&signalled(AbortReason::Shutdown, run)), Decision::Release);
    }
    assert_eq!(at_last(&signalled(AbortReason::Shutdown, ok())), Decision::Complete);
}

#[test]
fn r14_after_the_timeout_signal_an_answer_counts_as_it_is() {
    let signalled = |run| signalled(AbortReason::Timeout, run);

    assert_eq!(at_first(&signalled(ok())), Decision::Complete);
    assert_eq!(at_first(&signalled(failed(NextStep::Bury))), Decision::Bury);
    assert_eq!(at_first(&signalled(failed(NextStep::Retry))), Decision::Retry { delay: SECOND });
}

#[test]
fn r14_after_a_lost_lease_nothing_is_written() {
    let run = run(Verdict::Aborted(AbortReason::LeaseLost));

    assert_eq!([at_first(&run), at_last(&run)], [Decision::Abandon; 2]);
}

#[test]
fn r14_a_fault_of_the_host_is_a_release_even_at_the_last_attempt() {
    let stopping = signalled(AbortReason::Shutdown, host_fault());

    assert_eq!([at_first(&host_fault()), at_last(&host_fault()), at_last(&stopping)], [Decision::ReleaseAfterFault; 3]);
}

#[test]
fn delays_grow_by_the_factor_up_to_the_longest() {
    let policy = RetryPolicy { max_delay: 10 * SECOND, ..policy() };

    let delays = [1, 2, 3, 4, 5, 6].map(|attempt| policy.delay_after(attempt, 0.7));

    assert_eq!(delays, [1, 2, 4, 8, 10, 10].map(|seconds| seconds * SECOND));
}

#[test]
fn the_jitter_spreads_around_the_middle() {
    let policy = RetryPolicy { initial_delay: 100 * SECOND, jitter: 0.5, ..policy() };

    assert_eq!([0.0, 0.5, 1.0].map(|random| policy.delay_after(1, random)), [75, 100, 125].map(|seconds| seconds * SECOND));
}

#[test]
fn attempt_zero_is_as_the_first() {
    assert_eq!(policy().delay_after(0, 0.5), policy().delay_after(1, 0.5));
}

proptest! {
    #[test]
    fn no_delay_panics_or_leaves_its_bounds(attempt: u32, random in 0.0..1.0, jitter in 0.0..=1.0, factor in 1.0..100.0) {
        let policy = RetryPolicy { factor, jitter, ..RetryPolicy::default() };

        let delay = policy.delay_after(attempt, random);

        prop_assert!(delay <= policy.max_delay.mul_f64(1.0 + jitter / 2.0) && delay >= policy.initial_delay.mul_f64(1.0 - jitter / 2.0) - Duration::from_nanos(1));
    }

    #[test]
    fn no_failure_is_ever_tried_beyond_its_last_attempt(attempt in 1_u32..20, max_attempts in 1_u32..20, seconds in 0_u64..9) {
        let tries = Tries { attempt, max_attempts, snoozes: 0 };

        for next in [NextStep::Retry, NextStep::RetryAfter(Duration::from_secs(seconds))] {
            let buried = decide(&failed(next), tries, &RetryPolicy::default(), 0.5) == Decision::Bury;
            prop_assert_eq!(buried, attempt >= max_attempts);
        }
    }
}
