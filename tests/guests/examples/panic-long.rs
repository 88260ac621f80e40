//! Panics with a text of 64 KiB.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct PanicLong;

impl Handler for PanicLong {
    const NAME: &str = "panic-long";
    const TOPICS: &[&str] = &["panic-long.>"];

    fn handle(_: Delivery) -> Result {
        panic!("the beginning of it{}", ", and so on".repeat(6_000));
    }
}

export!(PanicLong);
