//! Publishes for ever and takes no refusal for an answer.

use relaybus_sdk::{Delivery, Event, Handler, Result, export, publish};

struct SpinInPublishLoop;

impl Handler for SpinInPublishLoop {
    const NAME: &str = "spin-in-publish-loop";
    const TOPICS: &[&str] = &["spin-in-publish-loop.>"];

    fn handle(_: Delivery) -> Result {
        loop {
            drop(publish(Event::json("flood.event", "again")?));
        }
    }
}

export!(SpinInPublishLoop);
