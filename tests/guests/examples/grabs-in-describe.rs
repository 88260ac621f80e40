//! Publishes and sleeps while it describes itself, and tells in its options what came of it; its runs end well.

use relaybus_sdk::bindings::exports::relaybus::handler::{describe, handler};
use relaybus_sdk::bindings::relaybus::handler::types::{Delivery, Entry, Failure};
use relaybus_sdk::bindings::relaybus::handler::{context, publisher};

struct GrabsInDescribe;

impl describe::Guest for GrabsInDescribe {
    fn describe() -> describe::Descriptor {
        let published = publisher::publish(&publisher::Event::new("grabbed.event", b"1"));
        let publish = published.map_or_else(|error| error.code, |id| format!("published {id}"));
        let slept = context::sleep_ms(60_000.0).to_string();
        let option = |name: &str, value| Entry { name: name.to_owned(), value };
        describe::Descriptor {
            name: "grabs-in-describe".to_owned(),
            topics: vec!["grabs-in-describe.>".to_owned()],
            options: vec![option("publish", publish), option("slept", slept)],
        }
    }
}

impl handler::Guest for GrabsInDescribe {
    fn handle(_: Delivery) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(target_family = "wasm")]
relaybus_sdk::bindings::export!(GrabsInDescribe with_types_in relaybus_sdk::bindings);
