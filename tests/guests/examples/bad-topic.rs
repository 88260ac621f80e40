//! A bad descriptor: `>` is not the last token of its pattern.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct BadTopic;

impl Handler for BadTopic {
    const NAME: &str = "bad-topic";
    const TOPICS: &[&str] = &["order.>.created"];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(BadTopic);
