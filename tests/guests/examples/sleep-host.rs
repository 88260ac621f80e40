//! Sleeps in the host for the time of the payload, `{"ms": 250}`, and returns early when the run is aborted.
//!
//! Then it ends well if the payload says `"on_abort": "ok"`, and fails otherwise.

use relaybus_guests::duration_of;

use relaybus_sdk::{Delivery, Handler, Result, export};

#[derive(serde::Deserialize)]
struct Ending {
    #[serde(default)]
    on_abort: String,
}

struct SleepHost;

impl Handler for SleepHost {
    const NAME: &str = "sleep-host";
    const TOPICS: &[&str] = &["sleep-host.>"];

    fn handle(delivery: Delivery) -> Result {
        let ending = delivery.json::<Ending>()?;
        match relaybus_sdk::sleep(duration_of(&delivery)?) {
            Err(aborted) if ending.on_abort != "ok" => Err(aborted.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

export!(SleepHost);
