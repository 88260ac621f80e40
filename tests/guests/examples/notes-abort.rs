//! Works until it sees the abort coming, and says so in its failure.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct NotesAbort;

impl Handler for NotesAbort {
    const NAME: &str = "notes-abort";
    const TOPICS: &[&str] = &["notes-abort.>"];

    fn handle(_: Delivery) -> Result {
        while !relaybus_sdk::aborted() {
            std::hint::spin_loop();
        }
        Err(Failure::retry("saw it coming").extra("remaining_ms", relaybus_sdk::remaining().as_millis()))
    }
}

export!(NotesAbort);
