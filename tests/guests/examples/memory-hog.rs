//! Asks for more and more memory, a megabyte at a time, and keeps all of it.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct MemoryHog;

impl Handler for MemoryHog {
    const NAME: &str = "memory-hog";
    const TOPICS: &[&str] = &["memory-hog.>"];

    fn handle(_: Delivery) -> Result {
        let mut hoard = Vec::new();
        loop {
            hoard.push(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
    }
}

export!(MemoryHog);
