//! Passes 32 MiB to the host in one call, which is twice what a call may take by default.

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, publish};

struct HostCallHog;

impl Handler for HostCallHog {
    const NAME: &str = "host-call-hog";
    const TOPICS: &[&str] = &["host-call-hog.>"];

    fn handle(_: Delivery) -> Result {
        let event = Event::bytes("hog.event", vec![0_u8; 32 << 20], "application/octet-stream");
        match publish(event) {
            Err(error) => Err(Failure::bury(&error).code(error.code())),
            Ok(_) => Ok(()),
        }
    }
}

export!(HostCallHog);
