//! A bad descriptor: its `max_attempts` is no number.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct BadOption;

impl Handler for BadOption {
    const NAME: &str = "bad-option";
    const TOPICS: &[&str] = &["bad-option.>"];
    const OPTIONS: &[(&str, &str)] = &[("max_attempts", "many")];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(BadOption);
