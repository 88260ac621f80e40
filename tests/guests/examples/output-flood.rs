//! Writes many times the output limit to stdout, stderr and the log, ends with the line `the last line`, and fails.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export, log};

const FILLER: &str = "0123456789012345678901234567890123456789";

struct OutputFlood;

impl Handler for OutputFlood {
    const NAME: &str = "output-flood";
    const TOPICS: &[&str] = &["output-flood.>"];

    fn handle(_: Delivery) -> Result {
        for n in 0..20_000 {
            println!("stdout line {n}: {FILLER}");
            eprintln!("stderr line {n}: {FILLER}");
            log::info!(n = n, "log line: {FILLER}");
        }
        println!("the last line");
        Err(Failure::bury("flooded"))
    }
}

export!(OutputFlood);
