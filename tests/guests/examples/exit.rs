//! Ends its process with the exit code of the payload, `{"code": 0}`: neither is an ok.

use relaybus_sdk::{Delivery, Handler, Result, export};

#[derive(serde::Deserialize)]
struct Status {
    code: i32,
}

struct Exit;

impl Handler for Exit {
    const NAME: &str = "exit";
    const TOPICS: &[&str] = &["exit.>"];

    fn handle(delivery: Delivery) -> Result {
        let Status { code } = delivery.json()?;
        println!("about to exit with {code}");
        std::process::exit(code)
    }
}

export!(Exit);
