//! Has the same name as `duplicate-two`: the two cannot be loaded together.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct DuplicateOne;

impl Handler for DuplicateOne {
    const NAME: &str = "duplicate";
    const TOPICS: &[&str] = &["duplicate.>"];

    fn handle(_: Delivery) -> Result {
        Ok(())
    }
}

export!(DuplicateOne);
