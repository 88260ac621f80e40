//! A bad descriptor: its name has a blank.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct BadName;

impl Handler for BadName {
    const NAME: &str = "bad name";
    const TOPICS: &[&str] = &["bad-name.>"];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(BadName);
