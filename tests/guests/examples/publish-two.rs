//! Publishes two events, `two.first` and `two.second`; then ends as the payload says: `"ok"`, `"fail"` or `"panic"`.

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, publish};

struct PublishTwo;

impl Handler for PublishTwo {
    const NAME: &str = "publish-two";
    const TOPICS: &[&str] = &["publish-two.>"];

    fn handle(delivery: Delivery) -> Result {
        let ending = delivery.json::<String>()?;
        publish(Event::json("two.first", &1)?.key("pair").header("x-part", "first"))?;
        publish(Event::json("two.second", &2)?.key("pair").header("x-part", "second"))?;
        match ending.as_str() {
            "ok" => Ok(()),
            "panic" => panic!("after two events"),
            _ => Err(Failure::retry("after two events")),
        }
    }
}

export!(PublishTwo);
