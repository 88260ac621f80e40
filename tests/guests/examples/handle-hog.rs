//! Makes events and never lets go of one: handles that the host has to hold.

use relaybus_sdk::bindings::relaybus::handler::publisher;

use relaybus_sdk::{Delivery, Handler, Result, export};

struct HandleHog;

impl Handler for HandleHog {
    const NAME: &str = "handle-hog";
    const TOPICS: &[&str] = &["handle-hog.>"];

    fn handle(_: Delivery) -> Result {
        loop {
            std::mem::forget(publisher::Event::new("hog.event", b"x"));
        }
    }
}

export!(HandleHog);
