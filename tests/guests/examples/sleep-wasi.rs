//! Sleeps by `std::thread::sleep`, blind to aborts, for the time of the payload, `{"ms": 250}`.

use relaybus_guests::duration_of;

use relaybus_sdk::{Delivery, Handler, Result, export};

struct SleepWasi;

impl Handler for SleepWasi {
    const NAME: &str = "sleep-wasi";
    const TOPICS: &[&str] = &["sleep-wasi.>"];

    fn handle(delivery: Delivery) -> Result {
        std::thread::sleep(duration_of(&delivery)?);
        Ok(())
    }
}

export!(SleepWasi);
