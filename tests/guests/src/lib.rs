//! What the guests in `examples/` share. Each of them has one behaviour, which its first line tells.

use std::time::Duration;

use relaybus_sdk::{Delivery, Result};

#[derive(serde::Deserialize)]
struct Wait {
    ms: u64,
}

/// The duration in a payload such as `{"ms": 250}`.
///
/// # Errors
/// If there is none, as [`Delivery::json`].
pub fn duration_of(delivery: &Delivery) -> Result<Duration> {
    Ok(Duration::from_millis(delivery.json::<Wait>()?.ms))
}
