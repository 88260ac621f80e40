//! Says that it is running and waits, if the payload is `{"poison": true}`, so that a test can kill its host meanwhile; else ends well.

use std::time::Duration;

use relaybus_sdk::{Delivery, Handler, Result, export, log};

#[derive(serde::Deserialize)]
struct Order {
    poison: bool,
}

struct Poison;

impl Handler for Poison {
    const NAME: &str = "poison";
    const TOPICS: &[&str] = &["poison.>"];

    fn handle(delivery: Delivery) -> Result {
        if delivery.json::<Order>()?.poison {
            log::warn!("poison is running");
            relaybus_sdk::sleep(Duration::from_secs(60))?;
        }
        Ok(())
    }
}

export!(Poison);
