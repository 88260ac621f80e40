//! Fails with `retry`, by way of an error that has a source.

use relaybus_sdk::{Delivery, Handler, Result, export};

#[derive(Debug)]
struct Outer(std::str::ParseBoolError);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the setting cannot be read")
    }
}

impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

struct FailRetry;

impl Handler for FailRetry {
    const NAME: &str = "fail-retry";
    const TOPICS: &[&str] = &["fail-retry.>"];

    fn handle(_: Delivery) -> Result {
        Err(Outer("7".parse::<bool>().expect_err("7 is no truth value")))?
    }
}

export!(FailRetry);
