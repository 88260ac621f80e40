//! Deletes what was settled long enough ago, while a host runs.
//!
//! Never in the way: a pass that fails is repeated at the next turn, and several hosts may do it at once.

use std::time::Duration;

use crate::store::{Operators, Pruned, Retention};

/// Between two passes, jittered down to half of it: short enough that each pass is small.
const INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Prunes now and again, until it is dropped. The caller awaits its end: dropping it between two batches loses nothing.
pub async fn keep(operators: &dyn Operators, retention: Retention) {
    loop {
        tokio::time::sleep(INTERVAL.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
        match operators.prune(retention).await {
            Ok(Pruned { n_deliveries, n_events }) => tracing::debug!(n_deliveries, n_events, "pruned what was settled long ago"),
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "pruning failed, it will be tried again"),
        }
    }
}
