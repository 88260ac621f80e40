//! Events that a handler publishes.
//!
//! An event is put together here and handed over in one go; nothing is checked before the host sees it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::bindings::relaybus::handler::publisher;
use crate::context::milliseconds;

/// An event that is being put together.
///
/// ```no_run
/// use std::time::Duration;
/// use relaybus_sdk::{Event, Result, publish};
///
/// fn remind(order: u64) -> Result {
///     let event = Event::json("order.reminder", &serde_json::json!({ "order": order }))?
///         .key(order.to_string())
///         .header("x-source", "shop")
///         .delay(Duration::from_secs(3600))
///         .dedup_id(format!("reminder-{order}"));
///     publish(event)?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an event goes nowhere before it is published"]
pub struct Event {
    topic: String,
    payload: Vec<u8>,
    content_type: String,
    key: Option<String>,
    headers: Vec<(String, String)>,
    delay: Duration,
    dedup_id: Option<String>,
}

impl Event {
    /// An event with `value` as its payload in JSON. The topic is 1 to 16 tokens of `[A-Za-z0-9_-]{1,64}` joined by dots.
    ///
    /// # Errors
    /// If `value` has no form in JSON, such as a map whose keys are no texts.
    pub fn json<T: Serialize + ?Sized>(topic: impl Into<String>, value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::bytes(topic, serde_json::to_vec(value)?, "application/json"))
    }

    /// An event with a payload of any media type.
    pub fn bytes(topic: impl Into<String>, payload: impl Into<Vec<u8>>, content_type: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            content_type: content_type.into(),
            key: None,
            headers: Vec::new(),
            delay: Duration::ZERO,
            dedup_id: None,
        }
    }

    /// Events with the same key belong together.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Adds a header. A name may occur more than once.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// No handler receives the event before this long after the run's completion.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// An event of the same tenant and topic with the same id is stored once.
    pub fn dedup_id(self, dedup_id: impl Into<String>) -> Self {
        Self { dedup_id: Some(dedup_id.into()), ..self }
    }
}

/// Publishes an event and returns its id, a UUID.
///
/// It is stored together with the completion of the delivery, or not at all: a run that fails, is stopped, or loses its lease has published
/// nothing.
///
/// # Errors
/// If the host does not take the event; [`PublishError::code`] says why. The run goes on, and may still end well.
pub fn publish(event: Event) -> Result<String, PublishError> {
    let Event { topic, payload, content_type, key, headers, delay, dedup_id } = event;
    let event = publisher::Event::new(&topic, &payload);
    event.set_content_type(&content_type);
    if let Some(key) = key {
        event.set_key(&key);
    }
    for (name, value) in headers {
        event.add_header(&name, &value);
    }
    if !delay.is_zero() {
        event.set_delay_ms(milliseconds(delay));
    }
    if let Some(dedup_id) = dedup_id {
        event.set_dedup_id(&dedup_id);
    }
    publisher::publish(&event).map_err(|publisher::PublishError { code, message }| PublishError { code, message })
}

/// Why the host did not take an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishError {
    code: String,
    message: String,
}

impl PublishError {
    /// `invalid-topic`, `payload-too-large`, `too-many-events`, `invalid-event` or `not-granted`.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The host's words, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event was not published: {} ({})", self.message, self.code)
    }
}

impl Error for PublishError {}
