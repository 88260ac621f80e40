//! Logs one line of each level with fields, prints one line to stdout and one to stderr, and ends as the payload says: `"ok"` or `"fail"`.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export, log};

struct LogLines;

impl Handler for LogLines {
    const NAME: &str = "log-lines";
    const TOPICS: &[&str] = &["log-lines.>"];

    fn handle(delivery: Delivery) -> Result {
        let ending = delivery.json::<String>()?;
        log::trace!("a line of the level trace");
        log::debug!(n = 1, "a line of the level debug");
        log::info!(n = 2, topic = delivery.topic(), "a line of the level {}", "info");
        log::warn!(n = 3, "a line of the level warn");
        log::error!(n = 4, "a line of the level error");
        println!("a line on stdout");
        eprintln!("a line on stderr");
        if ending == "ok" { Ok(()) } else { Err(Failure::retry("after all lines")) }
    }
}

export!(LogLines);
