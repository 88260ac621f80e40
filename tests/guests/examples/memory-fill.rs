//! Fills a large buffer again and again: bulk memory operations, which look at no deadline while they last.

use relaybus_sdk::{Delivery, Handler, Result, export};

struct MemoryFill;

impl Handler for MemoryFill {
    const NAME: &str = "memory-fill";
    const TOPICS: &[&str] = &["memory-fill.>"];

    fn handle(_: Delivery) -> Result {
        let mut buffer = vec![0_u8; 64 << 20];
        let mut value: u8 = 0;
        loop {
            buffer.fill(std::hint::black_box(value));
            std::hint::black_box(&buffer);
            value = value.wrapping_add(1);
        }
    }
}

export!(MemoryFill);
