//! A bad descriptor: its `timeout` is no duration.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct BadDuration;

impl Handler for BadDuration {
    const NAME: &str = "bad-duration";
    const TOPICS: &[&str] = &["bad-duration.>"];
    const OPTIONS: &[(&str, &str)] = &[("timeout", "fast")];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(BadDuration);
