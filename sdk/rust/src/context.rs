//! The run itself: how long it may last, and whether the host wants it to end.
//!
//! The host stops a run in two steps. First the functions here show that it is coming; soon after it stops the guest wherever it is.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::bindings::relaybus::handler::context;

/// True once the host has decided to stop this run: its timeout is near, its lease is lost, or the host is shutting down.
///
/// ```no_run
/// # use relaybus_sdk::{Failure, Result};
/// fn import(rows: impl Iterator<Item = String>) -> Result {
///     for row in rows {
///         if relaybus_sdk::aborted() {
///             return Err(Failure::retry("stopped before the last row"));
///         }
///         println!("{row}");
///     }
///     Ok(())
/// }
/// ```
#[must_use]
pub fn aborted() -> bool {
    context::aborted()
}

/// How long the host lets this run go on; zero once it is being stopped.
///
/// ```no_run
/// # use std::time::Duration;
/// if relaybus_sdk::remaining() < Duration::from_secs(2) {
///     println!("no time for another page");
/// }
/// ```
#[must_use]
pub fn remaining() -> Duration {
    Duration::from_millis(context::remaining_ms().into())
}

/// Sleeps for this long.
///
/// `std::thread::sleep` works as well, but does not notice that the run is being stopped.
///
/// ```no_run
/// # use std::time::Duration;
/// # use relaybus_sdk::Result;
/// fn wait() -> Result {
///     relaybus_sdk::sleep(Duration::from_millis(250))?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`Aborted`], and early, if the run was aborted meanwhile.
pub fn sleep(duration: Duration) -> Result<(), Aborted> {
    if context::sleep_ms(milliseconds(duration)) { Err(Aborted) } else { Ok(()) }
}

/// The host is stopping this run: there is a moment left to tidy up and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the run was aborted")
    }
}

impl Error for Aborted {}

/// Durations travel as `f64` milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
