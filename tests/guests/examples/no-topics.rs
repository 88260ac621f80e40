//! A bad descriptor: it subscribes to nothing.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct NoTopics;

impl Handler for NoTopics {
    const NAME: &str = "no-topics";
    const TOPICS: &[&str] = &[];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(NoTopics);
