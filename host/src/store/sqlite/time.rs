//! The store's clock, which is the host's (R4).
//!
//! Nothing here is a deadline of the worker: those are `crate::clock`'s.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An instant as the file keeps it: microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub(super) struct StoreTime(i64);

impl StoreTime {
    /// The last microsecond of the year 9999: later ones are no dates to most programs, so an endless delay ends here.
    const MAX: Self = Self(253_402_300_799_999_999);

    pub(super) fn now() -> Self {
        Self(Utc::now().timestamp_micros())
    }

    pub(super) fn after(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros)).min(Self::MAX)
    }

    pub(super) fn before(self, age: Duration) -> Self {
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// How long until `later`; zero once it has passed.
    pub(super) fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// As a date, or none for a number that no clock has written.
    pub(super) fn to_date(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(self.0)
    }
}
