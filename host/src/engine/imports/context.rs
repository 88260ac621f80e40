//! `relaybus:handler/context`: the run itself.

use std::time::Duration;

use super::relaybus::handler::context::Host;
use crate::engine::instance::RunState;

impl Host for RunState {
    fn aborted(&mut self) -> wasmtime::Result<bool> {
        self.look_at_the_clock()?;
        Ok(self.abort.signalled().is_some())
    }

    fn remaining_ms(&mut self) -> wasmtime::Result<u32> {
        self.look_at_the_clock()?;
        let is_ending = self.abort.signalled().is_some();
        let remaining = u32::try_from(self.abort.remaining().as_millis()).unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
        Ok(if is_ending { 0 } else { remaining })
    }

    async fn sleep_ms(&mut self, duration: f64) -> wasmtime::Result<bool> {
        self.look_at_the_clock()?;
        if self.run.is_none() {
            return Ok(false);
        }
        let was_aborted = tokio::select! {
            _ = self.abort.until_signalled() => true,
            () = tokio::time::sleep(milliseconds(duration)) => false,
        };
        self.look_at_the_clock()?;
        Ok(was_aborted)
    }
}

/// A guest's milliseconds as a duration: no less than zero, and no more than a date can hold.
pub(in crate::engine) fn milliseconds(value: f64) -> Duration {
    const YEAR_MS: f64 = 365.0 * 24.0 * 60.0 * 60.0 * 1000.0;
    let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, YEAR_MS) };
    Duration::from_secs_f64(value / 1000.0)
}
