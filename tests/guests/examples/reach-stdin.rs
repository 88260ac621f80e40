//! Reads stdin and buries with what it found; finds nothing and ends well.

use std::io::Read;

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct ReachStdin;

impl Handler for ReachStdin {
    const NAME: &str = "reach-stdin";
    const TOPICS: &[&str] = &["reach-stdin.>"];

    fn handle(_: Delivery) -> Result {
        let mut found = String::new();
        match std::io::stdin().read_to_string(&mut found) {
            Ok(_) if !found.is_empty() => Err(Failure::bury(format!("stdin holds {found:?}"))),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

export!(ReachStdin);
