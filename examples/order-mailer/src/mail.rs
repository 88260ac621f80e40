//! The text of the mail.

use serde::Serialize;

use crate::order::Order;

#[derive(Serialize)]
pub(crate) struct Mail {
    pub(crate) to: String,
    subject: String,
    text: String,
}

impl Mail {
    /// The confirmation of `order`, to `recipient`.
    pub(crate) fn confirming(order: &Order, recipient: &str) -> Self {
        let items: String = order.items.iter().map(|item| format!("  {} x {}\n", item.quantity, item.name)).collect();
        let total = format!("{} {}.{:02}", order.currency, order.total_cents / 100, order.total_cents % 100);
        Self {
            to: recipient.to_owned(),
            subject: format!("Your order {}", order.number),
            text: format!("Dear {},\n\nthank you for your order:\n\n{items}\nTotal: {total}\n\nYour shop\n", order.customer),
        }
    }
}
