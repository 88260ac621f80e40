//! A bad descriptor in four ways, all of which should be named at once.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct BadMany;

impl Handler for BadMany {
    const NAME: &str = "bad-many";
    const TOPICS: &[&str] = &["order..created"];
    const OPTIONS: &[(&str, &str)] = &[("timeout", "fast"), ("colour", "blue")];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(BadMany);
