//! The worker's own clock, for deadlines that are its own affair.
//!
//! It counts the time that the machine was suspended, so a lease that ran out during a suspend has run out afterwards (R9). It says nothing
//! about what is due: only the store's clock does (R4).

use std::time::Duration;

/// A point on the worker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// The present, by `CLOCK_BOOTTIME`.
    pub fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// How long until `later`; zero once it has passed.
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }

    /// How long ago this was; zero if it lies ahead.
    pub fn elapsed(self) -> Duration {
        self.until(Self::now())
    }

    /// How long it is until this instant; zero once it has passed.
    pub fn remaining(self) -> Duration {
        Self::now().until(self)
    }

    pub fn has_passed(self) -> bool {
        Self::now() >= self
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;
    /// Saturates, so that a very long timeout is no panic.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}
