//! Publishes one event with the key, media type, dedup id and header value of its payload: `{"key", "content_type", "dedup_id", "header"}`.

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, publish};

struct PublishTexts;

#[derive(serde::Deserialize)]
struct Texts {
    key: Option<String>,
    content_type: Option<String>,
    dedup_id: Option<String>,
    header: Option<String>,
}

impl Handler for PublishTexts {
    const NAME: &str = "publish-texts";
    const TOPICS: &[&str] = &["publish-texts.>"];

    fn handle(delivery: Delivery) -> Result {
        let texts = delivery.json::<Texts>()?;
        let mut event = Event::bytes("texts.event", b"1", texts.content_type.as_deref().unwrap_or("text/plain"));
        if let Some(key) = texts.key {
            event = event.key(key);
        }
        if let Some(dedup_id) = texts.dedup_id {
            event = event.dedup_id(dedup_id);
        }
        if let Some(header) = texts.header {
            event = event.header("x-text", header);
        }
        match publish(event) {
            Err(error) => Err(Failure::bury(&error).code(error.code())),
            Ok(_) => Ok(()),
        }
    }
}

export!(PublishTexts);
