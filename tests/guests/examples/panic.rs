//! Panics, after it has printed a line to stdout and logged another.

use relaybus_sdk::{Delivery, Handler, Result, export, log};

struct Panic;

impl Handler for Panic {
    const NAME: &str = "panic";
    const TOPICS: &[&str] = &["panic.>"];

    fn handle(_: Delivery) -> Result {
        println!("about to panic");
        log::info!("last words");
        panic!("this handler always panics")
    }
}

export!(Panic);
