//! Reads every field of the delivery and publishes them as one JSON object to `echo.fields`.

use relaybus_sdk::{Delivery, Event, Handler, Result, export, publish};

struct EchoFields;

impl Handler for EchoFields {
    const NAME: &str = "echo-fields";
    const TOPICS: &[&str] = &["echo-fields.>"];

    fn handle(delivery: Delivery) -> Result {
        let fields = serde_json::json!({
            "id": delivery.id(),
            "event_id": delivery.event_id(),
            "topic": delivery.topic(),
            "key": delivery.key(),
            "attempt": delivery.attempt(),
            "max_attempts": delivery.max_attempts(),
            "published_at": delivery.published_at(),
            "content_type": delivery.content_type(),
            "payload": delivery.payload(),
            "header_x_test": delivery.header("x-test"),
            "headers": delivery.headers(),
        });
        publish(Event::json("echo.fields", &fields)?)?;
        Ok(())
    }
}

export!(EchoFields);
