//! Fails with `bury`, with a code and two extras.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct FailBury;

impl Handler for FailBury {
    const NAME: &str = "fail-bury";
    const TOPICS: &[&str] = &["fail-bury.>"];

    fn handle(_: Delivery) -> Result {
        Err(Failure::bury("the card was declined").code("card-declined").extra("card", "4242").extra("amount", 12.5))
    }
}

export!(FailBury);
