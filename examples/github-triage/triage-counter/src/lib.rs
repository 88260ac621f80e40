//! Receives what triage has decided, checks it, and logs a line for each.
//!
//! A plain handler keeps nothing between runs: the count is the number of its completed deliveries.

use relaybus_sdk::{Delivery, Failure, Handler, Result, export, log};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Triaged {
    repository: String,
    number: u64,
    title: String,
    url: String,
    queue: String,
    priority: u8,
    why: String,
}

struct TriageCounter;

impl Handler for TriageCounter {
    const NAME: &str = "triage-counter";
    const TOPICS: &[&str] = &["triage.*"];

    fn handle(delivery: Delivery) -> Result {
        let Triaged { repository, number, title, url, queue, priority, why } = delivery.json()?;
        let topic = delivery.topic();
        if topic != format!("triage.{queue}") {
            return Err(Failure::bury(format!("expected the queue of `{topic}`, got `{queue}`")).code("wrong-queue"));
        }
        if !(1..=4).contains(&priority) {
            return Err(Failure::bury(format!("expected a priority of 1 to 4, got {priority}")).code("wrong-priority"));
        }
        log::info!(queue = queue, priority = priority, why = why, url = url, "{repository}#{number}: {title}");
        Ok(())
    }
}

export!(TriageCounter);
