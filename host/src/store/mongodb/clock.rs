//! The server's time, as far as an index range needs it.
//!
//! MongoDB does not use an index for a comparison with `$$NOW` alone. So every claim has a coarse plain bound as well, from here; what
//! is due is decided by `$$NOW` and by nothing here (R4).

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use super::connect::Hello;

/// Added to the estimate: a bound that is too high costs a few index keys, one that is too low hides what is due.
const MARGIN: Duration = Duration::from_secs(1);

/// The server's time, and the time of this host when it was asked for: before it was read, so that the estimate is not too low.
/// Written after every `hello`, read by every claim.
pub(super) struct ServerClock(Mutex<(bson::DateTime, Instant)>);

impl ServerClock {
    pub(super) fn new(hello: Hello) -> Self {
        Self(Mutex::new((hello.local_time, hello.asked_at)))
    }

    /// The server has said what time it is there.
    pub(super) fn set(&self, hello: Hello) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (hello.local_time, hello.asked_at);
    }

    /// A time that `$$NOW` has not passed, nor fallen behind by much.
    pub(super) fn bound(&self) -> bson::DateTime {
        let (local_time, asked_at) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = i64::try_from((asked_at.elapsed() + MARGIN).as_millis()).unwrap_or(i64::MAX);
        bson::DateTime::from_millis(local_time.timestamp_millis().saturating_add(since))
    }
}
