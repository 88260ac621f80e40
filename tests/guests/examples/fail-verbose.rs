//! Returns a failure with a message, a code and extras that are all far too long, and far too many extras.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

struct FailVerbose;

impl Handler for FailVerbose {
    const NAME: &str = "fail-verbose";
    const TOPICS: &[&str] = &["fail-verbose.>"];

    fn handle(_: Delivery) -> Result {
        let text = "ö".repeat(8 << 10);
        let mut failure = Failure::bury(&text).code(&text);
        for n in 0..100 {
            failure = failure.extra(format!("{n}{text}"), &text);
        }
        Err(failure)
    }
}

export!(FailVerbose);
