//! How long to wait after the store, or the host, has failed.

use std::time::Duration;

/// The delay after `n_failures` failures in a row (from 1): doubles from 100 ms up to `longest`, the upper half random, so that many workers
/// do not come back as one wave.
pub(super) fn backoff(n_failures: u32, longest: Duration) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    let doubled = FIRST.saturating_mul(1 << n_failures.saturating_sub(1).min(20)).min(longest);
    doubled.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}
