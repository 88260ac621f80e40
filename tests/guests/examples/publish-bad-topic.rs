//! Publishes to a text that is no topic, and buries with the code of the refusal.

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, publish};

struct PublishBadTopic;

impl Handler for PublishBadTopic {
    const NAME: &str = "publish-bad-topic";
    const TOPICS: &[&str] = &["publish-bad-topic.>"];

    fn handle(_: Delivery) -> Result {
        match publish(Event::json("not a topic!", "x")?) {
            Err(error) => Err(Failure::bury(&error).code(error.code())),
            Ok(id) => panic!("expected a refusal, got event {id}"),
        }
    }
}

export!(PublishBadTopic);
