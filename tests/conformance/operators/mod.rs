//! What people are promised: to look, to repair and to clean up without harm to what runs.

mod change;
mod handlers;
mod list;
mod prune;

use relaybus_host::delivery::Status;

use crate::harness::Test;
use crate::words::{Held, Verb};

/// A delivery of a handler of its own in each status, named after it.
async fn one_of_each(t: &Test) -> [(Status, Held); 4] {
    let mut held = Vec::new();
    for (status, verb) in [
        (Status::Pending, Some(Verb::Reschedule)),
        (Status::Processing, None),
        (Status::Completed, Some(Verb::Complete)),
        (Status::Buried, Some(Verb::Bury)),
    ] {
        let (_, one) = t.hold_one_of(status.as_str(), status.as_str()).await;
        if let Some(verb) = verb {
            t.settle(verb.of(one.lease)).await;
        }
        held.push((status, one));
    }
    held.try_into().expect("one of each")
}
