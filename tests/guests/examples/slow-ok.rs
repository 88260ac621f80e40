//! Takes the time of the payload, `{"ms": 250}`, and ends well; an abort makes it fail.

use relaybus_guests::duration_of;

use relaybus_sdk::{Delivery, Handler, Result, export};

struct SlowOk;

impl Handler for SlowOk {
    const NAME: &str = "slow-ok";
    const TOPICS: &[&str] = &["slow-ok.>"];

    fn handle(delivery: Delivery) -> Result {
        relaybus_sdk::sleep(duration_of(&delivery)?)?;
        Ok(())
    }
}

export!(SlowOk);
