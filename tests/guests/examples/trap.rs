//! Executes an instruction that always traps: no panic, no text.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct Trap;

impl Handler for Trap {
    const NAME: &str = "trap";
    const TOPICS: &[&str] = &["trap.>"];

    fn handle(_: Delivery) -> Result {
        #[cfg(target_family = "wasm")]
        core::arch::wasm32::unreachable();
        #[cfg(not(target_family = "wasm"))]
        unreachable!("guests run in wasm");
    }
}

export!(Trap);
