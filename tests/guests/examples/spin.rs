//! Spins for ever without a call to the host.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct Spin;

impl Handler for Spin {
    const NAME: &str = "spin";
    const TOPICS: &[&str] = &["spin.>"];

    fn handle(_: Delivery) -> Result {
        let mut n: u64 = 0;
        loop {
            n = std::hint::black_box(n.wrapping_add(1));
        }
    }
}

export!(Spin);
