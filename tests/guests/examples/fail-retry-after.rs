//! Fails with `retry-after` and the delay of the payload, `{"ms": 250}`.

use relaybus_guests::duration_of;

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct FailRetryAfter;

impl Handler for FailRetryAfter {
    const NAME: &str = "fail-retry-after";
    const TOPICS: &[&str] = &["fail-retry-after.>"];

    fn handle(delivery: Delivery) -> Result {
        Err(Failure::retry("not so fast").retry_after(duration_of(&delivery)?))
    }
}

export!(FailRetryAfter);
