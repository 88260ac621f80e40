//! Routes GitHub issues and pull requests: one webhook delivery in, one `triage.<queue>` event out.
//!
//! The event is stored together with the completion of the delivery, so there is exactly one for each webhook, however often the handler has to
//! run. It decides nothing itself: `webhook` reads, `rules` decides.

mod rules;
mod webhook;

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, log, publish};
use serde::Serialize;

use crate::rules::route;
use crate::webhook::Webhook;

/// What is published. The queue is the last token of the topic as well.
#[derive(Serialize)]
struct Triaged<'a> {
    repository: &'a str,
    number: u64,
    title: &'a str,
    url: &'a str,
    queue: &'a str,
    priority: u8,
    why: &'a str,
}

struct Triage;

impl Handler for Triage {
    const NAME: &str = "triage";
    const TOPICS: &[&str] = &["github.issues.*", "github.pull_request.*"];
    const OPTIONS: &[(&str, &str)] = &[("timeout", "5s")];

    fn handle(delivery: Delivery) -> Result {
        let webhook = delivery.json::<Webhook>()?;
        // Another try would read the same webhook: what cannot be triaged waits for a person.
        let subject = webhook.subject(&delivery.topic()).map_err(|error| Failure::bury(error).code("not-triageable"))?;
        let rule = route(&subject);
        let triaged = Triaged {
            repository: subject.repository,
            number: subject.number,
            title: subject.title,
            url: subject.url,
            queue: rule.queue,
            priority: rule.priority,
            why: rule.why,
        };
        let key = format!("{}#{}", subject.repository, subject.number);
        log::info!(queue = rule.queue, priority = rule.priority, subject = key, "triaged");
        publish(Event::json(format!("triage.{}", rule.queue), &triaged)?.key(key))?;
        Ok(())
    }
}

export!(Triage);
