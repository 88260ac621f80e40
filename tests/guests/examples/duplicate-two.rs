//! Has the same name as `duplicate-one`: the two cannot be loaded together.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct DuplicateTwo;

impl Handler for DuplicateTwo {
    const NAME: &str = "duplicate";
    const TOPICS: &[&str] = &["duplicate.>"];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(DuplicateTwo);
