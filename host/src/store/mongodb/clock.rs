//! The server's time, as far as an index range needs it.
//!
//! MongoDB does not use an index for a comparison with `$$NOW` alone. So every claim has a coarse plain bound as well, from here; what
//! is due is decided by `$$NOW` and by nothing here (R4).

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

/// Added to the estimate: a bound that is too high costs a few index keys, one that is too low hides what is due.
const MARGIN: Duration = Duration::from_secs(1);

/// Written after every `hello`, read by every claim.
pub(super) struct ServerClock(Mutex<(bson::DateTime, Instant)>);

impl ServerClock {
    pub(super) fn new(local_time: bson::DateTime) -> Self {
        Self(Mutex::new((local_time, Instant::now())))
    }

    /// The server has just said that it is `local_time` there.
    pub(super) fn set(&self, local_time: bson::DateTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (local_time, Instant::now());
    }

    /// A time that `$$NOW` has not passed, nor fallen behind by much.
    pub(super) fn bound(&self) -> bson::DateTime {
        let (local_time, said_at) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = i64::try_from((said_at.elapsed() + MARGIN).as_millis()).unwrap_or(i64::MAX);
        bson::DateTime::from_millis(local_time.timestamp_millis().saturating_add(since))
    }
}
