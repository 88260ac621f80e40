//! What a handler receives.
//!
//! Each method asks the host, which copies nothing before; nothing is cached here.

use serde::de::DeserializeOwned;

use crate::bindings::relaybus::handler::types;
use crate::{Failure, Result};

/// One event on its way to one handler.
#[derive(Debug)]
pub struct Delivery(pub(crate) types::Delivery);

impl Delivery {
    /// The `code` of the failure of [`json`](Self::json).
    pub const INVALID_PAYLOAD: &str = "invalid-payload";

    /// UUID of the delivery, the same at every attempt: the natural idempotency key for effects outside the store.
    #[must_use]
    pub fn id(&self) -> String {
        self.0.id()
    }

    /// UUID (version 7) of the event. Several handlers may receive the same event.
    #[must_use]
    pub fn event_id(&self) -> String {
        self.0.event_id()
    }

    /// The topic that the event was published to, such as `order.created`.
    #[must_use]
    pub fn topic(&self) -> String {
        self.0.topic()
    }

    /// The key that the publisher gave.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        self.0.key()
    }

    /// 1 for the first run.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    /// The attempt after which a failure buries the delivery.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.0.max_attempts()
    }

    /// When the event was stored: RFC 3339 in UTC, by the store's clock.
    #[must_use]
    pub fn published_at(&self) -> String {
        self.0.published_at()
    }

    /// Media type of the payload, such as `application/json`.
    #[must_use]
    pub fn content_type(&self) -> String {
        self.0.content_type()
    }

    /// The payload, byte for byte as it was published.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        self.0.payload()
    }

    /// The payload, parsed as JSON.
    ///
    /// ```no_run
    /// # use relaybus_sdk::{Delivery, Result};
    /// #[derive(serde::Deserialize)]
    /// struct Order {
    ///     number: u64,
    /// }
    ///
    /// fn handle(delivery: Delivery) -> Result {
    ///     let order = delivery.json::<Order>()?;
    ///     println!("order {}", order.number);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// A payload that is not a `T` fails with the code [`INVALID_PAYLOAD`](Self::INVALID_PAYLOAD) and buries the delivery: the same bytes would not
    /// parse the next time either.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.payload()).map_err(|error| {
            Failure::bury(format!("the payload of `{}` does not parse: {error}", self.topic())).code(Self::INVALID_PAYLOAD)
        })
    }

    /// The first header of this name. Names are compared without regard to ASCII case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.0.header(name)
    }

    /// All headers as names and values, in the order in which they were published.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, String)> {
        self.0.headers().into_iter().map(|entry| (entry.name, entry.value)).collect()
    }
}
