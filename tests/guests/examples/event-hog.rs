//! Puts a megabyte into one event after the other, publishes none, and never lets go of one.

use relaybus_sdk::bindings::relaybus::handler::publisher;

use relaybus_sdk::{Delivery, Handler, Result, export};

struct EventHog;

impl Handler for EventHog {
    const NAME: &str = "event-hog";
    const TOPICS: &[&str] = &["event-hog.>"];

    fn handle(_: Delivery) -> Result {
        let payload = vec![1_u8; 1 << 20];
        loop {
            std::mem::forget(publisher::Event::new("hog.event", &payload));
        }
    }
}

export!(EventHog);
