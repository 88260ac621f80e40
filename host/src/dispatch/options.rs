//! What a dispatcher is started with.

use std::time::Duration;

use crate::config::HandlerSettings;
use crate::delivery::HandlerId;
use crate::engine::Component;
use crate::store::StoreError;
use crate::topic::TopicPattern;

/// A handler that this worker serves.
#[derive(Clone)]
pub struct Served {
    pub tenant: String,
    pub name: String,
    pub component: Component,
    pub topics: Vec<TopicPattern>,
    pub settings: HandlerSettings,
    /// Given by the store when the dispatcher starts.
    pub(super) id: HandlerId,
}

impl Served {
    pub const fn new(tenant: String, name: String, component: Component, topics: Vec<TopicPattern>, settings: HandlerSettings) -> Self {
        Self { tenant, name, component, topics, settings, id: HandlerId(0) }
    }
}

/// How a dispatcher works.
#[derive(Clone, Debug)]
pub struct DispatcherOptions {
    /// Runs at a time.
    pub concurrency: u32,
    /// The most deliveries that wait, leased, for a free run slot (R6).
    pub prefetch: u32,
    /// The most payload bytes of those.
    pub prefetch_bytes: u64,
    pub lease_duration: Duration,
    /// The longest time between two looks for work, jittered down to half of it.
    pub poll_interval: Duration,
    /// The most payload of an event that a handler publishes, in bytes.
    pub max_payload_bytes: u64,
}

impl Default for DispatcherOptions {
    fn default() -> Self {
        Self {
            concurrency: 64,
            prefetch: 500,
            prefetch_bytes: 32 * 1024 * 1024,
            lease_duration: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            max_payload_bytes: 1024 * 1024,
        }
    }
}

/// A handler could not be subscribed, so nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("handler `{handler}` could not be subscribed")]
pub struct StartError {
    pub handler: String,
    pub source: StoreError,
}
