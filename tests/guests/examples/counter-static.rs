//! Counts its runs in a static, which is 1 in every fresh sandbox; panics if it ever sees another.

use std::sync::atomic::{AtomicU32, Ordering};

use relaybus_sdk::{Delivery, Handler, Result, export};

static RUNS: AtomicU32 = AtomicU32::new(0);

struct CounterStatic;

impl Handler for CounterStatic {
    const NAME: &str = "counter-static";
    const TOPICS: &[&str] = &["counter-static.>"];

    fn handle(_: Delivery) -> Result {
        let n_runs = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(n_runs, 1, "another run has left its traces in this sandbox");
        Ok(())
    }
}

export!(CounterStatic);
