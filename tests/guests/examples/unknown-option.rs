//! A bad descriptor: `max_atempts` is no option, but close to one.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct UnknownOption;

impl Handler for UnknownOption {
    const NAME: &str = "unknown-option";
    const TOPICS: &[&str] = &["unknown-option.>"];
    const OPTIONS: &[(&str, &str)] = &[("max_atempts", "3")];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(UnknownOption);
