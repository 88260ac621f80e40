//! Mails a confirmation for each order, through a relay that is not always there.
//!
//! It shows what a handler that talks to the world has to decide: which failures go away by themselves, which do not, and how not to do a thing
//! twice.

mod mail;
mod order;
mod relay;

use relaybus_sdk::{Delivery, Event, Failure, Handler, Result, export, log, publish};

use crate::mail::Mail;
use crate::order::Order;
use crate::relay::Answer;

struct OrderMailer;

impl Handler for OrderMailer {
    const NAME: &str = "order-mailer";
    const TOPICS: &[&str] = &["order.created"];
    const OPTIONS: &[(&str, &str)] =
        &[("timeout", "5s"), ("max_attempts", "4"), ("retry_initial_delay", "200ms"), ("retry_factor", "2"), ("retry_max_delay", "2s")];

    fn handle(delivery: Delivery) -> Result {
        let order = delivery.json::<Order>()?;
        // The order will be as wrong tomorrow: no other try, a person has to look at it.
        let recipient = order.check().map_err(|error| Failure::bury(error).code("invalid-order"))?;
        let mail = Mail::confirming(&order, recipient);
        match relay::offer(&mail, delivery.attempt()) {
            Answer::Accepted => {
                log::info!(order = order.number, to = recipient, "queued");
                // A shop that publishes the same order twice should not mail twice.
                let event = Event::json("mail.queued", &mail)?.key(order.number.clone()).dedup_id(format!("confirm-{}", order.number));
                publish(event)?;
                Ok(())
            }
            Answer::Later { wait, text } => Err(Failure::retry(text).retry_after(wait).code("relay-greylisted")),
            Answer::Busy { text } => Err(Failure::retry(text).code("relay-busy")),
        }
    }
}

export!(OrderMailer);
