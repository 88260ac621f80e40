//! Stopping a run: the one place where its deadlines and the worker's wishes meet.
//!
//! An abort has two steps: the guest can see it coming, then it is stopped. The dispatcher writes, the engine reads: in the epoch callback, at
//! every host call, and while it waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Instant;
use crate::verdict::AbortReason;

/// tokio's clock stands still while the machine is suspended, and ours does not: so it is asked again at least this often, and a run whose
/// lease ended during a suspend does not wait on for as long as the suspend took.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The shared end of one run. Cheap to clone.
#[derive(Clone)]
pub struct Abort {
    shared: Arc<(Mutex<Times>, Notify)>,
}

/// When what happens, as far as is known now.
#[derive(Clone, Copy)]
struct Times {
    lease_deadline: Instant,
    timeout: Option<Timeout>,
    asked: Option<Asked>,
}

#[derive(Clone, Copy)]
struct Timeout {
    signal_at: Instant,
    stop_at: Instant,
}

#[derive(Clone, Copy)]
struct Asked {
    reason: AbortReason,
    stop_at: Instant,
}

impl Abort {
    /// The run must not go on past `lease_deadline`, unless it is extended (R9).
    pub fn new(lease_deadline: Instant) -> Self {
        Self { shared: Arc::new((Mutex::new(Times { lease_deadline, timeout: None, asked: None }), Notify::new())) }
    }

    /// The lease was renewed: it now ends one lease duration after the renewal was sent.
    pub fn extend_lease(&self, lease_deadline: Instant) {
        self.change(|times| times.lease_deadline = lease_deadline);
    }

    /// Lets the guest see the abort, and stops it at `stop_at`. Of several calls the first reason and the earliest stop count.
    pub fn signal(&self, reason: AbortReason, stop_at: Instant) {
        self.change(|times| {
            times.asked = Some(match times.asked {
                Some(asked) => Asked { reason: asked.reason, stop_at: asked.stop_at.min(stop_at) },
                None => Asked { reason, stop_at },
            });
        });
    }

    /// Stops the guest at once.
    pub fn stop(&self, reason: AbortReason) {
        self.signal(reason, Instant::now());
    }

    /// The run begins now and may take `timeout`; the guest sees the end coming a tenth of it, at most a second, before.
    pub(super) fn begin(&self, timeout: Duration) {
        let started_at = Instant::now();
        let notice = (timeout / 10).min(Duration::from_secs(1));
        let timeout = Timeout { signal_at: started_at + (timeout - notice), stop_at: started_at + timeout };
        self.change(|times| times.timeout = Some(timeout));
    }

    /// Why the run is being stopped, once the guest may see it.
    pub(super) fn signalled(&self) -> Option<AbortReason> {
        self.times().signalled(Instant::now())
    }

    /// Why the run must end here and now.
    pub(super) fn stopped(&self) -> Option<AbortReason> {
        self.times().stopped(Instant::now())
    }

    /// How long the run may still go on.
    pub(super) fn remaining(&self) -> Duration {
        self.times().stop_at().remaining()
    }

    pub(super) async fn until_signalled(&self) -> AbortReason {
        self.until(Times::signalled, Times::signal_at).await
    }

    pub(super) async fn until_stopped(&self) -> AbortReason {
        self.until(Times::stopped, Times::stop_at).await
    }

    async fn until(&self, reason: fn(Times, Instant) -> Option<AbortReason>, at: fn(Times) -> Instant) -> AbortReason {
        loop {
            let mut changed = std::pin::pin!(self.shared.1.notified());
            // Registered before the look, so that a change between the two is not missed.
            changed.as_mut().enable();
            let times = self.times();
            if let Some(reason) = reason(times, Instant::now()) {
                return reason;
            }
            let wait = at(times).remaining().clamp(Duration::from_millis(1), LONGEST_WAIT);
            let _ = tokio::time::timeout(wait, changed).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.lock());
        self.shared.1.notify_waiters();
    }

    fn times(&self) -> Times {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        // Nothing panics while it is held.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    fn signalled(self, now: Instant) -> Option<AbortReason> {
        match (self.asked, self.timeout) {
            (Some(asked), _) => Some(asked.reason),
            _ if now >= self.lease_deadline => Some(AbortReason::LeaseLost),
            (None, Some(timeout)) if now >= timeout.signal_at => Some(AbortReason::Timeout),
            (None, _) => None,
        }
    }

    fn stopped(self, now: Instant) -> Option<AbortReason> {
        match (self.asked, self.timeout) {
            // Whoever lost the lease may write nothing, whatever else is the matter.
            _ if now >= self.lease_deadline => Some(AbortReason::LeaseLost),
            (Some(asked), _) if now >= asked.stop_at => Some(asked.reason),
            (_, Some(timeout)) if now >= timeout.stop_at => Some(AbortReason::Timeout),
            _ => None,
        }
    }

    fn signal_at(self) -> Instant {
        self.timeout.map_or(self.lease_deadline, |timeout| timeout.signal_at.min(self.lease_deadline))
    }

    fn stop_at(self) -> Instant {
        let times = [Some(self.lease_deadline), self.timeout.map(|timeout| timeout.stop_at), self.asked.map(|asked| asked.stop_at)];
        times.into_iter().flatten().min().unwrap_or(self.lease_deadline)
    }
}
