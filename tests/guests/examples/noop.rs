//! Does nothing, and does it well.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct Noop;

impl Handler for Noop {
    const NAME: &str = "noop";
    const TOPICS: &[&str] = &["noop.>"];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(Noop);
