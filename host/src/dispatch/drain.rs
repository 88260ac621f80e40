//! The stop (R21): orderly, and over when its time is over.
//!
//! Claims end and what has not started is released at once; runs go on for four fifths of the timeout, then see the signal, and are stopped at
//! nine tenths. Whatever is left at the end keeps its lease, and another worker takes it over.

use std::time::Duration;

use tokio::time::Instant as Timer;

use super::held::Stage;
use super::settle::Unsettled;
use super::{Counts, Worker};
use crate::clock::Instant;
use crate::delivery::DeliveryId;
use crate::store::{Settle, Settlement};
use crate::verdict::AbortReason;

/// Somebody wants the dispatcher to stop.
#[derive(Clone, Copy)]
pub(super) struct StopRequest {
    timeout: Duration,
    asked_at: Timer,
}

/// The course of a stop, fixed when it begins.
pub(super) struct Drain {
    signal_at: Timer,
    /// On the worker's clock, because the engine stops by that.
    stop_at: Instant,
    /// Slightly before the timeout, so that the store can still be closed in time.
    end_at: Timer,
    has_signalled: bool,
}

/// How a stop ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Deliveries that were still in flight when the time was over. Their leases expire by themselves.
    pub left: Vec<DeliveryId>,
    /// What was settled since the start, the stop included.
    pub counts: Counts,
}

impl StopRequest {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, asked_at: Timer::now() }
    }
}

impl Worker {
    pub(super) fn on_stop(&mut self, request: StopRequest) {
        let StopRequest { timeout, asked_at } = request;
        tracing::info!(?timeout, n_held = self.held.len(), "dispatcher stops");
        self.drain = Some(Drain {
            signal_at: asked_at + timeout.mul_f64(0.8),
            stop_at: Instant::now() + timeout.mul_f64(0.9).saturating_sub(asked_at.elapsed()),
            end_at: asked_at + timeout.mul_f64(0.98),
            has_signalled: false,
        });
    }

    pub(super) fn next_drain_timer(&self) -> Option<Timer> {
        self.drain.as_ref().map(|drain| if drain.has_signalled { drain.end_at } else { drain.signal_at })
    }

    pub(super) fn drain_if_stopping(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        if !drain.has_signalled && Timer::now() >= drain.signal_at {
            drain.has_signalled = true;
            for (_, holding) in self.held.iter() {
                if let Stage::Running(abort) = &holding.stage {
                    abort.signal(AbortReason::Shutdown, drain.stop_at);
                }
            }
        }
        for id in self.held.prefetched() {
            let deadline = self.held.get(id).map_or_else(Instant::now, |holding| holding.deadline);
            if let Some(lease) = self.held.begin_settling(id) {
                let settlement = Settlement { lease, settle: Settle::Release { delay: None }, report: None };
                self.settling.add(Unsettled { settlement, deadline });
            }
        }
    }

    /// The report, once the stop is over: everything settled, or no time left.
    pub(super) fn ended(&self) -> Option<StopReport> {
        let drain = self.drain.as_ref()?;
        let is_done = self.held.is_empty() && self.settling.is_done() && !self.claiming.is_in_flight();
        if !is_done && Timer::now() < drain.end_at {
            return None;
        }
        let left: Vec<DeliveryId> = self.held.ids().collect();
        for id in &left {
            tracing::error!(delivery = %id, "still in flight at the end of the stop: left to its lease");
        }
        tracing::info!(n_left = left.len(), "dispatcher stopped");
        Some(StopReport { left, counts: self.counts.read() })
    }
}
