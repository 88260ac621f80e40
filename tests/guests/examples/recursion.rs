//! Calls itself until its stack is full.

use relaybus_sdk::{Delivery, Handler, Result, export};

#[allow(unconditional_recursion)]
fn descend(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    descend(depth + 1) + frame[3]
}

struct Recursion;

impl Handler for Recursion {
    const NAME: &str = "recursion";
    const TOPICS: &[&str] = &["recursion.>"];

    fn handle(_: Delivery) -> Result {
        println!("{}", descend(std::hint::black_box(1)));
        Ok(())
    }
}

export!(Recursion);
