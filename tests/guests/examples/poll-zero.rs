//! Yields and sleeps for no time at all, for ever: host calls that are over at once.

use std::time::Duration;

use relaybus_sdk::{Delivery, Handler, Result, export};

struct PollZero;

impl Handler for PollZero {
    const NAME: &str = "poll-zero";
    const TOPICS: &[&str] = &["poll-zero.>"];

    fn handle(_: Delivery) -> Result {
        loop {
            std::thread::yield_now();
            std::thread::sleep(Duration::ZERO);
            std::thread::sleep(Duration::from_nanos(1));
        }
    }
}

export!(PollZero);
