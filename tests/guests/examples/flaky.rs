//! Fails until the attempt that the payload names, `{"n": 3}`, and then ends well.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export};

#[derive(serde::Deserialize)]
struct Until {
    n: u32,
}

struct Flaky;

impl Handler for Flaky {
    const NAME: &str = "flaky";
    const TOPICS: &[&str] = &["flaky.>"];

    fn handle(delivery: Delivery) -> Result {
        let Until { n } = delivery.json()?;
        match delivery.attempt() {
            attempt if attempt < n => Err(Failure::retry(format!("attempt {attempt} of {n}"))),
            _ => Ok(()),
        }
    }
}

export!(Flaky);
