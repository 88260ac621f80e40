//! Publishes until the host refuses, and buries with the code of the refusal and the number of events taken.

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, publish};

struct PublishTooMany;

impl Handler for PublishTooMany {
    const NAME: &str = "publish-too-many";
    const TOPICS: &[&str] = &["publish-too-many.>"];

    fn handle(_: Delivery) -> Result {
        for n_taken in 0.. {
            if let Err(error) = publish(Event::json("many.event", &n_taken)?) {
                return Err(Failure::bury(&error).code(error.code()).extra("n_taken", n_taken));
            }
        }
        Ok(())
    }
}

export!(PublishTooMany);
