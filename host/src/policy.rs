//! What follows a run: the pure decision between run and settle (R14).
//!
//! No IO and no clock; the caller brings the random number.

use std::time::Duration;

use crate::verdict::{AbortReason, NextStep, RunReport, Verdict};

/// When and how often a failed delivery is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Delay before the second attempt.
    pub initial_delay: Duration,
    /// What the delay is multiplied with for each further attempt.
    pub factor: f64,
    /// The longest delay.
    pub max_delay: Duration,
    /// The share of the delay that is random, 0 to 1: retries of a broken dependency should not come as one wave.
    pub jitter: f64,
    /// How often in a row a delivery may be snoozed; beyond it a snooze counts as `retry`.
    pub max_snoozes: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { initial_delay: Duration::from_secs(1), factor: 2.0, max_delay: Duration::from_secs(15 * 60), jitter: 0.25, max_snoozes: 100 }
    }
}

impl RetryPolicy {
    /// The delay after failed attempt number `attempt` (from 1); `random` is in `0.0..1.0`.
    ///
    /// `min(max_delay, initial_delay * factor^(attempt - 1))`, of which the share `jitter` is spread evenly around the middle.
    pub fn delay_after(&self, attempt: u32, random: f64) -> Duration {
        let exponent = f64::from(attempt.saturating_sub(1));
        let full = (self.initial_delay.as_secs_f64() * self.factor.powf(exponent)).min(self.max_delay.as_secs_f64());
        Duration::from_secs_f64(full * (1.0 + self.jitter * (random - 0.5)))
    }
}

/// The facts about a delivery that the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// The number of the run that has ended, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    pub snoozes: u32,
}

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Complete,
    /// Try again after `delay`.
    Retry {
        delay: Duration,
    },
    /// Try again after `delay`; the attempt does not count.
    Snooze {
        delay: Duration,
    },
    Bury,
    /// Give the delivery back with its attempt, at its old place in the queue.
    Release,
    /// Give the delivery back with its attempt; the worker adds a delay that grows while its faults go on.
    ReleaseAfterFault,
    /// Write nothing: the delivery is no longer ours.
    Abandon,
}

/// Decides what follows `run`. `random` is in `0.0..1.0`.
pub fn decide(run: &RunReport, tries: Tries, policy: &RetryPolicy, random: f64) -> Decision {
    let stopping = run.signalled == Some(AbortReason::Shutdown);
    let retry = |delay: Duration| if tries.attempt >= tries.max_attempts { Decision::Bury } else { Decision::Retry { delay } };
    let by_policy = || retry(policy.delay_after(tries.attempt, random));
    match &run.verdict {
        Verdict::Ok { .. } => Decision::Complete,
        Verdict::Aborted(AbortReason::LeaseLost) => Decision::Abandon,
        Verdict::Aborted(AbortReason::Shutdown) => Decision::Release,
        Verdict::HostFault { .. } => Decision::ReleaseAfterFault,
        // After the shutdown signal a failure is most likely the signal's doing, whatever the handler calls it.
        Verdict::Failed(_) | Verdict::Trapped { .. } if stopping => Decision::Release,
        Verdict::Failed(failure) => match failure.next {
            NextStep::Retry => by_policy(),
            NextStep::RetryAfter(delay) => retry(delay),
            NextStep::Snooze(delay) if tries.snoozes < policy.max_snoozes => Decision::Snooze { delay },
            NextStep::Snooze(delay) => retry(delay),
            NextStep::Bury => Decision::Bury,
        },
        Verdict::Trapped { .. } | Verdict::Aborted(AbortReason::Timeout) => by_policy(),
    }
}
