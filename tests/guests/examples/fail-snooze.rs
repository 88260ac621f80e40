//! Fails with `snooze` and the delay of the payload, `{"ms": 250}`.

use relaybus_guests::duration_of;

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct FailSnooze;

impl Handler for FailSnooze {
    const NAME: &str = "fail-snooze";
    const TOPICS: &[&str] = &["fail-snooze.>"];

    fn handle(delivery: Delivery) -> Result {
        Err(Failure::retry("not ready yet").snooze(duration_of(&delivery)?))
    }
}

export!(FailSnooze);
